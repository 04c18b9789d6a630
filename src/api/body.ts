/** Reads the body of a request, with limits of size, pace, time and memory; unpacks gzip; drains a refused body. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gunzip } from 'node:zlib';
import { giveBack } from '../base/bytes.ts';
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { networkOf } from '../net/ip.ts';
import { watchPace } from '../net/patience.ts';
import { Problem } from '../base/problem.ts';

export interface BodyLimits {
  /** Most bytes of a body, compressed and decompressed alike. */
  bodyBytes: number;
  /** A body above this many bytes is only for bulk sends. */
  singleBodyBytes: number;
  /** Most bytes read and thrown away of a refused body, so that a client that writes before it reads gets the answer. */
  drainBytes: number;
  /** Most bytes that the bodies of all requests may take at once; more answers 503 (`BodyMemory`). */
  heldBytes: number;
  /** How long a body may fall behind `leastPace`, in milliseconds; also its longest pause. */
  idleMs: number;
  /** Least pace of a body, in bytes a second. */
  leastPace: number;
  /** Longest time for all of the body, in milliseconds; null if the time for the whole request is the limit. */
  wholeMs: number | null;
}

const KIB = 1024;
const MIB = 1024 * 1024;

/** Limits for forms without a key or a session: `/login`, `/setup/…`, `/t/u/…`. */
export const strangerLimits = { bodyBytes: budgets.open_form_bytes.most, wholeMs: budgets.open_form_ms.most } as const;

export const bodyLimits: BodyLimits = {
  bodyBytes: 50 * MIB,
  singleBodyBytes: 40 * MIB,
  drainBytes: 64 * MIB,
  heldBytes: 256 * MIB,
  idleMs: 30_000,
  leastPace: 10_000,
  wholeMs: null,
};

/** True if the request says that a body follows (RFC 9112 section 6.3). */
export function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || declaredLength(request) > 0;
}

export function declaredLength(request: IncomingMessage): number {
  return Number(request.headers['content-length'] ?? 0);
}

/** Checks that the body is JSON in UTF-8, or of another of the types, and returns its encoding. Throws `unsupported_media_type`. */
export function checkMediaType(request: IncomingMessage, others: readonly string[] = []): 'gzip' | 'identity' {
  const [type = '', ...parameters] = (request.headers['content-type'] ?? '').toLowerCase().split(';');
  if (type.trim() !== 'application/json' && !others.includes(type.trim()))
    throw unsupported('The Content-Type must be application/json.');
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=', 2);
    if (name.trim() === 'charset' && !/^\s*"?utf-?8"?\s*$/.test(value)) throw unsupported('The charset must be utf-8.');
  }
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'gzip' || encoding === 'x-gzip') return 'gzip';
  if (encoding === 'identity') return 'identity';
  throw unsupported('The Content-Encoding must be gzip or absent.');
}

const unsupported = (why: string): Problem =>
  new Problem('unsupported_media_type', why, {
    headers: { Accept: 'application/json', 'Accept-Encoding': 'gzip, identity' },
  });

const tooLarge = (most: number): Problem =>
  new Problem(
    'payload_too_large',
    `The body may have at most ${most < MIB ? `${Math.floor(most / KIB)} KiB` : `${Math.floor(most / MIB)} MiB`}.`,
  );

/** The responses of clients that send the body only after `100 Continue`. */
const waiting = new WeakMap<IncomingMessage, ServerResponse>();

/** The client waits for `100 Continue`. It gets that when the body is about to be read: a refusal before then spares both sides the body. */
export function inviteLater(request: IncomingMessage, response: ServerResponse): void {
  waiting.set(request, response);
}

/** Is called for the memory that a body takes, as a whole or by its pieces; it may throw to refuse it. */
type Keep = (bytes: number) => void;

