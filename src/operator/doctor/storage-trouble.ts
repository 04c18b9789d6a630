/** Says what to do if the database cannot take or answer anything now: its disk is full or fails, it is damaged, or its server is away. */
import { isPostgresUrl } from '../../base/postgres-url.ts';
import type { Config } from '../../config/schema.ts';
import { isDamage, isStorageTrouble } from '../../storage/commit.ts';

/** Returns null for an error that is not the database's. */
export function storageTrouble(error: unknown, { url }: Config['storage']): { why: string; cure: string } | null {
  if (isDamage(error)) return { why: `the database is damaged: ${withoutStatement(error)}`, cure: DAMAGE_CURE };
  if (!(error instanceof Error) || !isStorageTrouble(error) || isOfFile(error)) return null;
  return {
    why: `the database cannot take or answer this now: ${error.message}`,
    cure: isPostgresUrl(url) ? POSTGRES_CURE : sqliteCure('code' in error ? String(error.code) : ''),
  };
}

/** A socket that is not there has the code of a file that is not there. */
const isOfFile = (error: Error): boolean =>
  'code' in error && error.code === 'ENOENT' && 'syscall' in error && error.syscall !== 'connect';

/** Returns the error without the statement, which is before the last dash. */
const withoutStatement = ({ message }: Error): string => message.split(' - ').at(-1) ?? message;

const DAMAGE_CURE =
  'Stop the server, keep a copy of the database as it is, see that the disk has no errors (dmesg), and restore the last backup: docs/backup.md.';

const POSTGRES_CURE =
  'Is PostgreSQL running where `storage.url` says, has its disk room, and does it take connections from here? Its own log says more.';

function sqliteCure(code: string): string {
  if (/^SQLITE_(?:CANTOPEN|READONLY)/.test(code))
    return 'Run this as the user of the server, and see the line of `files`; or start the server (posthorn serve).';
  if (/^SQLITE_(?:FULL|IOERR)/.test(code))
    return 'Make room on the disk of the database: see the line of `disk`. If it has room, the log of the system (dmesg) says what fails.';
  return 'Ask again later; see the line of `disk`, and the log.';
}
