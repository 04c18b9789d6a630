/** Backups of a PostgreSQL database: the same files as those of SQLite, restored into either. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createBackup, type BackupOptions, type Made } from '../../src/backup/create.ts';
import { restoreBackup, type Restored } from '../../src/backup/restore.ts';
import { restoreRows } from '../../src/backup/restore-rows.ts';
import { verifyBackup } from '../../src/backup/verify.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { balance } from '../../src/messages/store/books.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { makeSchema, migrationNames } from '../../src/storage/migrate.ts';
import { digestsOf, type Counted } from '../../src/storage/move/copy-rows.ts';
import { openSnapshot } from '../../src/storage/move/postgres.ts';
import { openStillFile } from '../../src/storage/move/sqlite.ts';
import { tablesIn } from '../../src/storage/move/tables.ts';
import { addressOf } from '../../src/storage/postgres/address.ts';
import { createPool } from '../../src/storage/postgres/open.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { newFolder } from '../support/harness/app.ts';
import { acceptedMail } from '../support/harness/mail-rows.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

const PASSPHRASE = 'correct horse battery';

describe('backup of PostgreSQL', () => {
  let folder: string;
  const clock = new FakeClock();

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    await startedCluster();
  });
  beforeEach(() => {
    folder = newFolder();
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const newBase = async (): Promise<string> => urlOf((await startedCluster()).folder, await makeDatabase());
  const dataDirOf = (name: string): string => {
    const at = path.join(folder, name);
    mkdirSync(at, { recursive: true });
    return at;
  };

  async function make(url: string, changes: Partial<BackupOptions> = {}): Promise<Extract<Made, { kind: 'made' }>> {
    const dataDir = dataDirOf('first');
    openKeyring(dataDir);
    const made = await createBackup(
      { clock, version: '1.2.3' },
      {
        storage: { url },
        dataDir,
        dir: path.join(folder, 'backups'),
        minFreeBytes: 0,
        kind: 'posthorn',
        keep: 3,
        passphrase: PASSPHRASE,
        ...changes,
      },
    );
    assert.ok(made.kind === 'made', JSON.stringify(made));
    return made;
  }

  const restore = (from: string, url: string, name: string): Promise<Restored> =>
    restoreBackup({ folder: from, storage: { url }, dataDir: dataDirOf(name), passphrase: PASSPHRASE });

  /** A database with mail. */
  async function withMail(mails: number): Promise<string> {
    const url = await newBase();
    const db = await openDatabase({ url });
    for (let n = 0; n < mails; n++) await db.commit.insert(acceptedMail({}).rows);
    await db.close();
    return url;
  }

  async function digestsIn(backup: string, url: string): Promise<[Counted[], Counted[]]> {
    const file = await openStillFile(path.join(backup, 'posthorn.db'));
    const there = url.startsWith('sqlite:')
      ? await openStillFile(url.slice('sqlite:'.length))
      : await openSnapshot({ url });
    try {
      const tables = await tablesIn(file.db);
      return [await digestsOf(file.db, tables), await digestsOf(there.db, tables)];
    } finally {
      await Promise.all([file.close(), there.close()]);
    }
  }

  it('is a folder like every other, and is restored into a file and into PostgreSQL', async () => {
    const made = await make(await withMail(30));
    assert.deepEqual(readdirSync(made.folder).sort(), ['SHA256SUMS', 'manifest.json', 'posthorn.db', 'secret.key.enc']);
    assert.deepEqual(made.manifest.counts, { accounts: 0, messages: 30, recipients: 30, waiting: 30, events: 0 });
    assert.deepEqual([made.manifest.books, made.unbalanced], [{ balanced: true, accepted: 30 }, []]);
    assert.deepEqual(made.manifest.migrations, migrationNames);
    const verified = await verifyBackup(made.folder, { passphrase: PASSPHRASE });
    assert.equal(verified.kind, 'good');
    for (const [name, url] of [
      ['file', `sqlite:${path.join(folder, 'file', 'posthorn.db')}`],
      ['base', await newBase()],
    ] as const) {
      const restored = await restore(made.folder, url, name);
      assert.ok(restored.kind === 'restored', JSON.stringify(restored));
      assert.equal(restored.keys, 'restored');
      const [original, found] = await digestsIn(made.folder, url);
      assert.deepEqual(found, original);
      const db = await openDatabase({ url });
      assert.deepEqual((await balance(db.reader)).faults, []);
      await db.commit.insert(acceptedMail({}).rows);
      await db.close();
    }
  });

  it('is one moment, while the server writes on', async () => {
    const url = await withMail(10);
    const db = await openDatabase({ url });
    const making = make(url);
    const ended = making.then(() => true);
    while (!(await Promise.race([ended, db.commit.insert(acceptedMail({}).rows).then(() => false)])));
    const made = await making;
    await db.close();
    assert.deepEqual(made.unbalanced, []);
    const { messages, recipients } = made.manifest.counts;
    assert.ok(messages >= 10);
    assert.equal(messages, recipients);
  });

  it('tells how far it is, by rows', async () => {
    const steps = new Set<string>();
    await make(await withMail(3), {
      passphrase: null,
      progress: (step, done, total) => {
        steps.add(step);
        assert.ok(total === null || done <= total);
      },
    });
    assert.deepEqual([...steps], ['copying', 'checking']);
  });

  it('of a SQLite file goes into PostgreSQL, also one with an older schema, which is brought up to date', async () => {
    const old = await newBase();
    const pool = createPool(addressOf({ url: old }), 1, []);
    await makeSchema(pool, migrationNames.slice(0, 4));
    await pool('settings').insert({ name: 'epoch', value: '3' });
    await pool.destroy();
    // The database is older than the program, as before a migration, and so is its backup.
    let before: Extract<Made, { kind: 'made' }> | null = null;
    const db = await openDatabase({
      url: old,
      beforeMigration: async () => {
        before = await make(old, { kind: 'before-migration' });
      },
    });
    assert.deepEqual(db.migrated, migrationNames.slice(4));
    await db.close();
    const made = before as Extract<Made, { kind: 'made' }> | null;
    assert.ok(made !== null);
    assert.deepEqual(made.manifest.migrations, migrationNames.slice(0, 4));
    assert.equal(made.manifest.epoch, 3);
    const fresh = await newBase();
    assert.equal((await restore(made.folder, fresh, 'second')).kind, 'restored');
    assert.deepEqual(readdirSync(dataDirOf('second')).sort(), ['posthorn.lock', 'secret.key']);
    const opened = await openDatabase({ url: fresh });
    assert.deepEqual(opened.migrated, []);
    // Opening it has begun the next epoch.
    assert.deepEqual(await opened.reader('settings').select('name', 'value'), [{ name: 'epoch', value: '4' }]);
    await opened.close();
    assert.equal((await verifyBackup(made.folder, { passphrase: null })).kind, 'good', 'the backup is as it was');
  });

  it('is not restored into a database with rows, nor with other keys, and nothing is changed', async () => {
    const url = await withMail(2);
    const made = await make(url);
    const full = await restore(made.folder, url, 'third');
    assert.ok(full.kind === 'refused', JSON.stringify(full));
    assert.equal(full.why, 'not_empty');
    assert.ok(!existsSync(path.join(folder, 'third', 'secret.key')));
    openKeyring(dataDirOf('other'));
    const empty = await newBase();
    const other = await restore(made.folder, empty, 'other');
    assert.deepEqual([other.kind, other.kind === 'refused' && other.why], ['refused', 'other_keys']);
    await (await openDatabase({ url: empty })).close();
  });

  it('whose restore was broken off leaves a database that nothing opens, and is restored again', async () => {
    const made = await make(await withMail(5));
    const url = await newBase();
    const copy = path.join(made.folder, 'posthorn.db');
    await assert.rejects(
      restoreRows({ copy, storage: { url }, dataDir: dataDirOf('cut'), copying: undefined }, () =>
        Promise.reject(new Error('the disk is full')),
      ),
      /the disk is full/,
    );
    await assert.rejects(openDatabase({ url }), /is not complete/);
    assert.equal((await restore(made.folder, url, 'cut')).kind, 'restored');
    await (await openDatabase({ url })).close();
  });

  it('is refused without a folder left behind where there is no schema, or no server', async () => {
    const dir = path.join(folder, 'backups');
    const wish: BackupOptions = {
      storage: { url: await newBase() },
      dataDir: dataDirOf('first'),
      dir,
      minFreeBytes: 0,
      kind: 'posthorn',
      keep: 1,
      passphrase: null,
    };
    const made = await createBackup({ clock, version: '1.2.3' }, wish);
    assert.deepEqual([made.kind, made.kind === 'refused' && made.why], ['refused', 'no_database']);
    await assert.rejects(
      createBackup(
        { clock, version: '1.2.3' },
        { ...wish, storage: { url: 'postgres://posthorn@/none?host=/nowhere' } },
      ),
      /cannot be reached/,
    );
    assert.deepEqual(readdirSync(dir), ['backups.lock']);
  });
});
