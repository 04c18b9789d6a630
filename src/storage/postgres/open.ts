/**
 * Opens a PostgreSQL database: one connection that writes (through the grouped commit), two with prepared statements for the hot path and
 * for housekeeping, a pool for queries that are built at run time.
 */
import knexPackage, { type Knex } from 'knex';
import type pg from 'pg';
import { systemClock } from '../../base/clock.ts';
import { createCommitter } from '../commit.ts';
import { DatabaseRefusal } from '../database-refusal.ts';
import type { Database, DatabaseOptions, StoreAddress } from '../database.ts';
import { migrate, migrationState } from '../migrate.ts';
import { refuseMarked } from '../move/mark.ts';
import { addressOf, type PostgresAddress } from './address.ts';
import type { Value } from '../connection.ts';
import { configOf, connectTo, createPostgresConnection, type PostgresConnection } from './connection.ts';
import { cleaned, jsonPlaces } from './values.ts';
import { createWriter, NODE_TABLES, registerNode } from './writer.ts';

const READERS = 3;
/** No page needs so long; a forgotten query would keep dead rows from being cleared. */
const READER_TIMEOUT_MS = 30_000;
const LEAST_VERSION = 15;

/** Indexes are made for each of these statements. Without figures the planner would choose scans while tables are empty, and keep them. */
export const HOT = [
  'SET enable_seqscan = off',
  'SET enable_hashjoin = off',
  'SET enable_mergejoin = off',
  // A scan that is the only way would otherwise look so expensive that it is compiled.
  'SET jit = off',
];
const READ_ONLY = [
  'SET default_transaction_read_only = on',
  // The statements of a transaction see one snapshot, as in SQLite.
  "SET default_transaction_isolation = 'repeatable read'",
  `SET statement_timeout = ${String(READER_TIMEOUT_MS)}`,
  'SET jit = off',
];
/** Locks of a server that is paused or cut off inside a group are freed after this time. */
const WRITER = [...HOT, 'SET idle_in_transaction_session_timeout = 5000', 'SET statement_timeout = 0'];

/** Opens and migrates the database. Throws `DatabaseRefusal`. */
export async function openPostgres(options: DatabaseOptions): Promise<Database> {
  const address = addressOf(options);
  const connection = lockedConnection(address, WRITER);
  try {
    await reach(connection);
    await refuseUnsuitable(connection);
    const migrated = await prepareSchema(address, connection, options);
    const node = await registerNode(connection);
    return await openParts(address, connection, node, migrated, options);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** Makes a connection that holds the lock of the database while it lasts. */
export function lockedConnection(address: PostgresAddress, setUp: readonly string[]): PostgresConnection {
  const lock = { old: null as { pid: number; since: string } | null };
  return createPostgresConnection(
    async () => {
      const client = await connectTo(address, { setUp });
      await takeLock(client, lock);
      return client;
    },
    { reconnects: false },
  );
}

/** Connects. Throws `DatabaseRefusal` where that is not possible. */
export async function reach(connection: PostgresConnection): Promise<void> {
  try {
    await connection.ready();
  } catch (error) {
    if (error instanceof DatabaseRefusal) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new DatabaseRefusal('unreachable', `the database cannot be reached: ${why}`, error);
  }
}

async function openParts(
  address: PostgresAddress,
  connection: PostgresConnection,
  node: number,
  migrated: readonly string[],
  { workOrder, takenOver = () => undefined }: DatabaseOptions,
): Promise<Database> {
  const reading = (setUp: readonly string[]): PostgresConnection =>
    createPostgresConnection(() => connectTo(address, { setUp }), { reconnects: true });
  const prepared = reading([...HOT, ...READ_ONLY]);
  const maintenance = reading([...HOT, ...READ_ONLY]);
  const reader = createPool(address, READERS, READ_ONLY);
  await Promise.all([prepared.ready(), maintenance.ready()]);
  const writer = createWriter({ connection, clock: systemClock, random: Math.random, takenOver }, node);
  const commit = createCommitter(writer, workOrder);
  return {
    engine: 'postgres',
    commit,
    reader,
    prepared,
    maintenance,
    migrated,
    async close(): Promise<void> {
      await commit.close();
      await Promise.all([prepared.close(), maintenance.close(), reader.destroy()]);
      await connection.close();
    },
  };
}

/** Opens the database for reading only, with or without a running server. */
export async function openPostgresReader(
  store: StoreAddress,
): Promise<{ reader: Knex; waiting: string[]; close: () => Promise<void> }> {
  const reader = createPool(addressOf(store), 1, READ_ONLY);
  try {
    await refuseMarked(reader);
    const waiting = (await migrationState(reader)).filter(({ taken }) => !taken).map(({ name }) => name);
    return { reader, waiting, close: () => reader.destroy() };
  } catch (error) {
    await reader.destroy();
    throw error;
  }
}

/** The number of our lock in the database: `posthorn` as eight letters. */
const LOCK = '0x706f7374686f726e';

/**
 * Takes the lock of the database, which the server frees when the connection ends. After a lost connection its session may not have noticed
 * yet, so it is ended.
 */
async function takeLock(client: pg.Client, state: { old: { pid: number; since: string } | null }): Promise<void> {
  const { old } = state;
  if (old !== null)
    await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2', [
      old.pid,
      old.since,
    ]);
  for (let tries = 1; ; tries++) {
    const { rows } = await client.query<{ taken: number }>(`SELECT pg_try_advisory_lock($1) AS taken`, [
      BigInt(LOCK).toString(),
    ]);
    if (rows[0]?.taken === 1) break;
    if (tries >= LOCK_TRIES) {
      await client.end();
      throw new DatabaseRefusal('in_use', 'another server or command of Posthorn uses the database');
    }
    await new Promise<void>((resolve) => void systemClock.after(LOCK_PAUSE_MS, resolve));
  }
  const { rows } = await client.query<{ pid: number; since: string }>(
    'SELECT pid, backend_start::text AS since FROM pg_stat_activity WHERE pid = pg_backend_pid()',
  );
  state.old = rows[0] ?? null;
}

