import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createBackup, type BackupOptions, type Made } from '../../src/backup/create.ts';
import { Manifest, sumsText } from '../../src/backup/manifest.ts';
import { restoreBackup, type Restored } from '../../src/backup/restore.ts';
import { verifyBackup } from '../../src/backup/verify.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { sha256Hex } from '../../src/base/secret.ts';
import { BACKUPS_LOCK, lockFolder } from '../../src/storage/folder-lock.ts';
import { newFolder } from '../support/harness/app.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { acceptedMail } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const PASSPHRASE = 'correct horse battery';

describe('backup', () => {
  let temp: TempDatabase;
  let folder: string;
  /** A good backup with keys, made once: each test that harms one harms a copy of it. */
  let good: string;
  const clock = new FakeClock();
  const deps = { clock, version: '1.2.3' };
  const wish = (changes: Partial<BackupOptions> = {}): BackupOptions => ({
    storage: { url: `sqlite:${path.join(temp.folder, 'posthorn.db')}` },
    dataDir: temp.folder,
    dir: path.join(folder, 'backups'),
    minFreeBytes: 0,
    kind: 'posthorn',
    keep: 3,
    passphrase: PASSPHRASE,
    ...changes,
  });
  const make = async (changes: Partial<BackupOptions> = {}): Promise<Extract<Made, { kind: 'made' }>> => {
    const made = await createBackup(deps, wish(changes));
    assert.equal(made.kind, 'made', JSON.stringify(made));
    return made;
  };

  before(async () => {
    temp = await openTempDatabase();
    folder = newFolder();
    openKeyring(temp.folder);
    for (let n = 0; n < 50; n++) await temp.db.commit.insert([acceptedMail({})].map(({ rows }) => rows)[0] ?? {});
    good = (await make()).folder;
  });
  after(async () => {
    await temp.close();
    rmSync(folder, { recursive: true });
  });

  /** A copy of the good backup that something has happened to. */
  let copies = 0;
  function harmed(harm: (at: string) => void): string {
    const at = path.join(folder, `harmed-${String(copies++)}`);
    cpSync(good, at, { recursive: true });
    harm(at);
    return at;
  }

  describe('create', () => {
    it('leaves a folder for its owner only, with database, keys, manifest and sums that sha256sum reads', () => {
      assert.deepEqual(readdirSync(good).sort(), ['SHA256SUMS', 'manifest.json', 'posthorn.db', 'secret.key.enc']);
      assert.equal(statSync(good).mode & 0o777, 0o700);
      for (const name of readdirSync(good)) assert.equal(statSync(path.join(good, name)).mode & 0o777, 0o600, name);
      const manifest = Manifest.parse(JSON.parse(readFileSync(path.join(good, 'manifest.json'), 'utf8')));
      assert.deepEqual(manifest.counts, { accounts: 0, messages: 50, recipients: 50, waiting: 50, events: 0 });
      assert.deepEqual([manifest.version, manifest.books], ['1.2.3', { balanced: true, accepted: 50 }]);
      const sums = ['posthorn.db', 'secret.key.enc', 'manifest.json'].map(
        (name) => [name, sha256Hex(readFileSync(path.join(good, name)))] as const,
      );
      assert.equal(readFileSync(path.join(good, 'SHA256SUMS'), 'utf8'), sumsText(new Map(sums)));
    });

    it('holds no master key in clear', () => {
      const [, , secret = ''] = readFileSync(path.join(temp.folder, 'secret.key'), 'utf8')
        .trim()
        .split(/\s(?=\S+$)|\n/);
      assert.ok(secret.length >= 43, secret);
      for (const name of readdirSync(good)) assert.ok(!readFileSync(path.join(good, name)).includes(secret), name);
    });

    it('without a passphrase leaves the keys out, and says so in its files', async () => {
      const { folder: made, manifest } = await make({ dir: path.join(folder, 'keyless'), passphrase: null });
      assert.deepEqual(readdirSync(made).sort(), ['SHA256SUMS', 'manifest.json', 'posthorn.db']);
      assert.deepEqual(manifest.key_ids, openKeyring(temp.folder).keyIds);
    });

    it('keeps the newest of its kind, touches nothing else, and clears what was cut short', async () => {
      const dir = path.join(folder, 'kept');
      mkdirSync(path.join(dir, '.partial-posthorn-20200101T000000Z'), { recursive: true });
      mkdirSync(path.join(dir, 'posthorn-of-mine'));
      const other = await make({ dir, kind: 'before-migration', passphrase: null });
      const names: string[] = [];
      for (let n = 0; n < 4; n++) {
        clock.advance(1000);
        names.push(path.basename((await make({ dir, keep: 2, passphrase: null })).folder));
      }
      assert.deepEqual(
        readdirSync(dir).sort(),
        [path.basename(other.folder), 'posthorn-of-mine', 'backups.lock', ...names.slice(2)].sort(),
      );
    });

    it('keeps what it has just made where older ones were made while the clock was ahead', async () => {
      const dir = path.join(folder, 'ahead');
      const ahead = { ...deps, clock: new FakeClock(clock.now() + 5 * 365 * 86_400_000) };
      for (let n = 0; n < 2; n++) {
        ahead.clock.advance(1000);
        await createBackup(ahead, wish({ dir, keep: 2, passphrase: null }));
      }
      const made: Extract<Made, { kind: 'made' }>[] = [];
      for (let n = 0; n < 2; n++) {
        clock.advance(1000);
        made.push(await make({ dir, keep: 2, passphrase: null }));
      }
      assert.deepEqual(
        readdirSync(dir).sort(),
        ['backups.lock', ...made.map((one) => path.basename(one.folder))].sort(),
      );
    });

    it('tells how far it is', async () => {
      const steps: string[] = [];
      const ticking = new FakeClock();
      const progress = (step: string, done: number, total: number | null): void => {
        steps.push(step);
        assert.ok(total === null || done <= total);
      };
      const making = createBackup(
        { ...deps, clock: ticking },
        wish({ dir: path.join(folder, 'told'), passphrase: null, progress }),
      );
      await making;
      assert.equal(steps.at(-1), 'checking');
      assert.deepEqual([...new Set(steps)], ['copying', 'checking']);
      assert.equal(ticking.nextAt(), null);
    });

    it('is refused where the disk fills up, and leaves nothing', async () => {
      const dir = path.join(folder, 'full');
      const now = (): never => {
        throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
      };
      const made = await createBackup(
        { ...deps, clock: Object.assign(new FakeClock(), { now }) },
        wish({ dir, passphrase: null }),
      );
      assert.ok(made.kind === 'refused' && made.why === 'no_room', JSON.stringify(made));
      assert.match(made.text, /^there is no room for a backup in .*full \(ENOSPC: .*\): make room there$/);
      assert.deepEqual(readdirSync(dir), ['backups.lock']);
    });

    it('is refused where there is no database, and makes no folder', async () => {
      const dir = path.join(folder, 'nothing');
      const made = await createBackup(deps, wish({ storage: { url: `sqlite:${path.join(folder, 'none.db')}` }, dir }));
      assert.deepEqual(
        [made.kind, made.kind === 'refused' && made.why, existsSync(dir)],
        ['refused', 'no_database', false],
      );
    });

    it('is refused where it would leave the server too little room for mail, beside the data only', async () => {
      const dir = path.join(temp.folder, 'backups');
      const { bavail, bsize } = statfsSync(temp.folder);
      // One copy leaves more than this free, but not twice as much.
      const minFreeBytes = Math.floor(bavail * bsize * 0.6);
      const made = await createBackup(deps, wish({ dir, minFreeBytes, passphrase: null }));
      assert.ok(made.kind === 'refused' && made.why === 'no_room', JSON.stringify(made));
      assert.match(
        made.text,
        /must stay free, as .* the disk of the data.*minFreeBytes.*another disk \(backup\.dir\)$/,
      );
      assert.deepEqual(readdirSync(dir), ['backups.lock']);
      rmSync(dir, { recursive: true });
      const elsewhere = ['/dev/shm', os.tmpdir(), process.cwd()].find(
        (one) => existsSync(one) && statSync(one).dev !== statSync(temp.folder).dev,
      );
      if (elsewhere === undefined) return;
      const other = mkdtempSync(path.join(elsewhere, 'ph-backup-'));
      try {
        await make({ dir: other, minFreeBytes, passphrase: null });
      } finally {
        rmSync(other, { recursive: true });
      }
    });

    it('is refused while another is made in the same folder', async () => {
      const lock = await lockFolder(path.join(folder, 'backups'), BACKUPS_LOCK);
      const made = await createBackup(deps, wish());
      assert.deepEqual([made.kind, made.kind === 'refused' && made.why], ['refused', 'busy']);
      await lock?.release();
    });

    it('may be made in the data folder of a server that runs', async () => {
      const dir = newFolder();
      for (const name of readdirSync(temp.folder)) cpSync(path.join(temp.folder, name), path.join(dir, name));
      const lock = await lockFolder(dir);
      const made = await make({
        storage: { url: `sqlite:${path.join(dir, 'posthorn.db')}` },
        dataDir: dir,
        dir,
        keep: 1,
      });
      assert.deepEqual([path.dirname(made.folder), made.removed], [dir, []]);
      await lock?.release();
      rmSync(dir, { recursive: true });
    });

    it('is refused, with nothing left behind, where the database is damaged', async () => {
      const at = path.join(folder, 'broken');
      mkdirSync(at);
      cpSync(path.join(good, 'posthorn.db'), path.join(at, 'posthorn.db'));
      const size = statSync(path.join(at, 'posthorn.db')).size;
      const bytes = readFileSync(path.join(at, 'posthorn.db'));
      bytes.fill(0x55, Math.floor(size / 3), Math.floor(size / 2));
      writeFileSync(path.join(at, 'posthorn.db'), bytes);
      const dir = path.join(at, 'backups');
      const made = await createBackup(
        deps,
        wish({ storage: { url: `sqlite:${path.join(at, 'posthorn.db')}` }, dir, passphrase: null }),
      ).catch((error: unknown) => error);
      // SQLite may find it while it copies or when the copy is read.
      assert.ok(made instanceof Error || (made as Made).kind === 'refused', JSON.stringify(made));
      assert.deepEqual(readdirSync(dir), ['backups.lock']);
    });
  });

  describe('verify', () => {
    it('finds a good one good, without and with the passphrase', async () => {
      const closed = await verifyBackup(good, { passphrase: null });
      assert.deepEqual([closed.kind, closed.kind === 'good' && closed.keys.kind], ['good', 'closed']);
      const opened = await verifyBackup(good, { passphrase: PASSPHRASE });
      assert.ok(opened.kind === 'good' && opened.keys.kind === 'opened');
      assert.equal(opened.keys.text, readFileSync(path.join(temp.folder, 'secret.key'), 'utf8'));
      assert.deepEqual(opened.unbalanced, []);
    });

    it('writes nothing: it works on what may only be read', async () => {
      const at = harmed((copy) => {
        for (const name of readdirSync(copy)) chmodSync(path.join(copy, name), 0o400);
        chmodSync(copy, 0o500);
      });
      const before = readdirSync(at);
      assert.equal((await verifyBackup(at, { passphrase: null })).kind, 'good');
      assert.deepEqual(readdirSync(at), before);
      chmodSync(at, 0o700);
    });

    it('tells a wrong passphrase from damage', async () => {
      assert.deepEqual(await verifyBackup(good, { passphrase: 'another passphrase' }), { kind: 'wrong_passphrase' });
    });

    const flip = (name: string, place: (size: number) => number) => (at: string) => {
      const file = path.join(at, name);
      const bytes = readFileSync(file);
      const where = place(bytes.length);
      bytes[where] = (bytes[where] ?? 0) ^ 0x01;
      writeFileSync(file, bytes);
    };
    /** Writes the checksums again, as a person would who has changed a file. */
    const resum = (at: string, change: (manifest: Record<string, unknown>) => void): void => {
      const manifest = JSON.parse(readFileSync(path.join(at, 'manifest.json'), 'utf8')) as Record<string, unknown>;
      change(manifest);
      writeFileSync(path.join(at, 'manifest.json'), JSON.stringify(manifest));
      const names = readdirSync(at).filter((name) => name !== 'SHA256SUMS');
      const sums = names.map((name) => [name, sha256Hex(readFileSync(path.join(at, name)))] as const);
      writeFileSync(path.join(at, 'SHA256SUMS'), sumsText(new Map(sums)));
    };
    for (const [reason, harm, fault] of [
      ['a byte of the database', flip('posthorn.db', (size) => Math.floor(size / 2)), /posthorn\.db was changed/],
      ['the first byte of the database', flip('posthorn.db', () => 0), /posthorn\.db was changed/],
      ['a byte of the keys', flip('secret.key.enc', (size) => size - 5), /secret\.key\.enc was changed/],
      ['a byte of the manifest', flip('manifest.json', () => 40), /manifest\.json was changed/],
      ['a byte of a sum', flip('SHA256SUMS', () => 3), /has another sum|not checksums|was changed/],
      [
        'a database cut short',
        (at: string) => truncateSync(path.join(at, 'posthorn.db'), 8192),
        /posthorn\.db was changed/,
      ],
      [
        'a database grown longer',
        (at: string) => appendFileSync(path.join(at, 'posthorn.db'), 'x'),
        /posthorn\.db was changed/,
      ],
      ['no database', (at: string) => rmSync(path.join(at, 'posthorn.db')), /posthorn\.db is missing/],
      ['no keys', (at: string) => rmSync(path.join(at, 'secret.key.enc')), /secret\.key\.enc is missing/],
      ['no manifest', (at: string) => rmSync(path.join(at, 'manifest.json')), /manifest\.json is missing/],
      ['no sums', (at: string) => rmSync(path.join(at, 'SHA256SUMS')), /is not a backup: SHA256SUMS/],
      ['sums without a last line end', (at: string) => truncateSync(path.join(at, 'SHA256SUMS'), 70), /not checksums/],
      [
        'a manifest of a later form, soundly summed',
        (at: string) => resum(at, (manifest) => (manifest['format'] = 2)),
        /format that this version does not know/,
      ],
      [
        'counts that are not those of the database, soundly summed',
        (at: string) => resum(at, (manifest) => ((manifest['counts'] as { messages: number }).messages = 51)),
        /does not match manifest\.json/,
      ],
      [
        'keys that are not those of the manifest, soundly summed',
        (at: string) => resum(at, (manifest) => (manifest['key_ids'] = ['another'])),
        /secret\.key\.enc holds other keys/,
      ],
      [
        'a database that is damaged and soundly summed',
        (at: string) => {
          const file = path.join(at, 'posthorn.db');
          const bytes = readFileSync(file);
          bytes.fill(0x55, Math.floor(bytes.length / 3), Math.floor(bytes.length / 2));
          writeFileSync(file, bytes);
          resum(at, () => undefined);
        },
        /^posthorn\.db: /,
      ],
      [
        'a name that leads out of the folder',
        (at: string) => appendFileSync(path.join(at, 'SHA256SUMS'), `${'0'.repeat(64)}  ../x\n`),
        /not checksums/,
      ],
    ] as const) {
      it(`refuses ${reason}`, async () => {
        const verified = await verifyBackup(harmed(harm), { passphrase: PASSPHRASE });
        assert.equal(verified.kind, 'damaged');
        assert.match(verified.faults.join('\n'), fault);
      });
    }

    it('refuses a folder that is none', async () => {
      const verified = await verifyBackup(path.join(folder, 'nowhere'), { passphrase: null });
      assert.equal(verified.kind, 'damaged');
    });

    it('finds books that do not balance, in a copy that is whole', async () => {
      const other = await openTempDatabase();
      const { rows } = acceptedMail({});
      await other.db.commit.insert({ ...rows, counters: [] });
      const made = await createBackup(
        deps,
        wish({
          storage: { url: `sqlite:${path.join(other.folder, 'posthorn.db')}` },
          dataDir: other.folder,
          dir: path.join(folder, 'unbalanced'),
        }),
      );
      assert.ok(made.kind === 'made' && made.unbalanced.length > 0);
      const verified = await verifyBackup(made.folder, { passphrase: null });
      assert.ok(verified.kind === 'good');
      assert.deepEqual(verified.unbalanced, ['queued: 0 by the counters, 1 by the rows']);
      await other.close();
    });
  });

  describe('restore', () => {
    let places = 0;
    const into = (
      changes: { backup?: string; passphrase?: string | null; dataDir?: string } = {},
    ): Promise<Restored> => {
      const dataDir = changes.dataDir ?? path.join(folder, `data-${String(places++)}`);
      return restoreBackup({
        folder: changes.backup ?? good,
        storage: { url: `sqlite:${path.join(dataDir, 'posthorn.db')}` },
        dataDir,
        passphrase: changes.passphrase === undefined ? PASSPHRASE : changes.passphrase,
      });
    };
    const why = (restored: Restored): string => (restored.kind === 'refused' ? restored.why : restored.kind);

    it('puts database and keys into an empty folder, for their owner only', async () => {
      const dataDir = path.join(folder, 'new');
      const restored = await into({ dataDir });
      assert.ok(restored.kind === 'restored' && restored.keys === 'restored');
      assert.deepEqual(readdirSync(dataDir).sort(), ['posthorn.db', 'posthorn.lock', 'secret.key']);
      for (const name of ['posthorn.db', 'secret.key'])
        assert.equal(statSync(path.join(dataDir, name)).mode & 0o777, 0o600, name);
      assert.deepEqual(readFileSync(path.join(dataDir, 'posthorn.db')), readFileSync(path.join(good, 'posthorn.db')));
      assert.equal(why(await into({ dataDir })), 'not_empty');
    });

    it('takes keys that are there already, where they are the right ones', async () => {
      const dataDir = path.join(folder, 'keys-there');
      mkdirSync(dataDir);
      cpSync(path.join(temp.folder, 'secret.key'), path.join(dataDir, 'secret.key'));
      const restored = await into({ dataDir, passphrase: null });
      assert.ok(restored.kind === 'restored' && restored.keys === 'found');
    });

    it('can be repeated after it was cut short', async () => {
      const dataDir = path.join(folder, 'cut');
      mkdirSync(dataDir);
      writeFileSync(path.join(dataDir, 'posthorn.db.restoring'), 'half');
      assert.equal((await into({ dataDir })).kind, 'restored');
      assert.ok(!existsSync(path.join(dataDir, 'posthorn.db.restoring')));
    });

    it('refuses other keys, no passphrase, a wrong one, and no keys at all, and leaves no database', async () => {
      const other = path.join(folder, 'other-keys');
      openKeyring(other);
      assert.equal(why(await into({ dataDir: other })), 'other_keys');
      assert.ok(!existsSync(path.join(other, 'posthorn.db')));
      assert.equal(why(await into({ passphrase: null })), 'no_passphrase');
      assert.equal(why(await into({ passphrase: 'another passphrase' })), 'wrong_passphrase');
      const keyless = (await make({ dir: path.join(folder, 'keyless-2'), passphrase: null })).folder;
      assert.equal(why(await into({ backup: keyless })), 'no_keys');
    });

    it('refuses a damaged backup', async () => {
      const bad = harmed((at) => truncateSync(path.join(at, 'posthorn.db'), 4096));
      assert.equal(why(await into({ backup: bad })), 'damaged');
    });

    it('refuses a folder that a server runs on', async () => {
      const dataDir = path.join(folder, 'in-use');
      mkdirSync(dataDir);
      const lock = await lockFolder(dataDir);
      assert.equal(why(await into({ dataDir })), 'in_use');
      await lock?.release();
    });

    it('refuses the backup of a later version', async () => {
      const other = await openTempDatabase();
      await other.db.commit.transact((tx) =>
        tx.run("INSERT INTO migrations (name, batch, migration_time) VALUES ('999-later', 9, 0)"),
      );
      const { folder: later } = await make({
        storage: { url: `sqlite:${path.join(other.folder, 'posthorn.db')}` },
        dir: path.join(folder, 'later'),
      });
      const restored = await into({ backup: later });
      assert.equal(why(restored), 'newer');
      assert.ok(restored.kind === 'refused' && restored.text.includes('999-later'));
      await other.close();
    });
  });
});
