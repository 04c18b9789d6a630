/** Figures that nodes show each other: what has changed is written, what is gone goes, and each node reads those of all. */
import assert from 'node:assert/strict';
import { figuresOf, FigureWriter, type Figures } from '../../src/operator/node-figures.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import type { NodeRecord } from '../../src/storage/nodes.ts';
import { TestClock } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

interface Needs {
  lanes: Map<string, number>;
}

const laneCounts: Figures<Needs, number> = {
  name: 'lanes',
  everyMs: 2_000,
  read: ({ lanes }) => Promise.resolve([...lanes]),
};

describe('operator/node-figures', () => {
  let one: Database;
  let two: Database;
  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    const url = urlOf(folder, await makeDatabase());
    one = await openDatabase({ url, node: { name: 'one', version: '1', facts: '{}' } });
    two = await openDatabase({ url, node: { name: 'two', version: '1', facts: '{}' } });
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await two.close();
    await one.close();
  });

  const epochOf = (db: Database): number => db.nodes?.epoch ?? 0;
  const record = (db: Database, name: string): NodeRecord => ({
    ...{ epoch: epochOf(db), name, version: '1', facts: '{}', isDraining: false, isCommand: false },
    ...{ isLeader: name === 'one', isDelivering: true, since: 0, quietMs: 0 },
  });
  const nodesAs = (db: Database, name: string, hasOthers = true) => ({
    ...{ epoch: epochOf(db), name, hasOthers },
    list: () => [record(one, 'one'), record(two, 'two')],
  });

  it('shows at each node what the others have, and nothing that is gone', async () => {
    const clock = new TestClock();
    const mine = { lanes: new Map([['a', 1]]) };
    const theirs = {
      lanes: new Map([
        ['b', 2],
        ['c', 3],
      ]),
    };
    const errors: unknown[] = [];
    const log = { error: (fields: unknown) => void errors.push(fields) };
    const writer = new FigureWriter({ db: two, clock, log, nodes: nodesAs(two, 'two') }, theirs, [laneCounts]);
    writer.start();
    const shown = async (key: string | null = null): Promise<unknown[]> =>
      (await figuresOf({ ...mine, db: one, nodes: nodesAs(one, 'one') }, laneCounts, key)).map(
        ({ node, key: of, value }) => [node, of, value],
      );
    const look = async (): Promise<void> => {
      const again = clock.armed(2_000);
      clock.advance(2_000);
      await again;
    };
    assert.deepEqual(await shown(), [['one', 'a', 1]]);
    await look();
    assert.deepEqual(await shown(), [
      ['one', 'a', 1],
      ['two', 'b', 2],
      ['two', 'c', 3],
    ]);
    assert.deepEqual(await shown('b'), [['two', 'b', 2]]);
    const versions = (): Promise<unknown[]> =>
      one.prepared.all('SELECT key, xmin::text FROM node_figures ORDER BY key');
    const before = await versions();
    await look();
    assert.deepEqual(await versions(), before, 'what has not changed is not written again');
    theirs.lanes.set('b', 20);
    theirs.lanes.delete('c');
    await look();
    assert.deepEqual(await shown(), [
      ['one', 'a', 1],
      ['two', 'b', 20],
    ]);
    writer.stop();
    assert.deepEqual(errors, []);
  });

  it('writes nothing while there are no others, and reads its own from memory', async () => {
    const lanes = new Map([['a', 1]]);
    const deps = { lanes, db: { prepared: undefined as never }, nodes: nodesAs(one, 'one', false) };
    assert.deepEqual(
      (await figuresOf(deps, laneCounts)).map(({ key, value }) => [key, value]),
      [['a', 1]],
    );
  });
});
