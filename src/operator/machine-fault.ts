/**
 * Explains errors of the machine and of the database, with which a command ends or which the doctor finds: a full disk, a disk that fails, a
 * file system that is read-only, rights that are missing, a database that is away. Their own texts name neither the cause nor what to do.
 */
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { isStorageTrouble } from '../storage/commit.ts';

interface Kind {
  codes: RegExp;
  /** `place` is the file of the error, or the data folder; `text` the error's own text. */
  line(place: string, text: string): string;
  cure: string;
}

const user = (): string => String(process.getuid?.() ?? 'unknown');

const kinds = {
  /** A later try may work by itself. */
  full: {
    codes: /^(?:SQLITE_FULL|ENOSPC|EDQUOT)$/,
    line: (place) => `the disk of ${place} is full`,
    cure: 'Make room: nothing that was accepted is lost. `df -h` shows the disks; old backups are in backup.dir.',
  },
  /** PostgreSQL takes no further connection, or has no room. */
  busy: {
    codes: /^53\d{3}$/,
    line: (_, text) => `PostgreSQL cannot do more now: ${text}`,
    cure: 'Each server needs ten connections, a command two: see `max_connections`, limits of the role and of the database, and its disk.',
  },
  damaged: {
    codes: /^(?:SQLITE_(?:CORRUPT|NOTADB)|XX00[12])$/,
    line: (place, text) => `the database of ${place} is damaged: ${text}`,
    cure: 'Stop the server, keep a copy of the database as it is, see that the disk has no errors (dmesg), and restore the last backup: docs/backup.md.',
  },
  failing: {
    codes: /^(?:SQLITE_IOERR|EIO)$/,
    line: (place) => `the disk of ${place} reports errors or is full`,
    cure: 'Look at `df -h` and `dmesg`. If the disk has room and no errors, restore the last backup: docs/backup.md.',
  },
  read_only: {
    codes: /^(?:SQLITE_READONLY|EROFS)$/,
    line: (place) => `${place} cannot be written: the file system is read-only here`,
    cure: 'Under systemd the service may write only into the folders of its unit: run `sudo /opt/posthorn/systemd/paths.sh`, which reads the settings. Elsewhere look at `mount`.',
  },
  forbidden: {
    codes: /^(?:EACCES|EPERM|SQLITE_CANTOPEN)$/,
    line: (place) => `this user (${user()}) may not open or write ${place}, or what is in it`,
    cure: 'Run it as the user of the service: `sudo posthorn ...` becomes that user by itself.',
  },
  away: {
    codes: /^$/,
    line: (_, text) => `the database cannot take or answer this now: ${text}`,
    cure: 'Is the database running where `storage.url` says, and does it take connections from here? Ask again later; its own log says more.',
  },
} as const satisfies Readonly<Record<string, Kind>>;

export interface MachineFault {
  kind: keyof typeof kinds;
  line: string;
  cure: string;
}

/** Returns null for an error that is not one of the machine. `dataDir` is named if the error names no file. */
export function machineFault(error: unknown, dataDir: string | null): MachineFault | null {
  const found = coded(error);
  const code = found?.code ?? '';
  // SQLite says more behind the kind of error: SQLITE_IOERR_WRITE.
  const short = code.replace(/^(SQLITE_[A-Z]+)_.*/, '$1');
  const known = Object.entries<Kind>(kinds).find(([, { codes }]) => code !== '' && codes.test(short));
  // A socket that is not there has the code of a file that is not there.
  const isAway = isStorageTrouble(error) && (code !== 'ENOENT' || found?.syscall === 'connect');
  const kind = (known?.[0] ?? (isAway ? 'away' : null)) as MachineFault['kind'] | null;
  if (kind === null) return null;
  const message = (found ?? (error as Error)).message;
  // The text of a query is before the last dash.
  const text = message.split(' - ').at(-1) ?? message;
  const owned = kind === 'read_only' || kind === 'forbidden' ? wrongOwner(dataDir) : null;
  const { line, cure } = kinds[owned === null ? kind : 'forbidden'];
  const place = found?.path ?? dataDir ?? 'the data folder';
  return { kind, line: `${line(place, text)}${code === '' ? '' : ` (${code})`}`, cure: owned ?? cure };
}

/** Returns the error, or that of its causes, which has a code. */
function coded(error: unknown): NodeJS.ErrnoException | null {
  if (!(error instanceof Error)) return null;
  return 'code' in error ? (error as NodeJS.ErrnoException) : coded(error.cause);
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
