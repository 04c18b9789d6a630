/**
 * Asks several servers one DNS question, in turn, until one gives a usable answer or the deadline passes. A server that
 * is slow keeps its socket, so a late answer still counts; after one that fails the next is asked at once.
 */
import { randomInt } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.ts';
import {
  MAX_MESSAGE_BYTES,
  readReply,
  withRandomCase,
  writeQuery,
  type Query,
  type RecordOf,
  type RecordType,
  type Reply,
} from './dns-message.ts';
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';

/** A DNS server, and the facts about it that are kept between look-ups. */
export interface Server extends ServerAddress {
  /** Look-ups in a row that this server left without any reply. */
  missed: number;
  /** Until this time (of `clock.monotonic`) other servers are asked first. */
  deadUntil: number;
  /** False once it refused a query with EDNS. */
  edns: boolean;
  /** Look-ups in a row in which it did not repeat the case of the question. */
  folded: number;
}

export interface Trouble {
  kind: 'trouble';
  why: 'timeout' | 'servfail' | 'refused' | 'malformed' | 'network';
  /** The trouble in words, for people. */
  text: string;
}
export type Found<T> = Extract<Reply<T>, { kind: 'records' | 'alias' | 'no_data' | 'no_domain' }> | Trouble;

const FIRST_REPEAT_MS = 800;
const MISSES_UNTIL_DEAD = 3;
const DEAD_MS = 30_000;
/** After this many answers in another case, a server is sent names without random case. */
const FOLDED_UNTIL_KNOWN = 3;

interface Turn {
  server: Server;
  asked: Asked;
  /** When it was first asked. */
  since: number;
  /** A reply of any kind came: the server works. */
  heard: boolean;
  /** Its answer cannot be used; asking again would not help. */
  failed: boolean;
  /** A reply did not have the case of the question: the case is not checked any more in this look-up. */
  folded: boolean;
}

interface SearchDeps {
  clock: Clock;
  servers: readonly Server[];
  /** True if a SERVFAIL is the answer, whatever other servers say. */
  validating: boolean;
}

/** One question that is being asked. It begins with its creation; nothing stays open after `result` settles, which never rejects. */
export class Search<T extends RecordType> {
  readonly result: Promise<Found<RecordOf[T]>>;
  private readonly clock: Clock;
  private readonly validating: boolean;
  private readonly question: { name: string; type: T };
  private readonly order: readonly Server[];
  private readonly turns: Turn[] = [];
  private lastTrouble: Trouble = { kind: 'trouble', why: 'network', text: 'no DNS server is configured' };
  private rounds = 0;
  private repeatTimer: Timer | null = null;
  private readonly deadlineTimer: Timer;
  private settle: (found: Found<RecordOf[T]>) => void = () => undefined;
  private done = false;

  /** `deadline` is on `clock.monotonic()`. */
  constructor({ clock, servers, validating }: SearchDeps, question: { name: string; type: T }, deadline: number) {
    this.clock = clock;
    this.validating = validating;
    this.question = question;
    this.order = preferred(servers, clock.monotonic());
    this.result = new Promise((resolve) => (this.settle = resolve));
    this.deadlineTimer = clock.after(Math.max(0, deadline - clock.monotonic()), () => this.finish(this.lateTrouble()));
    this.next();
  }

  /** Ends the search with this answer. */
  abort(trouble: Trouble): void {
    this.finish(trouble);
  }

  /** Returns the answer if the deadline has passed. */
  private lateTrouble(): Trouble {
    if (this.turns.every(({ heard }) => !heard))
      return { kind: 'trouble', why: 'timeout', text: 'no DNS server answered in time' };
    return this.turns.some(({ failed }) => !failed)
      ? { kind: 'trouble', why: 'timeout', text: 'the DNS servers did not answer in time' }
      : this.lastTrouble;
  }

  private finish(found: Found<RecordOf[T]>): void {
    if (this.done) return;
    this.done = true;
    this.deadlineTimer.cancel();
    this.repeatTimer?.cancel();
    for (const turn of this.turns) {
      turn.asked.close();
      judge(turn, this.clock.monotonic());
    }
    this.settle(found);
  }

  /** Asks the next server that was not asked yet; when all were, repeats the query to those that are silent. */
  private next(): void {
    this.repeatTimer?.cancel();
    const server = this.order[this.turns.length];
    if (server !== undefined) this.begin(server);
    else {
      const silent = this.turns.filter((turn) => !turn.failed);
      if (silent.length === 0) {
        this.finish(this.lastTrouble);
        return;
      }
      this.rounds++;
      for (const turn of silent) turn.asked.repeat();
    }
    if (!this.done) this.repeatTimer = this.clock.after(FIRST_REPEAT_MS * 1.5 ** this.rounds, () => this.next());
  }

  private begin(server: Server): void {
    const since = this.clock.monotonic();
    const turn: Turn = { server, asked: nothing, since, heard: false, failed: false, folded: false };
    this.turns.push(turn);
    this.ask(turn, askOverUdp);
  }

