/**
 * Operations that only the leader can perform, since it alone has the lanes in memory, asked for by the other nodes. A request is a row of
 * `node_requests`: the asker writes it and tells the others, the leader takes it, performs the operation for the person who asked, and writes
 * the answer into the row. Messages between nodes may be lost, so the asker looks, and tells again, each second.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { check } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import type { Acting } from '../operations/act.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import { answerOf, resultIn, type ControlAnswer } from './control-answer.ts';

/** An operation, its arguments and the person who asked. */
export interface LeaderCall {
  name: string;
  args: unknown;
  acting: Acting;
}

/** Has the leader perform an operation. Throws what it answers, and `NoAnswer` where none came within the time. */
export type AskLeader = (call: LeaderCall, withinMs?: number) => Promise<unknown>;

/** The leader has not answered: what was asked may have been done, or be done still. */
export class NoAnswer extends Problem {
  constructor(message: string) {
    super('service_unavailable', message);
  }
}

const WITHIN_MS = 10_000;
const LOOK_MS = 1000;
/** Requests and answers are parsed on the main loop. */
const MOST_CHARACTERS = 1024 * 1024;
/** Requests that one node waits for, and that the leader performs, at the same time. */
const MOST_AT_ONCE = 100;

const actingForm = z.strictObject({
  actor: z.string().max(1000),
  ip: z.string().max(100).nullable(),
  method: z.string().max(20),
  user_agent: z.string().max(1000).nullable(),
});

interface RequestRow {
  operation: string;
  input: string;
  acting: string;
}

interface Deps {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Pick<Clock, 'after' | 'monotonic'>;
  log: Pick<Log, 'error'>;
  nodes: Nodes;
  /** Performs an operation here, as the leader. */
  perform: (call: LeaderCall) => Promise<unknown>;
}

export class NodeRequests {
  private readonly deps: Deps;
  /** Requests of this node that wait for their answers, by id. */
  private readonly waiting = new Map<string, () => void>();
  private performing = 0;
  private isStopping = false;

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /** Takes requests of other nodes from now on, where this one leads or begins to. */
  start(): void {
    const { nodes } = this.deps;
    nodes.listen((message) => {
      if (message === null) this.takeAll();
      else if (typeof message.hint !== 'string') return;
      else if (message.about === 'request') void this.take(message.hint);
      else if (message.about === 'answer') this.waiting.get(message.hint)?.();
    });
    void nodes.leads.then(() => {
      this.takeAll();
    });
  }

  /** Takes no more requests. Those that run write their answers if the database is still open. */
  stop(): void {
    this.isStopping = true;
  }

  readonly ask: AskLeader = async ({ name, args, acting }, withinMs = WITHIN_MS) => {
    const { db, clock, nodes } = this.deps;
    const input = JSON.stringify(args);
    if (input.length > MOST_CHARACTERS)
      throw new Problem('payload_too_large', `at most ${String(MOST_CHARACTERS)} characters can be passed on`);
    if (this.waiting.size >= MOST_AT_ONCE) throw new NoAnswer('too many requests wait for the node that delivers');
    const id = randomUUID();
    const until = clock.monotonic() + withinMs;
    await db.commit.transact(async (tx) => {
      await tx.run('INSERT INTO node_requests (id, epoch, operation, input, acting) VALUES (?, ?, ?, ?, ?)', [
        id,
        nodes.epoch,
        name,
        input,
        JSON.stringify(acting),
      ]);
    });
    try {
      for (;;) {
        const left = until - clock.monotonic();
        if (left <= 0) throw await this.noAnswer(id);
        nodes.tell({ about: 'request', hint: id });
        await this.answered(id, Math.min(LOOK_MS, left));
        const [row] = await db.prepared.all<{ answer: string }>(
          'SELECT answer FROM node_requests WHERE id = ? AND answer IS NOT NULL',
          [id],
        );
        if (row !== undefined) return resultIn(row.answer);
      }
    } finally {
      // A row that cannot be deleted goes with its node, or with the next request after an hour.
      await db.commit
        .transact((tx) =>
          tx.run("DELETE FROM node_requests WHERE id = ? OR at < clock_timestamp() - interval '1 hour'", [id]),
        )
        .catch(() => undefined);
    }
  };

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

  private async noAnswer(id: string): Promise<NoAnswer> {
    const [row] = await this.deps.db.prepared.all<{ taken_by: number | null }>(
      'SELECT taken_by FROM node_requests WHERE id = ?',
      [id],
    );
    const name = this.deps.nodes.list().find(({ isLeader }) => isLeader)?.name;
    if (name === undefined) return new NoAnswer('no node delivers at the moment: the next one takes over within 15 s');
    return new NoAnswer(
      row?.taken_by == null
        ? `the node ${name}, which delivers, did not answer, and has not begun what was asked`
        : `the node ${name}, which delivers, has begun what was asked and has not finished it yet: see the audit, and do not ask again before`,
    );
  }

  private takeAll(): void {
    const { db, log, nodes } = this.deps;
    if (!nodes.isLeader || this.isStopping) return;
    db.prepared
      .all<{ id: string }>('SELECT id FROM node_requests WHERE taken_by IS NULL ORDER BY at LIMIT 100')
      .then((rows) => Promise.all(rows.map(({ id }) => this.take(id))))
      .catch((err: unknown) => {
        log.error({ event: 'node_requests_unread', err }, 'what other nodes asked could not be read');
      });
  }

  /** Performs a request that no node has taken. Where too many run it is left, and the node that asked tells of it again within a second. */
  private async take(id: string): Promise<void> {
    const { nodes, log } = this.deps;
    if (!nodes.isLeader || this.isStopping || this.performing >= MOST_AT_ONCE) return;
    this.performing++;
    try {
      await this.performTaken(id);
      nodes.tell({ about: 'answer', hint: id });
    } catch (err) {
      // The node that asked reports after its time limit that there is no answer.
      log.error({ event: 'node_request_failed', err }, 'what another node asked could not be answered');
    } finally {
      this.performing--;
    }
  }

  private async performTaken(id: string): Promise<void> {
    const { db, log, nodes, perform } = this.deps;
    const [row] = await db.commit.transact((tx) =>
      tx.all<RequestRow>(
        'UPDATE node_requests SET taken_by = ? WHERE id = ? AND taken_by IS NULL RETURNING operation, input, acting',
        [nodes.epoch, id],
      ),
    );
    if (row === undefined) return;
    const { answer } = await answerOf({ log }, row.operation, () =>
      perform({
        name: row.operation,
        args: JSON.parse(row.input) as unknown,
        acting: check(actingForm, JSON.parse(row.acting)),
      }),
    );
    const text = fitting(answer, nodes.name);
    await db.commit.transact((tx) => tx.run('UPDATE node_requests SET answer = ? WHERE id = ?', [text, id]));
  }
}

function fitting(answer: ControlAnswer, name: string): string {
  const text = JSON.stringify(answer);
  if (text.length <= MOST_CHARACTERS) return text;
  const message = `the answer is too long to be passed on: ask at the node ${name}`;
  return JSON.stringify({ problem: { code: 'service_unavailable', message, field: null } } satisfies ControlAnswer);
}