/** Reads the whole body. Throws `payload_too_large`, `invalid_json` (damaged gzip), `request_timeout`, and what `keep` throws. */
export async function readBody(
  { clock, limits }: { clock: Clock; limits: BodyLimits },
  request: IncomingMessage,
  encoding: 'gzip' | 'identity',
  keep: Keep,
): Promise<Buffer> {
  const length = declaredLength(request);
  if (length > limits.bodyBytes) throw tooLarge(limits.bodyBytes);
  keep(length);
  waiting.get(request)?.writeContinue();
  const bytes = isWhole(request) ? takeWhole(request) : await collect(clock, request, limits, keep);
  return encoding === 'gzip' ? unpack(bytes, limits, keep) : bytes;
}

/** Reads a form that came without a key or a session. Throws `payload_too_large`, `request_timeout`, and what `keep` throws. */
export async function readOpenForm(
  { clock, usedUp, limits }: { clock: Clock; usedUp?: UsedUp | undefined; limits: BodyLimits },
  request: IncomingMessage,
  keep: Keep,
): Promise<Buffer> {
  try {
    return await readBody({ clock, limits: { ...limits, ...strangerLimits } }, request, 'identity', keep);
  } catch (error) {
    const code = error instanceof Problem ? error.code : null;
    if (code === 'payload_too_large') usedUp?.('open_form_bytes');
    if (code === 'request_timeout') usedUp?.('open_form_ms');
    throw error;
  }
}

/** Returns whether the whole body came with the head: taking it then costs a fifth of listening for it. */
function isWhole(request: IncomingMessage): boolean {
  return request.complete && request.readableLength > 0 && request.readableLength === declaredLength(request);
}

function takeWhole(request: IncomingMessage): Buffer {
  const bytes = request.read() as Buffer;
  // Ends the stream, which is empty now: only then does Node read the next request on the connection.
  request.resume();
  return bytes;
}

/** Collects a body to its end. Memory for one of known length is kept already. After a fault the request stays paused, to be drained. */
function collect(clock: Clock, request: IncomingMessage, limits: BodyLimits, keep: Keep): Promise<Buffer> {
  const length = declaredLength(request);
  // The system gives it its memory as it is written to.
  const whole = length > 0 ? Buffer.allocUnsafeSlow(length) : null;
  const pieces: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      pace.cancel();
      request.off('data', take).off('close', cut).pause();
      reject(error instanceof Error ? error : new Error('a body could not be read', { cause: error }));
    };
    const take = (piece: Buffer): void => {
      size += piece.length;
      try {
        if (size > limits.bodyBytes) throw tooLarge(limits.bodyBytes);
        if (whole === null) keep(piece.length);
      } catch (error) {
        fail(error);
      }
      if (whole === null) pieces.push(piece);
      else if (piece.copy(whole, size - piece.length) === piece.buffer.byteLength) giveBack([piece]);
    };
    const cut = (): void =>
      fail(new Problem('invalid_request', 'The connection was closed before the body was complete.'));
    const pace = watch(clock, request, limits, fail);
    request.on('data', take).once('close', cut).once('error', cut);
    request.once('end', () => {
      pace.cancel();
      request.off('close', cut);
      resolve(whole?.subarray(0, size) ?? Buffer.concat(pieces, size));
    });
  });
}

/** Octets of the head and the end of gzip data (RFC 1952), and how many times smaller than its content it is at most. */
const LEAST_GZIP = 18;
const MOST_PACKED = 1032;
const damaged = (): Problem => new Problem('invalid_json', 'The gzip data of the body is damaged.');

/** Unpacks gzip. Its end says how large the content is: only that much memory is counted and filled, so that a bomb takes no more than a body. */
async function unpack(packed: Buffer, limits: BodyLimits, keep: Keep): Promise<Buffer> {
  const size = packed.length < LEAST_GZIP ? 0 : packed.readUInt32LE(packed.length - 4);
  if (size > MOST_PACKED * packed.length) throw damaged();
  if (size > limits.bodyBytes) throw tooLarge(limits.bodyBytes);
  keep(size);
  return new Promise((resolve, reject) => {
    const room = Math.max(64, size);
    gunzip(packed, { chunkSize: room + 1, maxOutputLength: room }, (error, bytes) => {
      if (error === null) resolve(bytes);
      else reject(damaged());
    });
  });
}

