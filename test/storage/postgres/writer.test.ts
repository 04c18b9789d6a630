/** The writer on a real PostgreSQL: what becomes of writes when connections are lost, and when another server takes over. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { systemClock } from '../../../src/base/clock.ts';
import { isStorageTrouble, StorageClosed } from '../../../src/storage/commit.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf, type Cluster } from '../../support/harness/postgres.ts';

describe('storage/postgres/writer', () => {
  let cluster: Cluster;
  let name: string;
  let db: Database;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    cluster = await startedCluster();
  });
  beforeEach(async () => {
    name = await makeDatabase();
  });
  afterEach(async () => {
    await db.close();
  });

  const add = (n: number): Promise<void> => db.commit.insert({ settings: [{ name: `s${String(n)}`, value: '1' }] });
  const isWritten = (n: number): Promise<boolean> =>
    add(n).then(
      () => true,
      (error: unknown) => {
        assert.ok(isStorageTrouble(error), String(error));
        return false;
      },
    );
  const names = async (): Promise<string[]> =>
    (await db.prepared.all<{ name: string }>("SELECT name FROM settings WHERE name LIKE 's%' ORDER BY name")).map(
      (row) => row.name,
    );

  it('refuses a second server of the same name, and lets the next one in when the first is closed', async () => {
    const url = urlOf(cluster.folder, name);
    const node = { name: 'one', version: '1', facts: '{}' };
    db = await openDatabase({ url, node });
    await assert.rejects(openDatabase({ url, node }), { why: 'in_use' });
    await db.close();
    db = await openDatabase({ url, node });
    assert.deepEqual(db.migrated, []);
  });

  it('starts where the row of a server of its name that crashed is left', async () => {
    const url = urlOf(cluster.folder, name);
    const node = { name: 'one', version: '1', facts: '{}' };
    db = await openDatabase({ url, node });
    await db.commit.transact(async (tx) => {
      await tx.run("INSERT INTO nodes (epoch, name, version, facts, is_command) VALUES (0, 'two', '1', '{}', false)");
      await tx.run("INSERT INTO node_beats (epoch, at) VALUES (0, clock_timestamp() - interval '1 hour')");
    });
    // The other server would remove the row after 12 seconds of silence.
    await db.close();
    db = await openDatabase({ url, node: { ...node, name: 'two' } });
    assert.deepEqual(
      db.nodes?.list().map((one) => one.name),
      ['two'],
    );
  });

  it('writes nothing any more when another server has taken the database over', async () => {
    let taken = 0;
    db = await openDatabase({ url: urlOf(cluster.folder, name), takenOver: () => taken++ });
    await add(1);
    await db.commit.transact((tx) => tx.run('DELETE FROM nodes'));
    await assert.rejects(add(2), StorageClosed);
    await assert.rejects(add(3), StorageClosed);
    assert.equal(taken, 1);
    assert.deepEqual(await names(), ['s1']);
  });

  it('writes each unit once while the server crashes again and again', async () => {
    db = await openDatabase({ url: urlOf(cluster.folder, name) });
    let written = 0;
    let isOver = false;
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = writer; !isOver; n += 4) {
        await add(n);
        written++;
      }
    });
    for (let crashes = 0; crashes < 3; crashes++) {
      const before = written;
      while (written < before + 40) await new Promise((resolve) => setImmediate(resolve));
      await cluster.crash();
    }
    isOver = true;
    await Promise.all(writers);
    const [row] = await db.prepared.all<{ n: number }>("SELECT COUNT(*) AS n FROM settings WHERE name LIKE 's%'");
    assert.equal(row?.n, written);
  });

  for (const [code, why] of [
    ['40P01', 'was contended'],
    ['25P03', 'the server ended, since the process paused'],
  ] as const)
    it(`runs a group again that ${why}`, async () => {
      db = await openDatabase({ url: urlOf(cluster.folder, name) });
      let runs = 0;
      await db.commit.transact(async (tx) => {
        if (++runs < 3) throw Object.assign(new Error(why), { code });
        await tx.run("INSERT INTO settings (name, value) VALUES ('s1', '1')");
      });
      assert.deepEqual([runs, await names()], [3, ['s1']]);
    });

  describe('whose answers get lost on the way', () => {
    let proxy: Proxy;
    beforeEach(async () => {
      proxy = await startProxy(path.join(cluster.folder, '.s.PGSQL.5432'));
      db = await openDatabase({ url: urlOf(proxy.folder, name) });
    });
    afterEach(() => proxy.close());

    it('asks whether a COMMIT without an answer was performed, and does not write twice', async () => {
      await db.commit.transact((tx) =>
        tx.run("INSERT INTO counters (account_id, day, from_status, to_status, n) VALUES ('a', 'd', 'f', 't', 0)"),
      );
      proxy.loseAnswer('COMMIT\0');
      const answer = await db.commit.transact(async (tx) => {
        const [row] = await tx.all<{ n: number }>("UPDATE counters SET n = n + 1 WHERE account_id = 'a' RETURNING n");
        return row?.n;
      });
      const [row] = await db.prepared.all<{ n: number }>("SELECT n FROM counters WHERE account_id = 'a'");
      assert.deepEqual([answer, row?.n, proxy.lost()], [1, 1, 1]);
      await add(1);
    });

    it('goes on at the next server when the machine of the first is gone without a word: all waited until TCP gave up', async () => {
      await db.close();
      db = await openDatabase({ url: `${urlOf(proxy.folder, name)},${cluster.folder}` });
      await add(1);
      await db.reader('settings').count();
      proxy.cut();
      const began = systemClock.monotonic();
      const reads = Promise.all([names(), db.maintenance.all('SELECT 1')]);
      // A query of the pool is not repeated by itself, and a request gives up after 15 seconds.
      const query = assert.rejects(Promise.resolve(db.reader('settings').count()), isStorageTrouble);
      let last = 2;
      while (!(await isWritten(last))) assert.ok(++last && systemClock.monotonic() - began < 60_000);
      await Promise.all([reads, query]);
      assert.equal((await names()).at(-1), `s${String(last)}`);
      assert.deepEqual(await db.reader('settings').where({ name: 's1' }).count(), [{ count: 1 }]);
      assert.equal(db.nodes?.holdsLease, true);
      assert.ok(systemClock.monotonic() - began < 60_000);
    });

    it('goes on where another server has the address now, which refuses what is sent and cannot answer what is waited for', async () => {
      await add(1);
      proxy.moveAt('COMMIT\0');
      const began = systemClock.monotonic();
      // Its answer never comes, and nothing more is sent on its connection.
      await add(2);
      assert.deepEqual([await names(), proxy.lost()], [['s1', 's2'], 0]);
      assert.ok(systemClock.monotonic() - began < 10_000);
    });

    it('writes again what was lost before its COMMIT', async () => {
      proxy.loseAnswerTo('INSERT INTO settings');
      await add(1);
      assert.deepEqual([await names(), proxy.lost()], [['s1'], 1]);
    });
  });
});

interface Proxy {
  /** The folder of its socket. */
  folder: string;
  /** Performs the next statement with this text, and cuts the connection instead of giving its answer. */
  loseAnswerTo(text: string): void;
  /** Cuts the connection instead of giving the next answer with this tag. */
  loseAnswer(tag: string): void;
  /** Passes nothing on any more and keeps the connections open; new ones get no answer either. */
  cut(): void;
  /**
   * Behaves from the next answer with this tag on as another server does that got the address of the first: connections of before get no answer
   * any more, and end when something is sent.
   */
  moveAt(tag: string): void;
  /** How many connections were cut. */
  lost(): number;
  close(): Promise<void>;
}

