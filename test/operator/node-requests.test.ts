/** What a node asks the leader: no answer, too long ones, and requests that nobody may make. */
import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { commandLine } from '../../src/operations/act.ts';
import { createLaneFacts } from '../../src/operator/lane-facts.ts';
import { NoAnswer, NodeRequests, type LeaderCall } from '../../src/operator/node-requests.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import { loneNode, type NodeMessage, type Nodes } from '../../src/storage/nodes.ts';
import { TestClock } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

describe('operator/node-requests', function () {
  this.timeout(60_000);
  let db: Database;
  let epoch: number;
  const clock = new TestClock();
  const log = { error: () => undefined };

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    db = await openDatabase({
      url: urlOf(folder, await makeDatabase()),
      node: { name: 'one', version: '1', facts: '{}' },
    });
    epoch = db.nodes?.epoch ?? 0;
  });
  after(async () => {
    if (postgresPrograms() !== null) await db.close();
  });

  /** A node whose messages reach the nodes in `to`. */
  function node(name: string, isLeader: boolean, to: ((message: NodeMessage) => void)[], hear: typeof to): Nodes {
    const self = loneNode(epoch, { name, version: '1', facts: '{}', since: 0 });
    return {
      ...self,
      isLeader,
      list: () => self.list().map((one) => ({ ...one, name: 'leader' })),
      tell: (message) => {
        for (const one of to) one(message);
      },
      listen: (listener) => void hear.push(listener),
    };
  }

  /** An asker, and a leader that performs by this function; without one, a leader that hears nothing. */
  function pair(perform?: (call: LeaderCall) => Promise<unknown>): { asker: NodeRequests; leader: NodeRequests } {
    const [atAsker, atLeader]: ((message: NodeMessage) => void)[][] = [[], []];
    const asker = new NodeRequests({
      db,
      clock,
      log,
      nodes: node('asker', false, perform === undefined ? [] : (atLeader ?? []), atAsker ?? []),
      perform: () => assert.fail('it does not lead'),
    });
    const leader = new NodeRequests({
      db,
      clock,
      log,
      nodes: node('leader', true, atAsker ?? [], atLeader ?? []),
      perform: perform ?? (() => assert.fail('it hears nothing')),
    });
    asker.start();
    if (perform !== undefined) leader.start();
    return { asker, leader };
  }

  const call = { name: 'queue.lanes', args: { a: 1 }, acting: { ...commandLine, user_agent: 'posthorn (ana)' } };
  const rows = (): Promise<{ taken_by: number | null }[]> => db.prepared.all('SELECT taken_by FROM node_requests');
  const fails = (work: Promise<unknown>, says: RegExp): Promise<void> =>
    assert.rejects(work, (error) => error instanceof Problem && says.test(error.message));

  it('gives the leader the operation, its arguments and the person, and leaves no row', async () => {
    const { asker } = pair((asked) => Promise.resolve({ asked }));
    assert.deepEqual(await asker.ask(call), { asked: call });
    assert.deepEqual(await rows(), []);
  });

  it('throws the problem of the leader as its own', async () => {
    const { asker } = pair(() => Promise.reject(new Problem('not_found', 'there is no lane "x"', { field: 'lane' })));
    await assert.rejects(asker.ask(call), { name: 'Problem', code: 'not_found', field: 'lane' });
  });

  for (const [what, isBegun, says] of [
    ['has not begun', false, /^the node leader, which delivers, did not answer, and has not begun what was asked$/],
    ['is still at it', true, /^the node leader, which delivers, has begun what was asked and has not finished it yet/],
  ] as const)
    it(`gives up after ten seconds where the leader ${what}`, async () => {
      const { asker } = pair(isBegun ? () => new Promise(() => undefined) : undefined);
      let waits = clock.armed(1000);
      const asked = asker.ask(call);
      const failed = assert.rejects(asked, (error) => error instanceof NoAnswer && says.test(error.message));
      for (let second = 0; second < 10; second++) {
        await waits;
        while (isBegun && (await rows())[0]?.taken_by == null);
        waits = clock.armed(1000);
        clock.advance(1000);
      }
      await failed;
      assert.deepEqual(await rows(), []);
    });

  it('finds an answer whose message was lost, by looking each second', async () => {
    const { asker, leader } = pair();
    const waits = clock.armed(1000);
    const asked = asker.ask(call);
    await waits;
    await db.commit.transact((tx) =>
      tx.run('UPDATE node_requests SET answer = ? WHERE answer IS NULL', [JSON.stringify({ result: 'late' })]),
    );
    clock.advance(1000);
    assert.equal(await asked, 'late');
    leader.stop();
  });

  it('refuses arguments and answers that are too long to be passed on', async () => {
    const { asker } = pair(() => Promise.resolve('x'.repeat(2 ** 20)));
    await fails(asker.ask({ ...call, args: 'x'.repeat(2 ** 20) }), /^at most 1048576 characters can be passed on$/);
    await fails(asker.ask(call), /^the answer is too long to be passed on: ask at the node leader$/);
  });

  it('performs nothing for a row that was not written by a node of ours', async () => {
    const { asker } = pair(() => assert.fail('it must not be performed'));
    await fails(asker.ask({ ...call, acting: { actor: 'x' } as never }), /./);
  });

  it('explains a mail truly while the leader does not answer, after half a second', async () => {
    const { asker } = pair();
    const nodes = node('asker', false, [], []);
    const factsOf = createLaneFacts({ nodes, mta: { laneFacts: () => assert.fail('not here') }, askLeader: asker.ask });
    assert.deepEqual(await factsOf([]), []);
    const waits = clock.armed(500);
    const asked = factsOf([{ domain: 'dest.test', account: 'acc_1' }]);
    await waits;
    clock.advance(500);
    const [facts] = await asked;
    assert.equal(facts?.waits[0]?.message, 'The node leader delivers it and did not answer.');
  });
});
