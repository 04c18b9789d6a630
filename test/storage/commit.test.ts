import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { createCommitter, StorageClosed, StorageUnavailable, type Work } from '../../src/storage/commit.ts';
import { sqliteTransaction } from '../../src/storage/sqlite-transaction.ts';
import { textFor, type Statement } from '../../src/storage/sql.ts';
import type { Connection } from '../../src/storage/connection.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { NOW, acceptedCounter, deliveryRow, messageRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

/** A connection that runs nothing and notes what it was asked; `fails` says which statements go wrong. */
function notingConnection(fails: (sql: string) => boolean = () => false): Connection & { ran: string[] } {
  const ran: string[] = [];
  const note = async (statement: string | Statement): Promise<void> => {
    const sql = textFor('sqlite', statement);
    ran.push(sql);
    await new Promise((resolve) => setImmediate(resolve));
    if (fails(sql)) throw new Error(`no ${sql}`);
  };
  return {
    ran,
    engine: 'sqlite',
    run: note,
    all: async (sql) => {
      await note(sql);
      return [];
    },
    close: () => Promise.resolve(),
  };
}

const workOf = (name: string): Work<string, string> => ({
  name,
  async run(tx, inputs) {
    await tx.run(`${name}: ${inputs.join(' ')}`);
    return inputs.map((input) => input.toUpperCase());
  },
});

const settingsOf = async ({ db }: TempDatabase): Promise<string[]> =>
  (await db.prepared.all<{ name: string }>("SELECT name FROM settings WHERE name <> 'epoch' ORDER BY name")).map(
    ({ name }) => name,
  );

