/**
 * Opens a PostgreSQL database: three connections that write (the grouped commit), two with prepared statements for the hot path and for housekeeping,
 * a pool for queries built at run time, and one for this server's signs of life.
 */
import knexPackage, { type Knex } from 'knex';
import type pg from 'pg';
import { systemClock } from '../../base/clock.ts';
import { committerOf, Writer, type WriterOptions } from '../commit.ts';
import { DatabaseRefusal, refuseMarked } from '../mark.ts';
import type { Database, DatabaseOptions, StoreAddress } from '../database.ts';
import { migrate, migrationState, type MigrationOptions } from '../migrate.ts';
import { wrongClock } from '../nodes.ts';
import {
  addressOf,
  type PostgresAddress,
  configOf,
  connectTo,
  createPostgresConnection,
  dropSocket,
  NoWritableServer,
  OWN_SESSION,
  type PostgresConnection,
  cleaned,
  jsonPlaces,
} from './connection.ts';
import type { Value } from '../connection.ts';
import { clearAway, clockInTheWay, joinNodes, type JoinedNode } from './node.ts';
import { CHANNEL, NodeMessages } from './node-messages.ts';
import { completeSchema, NODE_TABLES } from './own-tables.ts';
import { createWriter } from './writer.ts';

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
  // A read waits for a lock only while a table is changed (ALTER TABLE, VACUUM FULL, LOCK TABLE). Others wait behind it on the same connection,
  // such as the look-up of a key: a request must hear 503 in time, and the engine tries again.
  "SET lock_timeout = '3s'",
  'SET jit = off',
  // A page reads a bounded number of rows: starting further processes costs more than they save, and takes the processors from mail.
  'SET max_parallel_workers_per_gather = 0',
];
/** Locks of a server that is paused or cut off inside a group are freed after this time. */
const WRITER = [...HOT, 'SET idle_in_transaction_session_timeout = 5000'];

/** A sign of life that a crash of the database takes back does no harm, and it must not wait for a standby. */
const CONTROL = [
  'SET synchronous_commit = off',
  // A dead node's open transaction keeps its row until the database has noticed; the next sign of life must not wait for that.
  "SET lock_timeout = '3s'",
];

/** Opens and migrates the database. Throws `DatabaseRefusal`. */
export async function openPostgres(options: DatabaseOptions): Promise<Database> {
  const { takenOver = noop, clockDiffers = noop, clockWrong = noop } = options;
  const address = addressOf(options);
  /** When the connection for signs of life was lost, by the monotonic clock; null before that. */
  let lostAt: number | null = null;
  const others: Droppable[] = [];
  const control = createPostgresConnection(
    async () => {
      const client = await connectTo(address, { setUp: [...CONTROL, `LISTEN ${CHANNEL}`], looksAtPooler: true });
      client.on('notification', ({ payload = '' }) => messages.arrived(payload));
      if (lostAt !== null) {
        messages.lost();
        // Another server may have taken the place of the one that they lead to: what they wait for would never come.
        for (const one of others) one.drop(lostAt);
      }
      const lost = (): void => void (lostAt = systemClock.monotonic());
      client.once('error', lost);
      client.once('end', lost);
      return client;
    },
    { reconnects: true },
  );
  const messages = new NodeMessages(control, systemClock);
  try {
    await reach(control);
    await refuseUnsuitable(control);
    const { node, migrated } = await whileStarting(control, async () => {
      for (const sql of NODE_TABLES) await control.run(sql);
      const name = options.node?.name ?? null;
      await clearAway({ connection: control, clock: systemClock }, (other) =>
        other.name === name && other.is_command === 0 ? sameName(name) : null,
      );
      // A command may write with any clock, as it always could: it is soon over.
      const aheadMs = options.node === undefined ? 0 : await clockInTheWay(control, systemClock);
      if (aheadMs !== 0) throw new DatabaseRefusal('wrong_clock', `${wrongClock(aheadMs)}: ${SET_CLOCK}`);
      const migrated = await prepareSchema(address, control, options);
      const deps = { connection: control, clock: systemClock, messages, takenOver, clockDiffers, clockWrong };
      return { migrated, node: await joinNodes(deps, options.node ?? null) };
    });
    try {
      return await openParts(address, { control, others, node, migrated }, options);
    } catch (error) {
      await node.leave();
      throw error;
    }
  } catch (error) {
    await control.close();
    throw refusalToOpen(error) ?? error;
  }
}

/** More events than all servers write between two signs of life. */
const SKIPPED_NUMBERS = 50_000;

