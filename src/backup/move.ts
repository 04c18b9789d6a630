/**
 * Moves all rows from a SQLite file into a PostgreSQL database, or back. The steps are in an order in which a crash never leaves two databases
 * that a server would start on:
 *
 * 1. The target is marked as unfinished, filled, read again and compared.
 * 2. The source is marked as moved. Nothing starts on either now.
 * 3. The mark of the target is taken away. If the program ends before that, the same command does only this.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { makeFolder } from '../base/make-folder.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import { balance, type Books } from '../messages/store/books.ts';
import { DatabaseRefusal } from '../storage/database-refusal.ts';
import { sqliteFile, type StoreAddress } from '../storage/database.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import type { Copied, CopyProgress } from '../storage/move/copy-rows.ts';
import { fillFrom, whyOtherSchema } from '../storage/move/fill.ts';
import { refusalOf } from '../storage/move/mark.ts';
import { CopyRefusal, type CopyRefusalWhy, type CopyTarget, type ExclusiveSource } from '../storage/move/sides.ts';
import { createSqliteTarget, openFilledTarget, openSqliteSource } from '../storage/move/sqlite.ts';

export interface MoveOptions {
  from: StoreAddress;
  to: StoreAddress;
  /** The data folder of the server, which must not run. */
  dataDir: string;
  progress: CopyProgress;
}

export type Moved =
  | { kind: 'moved'; copied: Copied; books: Books }
  /** An earlier run had done everything but the last step. */
  | { kind: 'completed' }
  | {
      kind: 'refused';
      /** `marked`: the source was moved before, or is itself the unfinished target of a copy. */
      why: CopyRefusalWhy | 'same_engine' | 'marked';
      text: string;
    };

const MARGIN_BYTES = 64 * 1024 * 1024;

/** Moves the rows. Throws `DatabaseRefusal` if a database cannot be used, and what the system says of its files. */
export async function moveStorage(deps: { clock: Clock }, options: MoveOptions): Promise<Moved> {
  const { from, to, dataDir } = options;
  if (isPostgresUrl(from.url) === isPostgresUrl(to.url))
    return {
      kind: 'refused',
      why: 'same_engine',
      text: 'both databases are of the same kind: use a backup for SQLite, and the tools of PostgreSQL for that',
    };
  if (!existsSync(dataDir))
    return {
      kind: 'refused',
      why: 'no_database',
      text: `there is no data folder ${dataDir}: run this with the settings of the server`,
    };
  const lock = await lockFolder(dataDir);
  if (lock === null)
    return { kind: 'refused', why: 'in_use', text: `a server is running on ${dataDir}: stop it first` };
  try {
    const source = await openSource(from);
    try {
      return await moveFrom(deps, source, options);
    } finally {
      await source.close();
    }
  } catch (error) {
    if (error instanceof CopyRefusal) return { kind: 'refused', why: error.why, text: error.message };
    throw await explained(error);
  } finally {
    await lock.release();
  }
}

/** Says what a lost connection means here. */
async function explained(error: unknown): Promise<unknown> {
  const { isConnectionLoss } = await import('../storage/postgres/connection.ts');
  if (error instanceof DatabaseRefusal || isOfFile(error) || !isConnectionLoss(error)) return error;
  return new DatabaseRefusal(
    'unreachable',
    'the connection to the database was lost: repeat the command, which begins again',
    error,
  );
}

/** A socket that is gone has the codes of files that are not there. */
const isOfFile = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && !['connect', 'read', 'write'].includes(String(error.syscall));

async function openSource(from: StoreAddress): Promise<ExclusiveSource> {
  if (!isPostgresUrl(from.url)) return openSqliteSource(sqliteFile(from.url));
  return (await import('../storage/move/postgres.ts')).openPostgresSource(from);
}

async function moveFrom(deps: { clock: Clock }, source: ExclusiveSource, options: MoveOptions): Promise<Moved> {
  const { from, to, progress } = options;
  if (source.mark !== null) return completeMove(source, to);
  const why = whyOtherSchema(source.steps);
  if (why !== null) throw new CopyRefusal('schema', `the database at ${from.url} ${why}`);
  const target = await openTarget(source, to);
  try {
    const move = { id: randomUUID(), at: deps.clock.now() };
    await target.begin({ ...move, url: from.url });
    const copied = await fillFrom(source, target, progress);
    const books = await balance(source.reader);
    if (!isDeepStrictEqual(await balance(target.reader), books))
      throw new CopyRefusal('data', 'the books of the copy are not those of the original');
    await source.markMoved({ ...move, url: to.url });
    await target.finish();
    return { kind: 'moved', copied, books };
  } finally {
    await target.close();
  }
}

async function openTarget(source: ExclusiveSource, to: StoreAddress): Promise<CopyTarget> {
  if (isPostgresUrl(to.url)) return (await import('../storage/move/postgres.ts')).openPostgresTarget(to);
  const file = sqliteFile(to.url);
  makeFolder(path.dirname(file), 0o750);
  const { bavail, bsize } = await statfs(path.dirname(file));
  const [free, needed] = [bavail * bsize, source.bytes + MARGIN_BYTES];
  if (free < needed)
    throw new CopyRefusal(
      'no_room',
      `${path.dirname(file)} has ${String(free)} bytes free; the file may need ${String(needed)}`,
    );
  return createSqliteTarget(file, source.steps);
}

/** Does the last step of a move that was broken off after the source was marked. Any other source with a mark is refused. */
async function completeMove({ mark }: ExclusiveSource, to: StoreAddress): Promise<Moved> {
  if (mark === null) throw new Error('the source has no mark');
  const target = mark.role === 'moved' && mark.url === to.url ? await openFilled(to, mark.id) : null;
  if (target === null) return { kind: 'refused', why: 'marked', text: refusalOf(mark).message };
  try {
    await target.finish();
    return { kind: 'completed' };
  } finally {
    await target.close();
  }
}

async function openFilled(to: StoreAddress, id: string): Promise<CopyTarget | null> {
  if (!isPostgresUrl(to.url)) return openFilledTarget(sqliteFile(to.url), id);
  return (await import('../storage/move/postgres.ts')).openFilledDatabase(to, id);
}