/** A command that ends gives its lock back a moment later. */
const LOCK_TRIES = 5;
const LOCK_PAUSE_MS = 100;

export async function refuseUnsuitable(connection: PostgresConnection): Promise<void> {
  const [row] = await connection.all<{ version: string; encoding: string; durable: string }>(
    `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
       current_setting('synchronous_commit') AS durable`,
  );
  const version = Math.floor(Number(row?.version) / 10_000);
  if (version < LEAST_VERSION)
    throw new DatabaseRefusal(
      'unsuitable',
      `the database is PostgreSQL ${String(version)}; version ${String(LEAST_VERSION)} or later is needed`,
    );
  if (row?.encoding !== 'UTF8')
    throw new DatabaseRefusal('unsuitable', `the database has the encoding ${String(row?.encoding)}; UTF8 is needed`);
  if (row.durable === 'off' || row.durable === 'local' || row.durable === 'remote_write')
    throw new DatabaseRefusal(
      'unsuitable',
      `synchronous_commit is ${row.durable}: accepted mail could be lost; set it to on or remote_apply for this database`,
    );
}

/** Makes or updates the tables. */
export async function prepareSchema(
  address: PostgresAddress,
  connection: PostgresConnection,
  { beforeMigration, migrating }: Pick<DatabaseOptions, 'beforeMigration' | 'migrating'>,
): Promise<string[]> {
  const migrator = createPool(address, 1, []);
  try {
    await refuseMarked(migrator);
    const migrated = await migrate(migrator, beforeMigration, migrating);
    for (const sql of NODE_TABLES) await connection.run(sql);
    return migrated;
  } finally {
    await migrator.destroy();
  }
}

const noop = (): void => undefined;
const silent = { warn: noop, error: noop, deprecate: noop, debug: noop };

/** Replaces what PostgreSQL refuses in the values of knex's queries. */
function withCleanValues(client: pg.Client): pg.Client {
  const query = client.query.bind(client) as (config: pg.QueryConfig, done: unknown) => unknown;
  const clean = (config: pg.QueryConfig | string, done: unknown): unknown => {
    if (typeof config === 'string') return query({ text: config }, done);
    const values = (config.values ?? []) as readonly Value[];
    return query({ ...config, values: [...cleaned(values, jsonPlaces(config.text))] }, done);
  };
  return Object.assign(client, { query: clean as pg.Client['query'] });
}

/** Makes a pool for queries that are built at run time. Raw ones give rows, as SQLite's do. */
export function createPool(address: PostgresAddress, size: number, setUp: readonly string[]): Knex {
  /** After a connection was lost another server may be the one that takes writes. */
  let isStale = true;
  return knexPackage({
    client: 'pg',
    connection: async () => {
      const probe = await connectTo(address, { setUp: [], pipeline: false });
      await probe.end();
      isStale = false;
      return { ...configOf(address, probe.host, probe.port, probe.ssl), expirationChecker: () => isStale };
    },
    postProcessResponse: (result: unknown): unknown => (isResult(result) ? result.rows : result),
    log: silent,
    pool: {
      min: 0,
      max: size,
      afterCreate(raw: pg.Client, done: (error: Error | null, raw: pg.Client) => void) {
        raw.on('end', () => (isStale = true));
        const whole = setUp.length === 0 ? Promise.resolve() : raw.query(setUp.join('; '));
        void whole.then(
          () => done(null, withCleanValues(raw)),
          (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), raw),
        );
      },
    },
  });
}

const isResult = (result: unknown): result is { rows: unknown[] } =>
  typeof result === 'object' && result !== null && 'rows' in result && 'fields' in result;
