/**
 * Carries questions between nodes (ask-nodes.ts). A question is a row of `node_questions` that names the node which shall answer: the asker
 * writes it and tells that node, which writes its answer into the row. Messages between nodes may be lost, so the asker looks, and tells again.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import type { AskNode, NodeAnswer } from './ask-nodes.ts';
import { problemIn, problemOf, unknownForm } from './door/fault.ts';

const LOOK_MS = 250;
/** A node that lives gives a sign of life every two seconds; one that has missed two of them is not waited for. */
const QUIET_MS = 4500;
/** Questions and answers are written and parsed on the main loop. */
const MOST_CHARACTERS = 1024 * 1024;
/** Questions that one node waits for, and that it answers, at the same time. */
const MOST_AT_ONCE = 100;

interface QuestionRow {
  question: string;
  input: string;
}

interface Deps {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Pick<Clock, 'after' | 'monotonic'>;
  log: Pick<Log, 'error'>;
  nodes: Pick<Nodes, 'epoch' | 'name' | 'list' | 'listen' | 'tell'>;
  /** Answers a question here. Throws a `Problem` if there is no such question. */
  answer: (asked: { name: string; args: unknown }) => Promise<unknown>;
}

export class NodeQuestions {
  private readonly deps: Deps;
  /** Questions of this node that wait for their answers, by id. */
  private readonly waiting = new Map<string, () => void>();
  /** Ids of the questions that this node answers now. */
  private readonly answering = new Set<string>();
  private isStopping = false;

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /** Answers questions of other nodes from now on. */
  start(): void {
    this.deps.nodes.listen((message) => {
      if (message === null) this.answerAll();
      else if (typeof message.hint !== 'string') return;
      else if (message.about === 'question') this.heard(message.hint);
      else if (message.about === 'answer') this.waiting.get(message.hint)?.();
    });
  }

  /** Takes no more questions. Those that are being answered write their answers if the database is still open. */
  stop(): void {
    this.isStopping = true;
  }

  readonly ask: AskNode = async (node, asked, withinMs) => {
    const { db, clock, nodes } = this.deps;
    const input = JSON.stringify(asked.args);
    if (input.length > MOST_CHARACTERS)
      throw new Problem('payload_too_large', `at most ${String(MOST_CHARACTERS)} characters can be passed on`);
    if (node.quietMs >= QUIET_MS || this.waiting.size >= MOST_AT_ONCE) return { kind: 'silent' };
    const id = randomUUID();
    const until = clock.monotonic() + withinMs;
    await db.commit.transact(async (tx) => {
      await tx.run('INSERT INTO node_questions (id, epoch, asked_of, question, input) VALUES (?, ?, ?, ?, ?)', [
        id,
        nodes.epoch,
        node.epoch,
        asked.name,
        input,
      ]);
    });
    try {
      return await this.waitFor(id, node.epoch, until);
    } finally {
      // A row that cannot be deleted goes with its node, or with the next question after an hour.
      await db.commit
        .transact((tx) =>
          tx.run("DELETE FROM node_questions WHERE id = ? OR at < clock_timestamp() - interval '1 hour'", [id]),
        )
        .catch(() => undefined);
    }
  };

  private async waitFor(id: string, epoch: number, until: number): Promise<NodeAnswer> {
    const { db, clock, nodes } = this.deps;
    for (;;) {
      const left = until - clock.monotonic();
      if (left <= 0) return { kind: 'silent' };
      nodes.tell({ about: 'question', hint: `${String(epoch)} ${id}` });
      await this.answered(id, Math.min(LOOK_MS, left));
      const [row] = await db.prepared.all<{ answer: string }>(
        'SELECT answer FROM node_questions WHERE id = ? AND answer IS NOT NULL',
        [id],
      );
      if (row !== undefined) return answerIn(row.answer);
      const node = nodes.list().find((one) => one.epoch === epoch);
      if (node === undefined) return { kind: 'gone' };
      if (node.quietMs >= QUIET_MS) return { kind: 'silent' };
    }
  }

  /** Resolves when the answer is there, or after `ms`. */
  private answered(id: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timer.cancel();
        this.waiting.delete(id);
        resolve();
      };
      const timer = this.deps.clock.after(ms, done, { background: true });
      this.waiting.set(id, done);
    });
  }

  /** Answers a question that is for this node; the hint has the epoch of the node that is asked, and the id. */
  private heard(hint: string): void {
    const [epoch, id] = hint.split(' ');
    if (id !== undefined && epoch === String(this.deps.nodes.epoch)) void this.answer(id);
  }

  private answerAll(): void {
    const { db, log, nodes } = this.deps;
    if (this.isStopping) return;
    db.prepared
      .all<{ id: string }>(
        'SELECT id FROM node_questions WHERE asked_of = ? AND answer IS NULL ORDER BY at LIMIT 100',
        [nodes.epoch],
      )
      .then((rows) => Promise.all(rows.map(({ id }) => this.answer(id))))
      .catch((err: unknown) => {
        log.error({ event: 'node_questions_unread', err }, 'what other nodes asked could not be read');
      });
  }

  /** Answers one question. If too many are being answered it is left, and the node that asked tells of it again. */
  private async answer(id: string): Promise<void> {
    const { nodes, log } = this.deps;
    if (this.isStopping || this.answering.has(id) || this.answering.size >= MOST_AT_ONCE) return;
    this.answering.add(id);
    try {
      await this.writeAnswer(id);
      nodes.tell({ about: 'answer', hint: id });
    } catch (err) {
      // The node that asked reports after its time limit that there is no answer.
      log.error({ event: 'node_question_failed', err }, 'what another node asked could not be answered');
    } finally {
      this.answering.delete(id);
    }
  }

  private async writeAnswer(id: string): Promise<void> {
    const { db, log, nodes } = this.deps;
    const [row] = await db.prepared.all<QuestionRow>(
      'SELECT question, input FROM node_questions WHERE id = ? AND asked_of = ? AND answer IS NULL',
      [id, nodes.epoch],
    );
    if (row === undefined) return;
    const answer = await this.deps.answer({ name: row.question, args: JSON.parse(row.input) as unknown }).then(
      (result): Answer => ({ result }),
      (error: unknown) => refusal(problemOf({ log }, row.question, error)),
    );
    const text = fitting(answer, nodes.name);
    await db.commit.transact((tx) => tx.run('UPDATE node_questions SET answer = ? WHERE id = ?', [text, id]));
  }
}

type Answer = { result: unknown } | { problem: Pick<Problem, 'code' | 'message' | 'field'> };

const refusal = ({ code, message, field }: Problem): Answer => ({ problem: { code, message, field } });

function fitting(answer: Answer, name: string): string {
  const text = JSON.stringify(answer);
  if (text.length <= MOST_CHARACTERS) return text;
  const message = `the answer is too long to be passed on: ask at the node ${name}`;
  return JSON.stringify(refusal(new Problem('service_unavailable', message)));
}

function answerIn(text: string): NodeAnswer {
  const answer = JSON.parse(text) as Partial<Record<'result' | 'problem', unknown>>;
  if ('result' in answer) return { kind: 'answered', result: answer.result };
  const problem = problemIn(answer.problem);
  if (problem === null) throw unknownForm();
  return { kind: 'refused', problem };
}
