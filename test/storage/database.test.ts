import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { migrationNames } from '../../src/storage/migrate.ts';
import { openDatabase, sqliteFile } from '../../src/storage/database.ts';
import { beginEpoch } from '../../src/storage/database.ts';

describe('storage/database', () => {
  let folder: string;
  let url: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-test-'));
    url = `sqlite:${path.join(folder, 'deep/er/posthorn.db')}`;
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('makes the folder, migrates once, and finds everything again', async () => {
    const first = await openDatabase({ url });
    assert.deepEqual(first.migrated, migrationNames);
    await first.commit.insert({ settings: [{ name: 'a', value: '1' }] });
    await first.close();
    const second = await openDatabase({ url });
    assert.deepEqual(second.migrated, []);
    assert.deepEqual(await second.prepared.all('SELECT * FROM settings'), [{ name: 'a', value: '1' }]);
    await second.close();
  });

  it('is durable by its settings: WAL, an fsync for each commit, space given back step by step', async () => {
    const db = await openDatabase({ url });
    const pragma = (name: string): Promise<unknown[]> => db.commit.transact((tx) => tx.all(`PRAGMA ${name}`));
    assert.deepEqual(await pragma('journal_mode'), [{ journal_mode: 'wal' }]);
    assert.deepEqual(await pragma('synchronous'), [{ synchronous: 2 }]);
    assert.deepEqual(await pragma('foreign_keys'), [{ foreign_keys: 1 }]);
    assert.deepEqual(await pragma('auto_vacuum'), [{ auto_vacuum: 2 }]);
    await db.close();
  });

  it('has readers that cannot write', async () => {
    const db = await openDatabase({ url });
    const insert = "INSERT INTO settings (name, value) VALUES ('a', '1')";
    await assert.rejects(db.prepared.run(insert), /readonly/);
    for (let reader = 0; reader < 2; reader++) await assert.rejects(db.reader.raw(insert), /readonly/);
    await db.close();
  });

  it('lets readers read while a commit is under way', async () => {
    const db = await openDatabase({ url });
    const seen = await db.commit.transact(async (tx) => {
      await tx.run("INSERT INTO settings (name, value) VALUES ('a', '1')");
      return [await db.prepared.all('SELECT * FROM settings'), await db.reader('settings')];
    });
    assert.deepEqual(seen, [[], []]);
    assert.equal((await db.prepared.all('SELECT * FROM settings')).length, 1);
    await db.close();
  });

  it('leaves no WAL behind when it is closed', async () => {
    const db = await openDatabase({ url });
    await db.commit.insert({ settings: [{ name: 'a', value: '1' }] });
    await db.close();
    assert.throws(() => statSync(`${sqliteFile(url)}-wal`), { code: 'ENOENT' });
  });

  it('never gives an event’s number twice, even after the newest are gone', async () => {
    const db = await openDatabase({ url });
    const event = (id: string) => ({
      id,
      account_id: 'a',
      type: 'sent',
      at: 1,
      test: 0,
      message_id: 'm',
      delivery_id: 'd',
      status: 'sent' as const,
      machine: 0,
      detail_json: '{}',
    });
    await db.commit.insert({ events: [event('e1'), event('e2')] });
    await db.commit.transact((tx) => tx.run('DELETE FROM events'));
    await db.commit.insert({ events: [event('e3')] });
    assert.deepEqual(await db.prepared.all('SELECT sequence FROM events'), [{ sequence: 3 }]);
    await db.close();
  });

  for (const bad of ['', 'sqlite:', 'postgres://localhost/x', './posthorn.db']) {
    it(`refuses the url ${JSON.stringify(bad)}`, () => {
      assert.throws(() => sqliteFile(bad), /sqlite:<path>/);
    });
  }

  it('fails where the file is not a database', async () => {
    await assert.rejects(openDatabase({ url: `sqlite:${process.execPath}` }));
  });

  it('counts the runs of the program', async () => {
    const db = await openDatabase({ url });
    assert.deepEqual([await beginEpoch(db.commit), await beginEpoch(db.commit)], [1, 2]);
    await db.close();
    const again = await openDatabase({ url });
    assert.equal(await beginEpoch(again.commit), 3);
    await again.close();
  });

  /** Writes until it is killed, and says of each row when it was told that it is durable. */
  const writer = `
    import { openDatabase } from ${JSON.stringify(pathToFileURL(path.resolve(import.meta.dirname, '../../src/storage/database.ts')).href)};
    const db = await openDatabase({ url: process.argv[1] });
    await Promise.all(Array.from({ length: 20 }, async (_, lane) => {
      for (let at = 0; ; at++) {
        const name = lane + '.' + at;
        await db.commit.insert({ settings: [{ name, value: 'x'.repeat(500) }] });
        process.stdout.write(name + '\\n');
      }
    }));`;

  it('has everything it confirmed after kill -9', async () => {
    for (const enough of [200, 1500]) {
      const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', writer, url], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const confirmed: string[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        confirmed.push(line);
        if (confirmed.length === enough) child.kill('SIGKILL');
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      assert.equal(child.signalCode, 'SIGKILL');
      assert.ok(confirmed.length >= enough);
      const db = await openDatabase({ url });
      const found = new Set(
        (await db.prepared.all<{ name: string }>('SELECT name FROM settings')).map(({ name }) => name),
      );
      assert.deepEqual(
        confirmed.filter((name) => !found.has(name)),
        [],
        'lost',
      );
      assert.deepEqual(await db.prepared.all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
      await db.commit.transact((tx) => tx.run('DELETE FROM settings'));
      await db.close();
    }
  });
});