describe('storage/commit', () => {
  describe('the group', () => {
    it('merges what arrives in one burst and answers each caller for itself', async () => {
      const connection = notingConnection();
      const commit = createCommitter(sqliteTransaction(connection), { order: ['greet'] });
      const greet = workOf('greet');
      const answers = await Promise.all(['a', 'b', 'c'].map((input) => commit.submit(greet, input)));
      assert.deepEqual(answers, ['A', 'B', 'C']);
      assert.deepEqual(connection.ran, ['BEGIN IMMEDIATE', 'greet: a b c', 'COMMIT']);
      assert.deepEqual(commit.stats, { groups: 1, units: 3, largestGroup: 3, failedUnits: 0 });
    });

    it('holds what arrived while the last one was committed', async () => {
      const connection = notingConnection();
      const commit = createCommitter(sqliteTransaction(connection));
      const work = workOf('w');
      const first = commit.submit(work, 'a');
      while (!connection.ran.includes('w: a')) await new Promise((resolve) => setImmediate(resolve));
      await Promise.all([first, commit.submit(work, 'b'), commit.submit(work, 'c')]);
      assert.deepEqual(
        connection.ran.filter((sql) => sql.startsWith('w')),
        ['w: a', 'w: b c'],
      );
    });

    it('runs inserts first, then the kinds as listed, then transactions, in whatever order they came', async () => {
      const connection = notingConnection();
      const commit = createCommitter(sqliteTransaction(connection), { order: ['first', 'later'] });
      await Promise.all([
        commit.transact((tx) => tx.run('transact')),
        commit.submit(workOf('later'), 'x'),
        commit.submit(workOf('first'), 'y'),
        commit.insert({ settings: [{ name: 'n', value: 'v' }] }),
      ]);
      const [begin, insert, ...rest] = connection.ran;
      assert.equal(begin, 'BEGIN IMMEDIATE');
      assert.match(insert ?? '', /^INSERT INTO settings/);
      assert.deepEqual(rest, ['first: y', 'later: x', 'transact', 'COMMIT']);
    });

    it('is at most 500 units and about 4 MiB', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection()));
      const work = workOf('w');
      await Promise.all(Array.from({ length: 1200 }, (_, at) => commit.submit(work, String(at))));
      assert.deepEqual([commit.stats.groups, commit.stats.largestGroup], [3, 500]);
      const before = commit.stats.groups;
      await Promise.all(Array.from({ length: 4 }, (_, at) => commit.submit(work, String(at), 3 * 1024 * 1024)));
      assert.equal(commit.stats.groups - before, 4);
    });

    it('takes a unit that is larger than a group alone', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection()));
      assert.equal(await commit.submit(workOf('w'), 'a', 50 * 1024 * 1024), 'A');
    });
  });

  describe('a failure', () => {
    it('of one unit rolls the group back and fails that unit alone', async () => {
      const connection = notingConnection((sql) => sql.startsWith('w') && sql.includes('bad'));
      const commit = createCommitter(sqliteTransaction(connection));
      const work = workOf('w');
      const results = await Promise.allSettled(['a', 'bad', 'b'].map((input) => commit.submit(work, input)));
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      );
      assert.deepEqual(
        connection.ran.filter((sql) => !sql.startsWith('BEGIN')),
        ['w: a bad b', 'ROLLBACK', 'w: a', 'COMMIT', 'w: bad', 'ROLLBACK', 'w: b', 'COMMIT'],
      );
      assert.deepEqual([commit.stats.units, commit.stats.failedUnits], [3, 1]);
    });

    it('that a rule of the unit has refused counts as no failed write: the database would have taken it', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection()));
      const refused = commit.transact(() => Promise.reject(new Problem('already_exists', 'There is such a thing.')));
      await assert.rejects(refused, Problem);
      assert.deepEqual([commit.stats.units, commit.stats.failedUnits, commit.trouble], [1, 0, null]);
    });

    for (const [what, error, failedUnits] of [
      ['on PostgreSQL', { code: '23505', constraint: 'idempotency_pkey' }, 0],
      ['on SQLite', { message: 'SQLITE_CONSTRAINT: UNIQUE constraint failed: idempotency.key' }, 0],
      ['but another key is', { code: '23505', constraint: 'messages_pkey' }, 1],
      ['but a full disk is', { code: '53100' }, 1],
    ] as const)
      it(`bug: a request that was sent to two nodes raised the alarm that writes fail: its key counts as none ${what}`, async () => {
        const commit = createCommitter(sqliteTransaction(notingConnection()));
        const taken = Object.assign(new Error('refused'), error);
        await assert.rejects(
          commit.transact(() => Promise.reject(taken)),
          taken,
        );
        assert.deepEqual([commit.stats.units, commit.stats.failedUnits], [1, failedUnits]);
      });

    it('to begin fails all of them at once: trying one by one would only wait for the same lock', async () => {
      const connection = notingConnection((sql) => sql.startsWith('BEGIN'));
      const busy = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
      const run = connection.run.bind(connection);
      connection.run = (sql) =>
        run(sql).catch(() => {
          throw busy;
        });
      const commit = createCommitter(sqliteTransaction(connection));
      const results = await Promise.allSettled(['a', 'b', 'c'].map((input) => commit.submit(workOf('w'), input)));
      assert.deepEqual(
        results.map(({ status }) => status),
        ['rejected', 'rejected', 'rejected'],
      );
      assert.equal(connection.ran.length, 1);
    });

    it('of the commit itself tells nobody that it is durable', async () => {
      const connection = notingConnection((sql) => sql === 'COMMIT');
      const commit = createCommitter(sqliteTransaction(connection));
      await assert.rejects(commit.submit(workOf('w'), 'a'), /no COMMIT/);
      assert.equal(connection.ran.at(-1), 'ROLLBACK');
    });

    it('reports the first error where the rollback fails as well', async () => {
      const commit = createCommitter(
        sqliteTransaction(notingConnection((sql) => sql === 'COMMIT' || sql === 'ROLLBACK')),
      );
      await assert.rejects(commit.submit(workOf('w'), 'a'), /no COMMIT/);
    });

    it('for want of room is known until a write succeeds, and a write is tried without a caller', async () => {
      const { db, close } = await openTempDatabase();
      const full = Object.assign(new Error('No space left on device'), { code: '53100' });
      const refuse = (): Promise<never> => Promise.reject(full);
      const ways: readonly (() => Promise<unknown>)[] = [
        () => db.commit.submit({ name: 'intake', isIntake: true, run: refuse }, null),
        () => db.commit.submit({ name: 'engine', run: refuse }, null),
        () => db.commit.transact(refuse),
      ];
      for (const write of ways) await assert.rejects(write());
      assert.equal(db.commit.trouble, 'No space left on device');
      await db.commit.retry();
      assert.equal(db.commit.trouble, null);
      assert.deepEqual(await db.prepared.all("SELECT name FROM settings WHERE name LIKE 'trial%'"), []);
      await close();
    });

    it('of a unit that breaks a rule says nothing about the storage', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection((sql) => sql.includes('bad'))));
      await assert.rejects(commit.submit(workOf('w'), 'bad'));
      assert.equal(commit.trouble, null);
    });

    it('is over with the unit: the next ones go through', async () => {
      let broken = true;
      const commit = createCommitter(sqliteTransaction(notingConnection((sql) => broken && sql === 'COMMIT')));
      await assert.rejects(commit.submit(workOf('w'), 'a'));
      broken = false;
      assert.equal(await commit.submit(workOf('w'), 'b'), 'B');
    });
  });

  describe('the bound', () => {
    it('refuses more than memory should hold, and takes more again afterwards', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection()));
      const work = workOf('w');
      const taken = Array.from({ length: 20_000 }, () => commit.submit(work, 'a'));
      assert.equal(commit.waiting, 20_000);
      await assert.rejects(commit.submit(work, 'b'), StorageUnavailable);
      await Promise.all(taken);
      assert.equal(commit.waiting, 0);
      assert.equal(await commit.submit(work, 'c'), 'C');
    });

    it('counts bytes as well', async () => {
      const commit = createCommitter(sqliteTransaction(notingConnection()));
      const taken = [commit.submit(workOf('w'), 'a', 300 * 1024 * 1024)];
      await assert.rejects(commit.submit(workOf('w'), 'b'), StorageUnavailable);
      await Promise.all(taken);
      assert.equal(await commit.submit(workOf('w'), 'c'), 'C');
    });
  });

  describe('patience with a commit that hangs', () => {
    it('ends: what has not begun is never written, and what is being committed may be', async () => {
      const clock = new FakeClock();
      const connection = notingConnection();
      const transaction = sqliteTransaction(connection);
      let answer: () => void = () => undefined;
      const hung = new Promise<void>((resolve) => (answer = resolve));
      const committed = transaction.commit.bind(transaction);
      const commit = createCommitter(
        { ...transaction, commit: () => hung.then(committed) },
        { patience: { clock, ms: 15_000 } },
      );
      const first = commit.submit(workOf('w'), 'a');
      while (connection.ran.length < 2) await new Promise((resolve) => setImmediate(resolve));
      const second = commit.submit(workOf('w'), 'b');
      clock.advance(14_000);
      const third = commit.submit(workOf('w'), 'c');
      clock.advance(1000);
      await assert.rejects(first, StorageUnavailable);
      await assert.rejects(second, StorageUnavailable);
      answer();
      assert.equal(await third, 'C');
      assert.deepEqual(
        connection.ran.filter((sql) => sql.startsWith('w')),
        ['w: a', 'w: c'],
      );
      assert.equal(clock.nextAt(), null);
    });
  });

  describe('closing', () => {
    it('runs what waits and refuses what comes', async () => {
      const connection = notingConnection();
      const commit = createCommitter(sqliteTransaction(connection));
      const waiting = Array.from({ length: 700 }, (_, at) => commit.submit(workOf('w'), String(at)));
      const closed = commit.close();
      await assert.rejects(commit.submit(workOf('w'), 'late'), StorageClosed);
      await closed;
      assert.equal((await Promise.all(waiting)).length, 700);
      assert.ok(connection.ran.every((sql) => !sql.includes('late')));
      await commit.close();
    });
  });

  describe('on a database', () => {
    let temp: TempDatabase;
    beforeEach(async () => {
      temp = await openTempDatabase();
    });
    afterEach(() => temp.close());

    it('keeps nothing of the guilty unit, whichever its statements, and all of the others', async () => {
      const { commit } = temp.db;
      await commit.insert({ settings: [{ name: 'taken', value: '1' }] });
      const results = await Promise.allSettled([
        commit.insert({ settings: [{ name: 'a', value: '1' }] }),
        commit.insert({
          counters: [acceptedCounter(5)],
          settings: [
            { name: 'b', value: '1' },
            { name: 'taken', value: '2' },
          ],
        }),
        commit.insert({ settings: [{ name: 'c', value: '1' }] }),
      ]);
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      );
      assert.deepEqual(await settingsOf(temp), ['a', 'c', 'taken']);
      assert.deepEqual(await temp.db.prepared.all('SELECT * FROM counters'), []);
    });

    it('a transaction that throws leaves nothing behind and hands on its error', async () => {
      const { commit } = temp.db;
      const mistake = new Error('on second thoughts');
      const other = commit.insert({ settings: [{ name: 'a', value: '1' }] });
      await assert.rejects(
        commit.transact(async (tx) => {
          await tx.run("INSERT INTO settings (name, value) VALUES ('b', '1')");
          throw mistake;
        }),
        mistake,
      );
      await other;
      assert.deepEqual(await settingsOf(temp), ['a']);
    });

    it('keeps nothing of what a unit still does when one of its statements has failed', async () => {
      const { commit } = temp.db;
      await commit.insert({ settings: [{ name: 'taken', value: '1' }] });
      let isOver = (): void => undefined;
      const over = new Promise<void>((resolve) => (isOver = resolve));
      const goingOn = async (tx: Connection): Promise<void> => {
        // Slower than the statement that fails, and than a ROLLBACK that would not wait for it.
        await tx.all(
          `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT COUNT(*) FROM n`,
        );
        await tx.run("INSERT INTO settings (name, value) VALUES ('late', '1')");
      };
      const failing = commit.transact((tx) =>
        Promise.all([tx.run("INSERT INTO settings (name, value) VALUES ('taken', '2')"), goingOn(tx).finally(isOver)]),
      );
      await assert.rejects(failing);
      await over;
      await commit.insert({ settings: [{ name: 'next', value: '1' }] });
      assert.deepEqual(await settingsOf(temp), ['next', 'taken']);
    });

    it('writes each unit once where SQLite ends the transaction itself: what came after was committed alone, and then again', async function () {
      const { commit, prepared, engine } = temp.db;
      if (engine !== 'sqlite') return this.skip('fills the file of SQLite');
      await commit.insert({ settings: [{ name: 'n', value: '0' }] });
      // A full disk in the middle of a group, of whose pages the first have been written since they do not fit the cache.
      const [size] = await commit.transact((tx) => tx.all<{ page_count: number }>('PRAGMA page_count'));
      await commit.transact((tx) => tx.all(`PRAGMA max_page_count = ${String((size?.page_count ?? 0) + 1250)}`));
      const counting: Work<string, string> = {
        name: 'counting',
        async run(tx, inputs) {
          // The other work of the group has failed meanwhile.
          for (let n = 0; n < 5; n++) await tx.all('SELECT COUNT(*) FROM settings');
          for (let n = 0; n < 20; n++) await tx.run("UPDATE settings SET value = value + 1 WHERE name = 'n'");
          return inputs;
        },
      };
      const before = commit.stats.groups;
      const empty = { html: null, raw: null, packed: null, auto_text: 0, attachment_count: 0 };
      const content = { id: 'c', account_id: 'a', text: 'x'.repeat(12_000_000), created_at: NOW, ...empty };
      const large = commit.insert({ contents: [content] });
      const counted = commit.submit(counting, 'counted');
      await assert.rejects(large, { code: 'SQLITE_FULL' });
      assert.equal(await counted, 'counted');
      assert.equal(commit.stats.groups - before, 1);
      assert.deepEqual(await prepared.all("SELECT value FROM settings WHERE name = 'n'"), [{ value: '20' }]);
      assert.deepEqual(await prepared.all('SELECT id FROM contents'), []);
    });

    it('has each row once when many callers write at once', async () => {
      const writes = Array.from({ length: 2000 }, (_, at) => {
        const message = messageRow();
        const delivery = deliveryRow({ message_id: message.id, due_at: NOW + at });
        return temp.db.commit.insert({ messages: [message], deliveries: [delivery], counters: [acceptedCounter(1)] });
      });
      await Promise.all(writes);
      assert.deepEqual(
        await temp.db.prepared.all('SELECT count(*) AS n, count(DISTINCT message_id) AS m FROM deliveries'),
        [{ n: 2000, m: 2000 }],
      );
      assert.deepEqual(await temp.db.prepared.all('SELECT n FROM counters'), [{ n: 2000 }]);
      assert.ok(temp.db.commit.stats.groups <= 10, `${temp.db.commit.stats.groups} groups`);
    });
  });
});