async function startProxy(target: string): Promise<Proxy> {
  const folder = mkdtempSync(path.join(tmpdir(), 'ph-proxy-'));
  const open = new Set<net.Socket>();
  let wanted: string | null = null;
  let wantedAnswer: string | null = null;
  let lost = 0;
  let isSilent = false;
  let movesAt: string | null = null;
  let moves = 0;
  const server = net.createServer((client) => {
    const upstream = net.connect(target);
    const madeAt = moves;
    let isCut = false;
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        if (!isCut) upstream.destroy();
      });
    }
    client.on('data', (data) => {
      if (isSilent) return;
      if (moves > madeAt) return void client.destroy();
      if (wanted !== null && data.includes(wanted)) {
        wanted = null;
        isCut = true;
        lost++;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (movesAt !== null && data.includes(movesAt)) {
        movesAt = null;
        moves++;
      }
      if (isSilent || moves > madeAt) return;
      if (wantedAnswer !== null && data.includes(wantedAnswer)) {
        wantedAnswer = null;
        isCut = true;
        lost++;
      }
      if (!isCut) return void client.write(data);
      // The statement was performed; its answer stays here.
      upstream.destroy();
      client.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(path.join(folder, '.s.PGSQL.5432'), resolve));
  return {
    folder,
    loseAnswerTo(text) {
      wanted = text;
    },
    loseAnswer(tag) {
      wantedAnswer = tag;
    },
    cut() {
      isSilent = true;
    },
    moveAt(tag) {
      movesAt = tag;
    },
    lost: () => lost,
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
