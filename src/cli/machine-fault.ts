/**
 * Explains errors of the machine that end a command: a full disk, a disk that fails, a file system that is read-only, rights that are
 * missing. The errors of SQLite and of Node.js name neither the cause nor what to do.
 */
import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { exitCodes } from './exit-codes.ts';

export interface MachineFault {
  line: string;
  cure: string;
  exitCode: number;
}

const FULL = /^(?:SQLITE_FULL|ENOSPC|EDQUOT)$/;
const FAILING = /^(?:SQLITE_IOERR|SQLITE_CORRUPT|SQLITE_NOTADB|EIO)$/;
const READ_ONLY = /^(?:SQLITE_READONLY|EROFS)$/;
/** PostgreSQL takes no further connection, or has no room: its codes of class 53. */
const DATABASE_FULL = /^53\d{3}$/;
const FORBIDDEN = /^(?:EACCES|EPERM|SQLITE_CANTOPEN)$/;

/** Returns whether a later try may work by itself: the disk is full, and may be emptied. */
export const isDiskFull = (error: unknown): boolean => FULL.test(codeOf(error));

/** Returns null for an error that is not one of the machine. `dataDir` is named if the error names no file. */
export function machineFault(error: unknown, dataDir: string | null, writes = checkWritable): MachineFault | null {
  const code = codeOf(error);
  const place = pathOf(error) ?? dataDir ?? 'the data folder';
  if (FULL.test(code))
    return {
      line: `the disk of ${place} is full (${code})`,
      cure: 'Make room: nothing that was accepted is lost. `df -h` shows the disks; old backups are in backup.dir.',
      exitCode: exitCodes.output,
    };
  if (DATABASE_FULL.test(code))
    return {
      line: `PostgreSQL cannot do more now: ${error instanceof Error ? error.message : String(error)} (${code})`,
      cure: 'Each server needs ten connections, a command two: see `max_connections`, limits of the role and of the database, and its disk.',
      exitCode: exitCodes.unavailable,
    };
  if (FAILING.test(code))
    return {
      line: `the disk of ${place} reports errors or is full, or a file there is damaged (${code})`,
      cure: 'Look at `df -h` and `dmesg`. If the disk has room and no errors, restore the last backup: docs/backup.md.',
      exitCode: exitCodes.output,
    };
  const owned = code === 'SQLITE_READONLY' || FORBIDDEN.test(code) ? wrongOwner(dataDir) : null;
  if (owned === null && (READ_ONLY.test(code) || (code === 'SQLITE_CANTOPEN' && isReadOnly(dataDir, writes))))
    return {
      line: `${place} cannot be written: the file system is read-only here (${code})`,
      cure: 'Under systemd the service may write only into the folders of its unit: run `sudo /opt/posthorn/systemd/paths.sh`, which reads the settings. Elsewhere look at `mount`.',
      exitCode: exitCodes.noPermission,
    };
  if (owned !== null || FORBIDDEN.test(code))
    return {
      line: code.startsWith('SQLITE_')
        ? `the database cannot be opened: this user (${user()}) has to be able to read and write it, its -wal and -shm files and their folder`
        : `this user (${user()}) may not open ${place} (${code})`,
      cure: owned ?? 'Run it as the user of the service: `sudo posthorn ...` becomes that user by itself.',
      exitCode: exitCodes.noPermission,
    };
  if (code === 'ENOENT' && isMkdir(error))
    return {
      line: `${place} cannot be made: its file system does not let folders be made there (${code})`,
      cure: 'Name a folder on a disk.',
      exitCode: exitCodes.noPermission,
    };
  return null;
}

const checkWritable = (folder: string): void => {
  accessSync(folder, constants.W_OK);
};

/** SQLite says only that it cannot open the database if the file system is read-only. */
function isReadOnly(dataDir: string | null, writes: typeof checkWritable): boolean {
  try {
    if (dataDir !== null) writes(dataDir);
    return false;
  } catch (error) {
    return codeOf(error) === 'EROFS';
  }
}

const user = (): string => String(process.getuid?.() ?? 'unknown');

/** Returns the error, or that of its causes, which has a code. */
function coded(error: unknown): Error | null {
  if (!(error instanceof Error)) return null;
  return 'code' in error ? error : coded(error.cause);
}

function codeOf(error: unknown): string {
  const found = coded(error);
  return found !== null && 'code' in found ? String(found.code) : '';
}

function isMkdir(error: unknown): boolean {
  const found = coded(error);
  return found !== null && 'syscall' in found && found.syscall === 'mkdir';
}

function pathOf(error: unknown): string | null {
  const found = coded(error);
  return found !== null && 'path' in found && typeof found.path === 'string' ? found.path : null;
}

/** Returns the command that gives files of the data folder back to this user, to whom the folder belongs; null if none has another owner. */
function wrongOwner(dataDir: string | null): string | null {
  const self = process.getuid?.();
  if (dataDir === null || self === undefined) return null;
  const folder = statSync(dataDir, { throwIfNoEntry: false });
  if (folder?.isDirectory() !== true || folder.uid !== self) return null;
  const files = readdirSync(dataDir)
    .map((name) => path.join(dataDir, name))
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.uid !== self);
  return files.length === 0
    ? null
    : `These belong to another user, probably since a command ran as root. Run as root: chown ${String(self)} ${files.join(' ')}`;
}
