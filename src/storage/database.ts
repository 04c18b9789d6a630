/** Opens the database: one connection that writes (the grouped commit), and readers, so that a long list and a commit never delay each other. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Clock } from '../base/clock.ts';
import { makeFolder } from '../base/make-folder.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import knexPackage, { type Knex } from 'knex';
import { createCommitter, type Committer } from './commit.ts';
import { takeConnection, type Connection } from './connection.ts';
import { migrate, migrationState, type MigrationStep } from './migrate.ts';
import { refuseMarked } from './mark.ts';
import type { Nodes, NodeSelf } from './nodes.ts';
import { usualInserts } from './rows.ts';
import type { Engine, Statement } from './sql.ts';
import { scriptView, sqliteTransaction } from './sqlite-transaction.ts';

/** Where the database is: the settings of the group `storage`. */
export interface StoreAddress {
  /** `sqlite:<path>` or `postgres://user@host/database`. */
  url: string;
  /** The password of a PostgreSQL database, or the file with it; null if none is needed. */
  password?: string | null;
  passwordFile?: string | null;
}

export interface DatabaseOptions extends StoreAddress {
  /** The kinds of work that most commits have, in their order inside one (commit.ts), and their statements without results (sqlite-transaction.ts). */
  usualWork?: readonly { name: string; writes: readonly Statement[] }[];
  /** Runs before a database with data is migrated; if it throws, nothing is changed. */
  beforeMigration?: () => Promise<void>;
  /** Called before each migration with the number done and the number of all. */
  migrating?: MigrationStep;
  /** The description of this server for the others; absent for a command. Not used on SQLite. */
  node?: NodeSelf;
  /** Called when another server has taken the database over: nothing can be written any more. Never on SQLite. */
  takenOver?: () => void;
  /** Called when this machine's clock begins to differ from the database's, in ms (less than 0: behind), and with 0 at the end. Never on SQLite. */
  clockDiffers?: (aheadMs: number) => void;
  /** Called once when the clock is so wrong that this node has to leave the others, whose clock is right. Never on SQLite. */
  clockWrong?: (aheadMs: number) => void;
}

export interface Database {
  readonly engine: Engine;
  readonly commit: Committer;
  /** Readers for queries built at run time. They cannot write. */
  readonly reader: Knex;
  /** One more reader, for the fixed statements of the hot path. */
  readonly prepared: Connection;
  /** One more reader for housekeeping, whose old rows come from the disk. */
  readonly maintenance: Connection;
  readonly migrated: readonly string[];
  /** This process among the nodes of the database; null on SQLite, where there is one and `beginEpoch` has to number its run. */
  readonly nodes: Nodes | null;
  close(): Promise<void>;
}

/** The needs of the functions of stores; a server and a command have both. */
export interface StoreDeps {
  db: Database;
  clock: Clock;
}

/** Readers for built queries; SQLite serves each from its own snapshot, and the thread pool has room for them. */
const READERS = 2;

/** Opens and migrates the database. Throws if it cannot be opened or written, and `DatabaseRefusal` if it must not be used. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  // Its driver is loaded only for a database that needs it.
  if (isPostgresUrl(options.url)) return (await import('./postgres/open.ts')).openPostgres(options);
  return openSqlite(options);
}

async function openSqlite({ url, usualWork = [], beforeMigration, migrating }: DatabaseOptions): Promise<Database> {
  const file = sqliteFile(url);
  makeFolder(path.dirname(file), 0o750);

  const migrator = connect(file, 1, [...ofNewFile, ...durable]);
  const migrated = await refuseMarked(migrator)
    .then(() => migrate(migrator, { before: beforeMigration, step: migrating }))
    .finally(() => migrator.destroy());

  const usual = [...usualInserts(), ...usualWork.flatMap(({ writes }) => writes)];
  const writer = connect(file, 1, [...durable, 'PRAGMA foreign_keys = ON', scriptView(usual)]);
  const connection = await takeConnection(writer);
  const reader = connect(file, READERS, readOnly);
  const ofPrepared = connect(file, 1, readOnly);
  const prepared = await takeConnection(ofPrepared);
  const ofMaintenance = connect(file, 1, readOnly);
  const maintenance = await takeConnection(ofMaintenance);
  const commit = createCommitter(sqliteTransaction(connection, usual), { order: usualWork.map(({ name }) => name) });
  return {
    engine: 'sqlite',
    commit,
    reader,
    prepared,
    maintenance,
    migrated,
    nodes: null,
    async close(): Promise<void> {
      await commit.close();
      await prepared.close();
      await maintenance.close();
      await Promise.all([ofPrepared.destroy(), ofMaintenance.destroy(), reader.destroy()]);
      await connection.close();
      await writer.destroy();
    },
  };
}

/** Opens the database for reading only, with or without a running server. `waiting`: the migrations that it needs. Rejects for an unreadable file. */
export async function openReader(store: StoreAddress) {
  if (isPostgresUrl(store.url)) return (await import('./postgres/open.ts')).openPostgresReader(store);
  return openSqliteReader(store.url);
}

