/** The log: one line for each fact on standard output, with `event` and the like as fields. No bodies; fields named like secrets are replaced. */
import { createHash } from 'node:crypto';
import { isatty } from 'node:tty';
import { destination, pino, stdSerializers, stdTimeFunctions, type DestinationStream } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { fstatSync } from 'node:fs';

export type LogFields = Readonly<Record<string, unknown>>;

/** The log as the rest of the program uses it: fields first, then one short sentence that is the same each time. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  /** Takes the error as the field `err`: its type, message, stack and causes are written. */
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Log;
}

export interface RootLog extends Log {
  level: string;
  /** Writes out what is still buffered; call it before the process ends on purpose. */
  flush(): void;
}

export interface LogOptions {
  level: 'debug' | 'info' | 'warn' | 'error';
  format: 'json' | 'pretty';
  /** `hashed` writes a hash in place of each mail address, so that lines about the same one can be found. */
  addresses?: 'full' | 'hashed';
  /** True if standard output is the journal of systemd: each line then begins with its priority (sd-daemon(3)). */
  journal?: boolean;
  /** Takes the lines in place of standard output; each `write` is one line. */
  stream?: DestinationStream;
}

/** Names that a secret goes by among a line's fields. Only at the top: paths with `*.` cost 20 us a line, these nothing. */
const SECRETS = ['password', 'secret', 'token', 'authorization', 'apiKey', 'privateKey'];
/** A reader of standard output that stops reading must not fill our memory: beyond this, lines are dropped. */
const LARGEST_BACKLOG_BYTES = 16 * 2 ** 20;
/** Lines go out together, when there are so many bytes of them or after so many ms: each write wakes a thread, which cost 9 % of the main loop. */
const LINES_TOGETHER_BYTES = 12 * 1024;
const LINES_TOGETHER_MS = 100;

export function createLog({ level, format, addresses = 'full', journal = false, stream }: LogOptions): RootLog {
  const isHashed = addresses === 'hashed';
  return pino(
    {
      level,
      base: null,
      messageKey: 'message',
      timestamp: stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        ...(isHashed ? { log: withoutAddresses } : {}),
      },
      serializers: { err: isHashed ? (err: Error) => hashedIn(errorOf(err)) : errorOf },
      redact: { paths: SECRETS, censor: '(hidden)' },
    },
    format === 'pretty' ? forPeople(stream) : forMachines(stream ?? standardOutput(false), journal),
  );
}

/** The priorities of syslog(3) as the journal reads and removes them (sd-daemon(3)); `journalctl -p err` filters by them. */
export const PRIORITY = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' } as const;

/** Returns whether a file descriptor is the journal's. `named` is JOURNAL_STREAM, in which systemd gives its device and inode. */
export function isJournal(named: string | undefined, descriptor: number): boolean {
  if (named === undefined) return false;
  try {
    const { dev, ino } = fstatSync(descriptor, { bigint: true });
    return named === `${String(dev)}:${String(ino)}`;
  } catch {
    return false; // a descriptor that is closed
  }
}

/** A line begins with its level, since that is the first member that pino writes. */
const BEGINNINGS = (['error', 'warn', 'debug'] as const).map(
  (level) => [`{"level":"${level}"`, PRIORITY[level]] as const,
);

function forMachines(stream: DestinationStream & { flushSync?(): void }, journal: boolean): DestinationStream {
  if (!journal) return stream;
  return Object.assign(Object.create(stream) as DestinationStream, {
    write(line: string) {
      stream.write((BEGINNINGS.find(([beginning]) => line.startsWith(beginning))?.[1] ?? PRIORITY.info) + line);
    },
  });
}

const errorOf = stdSerializers.errWithCause;

/** Local part and domain, without the punctuation that mail hosts write around an address. Bounded, to stay linear. */
const ADDRESS = /[^\s"'<>()[\]:;,\\@=]{1,64}@([a-z0-9\u0080-\uffff.-]{1,255})/gi;

/** Returns what replaces an address: the first 16 digits of its SHA-256, in lower case, so that one can be looked for; and its domain. */
const hashed = (address: string, domain: string): string =>
  `#${createHash('sha256').update(address.toLowerCase()).digest('hex').slice(0, 16)}@${domain}`;

/** Hashes the addresses in the fields of a line. The command in `send` is there to be pasted and stays whole: it has examples. */
function withoutAddresses({ send, ...fields }: Record<string, unknown>): Record<string, unknown> {
  const shown = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, hashedIn(value)]));
  return send === undefined ? shown : { ...shown, send };
}

function hashedIn(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(ADDRESS, hashed);
  if (Array.isArray(value)) return value.map(hashedIn);
  // An error is read by its serializer first, a date writes itself.
  if (typeof value !== 'object' || value === null || value instanceof Error || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, hashedIn(part)]));
}

/** Writes synchronously, so that a terminal shows the last line before a crash. */
function forPeople(stream: DestinationStream | undefined): DestinationStream {
  const target = stream ?? standardOutput(true);
  const readable = prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    // A file or a pipe gets no escape sequences.
    colorize: stream === undefined && isatty(1),
  });
  return {
    write: (line) => target.write(readable(line)),
  };
}

/** Keeps lines that cannot be written, as on a full disk, for the next line that can. Until then `flushSync` does nothing: it would try for ever. */
function standardOutput(sync: boolean): DestinationStream {
  const together = sync ? {} : { minLength: LINES_TOGETHER_BYTES, periodicFlush: LINES_TOGETHER_MS };
  const stream = destination({ fd: 1, sync, maxLength: LARGEST_BACKLOG_BYTES, ...together });
  const flushSync = stream.flushSync.bind(stream);
  stream.on('error', () => {
    stream.flushSync = () => undefined;
  });
  stream.on('write', () => {
    stream.flushSync = flushSync;
  });
  return stream;
}
