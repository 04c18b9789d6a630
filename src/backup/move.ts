/**
 * Moves all rows from a SQLite file into an empty PostgreSQL database, in one transaction: a move that breaks off leaves nothing there. Then the
 * source is marked as moved, and no server starts on it any more.
 */
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Knex } from 'knex';
import type { Clock } from '../base/clock.ts';
import { balance, type Books } from '../messages/store/books.ts';
import { UncopyableValue, fill, openFillTarget, type Filled, type FillTarget } from '../storage/postgres/fill.ts';
import { DatabaseRefusal, markMoved, refuseMarked } from '../storage/mark.ts';
import { connect, durable, readOnly, sqliteFile, type StoreAddress } from '../storage/database.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import { migrationState, whyUnsupported } from '../storage/migrate.ts';
import { isConnectionLoss } from '../storage/postgres/connection.ts';

export interface MoveOptions {
  from: StoreAddress;
  to: StoreAddress;
  /** The data folder of the server, which must not run. */
  dataDir: string;
  progress: (done: number, of: number) => void;
}

export type Moved =
  | { kind: 'moved'; filled: Filled; books: Books }
  | {
      kind: 'refused';
      /**
       * `marked`: the source was moved before. `in_use`: a server or another command uses a database. `not_empty`: the target has rows.
       * `schema`: that of the source is not the one of this version. `data`: a value cannot be copied.
       */
      why: 'no_database' | 'in_use' | 'not_empty' | 'schema' | 'data' | 'marked';
      text: string;
    };

const refused = (why: Extract<Moved, { kind: 'refused' }>['why'], text: string): Moved => ({
  kind: 'refused',
  why,
  text,
});

/** Moves the rows. Throws `DatabaseRefusal` if a database cannot be used. */
export async function moveStorage(deps: { clock: Clock }, options: MoveOptions): Promise<Moved> {
  const { from, dataDir } = options;
  const file = sqliteFile(from.url);
  if (!existsSync(dataDir))
    return refused('no_database', `there is no data folder ${dataDir}: run this with the settings of the server`);
  if (!existsSync(file)) return refused('no_database', `there is no database at ${file}`);
  const lock = await lockFolder(dataDir);
  if (lock === null) return refused('in_use', `a server is running on ${dataDir}: stop it first`);
  const source = connect(file, 1, durable);
  try {
    // No other program can write to it from now on.
    await source.raw('BEGIN IMMEDIATE');
    return await moveFrom(deps, source, options);
  } catch (error) {
    return explained(error, file);
  } finally {
    await source.destroy();
    await lock.release();
  }
}

/** Throws what is none of the reasons for a refusal. */
function explained(error: unknown, file: string): Moved {
  if (error instanceof UncopyableValue) return refused('data', error.message);
  if (error instanceof DatabaseRefusal && error.why === 'moved') return refused('marked', error.message);
  if (error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY')
    return refused('in_use', `another program writes to ${file}: end it first`);
  if (error instanceof DatabaseRefusal || !isConnectionLoss(error)) throw error;
  throw new DatabaseRefusal(
    'unreachable',
    'the connection to the database was lost: repeat the command, which begins again',
    error,
  );
}

async function moveFrom(deps: { clock: Clock }, source: Knex, { from, to, progress }: MoveOptions): Promise<Moved> {
  await refuseMarked(source);
  const why = await whyOtherSchema(source);
  if (why !== null) return refused('schema', `the database at ${from.url} ${why}`);
  const target = await openFillTarget(to);
  try {
    const foreign = await target.prepare();
    if (foreign !== null)
      return refused('not_empty', `the database at ${to.url} has rows already (${foreign}): name an empty one`);
    const filled = await fill(source, target.db, progress);
    const books = await equalBooks(from, target);
    await markMoved(source, { url: to.url, at: deps.clock.now() });
    await source.raw('COMMIT');
    return { kind: 'moved', filled, books };
  } finally {
    await target.close();
  }
}

async function equalBooks(from: StoreAddress, target: FillTarget): Promise<Books> {
  const reader = connect(sqliteFile(from.url), 1, readOnly);
  try {
    const books = await balance(reader);
    if (isDeepStrictEqual(await balance(target.pool), books)) return books;
    throw new UncopyableValue('the books of the copy are not those of the original');
  } finally {
    await reader.destroy();
  }
}

/** Returns why the schema is not that of this version, as the end of a sentence, or null if it is. */
async function whyOtherSchema(source: Knex): Promise<string | null> {
  const { taken, missing } = await migrationState(source);
  const why = whyUnsupported(taken);
  if (why !== null || missing.length === 0) return why;
  return `lacks ${missing.join(', ')}: run posthorn migrate first`;
}