async function openSqliteReader(url: string) {
  // Knex always adds write access to the driver's flags, so the file's URI says that it is read-only.
  const name = encodeURI(sqliteFile(url)).replaceAll(/[?#]/g, encodeURIComponent);
  const read = connect(`file:${name}?mode=ro`, READERS, readOnly, ['OPEN_URI']);
  try {
    await refuseMarked(read);
    const { missing: waiting } = await migrationState(read);
    return { reader: read, waiting, close: (): Promise<void> => read.destroy() };
  } catch (error) {
    await read.destroy();
    throw error;
  }
}

/** Opens a file that has no writer. It takes no locks and creates no files, so a copy can be read on a read-only medium. */
export const openStill = (file: string): Knex =>
  connect(`${pathToFileURL(file).href}?mode=ro&immutable=1`, 1, [], ['OPEN_URI']);

/** Begins a new epoch, the number of this run, and returns it. It grows by one at each start, so that claims of earlier runs can be recognised. */
export function beginEpoch(commit: Committer): Promise<number> {
  return commit.transact(async (tx) => {
    const [row] = await tx.all<{ value: string }>(
      `INSERT INTO settings (name, value) VALUES ('epoch', '1')
       ON CONFLICT (name) DO UPDATE SET value = CAST(settings.value AS INTEGER) + 1 RETURNING value`,
    );
    if (row === undefined) throw new Error('the epoch was not written');
    return Number(row.value);
  });
}

/** Pages of 8 KiB: a mail of 1 MB takes a tenth less CPU time than with 4 KiB; for one of 4 KB half as much more is written. Old files keep theirs. */
const ofNewFile = ['PRAGMA page_size = 8192', 'PRAGMA auto_vacuum = INCREMENTAL'];

/** WAL with FULL: a commit returns after its fsync, as a 202 promises. Only the writer checkpoints, every 1,000 pages; later writes wait for it. */
export const durable = [
  'PRAGMA busy_timeout = 5000',
  'PRAGMA journal_mode = WAL',
  'PRAGMA synchronous = FULL',
  'PRAGMA wal_autocheckpoint = 1000',
  // A long reader (a backup) makes the WAL grow; afterwards it shrinks to this.
  'PRAGMA journal_size_limit = 67108864',
  'PRAGMA cache_size = -8192',
  'PRAGMA temp_store = MEMORY',
];
export const readOnly = [
  'PRAGMA query_only = ON',
  'PRAGMA cache_size = -4096',
  'PRAGMA temp_store = MEMORY',
  'PRAGMA busy_timeout = 5000',
];

export function sqliteFile(url: string): string {
  const file = /^sqlite:(?<file>.+)$/.exec(url)?.groups?.['file'];
  if (file === undefined) throw new Error(`storage.url must be sqlite:<path>, not ${url}`);
  return file;
}

/** Returns the path in a `sqlite:` URL; null for a database of another kind. */
export const databaseFile = (url: string): string | null => (isPostgresUrl(url) ? null : sqliteFile(url));

/** Returns the folder whose disk the mail is on: that of a SQLite file; with PostgreSQL the data folder is the only one here. */
export function mailFolder({ storage, dataDir }: { storage: { readonly url: string }; dataDir: string }): string {
  const file = databaseFile(storage.url);
  return file === null ? dataDir : path.dirname(path.resolve(file));
}

const noop = (): void => undefined;
const silent = { warn: noop, error: noop, deprecate: noop, debug: noop };

interface Raw {
  exec(sql: string, done: (error: Error | null) => void): void;
}

export function connect(filename: string, size: number, pragmas: readonly string[], flags: string[] = []): Knex {
  return knexPackage({
    client: 'sqlite3',
    connection: { filename, ...(flags.length === 0 ? {} : { flags }) },
    useNullAsDefault: true,
    // Errors reject as well; printing them too would garble our own log.
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