/**
 * Returns SQL that continues the numbers of events beyond those that any server may have seen: a new connection may lead to a standby that lacks the
 * last events, and readers would take new ones for known ones. Numbers are given in the turn of events only.
 */
const skipNumbers = (seen: number): string =>
  `BEGIN; SELECT one FROM event_turn WHERE one = 1 FOR UPDATE;
   SELECT setval(s.name::regclass, ${String(seen + SKIPPED_NUMBERS)}) FROM pg_get_serial_sequence('events', 'sequence') AS s(name)
     WHERE coalesce(pg_sequence_last_value(s.name::regclass), 0) < ${String(seen + SKIPPED_NUMBERS)}; COMMIT`;

const SET_CLOCK = 'let a time service set it (systemctl enable --now systemd-timesyncd, or chrony)';

const sameName = (name: string): string =>
  `another server named ${name} uses the database: end it, or give this one another name (node.name)`;

/** Connects. Throws `DatabaseRefusal` if that is not possible. */
export async function reach(connection: PostgresConnection): Promise<void> {
  try {
    await connection.ready();
  } catch (error) {
    if (error instanceof DatabaseRefusal) throw error;
    throw unreachable(error);
  }
}

function unreachable(error: unknown): DatabaseRefusal {
  const why = error instanceof Error ? error.message : String(error);
  if (/client password must be a string|empty password returned/.test(why))
    return new DatabaseRefusal(
      'unsuitable',
      `storage.password: the database asks for one, and none is given (${why})`,
      error,
    );
  return new DatabaseRefusal('unreachable', `the database cannot be reached: ${why}`, error);
}

/** Returns the refusal if no further connection can be made (a limit), or the user lacks a right (SQLSTATE 42501) or a schema (3F000); else null. */
export function refusalToOpen(error: unknown): DatabaseRefusal | null {
  if (error instanceof NoWritableServer) return unreachable(error);
  const code = error instanceof Error && 'code' in error ? error.code : null;
  if (!(error instanceof Error) || (code !== '42501' && code !== '3F000')) return null;
  return new DatabaseRefusal(
    'unsuitable',
    `the user of storage.url lacks a right in the database: ${error.message}; it must own the database and all that is in it`,
    error,
  );
}

/** The number of the lock of servers that start: `posthorn` as eight letters. */
const LOCK = BigInt('0x706f7374686f726e').toString();
const LOCK_TRIES = 40;
const LOCK_PAUSE_MS = 250;
/** A client that waits longer than this for an answer has usually given up. A lost connection is waited for as long. */
const REQUEST_PATIENCE_MS = 15_000;

/** Keeps other servers from starting until the connection ends. Throws `DatabaseRefusal`. */
export async function lockStart(control: PostgresConnection): Promise<void> {
  for (let tries = 1; ; tries++) {
    const [row] = await control.all<{ taken: number }>('SELECT pg_try_advisory_lock(?) AS taken', [LOCK]);
    if (row?.taken === 1) return;
    if (tries >= LOCK_TRIES)
      throw new DatabaseRefusal('in_use', 'another server or command of Posthorn is starting on the database');
    await systemClock.sleep(LOCK_PAUSE_MS);
  }
}

/** Runs the work while no other server starts. Throws `DatabaseRefusal`. */
async function whileStarting<Result>(control: PostgresConnection, work: () => Promise<Result>): Promise<Result> {
  await lockStart(control);
  try {
    return await work();
  } finally {
    await control.run('SELECT pg_advisory_unlock(?)', [LOCK]);
  }
}

/** Connections that can be given up: those that were opened before a time of the monotonic clock. */
interface Droppable {
  drop(openedBefore: number): void;
}

interface OpenedParts {
  control: PostgresConnection;
  others: Droppable[];
  node: JoinedNode;
  migrated: readonly string[];
}

