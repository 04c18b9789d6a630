/** Questions between nodes: answers, nodes that have ended or do not answer, and questions that are too long or not known. */
import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { askEach, askOwner, unansweredText, type Question } from '../../src/operator/ask-nodes.ts';
import { createLaneFacts } from '../../src/operator/lane-facts.ts';
import { NodeQuestions } from '../../src/operator/node-questions.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import type { NodeMessage, NodeRecord } from '../../src/storage/nodes.ts';
import { TestClock } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

interface Asked {
  name: string;
  args: unknown;
}

describe('operator/node-questions', () => {
  let db: Database;
  const clock = new TestClock();
  const log = { error: () => undefined };
  /** The nodes that are there. */
  let there: NodeRecord[] = [];

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    db = await openDatabase({
      url: urlOf(folder, await makeDatabase()),
      node: { name: 'one', version: '1', facts: '{}' },
    });
    epochs.one = db.nodes?.epoch ?? 0;
  });
  after(async () => {
    if (postgresPrograms() !== null) await db.close();
  });
  /** The rows of questions refer to the epoch of who asks, so that one is real. */
  const epochs = { one: 0, two: 1_000_002, three: 1_000_003 };
  type Name = keyof typeof epochs;

  const record = (name: Name, more: Partial<NodeRecord> = {}): NodeRecord => ({
    epoch: epochs[name],
    name,
    version: '1',
    facts: '{}',
    isDraining: false,
    isCommand: false,
    isLeader: name === 'one',
    isDelivering: true,
    since: 0,
    quietMs: 0,
    ...more,
  });
  beforeEach(() => {
    there = [record('one'), record('two'), record('three')];
  });

  type Listener = (message: NodeMessage | null) => void;

  /** The node `one`, and others that answer by these functions; those without one hear nothing. */
  function fleet(answers: Partial<Record<Name, (asked: Asked) => Promise<unknown>>>) {
    const listeners: [Name, Listener][] = [];
    const nodeOf = (name: Name, answer: (asked: Asked) => Promise<unknown>): NodeQuestions => {
      const nodes = {
        epoch: epochs[name],
        name,
        hasOthers: true,
        list: () => there,
        tell: (message: NodeMessage) => {
          for (const [other, listener] of listeners) if (other !== name) listener(message);
        },
        listen: (listener: Listener) => void listeners.push([name, listener]),
      };
      const questions = new NodeQuestions({ db, clock, log, nodes, answer });
      questions.start();
      return questions;
    };
    const one = nodeOf('one', () => assert.fail('nobody asks it'));
    const others = Object.entries(answers).map(([name, answer]) => nodeOf(name as Name, answer));
    const nodes = { epoch: epochs.one, hasOthers: true, list: () => there };
    return { one, others, lose: () => listeners.forEach(([, listener]) => listener(null)), nodes };
  }

  const asked = { name: 'lane', args: { lane: 'mx.dest.test' } };
  const rows = (): Promise<unknown[]> => db.prepared.all('SELECT id FROM node_questions');
  const hears: Question<{ own: string }, { a: number }, string> = {
    name: 'lane',
    args: {} as never,
    answer: ({ own }, { a }) => Promise.resolve(`${own} ${String(a)}`),
  };

  it('gives the node that is asked the question, to no other, and leaves no row', async () => {
    const { one } = fleet({
      two: (question) => Promise.resolve({ question }),
      three: () => assert.fail('it is not asked'),
    });
    assert.deepEqual(await one.ask(record('two'), asked, 1500), { kind: 'answered', result: { question: asked } });
    assert.deepEqual(await rows(), []);
  });

  it('says that a node refuses what it does not know', async () => {
    const { one } = fleet({ two: () => Promise.reject(new Problem('not_found', 'there is no question "lane"')) });
    const answer = await one.ask(record('two'), asked, 1500);
    assert.ok(answer.kind === 'refused' && answer.problem.code === 'not_found');
  });

  it('gives up when the time is over', async () => {
    const { one } = fleet({ two: () => new Promise(() => undefined) });
    let waits = clock.armed(250);
    const answer = one.ask(record('two'), asked, 500);
    for (let look = 0; look < 2; look++) {
      await waits;
      waits = clock.armed(250);
      clock.advance(250);
    }
    assert.deepEqual(await answer, { kind: 'silent' });
    assert.deepEqual(await rows(), []);
  });

  it('gives up as soon as the node has ended or missed two signs of life, and does not wait for one that has', async () => {
    const { one } = fleet({});
    for (const [now, kind] of [
      [[record('one')], 'gone'],
      [[record('one'), record('two', { quietMs: 4500 })], 'silent'],
    ] as const) {
      const waits = clock.armed(250);
      const answer = one.ask(record('two'), asked, 60_000);
      await waits;
      there = [...now];
      clock.advance(250);
      assert.deepEqual(await answer, { kind });
    }
    assert.deepEqual(await one.ask(record('two', { quietMs: 4500 }), asked, 60_000), { kind: 'silent' });
  });

  it('finds an answer whose message was lost, and a question whose message was', async () => {
    const { one } = fleet({});
    const waits = clock.armed(250);
    const answer = one.ask(record('two'), asked, 1500);
    await waits;
    await db.commit.transact((tx) =>
      tx.run('UPDATE node_questions SET answer = ? WHERE answer IS NULL', [JSON.stringify({ result: 'late' })]),
    );
    clock.advance(250);
    assert.deepEqual(await answer, { kind: 'answered', result: 'late' });

    const unheard = one.ask(record('two'), asked, 1500);
    while ((await rows()).length === 0);
    fleet({ two: () => Promise.resolve('found') }).lose();
    while (
      (await db.prepared.all<{ answer: string | null }>('SELECT answer FROM node_questions')).some(
        (row) => row.answer === null,
      )
    );
    clock.advance(250);
    assert.deepEqual(await unheard, { kind: 'answered', result: 'found' });
  });

  it('refuses questions and answers that are too long to be passed on', async () => {
    const { one } = fleet({ two: () => Promise.resolve('x'.repeat(2 ** 20)) });
    await assert.rejects(one.ask(record('two'), { name: 'lane', args: 'x'.repeat(2 ** 20) }, 1500), {
      code: 'payload_too_large',
    });
    const answer = await one.ask(record('two'), asked, 1500);
    assert.ok(
      answer.kind === 'refused' && answer.problem.message.includes('too long to be passed on: ask at the node two'),
    );
  });

  it('joins the answers of all nodes in the order of their list, and names those that say nothing', async () => {
    const { one, nodes } = fleet({ two: () => Promise.reject(new Problem('internal_error', 'a bug')) });
    there = [record('one'), record('two'), record('three', { quietMs: 9000 }), record('three', { isCommand: true })];
    const deps = { nodes, owners: { ownerOf: () => null }, askNode: one.ask, own: 'here' };
    const answers = await askEach(deps, hears, (node) => ({ a: node.name === 'one' ? 1 : 2 }));
    assert.deepEqual(answers, {
      from: [{ node: 'one', epoch: epochs.one, result: 'here 1' }],
      unanswered: ['two', 'three'],
    });
    assert.equal(unansweredText(answers.unanswered), 'the nodes two and three did not answer');
    assert.equal(unansweredText(['two']), 'the node two did not answer');
  });

  it('asks the next owner of a domain where the first one ends meanwhile', async () => {
    const { one, nodes } = fleet({ three: ({ args }) => Promise.resolve({ args }) });
    const deps = {
      nodes,
      owners: { ownerOf: () => there.find(({ name }) => name !== 'one') ?? null },
      askNode: one.ask,
      own: 'here',
    };
    const waits = clock.armed(250);
    const answer = askOwner(deps, 'dest.test', hears, { a: 7 });
    await waits;
    there = [record('one'), record('three')];
    clock.advance(250);
    assert.deepEqual(await answer, { kind: 'answered', node: 'three', result: { args: { a: 7 } } });
    there = [record('one')];
    assert.deepEqual(await askOwner(deps, 'dest.test', hears, { a: 7 }), {
      kind: 'answered',
      node: 'one',
      result: 'here 7',
    });
    there = [record('one'), record('two', { quietMs: 5000 })];
    assert.deepEqual(await askOwner(deps, 'dest.test', hears, { a: 7 }), { kind: 'unanswered', node: 'two' });
  });

  it('explains mails of several nodes, each asked once, and truly where one does not answer', async () => {
    const questions: unknown[] = [];
    const { one, nodes } = fleet({
      two: ({ args }) => {
        questions.push(args);
        const { mails } = args as { mails: { domain: string }[] };
        return Promise.resolve(mails.map(({ domain }) => ({ held: null, waits: [{ message: `two: ${domain}` }] })));
      },
    });
    const owner = (key: string): NodeRecord | null => there.find(({ name }) => key.endsWith(name)) ?? null;
    const factsOf = createLaneFacts({
      nodes,
      owners: { ownerOf: owner },
      askNode: one.ask,
      mta: {
        laneFacts: ({ domain }) => Promise.resolve({ held: null, waits: [{ message: `one: ${domain}` }] as never }),
      },
    });
    assert.deepEqual(await factsOf([]), []);
    there = [record('one'), record('two'), record('three', { quietMs: 7000 })];
    const found = await factsOf(
      ['a.two', 'a.one', 'a.three', 'b.two'].map((domain) => ({ domain, account: 'acc_1', other: 'is left out' })),
    );
    assert.deepEqual(
      found.map(({ waits }) => waits[0]?.message),
      ['two: a.two', 'one: a.one', 'The node three delivers it and did not answer.', 'two: b.two'],
    );
    const plain = (domain: string): object => ({ domain, account: 'acc_1', stream: null, mark: null });
    assert.deepEqual(questions, [{ mails: [plain('a.two'), plain('b.two')] }]);
  });
});
