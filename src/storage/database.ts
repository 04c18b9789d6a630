/**
 * Opens the database: one connection that writes (through the grouped commit), and readers apart from it, so that a long
 * list never waits for a commit nor holds one up.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import knexPackage, { type Knex } from 'knex';
import { createCommitter, type Committer } from './commit.ts';
import { takeConnection, type Connection } from './connection.ts';
import { freshenFigures } from './planner-figures.ts';
import { migrate, migrationState, type MigrationStep } from './migrate.ts';

export interface Database {
  /** All writes. */
  readonly commit: Committer;
  /** Readers for queries built at run time. They cannot write. */
  readonly reader: Knex;
  /** One more reader, for the fixed statements of the hot path. */
  readonly prepared: Connection;
  /** And one for housekeeping: what it looks for is old, and comes from the disk. */
  readonly maintenance: Connection;
  /** The migrations that opening took. */
  readonly migrated: readonly string[];
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** `sqlite:<path>`. */
  url: string;
  /** The order in which kinds of work run inside one commit (storage/commit.ts). */
  workOrder?: readonly string[];
  /** Runs before a database that holds something is changed; where it throws, nothing is. */
  beforeMigration?: () => Promise<void>;
  /** Told before each migration: how many are done, and of how many. */
  migrating?: MigrationStep;
}

/** Readers for built queries; SQLite serves each from its own snapshot, and the thread pool has room for them. */
const READERS = 2;

/** Opens and migrates. Throws where the file cannot be opened or written. */
export async function openDatabase({ url, workOrder, beforeMigration, migrating }: DatabaseOptions): Promise<Database> {
  const file = sqliteFile(url);
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o750 });

  const migrator = connect(file, 1, ['PRAGMA auto_vacuum = INCREMENTAL', ...durable]);
  const migrated = await migrate(migrator, beforeMigration, migrating).finally(() => migrator.destroy());

  const writer = connect(file, 1, [...durable, 'PRAGMA foreign_keys = ON']);
  const read = connect(file, READERS, readOnly);
  const hot = connect(file, 1, readOnly);
  const connection = await takeConnection(writer);
  const fast = await takeConnection(hot);
  const upkeep = connect(file, 1, readOnly);
  const cold = await takeConnection(upkeep);
  const commit = createCommitter(connection, workOrder);
  return {
    commit,
    reader: read,
    prepared: fast,
    maintenance: cold,
    migrated,
    async close() {
      await commit.close();
      await fast.close();
      await cold.close();
      await Promise.all([hot.destroy(), upkeep.destroy(), read.destroy()]);
      // Only advice for the query planner: a full disk must not keep the database from closing.
      await freshenFigures(connection, (work) => work(connection)).catch(() => undefined);
      await connection.close();
      await writer.destroy();
    },
  };
}

/** A database that is only looked at, beside a server or without one: nothing is written, nothing migrated. */
export interface Reader {
  readonly reader: Knex;
  /** Migrations that it has not taken yet. */
  readonly waiting: readonly string[];
  close(): Promise<void>;
}

/** Rejects where there is no such file, or it cannot be read. */
export async function openReader({ url }: Pick<DatabaseOptions, 'url'>): Promise<Reader> {
  // The driver's own flag cannot be had through knex, which always adds the right to write.
  const name = encodeURI(sqliteFile(url)).replaceAll(/[?#]/g, encodeURIComponent);
  const read = connect(`file:${name}?mode=ro`, READERS, readOnly, ['OPEN_URI']);
  try {
    const waiting = (await migrationState(read)).filter(({ taken }) => !taken).map(({ name }) => name);
    return { reader: read, waiting, close: () => read.destroy() };
  } catch (error) {
    await read.destroy();
    throw error;
  }
}

/** The version of SQLite that the driver brings. */
export async function sqliteVersion(): Promise<string> {
  const nowhere = connect(':memory:', 1, []);
  try {
    const rows = await nowhere.raw<{ version: string }[]>('SELECT sqlite_version() AS version');
    return rows[0]?.version ?? '';
  } finally {
    await nowhere.destroy();
  }
}

/**
 * WAL with FULL: a commit returns only after its fsync, which is what a 202 promises. Only the writer checkpoints, every 4 MiB of
 * WAL: the writes that come next wait for all of it to reach the file, and its pages lie far apart there.
 */
const durable = [
  'PRAGMA busy_timeout = 5000',
  'PRAGMA journal_mode = WAL',
  'PRAGMA synchronous = FULL',
  'PRAGMA wal_autocheckpoint = 1000',
  // A long reader (a backup) makes the WAL grow; afterwards it shrinks to this.
  'PRAGMA journal_size_limit = 67108864',
  'PRAGMA cache_size = -16384',
  'PRAGMA temp_store = MEMORY',
];
const readOnly = [
  'PRAGMA query_only = ON',
  'PRAGMA cache_size = -4096',
  'PRAGMA temp_store = MEMORY',
  'PRAGMA busy_timeout = 5000',
];

/** The path in a `sqlite:` URL. */
export function sqliteFile(url: string): string {
  const file = /^sqlite:(?<file>.+)$/.exec(url)?.groups?.['file'];
  if (file === undefined) throw new Error(`storage.url must be sqlite:<path>, not ${url}`);
  return file;
}

const nothing = (): void => undefined;
const silent = { warn: nothing, error: nothing, deprecate: nothing, debug: nothing };

interface Raw {
  exec(sql: string, done: (error: Error | null) => void): void;
}

function connect(filename: string, size: number, pragmas: readonly string[], flags: string[] = []): Knex {
  return knexPackage({
    client: 'sqlite3',
    connection: { filename, ...(flags.length === 0 ? {} : { flags }) },
    useNullAsDefault: true,
    // What goes wrong rejects as well; printing it besides would only garble our own log.
    log: silent,
    pool: {
      min: size,
      max: size,
      afterCreate(raw: Raw, done: (error: Error | null, raw: Raw) => void) {
        raw.exec(pragmas.join(';'), (error) => {
          done(error, raw);
        });
      },
    },
  });
}