async function openParts(
  address: PostgresAddress,
  { control, others, node, migrated }: OpenedParts,
  { usualWork = [] }: DatabaseOptions,
): Promise<Database> {
  const reading = (setUp: readonly string[]): PostgresConnection =>
    createPostgresConnection(() => connectTo(address, { setUp }), { reconnects: true });
  let isFirst = true;
  const writing = (): PostgresConnection =>
    createPostgresConnection(
      () => connectTo(address, { setUp: isFirst ? WRITER : [...WRITER, skipNumbers(node.lastEvent)] }),
      { reconnects: false },
    );
  const prepared = reading([...HOT, ...READ_ONLY]);
  const maintenance = reading([...HOT, ...READ_ONLY]);
  const writers = [writing(), writing(), writing()] as const;
  const pooled = new Map<pg.Client, number>();
  const reader = createPool(address, READERS, READ_ONLY, pooled);
  const connections = [prepared, maintenance, ...writers];
  others.push(...connections, {
    drop: (openedBefore) => pooled.forEach((openedAt, client) => openedAt < openedBefore && dropSocket(client)),
  });
  const [intake, engine, desk] = writers;
  const deps = { clock: systemClock, random: Math.random, node };
  const patience = { clock: systemClock, ms: REQUEST_PATIENCE_MS };
  const writer = (
    connection: PostgresConnection,
    place: number,
    options: WriterOptions,
    isSerializable = false,
  ): Writer => new Writer(createWriter({ ...deps, connection }, { place, isSerializable }), options);
  // So an answer never waits until it is the engine's turn to number events, and neither waits for a long piece of work.
  const order = usualWork.map(({ name }) => name);
  const commit = committerOf({
    intake: writer(intake, 0, { order, patience }),
    engine: writer(engine, 1, { order }),
    // Each unit runs alone in a serializable transaction: it was written for a database with one writer. It may be that of a request; a chore
    // that is given up begins again at its next turn.
    desk: writer(desk, 2, { most: 1, patience }, true),
  });
  const closeAll = async (): Promise<void> => {
    await Promise.all([...connections.map((one) => one.close()), reader.destroy()]);
  };
  try {
    await Promise.all(connections.map((one) => one.ready()));
    isFirst = false;
  } catch (error) {
    await closeAll();
    throw error;
  }
  return {
    engine: 'postgres',
    commit,
    reader,
    prepared,
    maintenance,
    migrated,
    nodes: node,
    async close(): Promise<void> {
      await commit.close();
      await closeAll();
      await node.leave();
      await control.close();
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
    const { missing: waiting } = await migrationState(reader);
    return { reader, waiting, close: () => reader.destroy() };
  } catch (error) {
    await reader.destroy();
    throw error;
  }
}

export async function refuseUnsuitable(connection: PostgresConnection): Promise<void> {
  const [row] = await connection.all<{ version: string; encoding: string; durable: string }>(
    `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS durable`,
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

export async function prepareSchema(
  address: PostgresAddress,
  connection: PostgresConnection,
  {
    beforeMigration,
    migrating,
    list,
  }: Pick<DatabaseOptions, 'beforeMigration' | 'migrating'> & Pick<MigrationOptions, 'list'>,
): Promise<string[]> {
  const migrator = createPool(address, 1, []);
  try {
    await refuseMarked(migrator);
    const migrated = await migrate(migrator, {
      before: beforeMigration,
      step: migrating,
      list,
      others: () => connection.all('SELECT name, version FROM nodes WHERE NOT is_command ORDER BY epoch'),
    });
    await completeSchema(connection);
    return migrated;
  } finally {
    await migrator.destroy();
  }
}

const noop = (): void => undefined;
const silent = { warn: noop, error: noop, deprecate: noop, debug: noop };

function withCleanValues(client: pg.Client): pg.Client {
  const query = client.query.bind(client) as (config: pg.QueryConfig, done: unknown) => unknown;
  const clean = (config: pg.QueryConfig | string, done: unknown): unknown => {
    if (typeof config === 'string') return query({ text: config }, done);
    const values = (config.values ?? []) as readonly Value[];
    return query({ ...config, values: [...cleaned(values, jsonPlaces(config.text))] }, done);
  };
  return Object.assign(client, { query: clean as pg.Client['query'] });
}

/** Makes a pool for queries that are built at run time. Raw ones give rows, as SQLite's do. `open` has its connections and when they were opened. */
export function createPool(
  address: PostgresAddress,
  size: number,
  setUp: readonly string[],
  open = new Map<pg.Client, number>(),
): Knex {
  /** After a connection was lost another server may be the one that takes writes. */
  let isStale = true;
  return knexPackage({
    client: 'pg',
    connection: async () => {
      const probe = await connectTo(address, { setUp: [], pipeline: false, looksAtPooler: true });
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
        open.set(raw, systemClock.monotonic());
        raw.on('end', () => {
          isStale = true;
          open.delete(raw);
        });
        void raw.query([OWN_SESSION, ...setUp].join('; ')).then(
          () => done(null, withCleanValues(raw)),
          (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), raw),
        );
      },
    },
  });
}

const isResult = (result: unknown): result is { rows: unknown[] } =>
  typeof result === 'object' && result !== null && 'rows' in result && 'fields' in result;