  /** Sends the query to the server of this turn; one that was sent before is not listened to any more. */
  private ask(turn: Turn, over: Transport): void {
    const { server } = turn;
    turn.asked.close();
    const query: Query<T> = { ...this.question, id: randomInt(65_536), edns: server.edns };
    // Over TCP a reply cannot be forged without seeing the connection.
    if (over === askOverUdp && !turn.folded && server.folded < FOLDED_UNTIL_KNOWN)
      query.written = withRandomCase(query.name);
    turn.asked = over(server, writeQuery(query), {
      message: (bytes) => {
        if (this.done || turn.failed) return;
        const reply = readReply(bytes, query);
        if (query.written !== undefined && reply.kind !== 'foreign' && reply.kind !== 'folded') server.folded = 0;
        this.receive(turn, over, reply);
      },
      error: (text) => {
        if (!this.done && !turn.failed) this.fail(turn, { kind: 'trouble', why: 'network', text });
      },
    });
  }

  private receive(turn: Turn, over: Transport, reply: Reply<RecordOf[T]>): void {
    if (reply.kind === 'foreign') return;
    turn.heard = true;
    if (reply.kind === 'folded') {
      // It is asked again with another id and port and without a random case: a forger would have to guess both once more.
      turn.folded = true;
      turn.server.folded++;
      this.ask(turn, askOverUdp);
    } else if (reply.kind === 'truncated') {
      if (over === askOverTcp)
        this.fail(turn, { kind: 'trouble', why: 'malformed', text: 'the answer is cut even over TCP' });
      else this.ask(turn, askOverTcp);
    } else if (reply.kind !== 'failure') this.finish(reply);
    else if (reply.why === 'no_edns') {
      turn.server.edns = false;
      this.ask(turn, over);
    } else if (reply.why === 'servfail' && this.validating)
      this.finish({ kind: 'trouble', why: 'servfail', text: reply.text });
    else this.fail(turn, { kind: 'trouble', why: reply.why, text: reply.text });
  }

  private fail(turn: Turn, trouble: Trouble): void {
    turn.failed = true;
    turn.asked.close();
    this.lastTrouble = trouble;
    this.next();
  }
}

type Transport = typeof askOverUdp;

const nothing: Asked = { repeat: () => undefined, close: () => undefined };

/** Returns the servers that answer first, then those that do not, each group in the order of the settings. */
function preferred(servers: readonly Server[], now: number): Server[] {
  const live = servers.filter((server) => server.deadUntil <= now);
  return live.length === servers.length ? live : [...live, ...servers.filter((server) => server.deadUntil > now)];
}

/** Counts a server that stayed silent although it had time to answer, or that cannot be reached. */
function judge(turn: Turn, now: number): void {
  const { server } = turn;
  if (turn.heard) {
    server.missed = 0;
    server.deadUntil = 0;
  } else if (turn.failed || now - turn.since >= FIRST_REPEAT_MS) {
    server.missed++;
    if (server.missed >= MISSES_UNTIL_DEAD) server.deadUntil = now + DEAD_MS;
  }
}

export interface ServerAddress {
  ip: string;
  port: number;
}

export interface Asked {
  /** Sends the query once more; over TCP it does nothing. */
  repeat(): void;
  close(): void;
}

export interface AskedListener {
  message(bytes: Buffer): void;
  error(text: string): void;
}

/** Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`. Throws an Error on anything else: a fault in the settings. */
export function parseServerAddress(text: string): ServerAddress {
  if (isIP(text) !== 0) return { ip: text, port: 53 };
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text);
  const ip = match?.[1] ?? match?.[2] ?? '';
  const port = Number(match?.[3]);
  if (isIP(ip) === 0 || !(port >= 1 && port <= 65_535))
    throw new Error(`"${text}" is not the address of a DNS server: write ip, ip:port or [ipv6]:port`);
  return { ip, port };
}

export function askOverUdp(server: ServerAddress, query: Buffer, listener: AskedListener): Asked {
  const socket = createSocket(isIPv6(server.ip) ? 'udp6' : 'udp4');
  let open = true;
  let connected = false;
  const close = (): void => {
    if (!open) return;
    open = false;
    socket.close();
  };
  const fail = (error: Error): void => {
    if (open) listener.error(error.message);
  };
  const send = (): void => {
    if (open && connected)
      socket.send(query, (error) => {
        if (error !== null) fail(error);
      });
  };
  socket.on('error', fail);
  socket.on('message', (bytes) => {
    if (open) listener.message(bytes);
  });
  socket.once('connect', () => {
    connected = true;
    send();
  });
  socket.connect(server.port, server.ip);
  return { repeat: send, close };
}

export function askOverTcp(server: ServerAddress, query: Buffer, listener: AskedListener): Asked {
  const socket = connect({ host: server.ip, port: server.port, noDelay: true });
  let received = Buffer.alloc(0);
  const close = (): void => {
    socket.removeAllListeners('data');
    socket.destroy();
  };
  const prefix = Buffer.alloc(2);
  prefix.writeUInt16BE(query.length);
  socket.write(Buffer.concat([prefix, query]));
  socket.on('error', (error) => listener.error(error.message));
  socket.on('end', () => listener.error('the connection ended before the whole answer'));
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    if (received.length < 2) return;
    const length = received.readUInt16BE(0);
    if (length > MAX_MESSAGE_BYTES) {
      close();
      listener.error('the answer is too large');
    } else if (received.length >= 2 + length) {
      close();
      listener.message(received.subarray(2, 2 + length));
    }
  });
  return { repeat: () => undefined, close };
}
