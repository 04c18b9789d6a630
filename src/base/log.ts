/**
 * The log: one line a fact on standard output, with `event`, `message_id`, `recipient_id`, `lane`, `request_id` and the
 * like as fields. Lines never hold bodies; fields that are named like secrets are replaced before they are written.
 */
import { destination, pino, stdSerializers, stdTimeFunctions } from 'pino';
import type { DestinationStream } from 'pino';
import { prettyFactory } from 'pino-pretty';

export type LogFields = Readonly<Record<string, unknown>>;

/** What the rest of the program sees of the log. Fields first, then one short sentence that is the same each time. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  /** Give the error as the field `err`: its type, message, stack and causes are written. */
  error(fields: LogFields, message: string): void;
  /** A log whose lines all carry these fields. */
  child(fields: LogFields): Log;
}

/** The log of the running program, whose level a reload can change. */
export interface RootLog extends Log {
  level: string;
  /** Writes out what is still held; call it before the process ends on purpose. */
  flush(): void;
}

export interface LogOptions {
  level: 'debug' | 'info' | 'warn' | 'error';
  /** `json` for machines, `pretty` for people. */
  format: 'json' | 'pretty';
  /** Where lines go instead of to standard output; each `write` is one line. */
  stream?: DestinationStream;
}

/** Names that a secret goes by among a line's fields. Only at the top: paths with `*.` cost 20 us a line, these nothing. */
const SECRETS = ['password', 'secret', 'token', 'authorization', 'apiKey', 'privateKey'];
/** A reader of standard output that stands still must not fill our memory: beyond this, lines are dropped. */
const LARGEST_BACKLOG_BYTES = 16 * 2 ** 20;

export function createLog({ level, format, stream }: LogOptions): RootLog {
  return pino(
    {
      level,
      base: null,
      messageKey: 'message',
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: stdSerializers.errWithCause },
      redact: { paths: SECRETS, censor: '(hidden)' },
    },
    format === 'pretty' ? forPeople(stream) : (stream ?? standardOutput(false)),
  );
}

/** Written at once: whoever watches a terminal wants to see the line before the crash. */
function forPeople(stream: DestinationStream | undefined): DestinationStream {
  const target = stream ?? standardOutput(true);
  const readable = prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    colorize: stream === undefined,
  });
  return {
    write: (line) => {
      target.write(readable(line));
    },
  };
}

/**
 * A log whose disk is full must not stop mail. What cannot be written is kept, up to a limit, and goes out with the line
 * after there is room again. Until then nothing is forced out: `flushSync` would try for ever, with everything standing still.
 */
function standardOutput(sync: boolean): DestinationStream {
  const stream = destination({ fd: 1, sync, maxLength: LARGEST_BACKLOG_BYTES });
  const flushSync = stream.flushSync.bind(stream);
  stream.on('error', () => {
    stream.flushSync = () => undefined;
  });
  stream.on('write', () => {
    stream.flushSync = flushSync;
  });
  return stream;
}
