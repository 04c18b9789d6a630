/** Every version's database can be brought up to date in one step, with every row of it as it was; and no newer one is touched. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Knex } from 'knex';
import { openKeyring } from '../../src/base/keyring.ts';
import { sealPurpose } from '../../src/domains/dkim-key.ts';
import { connect, openDatabase, openStill } from '../../src/storage/database.ts';
import { lockFolder } from '../../src/storage/folder-lock.ts';
import { migrate, migrationNames, migrations, UnsupportedSchema } from '../../src/storage/migrate.ts';
import { ran } from '../cli/ran.ts';
import { newFolder, startTestApp, zonesFor } from '../support/harness/app.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';

interface Column {
  name: string;
  type: string;
  pk: number;
}
type Row = Record<string, unknown>;

/** Tables of the database's own, whose rows other rows name. */
const inOrder = ['accounts', 'domains'];
const ROWS = 3;

/** The tables that the upgrade drops: those of features that are gone, and what bodies have in common. */
const dropped = [
  ...['content_bases', 'message_blocks', 'message_sets', 'message_changes', 'event_sums'],
  ...['resends', 'tls_sessions', 'tls_policies', 'tls_reports', 'source_blocks', 'holds', 'warm_up'],
];

/** Columns that another one took over, or that end with a failure whose records were found again. */
const replaced = new Set(['is_admin', 'base_id', 'found_again_at', 'failing_since', 'refused_at']);

/** The steps of the first version. */
const [first] = migrations;
const FIRST = '001-schema';

/** Makes a database as the first version left it. */
async function openOld(file: string): Promise<Knex> {
  const old = connect(file, 1, ['PRAGMA auto_vacuum = INCREMENTAL', 'PRAGMA journal_mode = WAL']);
  assert.equal(first?.name, FIRST);
  await migrate(old, { list: [first] });
  return old;
}

const tablesOf = async (knex: Knex): Promise<string[]> => {
  const rows = (await knex('sqlite_master')
    .select('name')
    .where({ type: 'table' })
    .whereNot('name', 'like', 'sqlite_%')
    .whereNot('name', 'like', 'migrations%')) as { name: string }[];
  const names = rows.map(({ name }) => name).sort();
  return [...inOrder.filter((name) => names.includes(name)), ...names.filter((name) => !inOrder.includes(name))];
};

const columnsOf = async (knex: Knex, table: string): Promise<Column[]> => await knex.raw(`PRAGMA table_info(${table})`);

/** A value that is unlike those of other rows and columns, and has the form that the column's name promises. */
function valueFor({ name, type }: Column, n: number): unknown {
  if (name.endsWith('_id') || name === 'id') return `${name.replace(/_id$/, '')}-${String(n)}`;
  if (name.endsWith('_json'))
    return name.includes('metadata') || name.includes('detail') ? `{"n":"${String(n)}"}` : `["${String(n)}"]`;
  if (/int|float|bool/i.test(type)) return n + 1;
  if (/blob/i.test(type)) return Buffer.from([n, 0, 255]);
  return `${name} ${String(n)}`;
}

async function fill(knex: Knex): Promise<void> {
  for (const table of await tablesOf(knex)) {
    const columns = await columnsOf(knex, table);
    for (let n = 0; n < ROWS; n++)
      await knex(table).insert(
        Object.fromEntries(
          columns.map((column) => [
            column.name,
            // Rows name each other: what an account is called elsewhere is its id here.
            column.name === 'id' && table === 'accounts'
              ? `account-${String(n)}`
              : column.name === 'id' && table === 'domains'
                ? `domain-${String(n)}`
                : column.name === 'id'
                  ? `${table}-${String(n)}`
                  : valueFor(column, n),
          ]),
        ),
      );
  }
}

async function everyRow(knex: Knex): Promise<Map<string, Row[]>> {
  const all = new Map<string, Row[]>();
  for (const table of await tablesOf(knex)) {
    // Not by rowid, which not every table has; the first column tells the rows that were filled in apart.
    const [first] = await columnsOf(knex, table);
    all.set(
      table,
      (await knex(table)
        .select('*')
        .orderBy(first?.name ?? '')) as Row[],
    );
  }
  return all;
}

