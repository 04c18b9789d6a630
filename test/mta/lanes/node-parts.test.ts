/** Nodes that divide the limits of lanes by rows of PostgreSQL, here by the same statements on SQLite. */
import assert from 'node:assert/strict';
import { NodeParts, wholeLane } from '../../../src/mta/lanes/node-parts.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { settleEventLoop } from '../../support/harness/event-loop.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const LANE = 'mx.a.test';

describe('mta/lanes/node-parts', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let hasOthers: boolean;
  let isAway: boolean;
  let logged: number;
  const started: NodeParts[] = [];
  beforeEach(async () => {
    temp = await openTempDatabase();
    await temp.db.commit.transact((tx) =>
      tx.run(
        'CREATE TABLE IF NOT EXISTS lane_nodes (lane TEXT NOT NULL, epoch BIGINT NOT NULL, PRIMARY KEY (lane, epoch))',
      ),
    );
    // On PostgreSQL rows go with their node.
    await temp.db.commit.transact(async (tx) => {
      if (tx.engine === 'postgres')
        await tx.run('ALTER TABLE lane_nodes DROP CONSTRAINT IF EXISTS lane_nodes_epoch_fkey');
    });
    clock = new FakeClock(NOW);
    [hasOthers, isAway, logged] = [true, false, 0];
  });
  afterEach(async () => {
    for (const parts of started.splice(0)) parts.stop();
    await temp.close();
  });

  /** A node with so many mails for the lane. */
  function node(
    epoch: number,
    mails: { count: number },
    several: readonly string[] = [],
  ): NodeParts & { changes: string[] } {
    const changes: string[] = [];
    const parts = new NodeParts({
      db: {
        commit: {
          transact: (run: never) => (isAway ? Promise.reject(new Error('away')) : temp.db.commit.transact(run)),
        },
      } as never,
      clock,
      log: { error: () => logged++ } as never,
      nodes: {
        epoch,
        get hasOthers() {
          return hasOthers;
        },
        onChange: () => () => undefined,
      } as never,
      control: { mails: () => mails.count } as never,
      pool: { openOf: () => 0, lanesWithSeveral: () => several, shrink: () => undefined } as never,
      lanes: { pump: (lane: string) => changes.push(lane) } as never,
    });
    parts.start();
    started.push(parts);
    return Object.assign(parts, { changes });
  }
  /** Lets time pass in steps in which every look ends. */
  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 100) {
      clock.advance(100);
      await temp.db.commit.transact(() => Promise.resolve());
      await settleEventLoop();
    }
  }

  it('is all of a lane for a node that is alone', () => {
    hasOthers = false;
    assert.deepEqual(node(1, { count: 5 }).of(LANE), wholeLane);
  });

  it('is one connection until the others know, and then an equal part', async () => {
    const [one, two] = [node(1, { count: 5 }), node(2, { count: 5 })];
    assert.equal(one.of(LANE).isNew, true);
    two.of(LANE);
    await pass(6_000);
    assert.deepEqual(
      [one.of(LANE), two.of(LANE)],
      [
        { nodes: 2, isNew: false },
        { nodes: 2, isNew: false },
      ],
    );
    assert.ok(one.changes.length > 0);
  });

  it('is all of it again where the other one has no mail any more', async () => {
    const mails = { count: 5 };
    const [one, two] = [node(1, { count: 5 }), node(2, mails)];
    one.of(LANE);
    two.of(LANE);
    await pass(6_000);
    mails.count = 0;
    await pass(5_000);
    assert.deepEqual(one.of(LANE), { nodes: 1, isNew: false });
    hasOthers = false;
    await pass(3_000);
    assert.deepEqual(one.of(LANE), wholeLane);
  });

  it('is announced at once by a node that has connections when another one joins', async () => {
    const one = node(1, { count: 5 }, [LANE]);
    await pass(200);
    assert.deepEqual(await temp.db.prepared.all('SELECT lane, epoch FROM lane_nodes'), [{ lane: LANE, epoch: 1 }]);
    assert.equal(one.of(LANE).nodes, 1);
  });

  it('is one connection for a node that joins until one that sends there has had the time to say so', async () => {
    const [before, joined] = [node(1, { count: 5 }, [LANE]), node(2, { count: 5 })];
    joined.of('mx.b.test');
    await pass(4_000);
    assert.deepEqual(
      [before.of(LANE), joined.of('mx.b.test')],
      [
        { nodes: 1, isNew: false },
        { nodes: 1, isNew: true },
      ],
    );
    await pass(2_000);
    assert.equal(joined.of('mx.b.test').isNew, false);
  });

  it('needs no row for one mail', async () => {
    const one = node(1, { count: 1 });
    assert.equal(one.of(LANE).isNew, true);
    await pass(3_000);
    assert.deepEqual(await temp.db.prepared.all('SELECT * FROM lane_nodes'), []);
  });

  it('stays as it is while the database is away, and says so once', async () => {
    const one = node(1, { count: 5 });
    one.of(LANE);
    await pass(6_000);
    isAway = true;
    await pass(10_000);
    assert.deepEqual([one.of(LANE), logged], [{ nodes: 1, isNew: false }, 1]);
  });
});
