/** Asks several DNS servers one question, one after the other, until one gives a usable answer or the deadline passes. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';
import type { Clock } from '../base/clock.ts';
import {
  MAX_MESSAGE_BYTES,
  readReply,
  withRandomCase,
  writeQuery,
  type Query,
  type RecordOf,
  type RecordType,
  type Reply,
  type Trouble,
} from './dns-message.ts';

/** A DNS server, and the facts about it that are kept between look-ups. */
export interface Server {
  ip: string;
  port: number;
  /** Look-ups in a row that this server left without any reply. */
  missed: number;
  /** Until this time (of `clock.monotonic`) other servers are asked first. */
  deadUntil: number;
}

export type Found<T> = Exclude<Reply<T>, { kind: 'foreign' | 'truncated' }>;

/** The wait for a reply in the first round; each further round waits half as long again. */
const FIRST_WAIT_MS = 800;
const MISSES_UNTIL_DEAD = 3;
const DEAD_MS = 30_000;

export interface Asking {
  clock: Clock;
  /** True if a SERVFAIL is the answer, whatever other servers say. */
  validating: boolean;
  /** Once true, no further query is sent. */
  closed: boolean;
  /** End the queries that are under way, as if no reply came. */
  underWay: Set<() => void>;
}

const SILENT: Trouble = { kind: 'trouble', why: 'timeout', text: 'no DNS server answered in time' };

/** Returns the answer; `deadline` is on `clock.monotonic()`. A server that is silent is asked again after the others, one that fails is not. */
export async function askServers<T extends RecordType>(
  asking: Asking,
  servers: readonly Server[],
  question: { name: string; type: T },
  deadline: number,
): Promise<Found<RecordOf[T]>> {
  const { clock, validating } = asking;
  let left = preferred(servers, clock.monotonic());
  let trouble: Trouble = { kind: 'trouble', why: 'network', text: 'no DNS server is configured' };
  /** The servers that were asked, and if they gave a reply of any kind. */
  const heard = new Map<Server, boolean>();
  try {
    for (let wait = FIRST_WAIT_MS; left.length > 0; wait *= 1.5)
      for (const server of left) {
        const ms = Math.min(wait, deadline - clock.monotonic());
        if (ms <= 0 || asking.closed) return SILENT;
        const reply = await ask(asking, server, question, ms);
        heard.set(server, heard.get(server) === true || (reply !== SILENT && !isUnreachable(reply)));
        if (reply === SILENT) continue;
        if (reply.kind !== 'trouble' || (reply.why === 'servfail' && validating)) return reply;
        trouble = reply;
        left = left.filter((one) => one !== server);
      }
    return trouble;
  } finally {
    for (const [server, hasReplied] of heard) judge(server, hasReplied, clock.monotonic());
  }
}

const isUnreachable = (reply: Found<unknown>): boolean => reply.kind === 'trouble' && reply.why === 'network';

/** Returns the servers that answer first, then those that do not, each group in the order of the settings. */
const preferred = (servers: readonly Server[], now: number): Server[] => [
  ...servers.filter(({ deadUntil }) => deadUntil <= now),
  ...servers.filter(({ deadUntil }) => deadUntil > now),
];

function judge(server: Server, hasReplied: boolean, now: number): void {
  server.missed = hasReplied ? 0 : server.missed + 1;
  server.deadUntil = server.missed >= MISSES_UNTIL_DEAD ? now + DEAD_MS : 0;
}

/** Asks one server, over TCP too if its answer is cut or may be forged. `ms`: the wait for each reply. */
async function ask<T extends RecordType>(
  asking: Asking,
  server: Server,
  question: { name: string; type: T },
  ms: number,
): Promise<Found<RecordOf[T]>> {
  for (let over: Transport = askOverUdp; ;) {
    const query: Query<T> = { ...question, id: randomInt(65_536) };
    // Over TCP a reply cannot be forged without seeing the connection.
    if (over === askOverUdp) query.written = withRandomCase(query.name);
    const reply = await exchange(asking, server, query, over, ms);
    if (reply.kind !== 'truncated') return reply;
    if (over === askOverTcp) return { kind: 'trouble', why: 'malformed', text: 'the answer is cut even over TCP' };
    over = askOverTcp;
  }
}

function exchange<T extends RecordType>(
  { clock, underWay }: Asking,
  server: Server,
  query: Query<T>,
  over: Transport,
  ms: number,
): Promise<Exclude<Reply<RecordOf[T]>, { kind: 'foreign' }>> {
  return new Promise((resolve) => {
    const end = (reply: Parameters<typeof resolve>[0]): void => {
      underWay.delete(stop);
      timer.cancel();
      close();
      resolve(reply);
    };
    const stop = (): void => end(SILENT);
    const timer = clock.after(ms, stop);
    underWay.add(stop);
    const close = over(server, writeQuery(query), {
      message(bytes) {
        const reply = readReply(bytes, query);
        if (reply.kind !== 'foreign') end(reply);
      },
      error: (text) => end({ kind: 'trouble', why: 'network', text }),
    });
  });
}

/** Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`. Throws an Error on anything else: a fault in the settings. */
export function parseServerAddress(text: string): { ip: string; port: number } {
  if (isIP(text) !== 0) return { ip: text, port: 53 };
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text);
  const ip = match?.[1] ?? match?.[2] ?? '';
  const port = Number(match?.[3]);
  if (isIP(ip) === 0 || !(port >= 1 && port <= 65_535))
    throw new Error(`"${text}" is not the address of a DNS server: write ip, ip:port or [ipv6]:port`);
  return { ip, port };
}

interface Listener {
  message(bytes: Buffer): void;
  error(text: string): void;
}

/** Sends a query; returns a function that closes the socket, after which nothing is heard of it. */
type Transport = (server: Server, query: Buffer, listener: Listener) => () => void;

const askOverUdp: Transport = (server, query, listener) => {
  const socket = createSocket(isIPv6(server.ip) ? 'udp6' : 'udp4');
  let open = true;
  const fail = (error: Error | null): void => {
    if (open && error !== null) listener.error(error.message);
  };
  socket.on('error', fail);
  socket.on('message', (bytes) => {
    if (open) listener.message(bytes);
  });
  socket.once('connect', () => {
    if (open) socket.send(query, fail);
  });
  socket.connect(server.port, server.ip);
  return () => {
    if (open) socket.close();
    open = false;
  };
};

const askOverTcp: Transport = (server, query, listener) => {
  const socket = connect({ host: server.ip, port: server.port, noDelay: true });
  let received = Buffer.alloc(0);
  const prefix = Buffer.alloc(2);
  prefix.writeUInt16BE(query.length);
  socket.write(Buffer.concat([prefix, query]));
  socket.on('error', (error) => listener.error(error.message));
  socket.on('end', () => listener.error('the connection ended before the whole answer'));
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    const length = received.length < 2 ? Infinity : received.readUInt16BE(0);
    if (length !== Infinity && length > MAX_MESSAGE_BYTES) listener.error('the answer is too large');
    else if (received.length >= 2 + length) listener.message(received.subarray(2, 2 + length));
  });
  return () => {
    socket.removeAllListeners('data').removeAllListeners('end').destroy();
  };
};
