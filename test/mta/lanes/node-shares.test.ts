/** Shares of lanes over the table `lanes` of a real PostgreSQL: joining, leaving, dying, and a database that is away. */
import assert from 'node:assert/strict';
import { NodeShares, type LaneDemand, type SharedLanes } from '../../../src/mta/lanes/node-shares.ts';
import { isNewer, type Learnt } from '../../../src/mta/lanes/throttle.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

const LANE = 'mx.big.test';

/** A server with one lane whose connections it opens and closes at once. */
interface Server {
  db: Database;
  shares: NodeShares;
  lane: { demand: number; hasRate: boolean; open: number; allowed: number };
  /** The demand of all other lanes. */
  elsewhere: number;
  learnt: Learnt;
  pumped: number;
  errors: unknown[];
  isAway: boolean;
}

describe('mta/lanes/node-shares', () => {
  let url: string;
  let clock: FakeClock;
  let open: Server[];

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    await startedCluster();
  });
  beforeEach(async () => {
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
    clock = new FakeClock();
    open = [];
  });
  afterEach(async () => {
    for (const server of open.splice(0).reverse()) await close(server);
  });

  async function close({ shares, db }: Server): Promise<void> {
    shares.stop();
    await db.close();
  }

  async function join(name: string, lane: Partial<Server['lane']> = {}): Promise<Server> {
    const db = await openDatabase({ url, node: { name, version: '1', facts: '{}' } });
    const { nodes } = db;
    assert.ok(nodes);
    const lanes: SharedLanes = {
      demandOf: (of): LaneDemand => ({
        ...server.lane,
        demand: of === LANE ? server.lane.demand : server.elsewhere,
        learnt: server.learnt,
      }),
      open: (of) => (of === LANE ? server.lane.open : 0),
      withSeveral: () => (server.lane.open > 1 ? [LANE] : []),
      learn: (_, learnt) => {
        if (!isNewer(learnt, server.learnt)) return;
        server.learnt = learnt;
        server.lane.allowed = learnt.limit;
      },
      shrink: () => undefined,
      pump: () => server.pumped++,
    };
    const commit: Database['commit'] = {
      ...db.commit,
      transact: (run) => (server.isAway ? Promise.reject(new Error('away')) : db.commit.transact(run)),
    };
    const log = { error: (fields: unknown) => server.errors.push(fields) };
    const server: Server = {
      db,
      shares: new NodeShares({ db: { commit }, clock, log, nodes, lanes }),
      lane: { demand: 0, hasRate: false, open: 0, allowed: 10, ...lane },
      elsewhere: 0,
      learnt: { limit: 10, ceiling: null, halvedAt: null, cause: 'start' },
      pumped: 0,
      errors: [],
      isAway: false,
    };
    server.shares.start();
    open.push(server);
    for (const other of open) await until(() => other.db.nodes?.hasOthers === open.length > 1);
    return server;
  }

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Lets a server look, by itself. */
  async function look(...servers: Server[]): Promise<void> {
    for (const server of servers) {
      server.shares.soon(LANE);
      clock.advance(20);
      // A transaction of its own ends after the one of the look.
      for (let n = 0; n < 2; n++) await server.db.commit.transact(() => Promise.resolve());
    }
  }
  const shareOf = ({ shares }: Server): number => shares.of(LANE).connections;
  const rows = async ({ db }: Server): Promise<string[]> =>
    (
      await db.prepared.all<{ lane: string; name: string; connections: number }>(
        'SELECT l.lane, n.name, l.connections FROM lanes l JOIN nodes n ON n.epoch = l.epoch ORDER BY l.lane, n.name',
      )
    ).map(({ lane, name, connections }) => `${name} ${lane === LANE ? 'has' : `"${lane}"`} ${String(connections)}`);

  it('is not asked and writes nothing while a node is alone', async () => {
    const one = await join('one', { demand: 50, open: 10 });
    assert.equal(shareOf(one), Infinity);
    clock.advance(10_000);
    assert.deepEqual(await rows(one), []);
  });

  it('reserves what is open when a second node joins, which has one connection until then', async () => {
    const one = await join('one', { demand: 50, open: 10 });
    const two = await join('two', { demand: 50 });
    assert.equal(shareOf(two), 1);
    await look(two);
    assert.equal(shareOf(two), 1, 'the first has not announced what it has');
    await look(one);
    assert.deepEqual(await rows(one), ['one "" 0', 'two "" 0', 'one has 10', 'two has 1']);
    assert.equal(shareOf(one), 5, 'it opens no more than its part');
    await look(two, one);
    assert.equal(shareOf(two), 1, 'the connections of the first are open still');
    one.lane.open = 5;
    await look(one, two);
    assert.deepEqual([shareOf(one), shareOf(two)], [5, 5]);
    assert.ok(two.pumped > 0);
    assert.deepEqual((await rows(one)).slice(2), ['one has 5', 'two has 5']);
  });

  it('gives back what a lane without mail has closed, and all of it when the other node ends', async () => {
    const one = await join('one', { demand: 50 });
    const two = await join('two', { demand: 50 });
    for (const server of [one, two]) shareOf(server);
    await look(one, two, one, two);
    assert.deepEqual([shareOf(one), shareOf(two)], [5, 5]);
    Object.assign(two.lane, { demand: 0, open: 2 });
    await look(two, one);
    assert.deepEqual([shareOf(two), shareOf(one)], [1, 8], 'the other may have what is closed');
    two.lane.open = 0;
    await look(two, one);
    assert.equal(shareOf(one), 10);
    assert.deepEqual((await rows(one)).slice(2), ['one has 10']);
    open.pop();
    await close(two);
    await until(() => one.db.nodes?.hasOthers === false);
    await look(one);
    assert.equal(shareOf(one), Infinity);
    assert.deepEqual(await rows(one), []);
  });

  it('goes on with what it has while the database is away, and says so once', async () => {
    const one = await join('one', { demand: 50 });
    const two = await join('two', { demand: 50 });
    for (const server of [one, two]) shareOf(server);
    await look(one, two, one, two);
    two.isAway = true;
    one.lane.demand = 0;
    await look(one, two, two);
    assert.equal(shareOf(two), 5);
    assert.equal(two.errors.length, 1);
    two.isAway = false;
    await look(two);
    assert.equal(shareOf(two), 10);
  });

  it('announces nothing before all of its lanes have rows, also where the first look has failed', async () => {
    const one = await join('one', { demand: 50, open: 10 });
    one.isAway = true;
    const two = await join('two', { demand: 50 });
    shareOf(two);
    await look(one, two);
    assert.deepEqual(await rows(two), ['two "" 0', 'two has 1']);
    one.isAway = false;
    one.elsewhere = 5;
    assert.equal(one.shares.of('mx.new.test').connections, 1);
    clock.advance(20);
    await until(async () => (await rows(two)).length === 5);
    assert.deepEqual(await rows(two), ['one "" 0', 'two "" 0', 'one has 10', 'two has 1', 'one "mx.new.test" 10']);
  });

  it('takes over what the other has learnt: the later pushback, and after it the higher limit', async () => {
    const one = await join('one', { demand: 50 });
    const two = await join('two', { demand: 50 });
    for (const server of [one, two]) shareOf(server);
    await look(one, two, one, two);
    one.learnt = { limit: 4, ceiling: 9, halvedAt: clock.now(), cause: '421 too many' };
    one.lane.allowed = 4;
    await look(one, two, one);
    assert.deepEqual([shareOf(one), shareOf(two)], [2, 2]);
    assert.deepEqual(two.learnt, one.learnt);
    two.learnt = { ...two.learnt, limit: 6 };
    two.lane.allowed = 6;
    await look(two, one, two);
    assert.deepEqual([shareOf(one), shareOf(two)], [3, 3]);
  });

  it('divides a rate by demand, by the number of nodes until that is known', async () => {
    const one = await join('one', { demand: 12, hasRate: true });
    const two = await join('two', { demand: 4, hasRate: true });
    assert.deepEqual(
      [one, two].map(({ shares }) => shares.of(LANE).fraction),
      [0.5, 0.5],
    );
    await look(one, two, one);
    assert.deepEqual(
      [one, two].map(({ shares }) => shares.of(LANE).fraction),
      [0.75, 0.25],
    );
    two.lane.demand = 1;
    await look(two, one);
    assert.equal(two.shares.of(LANE).fraction, 1 / 13, 'one mail has its fraction of a rate as well');
  });

  it('raises nothing beside a server that announces nothing, as one of an older version', async () => {
    const one = await join('one', { demand: 50 });
    const old = await join('old');
    old.shares.stop();
    shareOf(one);
    await look(one, one);
    assert.equal(shareOf(one), 1);
    await one.db.nodes?.remove(old.db.nodes?.epoch ?? 0);
    await until(() => one.db.nodes?.hasOthers === false);
    await look(one);
    assert.equal(shareOf(one), Infinity);
  });

  it('never reserves more than the limit where both look at the same time', async () => {
    const one = await join('one', { demand: 50 });
    const two = await join('two', { demand: 20 });
    for (const server of [one, two]) shareOf(server);
    for (let round = 0; round < 10; round++) {
      for (const server of [one, two]) server.shares.soon(LANE);
      clock.advance(20);
      for (let n = 0; n < 2; n++)
        await Promise.all([one, two].map(({ db }) => db.commit.transact(() => Promise.resolve())));
      assert.ok(shareOf(one) + shareOf(two) <= 11, `${String(shareOf(one))} and ${String(shareOf(two))}`);
      two.lane.demand = round % 2 === 0 ? 90 : 20;
    }
  });

  it('writes a row again only where it has changed', async () => {
    const one = await join('one', { demand: 500 });
    const two = await join('two');
    shareOf(one);
    await look(two, one, one);
    const version = async (): Promise<unknown[]> =>
      one.db.prepared.all('SELECT xmin::text, connections, demand FROM lanes WHERE lane = ?', [LANE]);
    const before = await version();
    assert.deepEqual(before.length, 1);
    one.lane.demand = 520;
    one.lane.open = 9;
    await look(one);
    assert.deepEqual(await version(), before);
    one.lane.demand = 3;
    await look(one);
    assert.notDeepEqual(await version(), before);
  });

  it('writes many lanes in several transactions, and removes their rows again', async () => {
    const one = await join('one');
    const two = await join('two');
    await look(one, two);
    const lanes = Array.from({ length: 1200 }, (_, n) => `mx${String(n)}.test`);
    two.elsewhere = 9;
    for (const lane of lanes) assert.equal(two.shares.of(lane).connections, 1);
    const haveAll = (): boolean => lanes.every((lane) => two.shares.of(lane).connections === 10);
    await until(() => look(two).then(haveAll));
    assert.equal((await rows(one)).length, 2 + lanes.length);
    two.elsewhere = 0;
    await until(async () => {
      clock.advance(2000);
      await look(two);
      return (await rows(one)).length === 2;
    });
  });
});