type Pace = Pick<BodyLimits, 'idleMs' | 'leastPace' | 'wholeMs'>;

/** Calls `refuse` if the body is too slow, or not whole in time. */
function watch(clock: Clock, { socket }: IncomingMessage, limits: Pace, refuse: (why: Problem) => void): Timer {
  const { idleMs, leastPace, wholeMs } = limits;
  const late = (why: string) => () => refuse(new Problem('request_timeout', why));
  const slow = `The body came more slowly than ${Math.round(leastPace / 1000)} kB a second for ${Math.round(idleMs / 1000)} s.`;
  const pace = watchPace(clock, { idleMs, leastPace }, () => socket.bytesRead, late(slow));
  const after = `The body did not arrive within ${Math.round((wholeMs ?? 0) / 1000)} s.`;
  const whole = wholeMs === null ? pace : clock.after(wholeMs, late(after), { background: true });
  return { cancel: () => [pace, whole].forEach((timer) => timer.cancel()) };
}

/** Reads and discards the rest of a refused body; resolves when it has ended, or closes the connection when it is too large or too slow. */
export function drain(
  clock: Clock,
  request: IncomingMessage,
  { drainBytes: most, ...pace }: Pace & Pick<BodyLimits, 'drainBytes'>,
): Promise<void> {
  return new Promise((resolve) => {
    let size = 0;
    const end = (): void => {
      timer.cancel();
      resolve();
    };
    const giveUp = (): void => {
      request.socket.destroy();
      end();
    };
    const timer = watch(clock, request, pace, giveUp);
    request.on('data', (piece: Buffer) => {
      size += piece.length;
      if (size > most) giveUp();
    });
    request.once('end', end).once('close', end).once('error', end);
    request.resume();
  });
}

/** The part of the memory that one request has. */
export interface BodyShare {
  /** Takes this many more bytes. Throws `service_unavailable` if there is no room. */
  readonly take: (bytes: number) => void;
  /** Gives everything back. */
  readonly release: () => void;
}

/**
 * The memory for bodies under way, forms and uploads included, and for large answers that are not taken yet. An account may hold at most
 * as much as is left for others: one alone gets half, two a third each. Strangers share a small part, by the same rule for networks.
 */
export class BodyMemory {
  private readonly most: number;
  private taken = 0;
  /** The part of it that strangers have. */
  private open = 0;
  private readonly owners = new Map<string, number>();

  private readonly usedUp: UsedUp;

  constructor(most: number, usedUp: UsedUp = () => undefined) {
    this.most = most;
    this.usedUp = usedUp;
  }

  /** `owner`: an account; null for a stranger, who is counted with the network of `ip`. */
  begin(owner: string | null, ip: string): BodyShare {
    const name = owner ?? `stranger ${networkOf(ip)}`;
    const add = (bytes: number): number => {
      if (owner === null) this.open += bytes;
      return this.add(name, bytes);
    };
    let mine = 0;
    return {
      take: (bytes) => {
        mine += bytes;
        const share = add(bytes);
        const leftOpen = Math.min(budgets.open_form_memory.most, this.most / 2) - this.open;
        if (share <= (owner === null ? leftOpen : this.most - this.taken) && this.taken <= this.most) return;
        if (owner === null) this.usedUp(leftOpen < 0 ? 'open_form_memory' : 'open_form_memory_network');
        throw new Problem('service_unavailable', 'Too many large bodies and answers at once.', { retryAfter: 1 });
      },
      release: () => {
        add(-mine);
        mine = 0;
      },
    };
  }

  /** Bytes of all requests. */
  get bytes(): number {
    return this.taken;
  }

  private add(name: string, bytes: number): number {
    const share = (this.owners.get(name) ?? 0) + bytes;
    if (share === 0) this.owners.delete(name);
    else this.owners.set(name, share);
    this.taken += bytes;
    return share;
  }
}
