/** A backup taken while mail comes in and goes out, brought to life elsewhere: nothing lost, nothing twice. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createBackup, type Made } from '../../src/backup/create.ts';
import { restoreBackup } from '../../src/backup/restore.ts';
import { openStill } from '../../src/storage/database.ts';
import {
  configFor,
  makeStore,
  newFolder,
  startTestApp,
  TestClock,
  zonesFor,
  type TestApp,
} from '../support/harness/app.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { ran } from '../cli/ran.ts';

const PASSPHRASE = 'correct horse battery';
const MINUTE = 60_000;

describe('journey: backup', () => {
  let server: FakeMailServer;
  let folder: string;
  let clock: TestClock;
  const running = new Set<TestApp>();

  before(function () {
    if (isOnPostgres) this.skip('PostgreSQL has its own: test/journeys/postgres-dump.test.ts');
  });
  beforeEach(async () => {
    server = await startMailServer();
    folder = newFolder();
    clock = new TestClock();
  });
  afterEach(async () => {
    for (const app of running) await app.stop();
    running.clear();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  async function start(name: string): Promise<TestApp> {
    const at = path.join(folder, name);
    mkdirSync(at, { recursive: true });
    const app = await startTestApp({ folder: at, clock, mailPort: server.port, zones: zonesFor('dest.test') });
    running.add(app);
    return app;
  }
  async function stop(app: TestApp): Promise<void> {
    running.delete(app);
    await app.stop();
  }
  /** The Message-ID of every mail that was taken so far. */
  const arrived = (): string[] =>
    server.sessions.flatMap(({ mails }) => mails).map(({ data }) => /^message-id: *(<[^>]+>)/im.exec(data)?.[1] ?? '');

  const backup = async (of: TestApp, dir: string): Promise<Extract<Made, { kind: 'made' }>> => {
    const made = await createBackup(
      { clock, version: '1.0.0' },
      {
        storage: of.config.storage,
        dataDir: of.folder,
        dir,
        minFreeBytes: 0,
        kind: 'posthorn',
        keep: 7,
        passphrase: PASSPHRASE,
      },
    );
    assert.ok(made.kind === 'made', JSON.stringify(made));
    return made;
  };
  async function revive(from: string, name: string): Promise<TestApp> {
    const dataDir = path.join(folder, name);
    mkdirSync(dataDir);
    await makeStore(dataDir);
    const { storage } = configFor(dataDir, server.port);
    const restored = await restoreBackup({ folder: from, storage, dataDir, passphrase: PASSPHRASE });
    assert.equal(restored.kind, 'restored', JSON.stringify(restored));
    return start(name);
  }
  async function untilAllEnded(app: TestApp): Promise<void> {
    for (let round = 0; round < 20; round++) {
      await app.settled();
      const [row] = await app.app.db.prepared.all<{ n: number }>(
        'SELECT COUNT(*) AS n FROM deliveries WHERE due_at IS NOT NULL',
      );
      if (row?.n === 0) return;
      clock.advance(40 * MINUTE);
    }
    assert.fail('mail still waits');
  }

  it('taken under load and restored elsewhere: books balance, nothing is sent again, what waited goes out', async () => {
    // Every third mail is deferred the first time, so that all kinds of mail are in the copy.
    let seen = 0;
    server.options.script = { rcpt: () => (seen++ % 3 === 0 ? '451 4.3.0 later' : '250 2.1.5 ok') };
    const first = await start('first');
    const waiting = await first.send({
      to: 'later@dest.test',
      send_at: new Date(clock.now() + 30 * MINUTE).toISOString(),
    });
    const before = Array.from({ length: 40 }, (_, n) => first.send({ to: `a${String(n)}@dest.test` }));
    await server.reached('message', 5);
    // Mail that the host has taken is known as delivered only when that is written, and the copy may be made sooner.
    let delivered = 0;
    while (delivered === 0) {
      const [row] = await first.app.db.prepared.all<{ n: number }>(
        "SELECT COUNT(*) AS n FROM deliveries WHERE status = 'delivered'",
      );
      delivered = row?.n ?? 0;
    }
    const during = Array.from({ length: 40 }, (_, n) => first.send({ to: `b${String(n)}@dest.test` }));
    const made = await backup(first, path.join(folder, 'backups'));
    const sent = await Promise.all([...before, ...during]);
    await stop(first);

    const still = openStill(path.join(made.folder, 'posthorn.db'));
    const copied = await still('messages as m')
      .join('deliveries as d', 'd.message_id', 'm.id')
      .select<{ id: string; rfc_message_id: string; status: string }[]>('m.id', 'm.rfc_message_id', 'd.status');
    await still.destroy();
    const finished = copied.filter(({ status }) => status === 'delivered').map((row) => row.rfc_message_id);
    const open = copied.filter(({ status }) => status !== 'delivered').map((row) => row.rfc_message_id);
    assert.ok(finished.length >= 1, 'the copy knows of delivered mail');
    assert.ok(open.length >= 1, 'the copy knows of mail that waits');
    assert.ok(copied.length <= sent.length + 1);
    assert.equal(made.manifest.counts.waiting, open.length);

    const already = arrived().length;
    server.options.script = {};
    const second = await revive(made.folder, 'second');
    await untilAllEnded(second);
    const again = arrived().slice(already);
    assert.deepEqual(
      again.filter((id) => finished.includes(id)),
      [],
      'sent again, although the copy knew',
    );
    assert.deepEqual([...again].sort(), [...open].sort(), 'each that waited, once');
    assert.ok(again.includes(waiting.rfc_message_id));
    const { balanced, faults } = await second.operator.call('books', {});
    assert.ok(balanced, faults.join());
    // The keys came along: mail is signed, and the old API key opens.
    assert.equal((await second.get(`/v1/messages/${waiting.id}`)).body['status'], 'delivered');
  });

  it('moving: stop, back up, restore; the old sent everything that the new does not', async () => {
    const first = await start('first');
    const now = await first.send();
    await first.follow().of(now.id, 'delivered');
    const later = await first.send({ to: 'bo@dest.test', send_at: new Date(clock.now() + MINUTE).toISOString() });
    await stop(first);
    const made = await backup(first, path.join(folder, 'backups'));
    const second = await revive(made.folder, 'second');
    clock.advance(2 * MINUTE);
    await second.follow().of(later.id, 'delivered');
    assert.deepEqual(arrived().sort(), [now.rfc_message_id, later.rfc_message_id].sort());
    // Events that were read before the move are not read twice: the place in the log is the same.
    const events = (
      await second
        .follow()
        .until((all) => all.some(({ data }) => data.message_id === later.id && data.status === 'delivered'))
    ).map(({ sequence }) => sequence);
    assert.deepEqual(events, [...new Set(events)]);
  });

  it('posthorn backup: create, verify and restore, with progress, JSON and exit codes', async () => {
    // The passphrase is made slow on purpose, and is used five times.
    const first = await start('first');
    const { id } = await first.send();
    await first.follow().of(id, 'delivered');
    const env = { POSTHORN_DATA_DIR: first.folder, POSTHORN_BACKUP__PASSPHRASE: PASSPHRASE };
    const created = await ran(['backup', 'create', '--json'], env);
    assert.equal(created.code, 0, created.notes);
    const record = JSON.parse(created.out) as { backup: string; counts: { messages: number }; removed: string[] };
    assert.deepEqual([record.counts.messages, record.removed], [1, []]);
    assert.equal(path.dirname(record.backup), path.join(first.folder, 'backups'));

    const verified = await ran(['backup', 'verify', record.backup], env);
    assert.match(
      verified.out,
      /whole, 1 message, 0 recipients waiting.*\nkeys: the passphrase opens them\nthe books balance: 1 /,
    );
    const { POSTHORN_DATA_DIR: _, ...elsewhere } = { ...env, POSTHORN_BACKUP__PASSPHRASE: 'wrong passphrase' };
    const wrong = await ran(['backup', 'verify', record.backup, '--json'], { ...elsewhere, POSTHORN_DATA_DIR: folder });
    assert.deepEqual(
      [wrong.code, JSON.parse(wrong.out)],
      [
        77,
        {
          backup: record.backup,
          ok: false,
          why: 'wrong_passphrase',
          faults: ['the passphrase does not open the keys'],
        },
      ],
    );
    const inPlace = await ran(['backup', 'restore', record.backup], env);
    assert.equal(inPlace.code, 73);
    assert.match(inPlace.notes, /posthorn\.db already exists/);

    const moved = await ran(['backup', 'restore', record.backup], {
      ...env,
      POSTHORN_DATA_DIR: path.join(folder, 'moved'),
    });
    assert.equal(moved.code, 0, moved.notes);
    assert.match(moved.out, /^restored into .*moved: 1 message,.*\nkeys: restored\n/);
    const older = path.join(path.dirname(record.backup), 'posthorn-20200101T000000Z');
    cpSync(record.backup, older, { recursive: true });
    writeFileSync(path.join(older, 'SHA256SUMS'), '');
    const faulty = await ran(['backup', 'verify', older, '--json'], env);
    assert.deepEqual([faulty.code, (JSON.parse(faulty.out) as { ok: boolean }).ok], [1, false]);
    assert.equal((await ran(['backup', 'verify', older, record.backup], env)).code, 64);
    const none = await ran(['backup', 'create'], { POSTHORN_DATA_DIR: path.join(folder, 'nowhere') });
    assert.equal(none.code, 66);
    const refused = await ran(['backup', 'create', '--json'], { POSTHORN_DATA_DIR: path.join(folder, 'nowhere') });
    const { faults, ...why } = JSON.parse(refused.out) as { faults: string[] };
    assert.deepEqual([refused.code, why], [66, { backup: null, ok: false, why: 'no_database' }]);
    assert.match(faults.join(), /^there is no database at /);
    const damaged = await ran(['backup', 'restore', older, '--json'], { POSTHORN_DATA_DIR: path.join(folder, 'n3') });
    assert.deepEqual([damaged.code, (JSON.parse(damaged.out) as { why: string }).why], [1, 'damaged']);
    const short = await ran(['backup', 'verify', record.backup, '--passphrase-file', path.join(folder, 'none')], env);
    assert.deepEqual([short.code, short.notes.includes('there is no file')], [66, true]);
    const unreadable = await ran(['backup', 'verify', record.backup, '--passphrase-file', folder], env);
    assert.deepEqual([unreadable.code, unreadable.notes.includes(`${folder} cannot be read: EISDIR`)], [65, true]);
    const keyless = await ran(['backup', 'create', path.join(folder, 'other')], { POSTHORN_DATA_DIR: first.folder });
    assert.deepEqual([keyless.code, keyless.notes.includes('without the keys')], [0, true]);
  });
});
