/**
 * TCP connect to one host at whichever of its addresses answers first, after RFC 8305: families in turn, each address with
 * a head start before the next is tried in parallel. A dead address then costs two seconds instead of a whole time limit.
 */
import { connect, isIP } from 'node:net';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../base/clock.ts';
import { createLru } from '../../base/lru.ts';
import { DAY_MS } from '../../base/time.ts';

export interface ConnectTarget {
  /** The addresses in the order to try; at least one. */
  ips: readonly string[];
  port: number;
  localAddresses?: readonly string[] | undefined;
  /** Limit of each single attempt. */
  timeoutMs: number;
  /** How long an address is tried alone before the next is tried in parallel, in ms; 2 s if not given. */
  headStartMs?: number;
  signal?: AbortSignal | undefined;
}

export type Connected =
  | { kind: 'connected'; socket: Socket; ip: string }
  /** `ours`: this machine has no descriptor, memory or address left for a connection. */
  | { kind: 'failed'; ip: string; text: string; ours?: true };

/** Much longer than a round trip, so that a healthy host rarely sees two connections. */
const HEAD_START_MS = 2000;
/** Errors that say nothing about the other side. */
const OURS: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']);
/** A hostile domain may list hundreds of addresses. */
const MOST_ADDRESSES = 8;

/** Returns the socket of the first address that answered, or the fault of the last one that failed. Other sockets are destroyed. */
export function connectFirst(
  { clock, addresses }: { clock: Clock; addresses?: AddressMemory | undefined },
  target: ConnectTarget,
): Promise<Connected> {
  const { port, localAddresses = [], timeoutMs, headStartMs = HEAD_START_MS, signal } = target;
  const inTurn = familiesInTurn(target.ips);
  const waiting = (addresses?.inOrder(inTurn, clock.monotonic()) ?? inTurn).slice(0, MOST_ADDRESSES);
  const running = new Map<Socket, Timer>();
  let headStart: Timer | null = null;
  return new Promise((resolve) => {
    const end = (result: Connected): void => {
      headStart?.cancel();
      signal?.removeEventListener('abort', abandon);
      for (const [socket, timer] of running) {
        timer.cancel();
        if (result.kind === 'failed' || socket !== result.socket) socket.destroy();
      }
      running.clear();
      resolve(result);
    };
    const abandon = (): void => end({ kind: 'failed', ip: target.ips[0] ?? '', text: String(signal?.reason) });
    const failed = (socket: Socket, ip: string, text: string, code = ''): void => {
      running.get(socket)?.cancel();
      // False for a socket that was not chosen, and for one that broke after it was chosen.
      if (!running.delete(socket)) return;
      socket.destroy();
      if (waiting.length > 0) next();
      else if (running.size === 0) end({ kind: 'failed', ip, text, ...(OURS.has(code) ? { ours: true } : {}) });
    };
    const next = (): void => {
      headStart?.cancel();
      const ip = waiting.shift();
      if (ip === undefined) return;
      const localAddress = localAddresses.find((own) => isIP(own) === isIP(ip));
      const from = localAddress === undefined ? {} : { localAddress };
      const socket = connect({ host: ip, port, noDelay: true, ...from });
      const timer = clock.after(timeoutMs, () =>
        failed(socket, ip, `no connection to ${ip} within ${String(timeoutMs / 1000)} s`),
      );
      running.set(socket, timer);
      socket.on('error', (error: NodeJS.ErrnoException) => failed(socket, ip, error.message, error.code));
      socket.once('connect', () => end({ kind: 'connected', socket, ip }));
      if (waiting.length === 0) return;
      headStart = clock.after(headStartMs, () => {
        addresses?.failed(ip, clock.monotonic());
        next();
      });
    };
    signal?.addEventListener('abort', abandon);
    if (signal?.aborted === true) abandon();
    else next();
  });
}

/** RFC 8305 section 4: one address of each family in turn, beginning with the family of the first. */
function familiesInTurn(ips: readonly string[]): string[] {
  const family = isIP(ips[0] ?? '');
  const same = ips.filter((ip) => isIP(ip) === family);
  const other = ips.filter((ip) => isIP(ip) !== family);
  if (other.length === 0) return same;
  const turns = Array.from({ length: Math.max(same.length, other.length) }, (_, at) => [same[at], other[at]]);
  return turns.flat().filter((ip) => ip !== undefined);
}

/** How long an address is tried behind the others, in ms: much longer than a burst of connections, and short enough for a repair. */
const FAILED_MS = 5 * 60_000;
/** How long a host gets its commands one by one, in ms: each needs a round trip more, and a mail that meets the fault again waits for minutes. */
const ONE_BY_ONE_MS = DAY_MS;
const MOST_REMEMBERED = 10_000;

/**
 * Remembers which addresses took no connection in time or gave no session: the next connection begins with the others; and which lose commands in one
 * piece: they get them one by one. Each of our sources has its own memory, since the way to an address may be broken from one alone.
 */
export class AddressMemory {
  private readonly untilOf = createLru<string, number>(MOST_REMEMBERED);
  private readonly oneByOneUntil = createLru<string, number>(MOST_REMEMBERED);

  /** Notes that the address has failed. `now` is on the monotonic clock, in ms, here and below. */
  failed(ip: string, now: number): void {
    this.untilOf.set(ip, now + FAILED_MS);
  }

  /** Notes that the host at this address answered the first of several commands and not the next, although it offers PIPELINING (RFC 2920). */
  lostCommands(ip: string, now: number): void {
    this.oneByOneUntil.set(ip, now + ONE_BY_ONE_MS);
  }

  /** Returns whether that happened in the last day. */
  losesCommands(ip: string, now: number): boolean {
    return (this.oneByOneUntil.peek(ip) ?? -Infinity) > now;
  }

  /** Returns the addresses in their order, but those that failed in the last 5 minutes behind the others. */
  inOrder(ips: readonly string[], now: number): string[] {
    const hasFailed = (ip: string): boolean => (this.untilOf.peek(ip) ?? -Infinity) > now;
    return [...ips.filter((ip) => !hasFailed(ip)), ...ips.filter(hasFailed)];
  }
}