/** Rows with the columns of `like` only: new columns are not a loss. */
const withColumnsOf = (rows: readonly Row[], like: readonly Row[]): Row[] =>
  rows.map((row) => Object.fromEntries(Object.keys(like[0] ?? {}).map((column) => [column, row[column]])));

const withoutReplaced = (rows: readonly Row[]): Row[] =>
  rows.map((row) => Object.fromEntries(Object.entries(row).filter(([column]) => !replaced.has(column))));

describe('upgrades', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = newFolder();
    file = path.join(folder, 'posthorn.db');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('from the first version keep every value of every table that stays', async () => {
    const old = await openOld(file);
    await fill(old);
    const before = await everyRow(old);
    await old.destroy();
    let copied = 0;
    const db = await openDatabase({
      url: `sqlite:${file}`,
      beforeMigration: () => {
        copied++;
        return Promise.resolve();
      },
    });
    assert.equal(copied, 1, 'the database was not copied first');
    assert.deepEqual(db.migrated, migrationNames.slice(1));
    const after = await everyRow(db.reader);
    assert.deepEqual(
      dropped.filter((table) => after.has(table)),
      [],
    );
    for (const [table, rows] of before)
      if (!dropped.includes(table)) {
        const kept = withoutReplaced(rows);
        assert.deepEqual(withColumnsOf(after.get(table) ?? [], kept), kept, `${table} has changed`);
      }
    assert.deepEqual(
      after
        .get('limits')
        ?.filter(({ set_by: by }) => by === 'receiver')
        .map(({ kind, site, source, until, cause }) => [kind, site, source, until, cause]),
      before.get('source_blocks')?.map(({ site, source, until, reply }) => ['block_list', site, source, until, reply]),
      'sources on block lists are among the limits',
    );
    assert.deepEqual(
      after
        .get('limits')
        ?.filter(({ set_by: by }) => by === 'operator')
        .map(({ id, until, cause, actor }) => [id, until, cause, actor]),
      before.get('holds')?.map(({ id, until, note, created_by: actor }) => [id, until, note, actor]),
      'and so are holds',
    );
    assert.deepEqual(
      after.get('limit_counts')?.map(({ subject, span, stage, sent }) => [subject, span, stage, sent]),
      before
        .get('warm_up')
        ?.map(({ source, site, day, stage, sent }) => [`${String(source)} ${String(site)}`, day, stage, sent]),
      'and the mails of warm-ups are counted on',
    );
    assert.deepEqual(
      after.get('members')?.map(({ role }) => role),
      ['administrator', 'developer', 'developer'],
      'administrators stay, and others keep the rights that they had',
    );
    assert.deepEqual(await db.reader.raw('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
    assert.deepEqual(await db.reader.raw('PRAGMA auto_vacuum'), [{ auto_vacuum: 2 }]);
    await db.close();
    const again = await openDatabase({ url: `sqlite:${file}` });
    assert.deepEqual(again.migrated, []);
    await again.close();
  });

  it('go on where one was killed: the lock that it left holds nobody up', async () => {
    const old = await openOld(file);
    await old('migrations_lock').update({ is_locked: 1 });
    await old.destroy();
    const db = await openDatabase({ url: `sqlite:${file}` });
    assert.deepEqual(db.migrated, migrationNames.slice(1));
    await db.close();
  });

  it('make the same tables, columns and indexes as a new database has', async () => {
    // ALTER TABLE keeps the spelling of the first statement, so quotes, spaces and case do not count.
    const schema = async (knex: Knex): Promise<string[]> => {
      const rows = (await knex('sqlite_master')
        .select('sql')
        .whereNotNull('sql')
        .whereNot('name', 'like', 'sqlite_%')
        .orderBy('name')) as { sql: string }[];
      return rows.map(({ sql }) => sql.replaceAll(/[`"'\s]/g, '').toLowerCase());
    };
    await (await openOld(file)).destroy();
    const old = await openDatabase({ url: `sqlite:${file}` });
    const fresh = await openDatabase({ url: `sqlite:${path.join(folder, 'fresh.db')}` });
    assert.deepEqual(await schema(old.reader), await schema(fresh.reader));
    await old.close();
    await fresh.close();
  });

  it('of a queue: mail that the first version took goes out under this one, and its copy is kept', async () => {
    // A whole program starts, with keys to make and a copy to check.
    const old = await openOld(file);
    const at = Date.parse('2026-01-31T09:29:00.000Z');
    const account = { id: 'acc_00000000000000000000000001', name: 'default', plan: 'unlimited', created_at: at };
    const message = {
      id: 'msg_01kg94000000000000000000001',
      account_id: account.id,
      content_id: 'cnt_1',
      from_address: 'hi@acme.test',
      from_domain: 'acme.test',
      to_address: 'ana@dest.test',
      cc_json: '[]',
      bcc_json: '[]',
      reply_to_json: '[]',
      subject: 'Hello',
      headers_json: '[]',
      stream: 'transactional',
      tags_json: '[]',
      metadata_json: '{}',
      track_opens: 0,
      track_clicks: 0,
      test: 0,
      rfc_message_id: '<a@acme.test>',
      created_at: at,
      status: 'queued',
      status_at: at,
      opens: 0,
      clicks: 0,
      bot_opens: 0,
      bot_clicks: 0,
    };
    await old('accounts').insert(account);
    await old('domains').insert({
      id: 'dom_1',
      account_id: account.id,
      name: 'acme.test',
      status: 'verified',
      trusted: 1,
      return_path: 'rp.acme.test',
      records_json: '[]',
      created_at: at,
      verified_at: at,
    });
    const id = 'dkm_1';
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    await old('dkim_keys').insert({
      id,
      domain_id: 'dom_1',
      selector: 's1',
      algorithm: 'rsa-sha256',
      state: 'active',
      created_at: at,
      active_at: at,
      private_key_sealed: openKeyring(folder).seal(
        sealPurpose(id),
        privateKey.export({ type: 'pkcs8', format: 'pem' }),
      ),
      public_key: publicKey.export({ type: 'spki', format: 'pem' }),
    });
    await old('contents').insert({
      id: 'cnt_1',
      account_id: account.id,
      text: 'Hello.',
      auto_text: 0,
      attachment_count: 0,
      created_at: at,
    });
    await old('messages').insert(message);
    await old('deliveries').insert({
      id: 'dlv_1',
      message_id: message.id,
      account_id: account.id,
      type: 'to',
      address: message.to_address,
      address_key: message.to_address,
      domain: 'dest.test',
      class: 0,
      test: 0,
      status: 'queued',
      status_at: at,
      due_at: at,
      queued_at: at,
      give_up_at: at + 3 * 86_400_000,
      attempt_count: 0,
      no_domain_count: 0,
    });
    await old('counters').insert({
      account_id: account.id,
      day: '2026-01-31',
      from_status: 'none',
      to_status: 'queued',
      n: 1,
    });
    await old.destroy();

    const server = await startMailServer();
    const test = await startTestApp({
      folder,
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { storage: { url: `sqlite:${path.join(folder, 'posthorn.db')}` } },
    });
    assert.deepEqual(test.app.migrated, migrationNames.slice(1));
    await test.settled();
    const [row] = await test.app.db.prepared.all<Row>('SELECT status FROM deliveries');
    assert.equal(row?.['status'], 'delivered');
    assert.equal(server.sessions.flatMap(({ mails }) => mails).length, 1);
    const { balanced, faults } = await test.operator.call('books', {});
    assert.ok(balanced, faults.join());
    await test.stop();
    await server.close();

    const backups = readdirSync(path.join(folder, 'backups')).filter((one) => one.startsWith('before-migration-'));
    assert.equal(backups.length, 1);
    const still = openStill(path.join(folder, 'backups', backups[0] ?? '', 'posthorn.db'));
    assert.deepEqual(await still('deliveries').select('status'), [{ status: 'queued' }]);
    await still.destroy();
    assert.ok(test.logged.some(({ event }) => event === 'backup_before_migration'));
  });

  it('do not begin where the copy before fails', async () => {
    await (await openOld(file)).destroy();
    const opening = openDatabase({
      url: `sqlite:${file}`,
      beforeMigration: () => Promise.reject(new Error('no room')),
    });
    await assert.rejects(opening, /no room/);
    const still = openStill(file);
    assert.equal((await still('migrations').select<Row[]>('name')).length, 1);
    await still.destroy();
  });

  it('posthorn migrate copies first and says where, unless the settings say otherwise', async () => {
    await (await openOld(file)).destroy();
    const first = await ran(['migrate'], { POSTHORN_DATA_DIR: folder });
    assert.equal(first.code, 0, first.notes);
    assert.match(first.notes, /copied to .*backups\/before-migration-\d{8}T\d{6}Z first/);
    const other = path.join(folder, 'other');
    await (await openOld(path.join(folder, 'other.db'))).destroy();
    const second = await ran(['migrate'], {
      POSTHORN_DATA_DIR: other,
      POSTHORN_STORAGE__URL: `sqlite:${path.join(folder, 'other.db')}`,
      POSTHORN_BACKUP__BEFORE_MIGRATION: 'false',
    });
    assert.deepEqual([second.code, second.notes, existsSync(path.join(other, 'backups'))], [0, '', false]);
  });

  it('are not run beside a server that stops or starts: its control socket is closed, but it has the folder', async () => {
    const env = { POSTHORN_DATA_DIR: folder };
    openKeyring(folder);
    const server = await lockFolder(folder);
    assert.ok(server);
    const refused = async (...args: string[]): Promise<void> => {
      const { code, notes } = await ran(args, env);
      assert.equal(code, 73, `${args.join(' ')}: ${notes}`);
      assert.match(notes, /^posthorn: the database cannot be made or migrated now: a server that starts or stops/);
    };
    await refused('accounts', 'add', 'Acme');
    await refused('migrate');
    assert.equal(existsSync(file), false, 'no database is made beside it');
    await (await openOld(file)).destroy();
    assert.equal((await ran(['accounts', 'list'], env)).code, 66, 'a command that only looks migrates nothing');
    await refused('accounts', 'add', 'Acme');
    await refused('migrate');
    const still = openStill(file);
    assert.equal((await still('migrations').select<Row[]>('name')).at(-1)?.['name'], FIRST);
    await still.destroy();
    assert.equal(existsSync(path.join(folder, 'backups')), false);

    await server.release();
    assert.equal((await ran(['accounts', 'add', 'Acme'], env)).code, 0);
    const next = await lockFolder(folder);
    assert.ok(next, 'the command has released the folder');
    assert.equal((await ran(['accounts', 'list'], env)).code, 0, 'a database that is up to date can be read beside it');
    await refused('migrate');
    await next.release();
  });

  it('are not run by a backup or a restore, which then have no line in the audit', async () => {
    await (await openOld(file)).destroy();
    openKeyring(folder);
    const passphrase = { POSTHORN_BACKUP__PASSPHRASE: 'correct horse battery' };
    const made = await ran(['backup', 'create', '--json'], { POSTHORN_DATA_DIR: folder, ...passphrase });
    assert.equal(made.code, 0, made.notes);
    const { backup } = JSON.parse(made.out) as { backup: string };
    const there = path.join(folder, 'there');
    const restored = await ran(['backup', 'restore', backup], { POSTHORN_DATA_DIR: there, ...passphrase });
    assert.equal(restored.code, 0, restored.notes);
    for (const one of [file, path.join(there, 'posthorn.db')]) {
      const still = openStill(one);
      assert.equal((await still('migrations').select<Row[]>('name')).at(-1)?.['name'], FIRST);
      assert.equal((await still('audit')).length, 0);
      await still.destroy();
    }
    // Any command that changes something takes the database over, and notes it.
    assert.equal((await ran(['accounts', 'add', 'Acme'], { POSTHORN_DATA_DIR: there })).code, 0);
    const { out } = await ran(['audit', '--server', '--json'], { POSTHORN_DATA_DIR: there });
    const entries = (JSON.parse(out) as { data: { summary: string; method: string }[] }).data;
    const entry = entries.find(({ summary }) => summary === 'brought the database up to date');
    assert.equal(entry?.method, 'CLI');
  });

  it('refuse the database of a later version, by name and with exit code 78', async () => {
    const db = await openDatabase({ url: `sqlite:${file}` });
    await db.commit.transact((tx) =>
      tx.run("INSERT INTO migrations (name, batch, migration_time) VALUES ('999-later', 9, 0)"),
    );
    await db.close();
    await assert.rejects(openDatabase({ url: `sqlite:${file}` }), UnsupportedSchema);
    const { code, notes } = await ran(['migrate'], { POSTHORN_DATA_DIR: folder });
    assert.deepEqual(
      [code, notes.startsWith('posthorn: the database was changed by a later version (999-later)')],
      [78, true],
    );
  });
});
