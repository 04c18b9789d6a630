import assert from 'node:assert/strict';
import type { Engine } from '../../src/mta/engine.ts';
import { type Job, DueQueue } from '../../src/mta/due-queue.ts';
import { insertRows } from '../../src/storage/rows.ts';
import { statement, textFor } from '../../src/storage/sql.ts';
import type { Connection } from '../../src/storage/connection.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, HOUR, NOW, deliveryRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('mta/due-queue', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let windows: DueQueue;
  let offered: Job[];
  let failures: unknown[];
  let statements: string[];
  /** Domains that another node has. */
  let foreign: Set<string>;
  let underWay = 0;
  /** Notes each statement, and how many run. */
  let prepared: Connection;
  /** Is called where more groups have due mail than may have jobs in memory. */
  let makeRoom: () => void;
  /** Set to make reading fail, or to let something happen while a statement runs. */
  let disturb: (() => Promise<void> | void) | null;

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    offered = [];
    failures = [];
    statements = [];
    foreign = new Set();
    disturb = null;
    makeRoom = () => assert.fail('there is room');
    prepared = {
      ...temp.db.prepared,
      async all(sql, values) {
        statements.push(textFor('sqlite', sql));
        underWay++;
        try {
          const rows = await temp.db.prepared.all<never>(sql, values);
          await disturb?.();
          return rows;
        } finally {
          underWay--;
        }
      },
    };
    windows = queue((job) => offered.push(job));
  });
  const queue = (place: (job: Job) => unknown): DueQueue =>
    new DueQueue({
      db: { prepared, maintenance: prepared },
      clock,
      options: { maxConnections: 1000 },
      owners: { isOurs: (domain: string) => !foreign.has(domain) },
      placing: { place, makeRoom: async () => makeRoom() },
      failed: (error: unknown) => failures.push(error),
    } as unknown as Engine);
  afterEach(async () => {
    windows.stop();
    await idle();
    await temp.close();
    assert.equal(clock.nextAt(), null, 'a timer was left');
  });

  const add = async (...rows: Partial<DeliveryRow>[]): Promise<DeliveryRow[]> => {
    const deliveries = rows.map((changes) => deliveryRow(changes));
    await temp.db.commit.insert({ deliveries });
    return deliveries;
  };
  /** Writes as the engine does, for which PostgreSQL may take its time: what is written for a request has fifteen seconds. */
  const write = (run: (tx: Connection) => Promise<void>): Promise<undefined> =>
    temp.db.commit.submit({ name: 'test', run: (tx) => run(tx).then(() => [undefined]) }, null);
  const hint = (dueAt = NOW, domain = 'dest.test', order = 0): void => {
    windows.hint([{ domain, class: order, accountId: ACCOUNT, dueAt }]);
  };
  /** Waits until reading has come to rest. */
  async function idle(): Promise<void> {
    for (let calm = 0, seen = -1; calm < 5; calm = seen === statements.length && underWay === 0 ? calm + 1 : 0) {
      seen = statements.length;
      await temp.db.prepared.all('SELECT 1');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  /** The jobs are worked off: their rows have no due time any more. */
  async function finish(jobs: readonly Job[]): Promise<void> {
    const ids = JSON.stringify(jobs.map(({ id }) => id));
    await write((tx) =>
      tx.run(
        statement(({ among }) => `UPDATE deliveries SET due_at = NULL, status = 'delivered' WHERE id ${among('text')}`),
        [ids],
      ),
    );
    for (const job of jobs) windows.done(job, null);
  }
  const anyOffered = async (): Promise<boolean> => {
    await idle();
    return offered.length > 0;
  };
  const ids = (): string[] => offered.map(({ id }) => id);

  /** The rows of a queue as acceptance would have written them, made inside the database. */
  const fill = (rows: number, domains: number, changes: Record<string, string> = {}): Promise<undefined> =>
    write(async (tx) => {
      const sample = deliveryRow();
      await insertRows(tx, [{ deliveries: [sample] }]);
      const columns = Object.keys(sample);
      const made: Record<string, string> = {
        id: "'dlv_' || substr(CAST(100000000000 + n AS TEXT), 2)",
        domain: `'d' || substr(CAST(100000 + n % ${domains} AS TEXT), 2) || '.test'`,
        due_at: `${NOW} - 1000 + n % 1000`,
        class: '(n / 7) % 2',
        ...changes,
      };
      const picks = columns.map((column) => made[column] ?? `d.${column}`);
      await tx.run(
        `WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ${rows})
           INSERT INTO deliveries (${columns.join(', ')}) SELECT ${picks.join(', ')} FROM s JOIN deliveries d ON d.id = ?`,
        [sample.id],
      );
      await tx.run('DELETE FROM deliveries WHERE id = ?', [sample.id]);
    });

  it('offers what a hint names, with what its lane and its turn need', async () => {
    const [row] = await add({ domain: 'dest.test', class: 1 });
    hint(NOW, 'dest.test', 1);
    await idle();
    assert.deepEqual(
      offered.map(({ id, class: order, share, domain }) => [id, order, share, domain]),
      [[row?.id, 1, ACCOUNT, 'dest.test']],
    );
    assert.deepEqual(windows.sizes(), { groups: 1, jobs: 1 });
    await finish(offered);
    await idle();
    assert.deepEqual(windows.sizes(), { groups: 0, jobs: 0 });
  });

  it('offers nothing twice while it is in memory, however often it is hinted at', async () => {
    const rows = await add({}, {}, {});
    for (let time = 0; time < 5; time++) {
      hint();
      await idle();
      await windows.scan();
      await idle();
    }
    assert.deepEqual(ids().sort(), rows.map(({ id }) => id).sort());
  });

  it('reads a group when its rest ends, though other mail of it fell due before', async () => {
    await add({ due_at: NOW }, { due_at: NOW + 10_000 });
    hint();
    await idle();
    const [job] = offered.splice(0);
    assert.ok(job);
    windows.rest(job, NOW + 15_000);
    clock.advance(10_000);
    await idle();
    assert.equal(offered.length, 0);
    clock.advance(5_000);
    await idle();
    assert.equal(offered.length, 2);
    await finish(offered);
  });

  it('leaves a group alone whose mail is held, however much of it waits', async () => {
    await add(...Array.from({ length: 300 }, () => ({})));
    windows.stop();
    const held = queue((job) => {
      offered.push(job);
      held.rest(job, clock.now() + 30_000);
    });
    await held.scan();
    await idle();
    assert.deepEqual([offered.length, held.sizes().jobs], [1, 0]);
    const before = statements.length;
    held.hint([{ domain: 'dest.test', class: 0, accountId: ACCOUNT, dueAt: NOW }]);
    await idle();
    assert.equal(statements.length, before, 'nothing is read while it rests');
    clock.advance(30_000);
    await idle();
    assert.equal(offered.length, 2, 'one look every 30 s');
    await held.scan();
    await idle();
    assert.equal(offered.length, 3, 'a scan looks at once');
    held.stop();
  });

  it('offers the longest due first', async () => {
    const rows = await add({ due_at: NOW }, { due_at: NOW - 2000 }, { due_at: NOW - 1000 });
    hint();
    await idle();
    assert.deepEqual(ids(), [rows[1]?.id, rows[2]?.id, rows[0]?.id]);
  });

  it('holds a small window of a group, and refills it as it runs low', async () => {
    await add(...Array.from({ length: 500 }, (_, at) => ({ due_at: NOW - 500 + at })));
    hint();
    await idle();
    assert.equal(windows.sizes().jobs, 96);
    const first = offered.splice(0, 64);
    await finish(first);
    await idle();
    assert.equal(windows.sizes().jobs, 32, 'a third of it is enough');
    await finish(offered.splice(0, 1));
    await idle();
    assert.equal(windows.sizes().jobs, 96);
  });

  it('finds what was committed behind the place it had read to', async () => {
    await add(...Array.from({ length: 200 }, (_, at) => ({ due_at: NOW - 200 + at })));
    hint();
    await idle();
    const [late] = await add({ due_at: NOW - 100_000 });
    hint(NOW - 100_000);
    const seen = new Set(ids());
    while (offered.length > 0) {
      await finish(offered.splice(0));
      await idle();
      for (const id of ids()) seen.add(id);
    }
    assert.equal(seen.size, 201);
    assert.ok(late !== undefined && seen.has(late.id));
  });

  it('finds what is hinted at while it reads', async () => {
    await add({ id: 'dlv_a' });
    let times = 0;
    disturb = async () => {
      if (times++ > 0) return;
      await add({ id: 'dlv_b', due_at: NOW - 1 });
      hint();
    };
    hint();
    await idle();
    assert.deepEqual(ids().sort(), ['dlv_a', 'dlv_b']);
  });

  describe('time', () => {
    it('a due time is a timer, not a poll', async () => {
      await add({ status: 'scheduled', due_at: NOW + HOUR });
      hint(NOW + HOUR);
      await idle();
      assert.deepEqual([statements, offered], [[], []]);
      clock.advance(HOUR - 1);
      await idle();
      assert.equal(offered.length, 0);
      clock.advance(1);
      await idle();
      assert.equal(offered.length, 1);
    });

    it('wakes for the earliest of many, and then for the next', async () => {
      const rows = await add({ due_at: NOW + 3000 }, { due_at: NOW + 1000, domain: 'b.test' }, { due_at: NOW + 2000 });
      hint(NOW + 3000);
      hint(NOW + 1000, 'b.test');
      hint(NOW + 2000);
      for (const expected of [1, 2, 3]) {
        clock.advance(1000);
        await idle();
        assert.equal(offered.length, expected);
      }
      assert.deepEqual(ids(), [rows[1]?.id, rows[2]?.id, rows[0]?.id]);
    });

    it('knows when the rest of a group falls due from having read to the first that is not', async () => {
      await add({ due_at: NOW }, { due_at: NOW + 5000 });
      hint();
      await idle();
      await finish(offered);
      clock.advance(5000);
      await idle();
      assert.equal(offered.length, 2);
    });

    it('brings a job back when it falls due again', async () => {
      await add({});
      hint();
      await idle();
      const [job] = offered;
      assert.ok(job);
      await temp.db.commit.transact((tx) => tx.run('UPDATE deliveries SET due_at = ?', [NOW + 60_000]));
      windows.done(job, NOW + 60_000);
      await idle();
      assert.equal(offered.length, 1);
      clock.advance(60_000);
      await idle();
      assert.deepEqual(ids(), [job.id, job.id]);
    });

    it('offers it again at once if its claim was refused and it is due', async () => {
      await add({});
      hint();
      await idle();
      windows.done(offered[0]!, NOW);
      await idle();
      assert.equal(offered.length, 2);
    });

    it('keeps no more entries than groups need, however often a due time moves forward', async () => {
      for (let at = 5000; at > 0; at--) hint(NOW + at * 1000);
      assert.equal(clock.nextAt(), NOW + 1000);
      await add({ due_at: NOW + 1000 });
      clock.advance(1000);
      await idle();
      assert.equal(offered.length, 1);
      clock.advance(10_000_000);
      await idle();
    });
  });

  describe('a scan', () => {
    it('finds every group by jumping from one to the next, due or not', async () => {
      await add(
        { domain: 'a.test' },
        { domain: 'a.test', class: 1 },
        { domain: 'b.test', account_id: 'acc_2' },
        { domain: 'c.test', due_at: NOW + HOUR },
      );
      await add({ domain: 'd.test', due_at: null, status: 'delivered' });
      await windows.scan();
      await idle();
      assert.deepEqual(offered.map(({ domain, class: order, share }) => `${domain} ${order} ${share}`).sort(), [
        `a.test 0 ${ACCOUNT}`,
        `a.test 1 ${ACCOUNT}`,
        'b.test 0 acc_2',
      ]);
      assert.equal(windows.sizes().groups, 4);
      clock.advance(HOUR);
      await idle();
      assert.equal(offered.length, 4);
    });
  });

  describe('storage that fails', () => {
    it('is asked again after a while, and nothing is forgotten', async () => {
      const rows = await add({}, { domain: 'b.test' });
      let broken = true;
      disturb = () => {
        if (broken) throw new Error('no disk');
      };
      hint();
      hint(NOW, 'b.test');
      await idle();
      assert.deepEqual([failures.length, offered.length], [1, 0]);
      hint();
      await idle();
      assert.equal(failures.length, 1, 'not with each hint');
      clock.advance(1000);
      await idle();
      assert.equal(failures.length, 2);
      broken = false;
      clock.advance(1000);
      await idle();
      assert.deepEqual(ids().sort(), rows.map(({ id }) => id).sort());
    });

    it('begins a pass again that failed in its middle', async () => {
      await add(...Array.from({ length: 150 }, (_, at) => ({ due_at: NOW - 150 + at })));
      hint();
      await idle();
      disturb = () => {
        throw new Error('no disk');
      };
      await finish(offered.splice(0, 96));
      await idle();
      disturb = null;
      clock.advance(1000);
      let count = 96;
      while (await anyOffered()) {
        count += offered.length;
        await finish(offered.splice(0));
      }
      assert.equal(count, 150);
    });
  });

  it('reads no more once it was stopped', async () => {
    await add({}, { due_at: NOW + 1000 });
    windows.stop();
    hint();
    hint(NOW + 1000);
    clock.advance(1000);
    await idle();
    assert.deepEqual(offered, []);
  });

  describe('a long queue', () => {
    const ROWS = 100_000;
    const DOMAINS = 2_000;
    it('is drained completely, each once, with a bounded number in memory', async () => {
      await fill(ROWS, DOMAINS);
      await windows.scan();
      const seen = new Set<string>();
      let twice = 0;
      let most = 0;
      while (await anyOffered()) {
        most = Math.max(most, windows.sizes().jobs);
        const batch = offered.splice(0, 5000);
        for (const { id } of batch) {
          if (seen.has(id)) twice++;
          seen.add(id);
        }
        await finish(batch);
      }
      assert.deepEqual([seen.size, twice], [ROWS, 0]);
      assert.ok(most <= 20_000 + 32 * 96 + 2 * 2 * DOMAINS, `${most} jobs in memory`);
      assert.deepEqual(windows.sizes(), { groups: 0, jobs: 0 });
    });

    it('for destinations that take nothing keeps out no mail for another', async () => {
      await fill(60_000, 500);
      await windows.scan();
      await idle();
      const stuck = windows.sizes().jobs;
      assert.ok(stuck >= 20_000 && stuck <= 25_000, `${stuck} jobs in memory`);
      offered.length = 0;
      const [row] = await add({ domain: 'healthy.test' });
      hint(NOW, 'healthy.test');
      await idle();
      assert.deepEqual(ids(), [row?.id]);
    });
  });

  describe('mail for more domains than may have jobs in memory', () => {
    const MOST_OF_CLASS_1 = 3_800;
    /** Of class 1, a fiftieth of all places is for accounts that have none. */
    const LEFT_TO_FIRST = 3_720;
    const MOST_OF_A_SHARE = 3_600;
    const domainsIn = (jobs: readonly Job[]): number => new Set(jobs.map(({ group }) => group)).size;

    it('is drained completely, each once, with jobs of a bounded number of domains in memory', async () => {
      let asked = 0;
      makeRoom = () => asked++;
      await fill(12_000, 6_000);
      await windows.scan();
      const seen = new Set<string>();
      let [twice, most] = [0, 0];
      while (await anyOffered()) {
        most = Math.max(most, domainsIn(offered));
        const batch = offered.splice(0, 5000);
        for (const { id } of batch) {
          if (seen.has(id)) twice++;
          seen.add(id);
        }
        await finish(batch);
      }
      assert.deepEqual([seen.size, twice, most, asked], [12_000, 0, MOST_OF_CLASS_1, 1]);
      assert.deepEqual(windows.sizes(), { groups: 0, jobs: 0 });
    });

    it('leaves places for single mails where a broadcast has taken its own', async () => {
      makeRoom = () => undefined;
      await fill(4_800, 4_800, { class: '1' });
      await windows.scan();
      await idle();
      assert.equal(offered.length, MOST_OF_A_SHARE);
      const [row] = await add({ domain: 'single.test', class: 0 });
      hint(NOW, 'single.test');
      await idle();
      assert.equal(offered.at(-1)?.id, row?.id);
      assert.equal(offered.length, MOST_OF_A_SHARE + 1);
    });

    it('leaves places for single mails where two broadcasts have taken theirs', async () => {
      makeRoom = () => undefined;
      await fill(4_800, 4_800, { class: '1', account_id: "'acc_' || (n % 2)" });
      await windows.scan();
      await idle();
      assert.equal(offered.length, LEFT_TO_FIRST);
      const [row] = await add({ domain: 'single.test', class: 0 });
      hint(NOW, 'single.test');
      await idle();
      assert.deepEqual([offered.length, offered.at(-1)?.id], [LEFT_TO_FIRST + 1, row?.id]);
    });

    it('leaves places for a third account', async () => {
      makeRoom = () => undefined;
      await fill(9_600, 9_600, { class: '0', account_id: "'acc_' || (n % 2)" });
      await windows.scan();
      await idle();
      const taken = offered.length;
      const [row] = await add({ domain: 'third.test', account_id: 'acc_third' });
      windows.hint([{ domain: 'third.test', class: 0, accountId: 'acc_third', dueAt: NOW }]);
      await idle();
      assert.deepEqual([taken < 4_000, offered.length, offered.at(-1)?.id], [true, taken + 1, row?.id]);
    });

    it('needs only the places of those that could give theirs to a group that waits', async () => {
      makeRoom = () => undefined;
      await fill(3_800, 3_800, { class: '1' });
      await windows.scan();
      await idle();
      const stuck = offered.at(-1);
      const [other] = await add({ domain: 'other.test', class: 1, account_id: 'acc_other' });
      windows.hint([{ domain: 'other.test', class: 1, accountId: 'acc_other', dueAt: NOW }]);
      await idle();
      const single = offered.at(-1);
      assert.equal(single?.id, other?.id);
      assert.ok(stuck && single);
      assert.deepEqual([windows.needsPlaceOf(stuck), windows.needsPlaceOf(single)], [true, false]);
    });

    it('lets an account with one mail go before the thousands of another', async () => {
      makeRoom = () => undefined;
      await fill(4_800, 4_800, { class: '1' });
      await windows.scan();
      await idle();
      const [row] = await add({ domain: 'single.test', class: 1, account_id: 'acc_other' });
      windows.hint([{ domain: 'single.test', class: 1, accountId: 'acc_other', dueAt: NOW }]);
      await idle();
      assert.deepEqual([offered.length, offered.at(-1)?.id], [MOST_OF_A_SHARE + 1, row?.id]);
    });

    it('asks for room once a second, and reads others while jobs rest; those come when their rest ends', async () => {
      let asked = 0;
      makeRoom = () => {
        // All that is in memory waits for dead hosts.
        for (const job of asked++ === 0 ? offered.splice(0) : []) windows.rest(job, NOW + 60_000);
      };
      await fill(4_800, 4_800, { class: '1' });
      await windows.scan();
      await idle();
      assert.deepEqual([offered.length, asked], [1_200, 1]);
      await finish(offered.splice(0));
      await idle();
      assert.deepEqual([offered.length, windows.sizes().jobs], [0, 0]);
      clock.advance(60_000);
      await idle();
      assert.deepEqual([domainsIn(offered), asked], [MOST_OF_A_SHARE, 1]);
    });

    it('reads on a domain whose mail goes while others keep their places, and then lets others go', async () => {
      makeRoom = () => undefined;
      await fill(9_600, 4_800, { class: '1' });
      await windows.scan();
      await idle();
      const [stuck] = [offered.splice(0)];
      assert.equal(domainsIn(stuck), MOST_OF_A_SHARE);
      // One domain gets all the mail of the others that wait, and its host is the only one that takes some.
      const fast = stuck[0] ?? assert.fail();
      await write((tx) =>
        tx.run('UPDATE deliveries SET domain = ? WHERE id IN (SELECT id FROM deliveries ORDER BY id DESC LIMIT 500)', [
          fast.domain,
        ]),
      );
      windows.hint([{ domain: fast.domain, class: 1, accountId: fast.group.account, dueAt: NOW - 1_000 }]);
      await finish(stuck.filter(({ group }) => group === fast.group));
      let sent = 0;
      let others = 0;
      while (others === 0 && (await anyOffered())) {
        const own = offered.splice(0).filter(({ group }) => group === fast.group || others++ < 0);
        sent += own.length;
        await finish(own);
      }
      assert.ok(sent >= 32, `${sent} mails`);
      assert.ok(others > 0, 'others get the place in the end');
    });

    it('goes on asking for room as long as groups wait, and no longer', async () => {
      let asked = 0;
      makeRoom = () => asked++;
      await fill(4_800, 4_800, { class: '1' });
      await windows.scan();
      await idle();
      for (const times of [2, 3]) {
        clock.advance(1_000);
        await idle();
        assert.equal(asked, times);
      }
      while (await anyOffered()) await finish(offered.splice(0));
      clock.advance(5_000);
      await idle();
      assert.equal(asked, 3);
    });
  });

  it('mail that rests in the middle of a pass goes before mail that came later, though more keeps coming', async () => {
    const rows = await add(...Array.from({ length: 200 }, (_, n) => ({ due_at: NOW - 1_000 + n })));
    hint();
    await idle();
    const first = offered.splice(0);
    for (const job of first) windows.rest(job, NOW + 30_000);
    clock.advance(30_000);
    await idle();
    assert.equal(offered[0]?.id, rows[0]?.id);
  });

  it('a group that rests is read when its rest ends, though one of its rows fell due before', async () => {
    await add({}, { due_at: NOW + 10_000 });
    hint();
    await idle();
    // The rows that are due later are known by now.
    assert.equal(offered.length, 1);
    for (const job of offered.splice(0)) windows.rest(job, NOW + 60_000);
    clock.advance(10_000);
    assert.equal(await anyOffered(), false);
    clock.advance(50_000);
    await idle();
    assert.equal(offered.length, 2);
    await finish(offered);
  });

  it('wakes groups that rest when what they wait for has ended, each mail once', async () => {
    const rows = await add({}, {}, {});
    hint();
    await idle();
    assert.equal(offered.length, 3);
    for (const job of offered.splice(0)) windows.rest(job, NOW + HOUR);
    windows.wake();
    windows.wake();
    await idle();
    assert.deepEqual(ids().sort(), rows.map(({ id }) => id).sort());
    windows.wake();
    await idle();
    assert.equal(offered.length, 3, 'none twice');
    await finish(offered);
  });

  it('a mail that goes to rest while others of its group are under way does not keep those from coming back', async () => {
    await add({}, {});
    hint();
    await idle();
    const [one, two] = offered.splice(0);
    assert.ok(one && two);
    windows.rest(one, NOW + 30_000);
    windows.done(two, NOW + 5000);
    clock.advance(30_000);
    await idle();
    assert.equal(offered.length, 2);
    await finish(offered);
  });

  it('leaves domains of other nodes alone, in scans and hints', async () => {
    foreign.add('other.test');
    const [own] = await add({}, { domain: 'other.test' });
    await windows.scan();
    hint(NOW, 'other.test');
    await idle();
    assert.deepEqual(ids(), [own?.id]);
    await finish(offered);
  });

  it('forgets a domain that moves away, also the mail that was in hand', async () => {
    await add({ due_at: NOW }, { due_at: NOW + HOUR });
    hint();
    await idle();
    const [job] = offered.splice(0);
    assert.ok(job);
    foreign.add('dest.test');
    await windows.domainsMoved();
    assert.deepEqual(windows.sizes(), { groups: 0, jobs: 1 });
    await temp.db.commit.transact((tx) =>
      tx.run('UPDATE deliveries SET due_at = ? WHERE id = ?', [NOW + 5000, job.id]),
    );
    windows.done(job, NOW + 5000);
    clock.advance(2 * HOUR);
    await idle();
    assert.deepEqual([offered.length, windows.sizes()], [0, { groups: 0, jobs: 0 }]);
  });

  it('finds the mail of a domain that comes, and offers a job that it still holds once', async () => {
    const [kept] = await add({});
    hint();
    await idle();
    const [job] = offered.splice(0);
    assert.ok(job);
    foreign.add('dest.test');
    await windows.domainsMoved();
    const [later] = await add({ due_at: NOW });
    foreign.delete('dest.test');
    await windows.domainsMoved();
    await idle();
    assert.deepEqual(ids(), [later?.id], 'the job of before is still in hand');
    windows.rest(job, NOW);
    await windows.scan();
    await idle();
    assert.deepEqual(ids(), [later?.id, kept?.id]);
    await finish(offered);
  });

  it('throws away what it was reading of a domain that moved away meanwhile', async () => {
    await add({});
    disturb = async () => {
      disturb = null;
      foreign.add('dest.test');
      await windows.domainsMoved();
    };
    hint();
    await idle();
    assert.deepEqual([offered.length, windows.sizes()], [0, { groups: 0, jobs: 0 }]);
  });
});
