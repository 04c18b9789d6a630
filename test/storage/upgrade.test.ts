/** Every version's database can be brought up to date in one step, with every row of it as it was; and no newer one is touched. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import knexPackage, { type Knex } from 'knex';
import { openKeyring } from '../../src/base/keyring.ts';
import { sealPurpose } from '../../src/domains/dkim-key.ts';
import { openStill } from '../../src/storage/copy.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { statTypes } from '../../src/storage/tables.ts';
import { migrateTo, migrationNames, NewerDatabase } from '../../src/storage/migrate.ts';
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
/** Tables that later versions do not have: what they held was made from rows of other tables. */
const dropped = ['message_blocks', 'message_sets', 'message_changes', 'event_sums'];

/** A database as the version left it whose last migration was this. */
async function openAt(file: string, name: string): Promise<Knex> {
  const knex = knexPackage({
    client: 'sqlite3',
    connection: { filename: file },
    useNullAsDefault: true,
    pool: { min: 1, max: 1 },
  });
  await knex.raw('PRAGMA auto_vacuum = INCREMENTAL');
  await knex.raw('PRAGMA journal_mode = WAL');
  await migrateTo(knex, name);
  return knex;
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
function valueFor(table: string, { name, type }: Column, n: number): unknown {
  // Of kinds that nobody knows there are no numbers.
  if (table === 'stats' && name === 'type') return statTypes[n];
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
                  : valueFor(table, column, n),
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

/** Rows with the columns of `like` only: columns that came are no loss. */
const withColumnsOf = (rows: readonly Row[], like: readonly Row[]): Row[] =>
  rows.map((row) => Object.fromEntries(Object.keys(like[0] ?? {}).map((column) => [column, row[column]])));

/** The row of `stats` again, from the table that came in its place and has a column for each kind. */
function countIn(counts: readonly Row[], stat: Row): Row {
  const { type, n: _, ...rest } = stat;
  const found = counts.find((row) => Object.entries(rest).every(([column, value]) => row[column] === value));
  return { ...rest, type, n: found?.[String(type)] };
}

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

  for (const [index, name] of migrationNames.slice(0, -1).entries()) {
    it(`from ${name}: takes the ${String(migrationNames.length - index - 1)} steps that came later, and keeps every value`, async () => {
      const old = await openAt(file, name);
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
      assert.equal(copied, 1, 'what is to lose was not copied first');
      assert.deepEqual(db.migrated, migrationNames.slice(index + 1));
      const after = await everyRow(db.reader);
      const counts = after.get('event_counts') ?? [];
      for (const row of before.get('stats') ?? []) assert.deepEqual(countIn(counts, row), row);
      for (const table of ['stats', ...dropped]) before.delete(table);
      for (const [table, rows] of before)
        assert.deepEqual(withColumnsOf(after.get(table) ?? [], rows), rows, `${table} is not as it was`);
      assert.deepEqual(await db.reader.raw('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
      assert.deepEqual(await db.reader.raw('PRAGMA auto_vacuum'), [{ auto_vacuum: 2 }]);
      await db.close();
    });
  }

  it('go on where one was killed: the lock that it left holds nobody up', async () => {
    const old = await openAt(file, '005-stats');
    await old('migrations_lock').update({ is_locked: 1 });
    await old.destroy();
    const db = await openDatabase({ url: `sqlite:${file}` });
    assert.deepEqual(db.migrated, migrationNames.slice(migrationNames.indexOf('005-stats') + 1));
    await db.close();
  });

  it('make the same tables and indexes as a new database has', async () => {
    const schema = async (knex: Knex): Promise<unknown> =>
      (await knex('sqlite_master')
        .select('type', 'name', 'sql')
        .whereNot('name', 'like', 'sqlite_%')
        .orderBy('name')) as unknown;
    await (await openAt(file, '001-ground')).destroy();
    const old = await openDatabase({ url: `sqlite:${file}` });
    const fresh = await openDatabase({ url: `sqlite:${path.join(folder, 'fresh.db')}` });
    assert.deepEqual(await schema(old.reader), await schema(fresh.reader));
    await old.close();
    await fresh.close();
  });

  it('of a queue: mail that the first version took goes out under this one, and its copy is kept', async function () {
    // A whole program starts, with keys to make and a copy to check.
    this.timeout(60_000);
    const old = await openAt(file, '001-ground');
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
    const test = await startTestApp({ folder, mailPort: server.port, zones: zonesFor('dest.test') });
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
    await (await openAt(file, '001-ground')).destroy();
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
    await (await openAt(file, '005-stats')).destroy();
    const first = await ran(['migrate'], { POSTHORN_DATA_DIR: folder });
    assert.equal(first.code, 0, first.notes);
    assert.match(first.notes, /copied to .*backups\/before-migration-\d{8}T\d{6}Z first/);
    const other = path.join(folder, 'other');
    await (await openAt(path.join(folder, 'other.db'), '005-stats')).destroy();
    const second = await ran(['migrate'], {
      POSTHORN_DATA_DIR: other,
      POSTHORN_STORAGE__URL: `sqlite:${path.join(folder, 'other.db')}`,
      POSTHORN_BACKUP__BEFORE_MIGRATION: 'false',
    });
    assert.deepEqual([second.code, second.notes, existsSync(path.join(other, 'backups'))], [0, '', false]);
  });

  it('refuse the database of a later version, by name and with exit code 78', async () => {
    const db = await openDatabase({ url: `sqlite:${file}` });
    await db.commit.transact((tx) =>
      tx.run("INSERT INTO migrations (name, batch, migration_time) VALUES ('999-later', 9, 0)"),
    );
    await db.close();
    await assert.rejects(openDatabase({ url: `sqlite:${file}` }), NewerDatabase);
    const { code, notes } = await ran(['migrate'], { POSTHORN_DATA_DIR: folder });
    assert.deepEqual(
      [code, notes.startsWith('posthorn: the database was changed by a later version (999-later)')],
      [78, true],
    );
  });
});
