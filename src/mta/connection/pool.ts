/**
 * Connections to mail hosts: the idle ones, which wait for their next mail, and how many are open to each host. A lease is one
 * mail's use of a connection; its holder gives it back. No caller waits in here: if no connection can be had the answer says
 * until when, the caller keeps its mail, and `wake` is called when it is worth asking again. So one lane never holds up another.
 *
 * Hosts are counted once for each of our sources (`host:port/source`), since receivers count what comes from each address by
 * itself. pooled-host.ts says when a host may be dialled, and how lanes share it.
 */
import type { Clock } from '../../base/clock.ts';
import { isAboutConnections } from '../attempt/subject.ts';
import type { OpenResult } from './open-session.ts';
import {
  carried,
  dialFailed,
  dialled,
  sessionBroke,
  tryNow,
  type DialFailure,
  type GateWait,
  PooledHost,
  type Connection,
} from './pooled-host.ts';
import type { Session } from './session.ts';

export interface PoolLimits {
  /** How long a connection waits for its next message, in ms. */
  idleMs: number;
  /** Messages per connection; a server that states fewer (LIMITS MAILMAX) is obeyed. */
  maxMessages: number;
  /** Age after which a connection is not reused, in ms. */
  maxAgeMs: number;
  /** Connections to one host (`host:port`), idle ones included. */
  maxPerHost: number;
  /** Connections to all hosts, idle ones included, beside those to which QUIT was said: the longest idle one is closed for another. */
  maxOpen: number;
}

export const defaultPoolLimits: PoolLimits = {
  idleMs: 5000,
  maxMessages: 100,
  maxAgeMs: 300_000,
  maxPerHost: 20,
  maxOpen: 1000,
};

/** One message's use of a session. Give it back exactly once. */
export interface Lease {
  readonly session: Session;
  readonly ip: string;
  readonly reused: boolean;
  /** Puts the session back if usable, or closes it. `tooMany`: the answer that refused one connection too many; to the gate a refused dial. */
  giveBack(tooMany?: string): void;
}

export interface LeaseRequest {
  /** From `connectionKey` (dial.ts). */
  key: string;
  /** `host:port`, with the source if there is one. */
  host: string;
  lane: string;
  /** Overrides the pool's limit for this host (operator table). */
  maxPerHost?: number;
  maxMessages?: number;
}

/** No connection can be had now. `lane`: another lane's turn has come; `share`: other nodes have the lane's other connections. */
export type LeaseWait = GateWait | { why: 'lane' | 'share' | 'draining'; until: null };

export type LeaseResult =
  { kind: 'leased'; lease: Lease } | { kind: 'wait'; wait: LeaseWait } | Extract<OpenResult, { kind: 'failed' }>;

export interface PoolDeps {
  clock: Clock;
  /** Returns a number in [0, 1), which varies pauses. */
  random?: () => number;
  lanesWaiting?: (host: string) => readonly string[];
  /** Is called when the lane may have `room` connections to this host. */
  wake?: (lane: string, host: string, room: number) => void;
  /** Returns how many connections the lane may have here, idle ones included, if other nodes send to its receiver as well. */
  mostOf?: (lane: string) => number;
  hasOthers?: (lane: string) => boolean;
}

/** A lane that gives back a connection takes it for its next mail within this time, or has no next mail. */
const GOES_ON_MS = 50;
/** Hosts of which something is remembered; the ones met longest ago are forgotten first. */
const MOST_HOSTS = 20_000;

/** The text in the attempt's record for a connection that others needed more. */
const GAVE_WAY = 'given up: it kept us waiting while other destinations had no connection';

export class Pool {
  private readonly deps: Required<PoolDeps>;
  private readonly clock: Clock;
  private readonly limits: PoolLimits;
  private readonly hosts = new Map<string, PooledHost>();
  /** All that are open, being opened or being closed. */
  private readonly connections = new Set<Connection>();
  /** How many of them each lane has, whatever host they lead to: receivers count those that are idle, too. */
  private readonly byLane = new Map<string, number>();
  /** The idle ones, longest idle first. */
  private readonly idle = new Set<Connection>();
  /** Connections to which QUIT was said, and whose socket is not gone yet. */
  private closing = 0;
  private isDraining = false;
  private drained: (() => void) | null = null;

  constructor(deps: PoolDeps, limits: PoolLimits = defaultPoolLimits) {
    this.deps = {
      random: Math.random,
      lanesWaiting: () => [],
      wake: () => undefined,
      mostOf: () => Infinity,
      hasOthers: () => false,
      ...deps,
    };
    this.clock = deps.clock;
    this.limits = limits;
  }

  /** Takes an idle connection, or returns why there is none: `dial` says that one may be opened. */
  take(request: LeaseRequest): { kind: 'leased'; lease: Lease } | { kind: 'wait'; wait: LeaseWait } | { kind: 'dial' } {
    if (this.isDraining) return { kind: 'wait', wait: { why: 'draining', until: null } };
    const host = this.hostOf(request.host);
    const limit = request.maxPerHost ?? this.limits.maxPerHost;
    host.limit = limit;
    if (!this.hasTurn(host, request.lane, limit)) return { kind: 'wait', wait: { why: 'lane', until: null } };
    const connection = this.takeIdle(host, request);
    if (connection !== null) return { kind: 'leased', lease: this.lend(connection, connection.session, request.lane) };
    const wait = host.waitOf(limit, this.clock.monotonic());
    if (wait === null) return { kind: 'dial' };
    // An idle connection that this mail cannot use is closed; its place is free when it is gone.
    if (wait.why === 'full' || wait.why === 'cap') this.closeIdle(host.idle);
    return { kind: 'wait', wait };
  }

  /** Opens a connection if the gate lets one through; the signal aborts when it is no longer wanted. */
  async dial(request: LeaseRequest, open: (signal: AbortSignal) => Promise<OpenResult>): Promise<LeaseResult> {
    const { clock } = this;
    const { lane } = request;
    while (this.isFull(lane)) {
      const freed = this.freeOne(lane);
      if (freed === null) return { kind: 'wait', wait: { why: 'share', until: null } };
      await freed;
    }
    const host = this.hostOf(request.host);
    const limit = request.maxPerHost ?? this.limits.maxPerHost;
    if (this.isDraining) return { kind: 'wait', wait: { why: 'draining', until: null } };
    const wait = host.waitOf(limit, clock.monotonic());
    if (wait !== null) return { kind: 'wait', wait };
    const connection = this.dialBegins(host, request);
    let opened: OpenResult;
    try {
      opened = await open(connection.dialling.signal);
    } catch (error) {
      this.dialEnds(connection);
      host.gate = dialFailed(host.gate, 0, { text: 'a fault of ours' }, clock.monotonic(), this.deps.random());
      this.forget(connection);
      throw error;
    }
    this.dialEnds(connection);
    // A connection that has failed is counted until it is gone.
    const openCount = host.open - host.dialling - (opened.kind === 'failed' ? 1 : 0);
    if (opened.kind === 'failed') {
      // Nothing was dialled if this machine has no descriptor left; TLS that a policy misses is about that policy's mail.
      if (opened.tlsBroken) this.broke(host.name, `tls: ${opened.text}`);
      else if (opened.ours !== true && !opened.tlsUnsatisfied)
        host.gate = dialFailed(
          host.gate,
          openCount,
          this.failureOf(opened, lane),
          clock.monotonic(),
          this.deps.random(),
        );
      this.forget(connection);
      return opened;
    }
    host.gate = dialled(host.gate, openCount, limit, clock.monotonic());
    // It may have been given up in the very moment it was open.
    if (connection.dialling.signal.aborted) opened.session.abandon();
    connection.session = opened.session;
    connection.ip = opened.ip;
    const lease = this.lend(connection, opened.session, lane);
    // Lanes that waited for this dial to succeed may dial now.
    this.wakeLanes(host);
    return { kind: 'leased', lease };
  }

  carried(name: string): void {
    const host = this.hosts.get(name);
    if (host !== undefined) host.gate = carried(host.gate);
  }

  /** Notes that a session with the host broke, in its TLS handshake or while it carried a mail. */
  broke(name: string, text: string): void {
    const host = this.hostOf(name);
    host.gate = sessionBroke(host.gate, text, this.clock.monotonic(), this.deps.random());
  }

  /** Returns how many connections the lane may use in addition to those that it has. */
  room(name: string, lane: string, maxPerHost = this.limits.maxPerHost): number {
    const host = this.hosts.get(name);
    return host === undefined ? 1 : this.roomFor(host, lane, maxPerHost);
  }

  usedBy(name: string, lane: string): number {
    return this.hosts.get(name)?.usedBy(lane) ?? 0;
  }

  /** Counts the connections of the lane that are open, being opened or being closed. */
  openOf(lane: string): number {
    return this.byLane.get(lane) ?? 0;
  }

  lanesWithSeveral(): string[] {
    return [...this.byLane].flatMap(([lane, count]) => (count > 1 ? [lane] : []));
  }

  /** Closes idle connections of the lane beyond those that it may have. */
  shrink(lane: string): void {
    for (let over = this.openOf(lane) - this.deps.mostOf(lane); over > 0; over--)
      if (!this.closeIdle(this.idle, lane)) return;
  }

  /** Counts, for each lane that has some, the connections whose host has kept us waiting for over `waitMs` in one phase. */
  waitingLong(waitMs: number): ReadonlyMap<string, number> {
    const before = this.clock.monotonic() - waitMs;
    const counts = new Map<string, number>();
    for (const connection of this.connections)
      if (waitingSince(connection) <= before) counts.set(connection.lane, (counts.get(connection.lane) ?? 0) + 1);
    return counts;
  }

  /** Returns what keeps new connections to this host from being opened; null if one may be, or if one is idle. */
  waitOf(name: string, maxPerHost = this.limits.maxPerHost): GateWait | null {
    const host = this.hosts.get(name);
    if (host === undefined || host.idle.length > 0) return null;
    return host.waitOf(maxPerHost, this.clock.monotonic());
  }

  /** Returns how many connections the host has shown it allows, and why; null if nothing limits them. */
  capOf(name: string): { cap: number; cause: string; ageMs: number } | null {
    const gate = this.hosts.get(name)?.gate;
    if (gate?.cap == null) return null;
    return { cap: gate.cap, cause: gate.cause, ageMs: this.clock.monotonic() - gate.since };
  }

  /** Lets hosts that had failed or refused be tried at once; null means all hosts. */
  tryNow(names: readonly string[] | null): void {
    for (const name of names ?? this.hosts.keys()) {
      const host = this.hosts.get(name);
      if (host === undefined) continue;
      host.gate = tryNow(host.gate);
      this.wakeLanes(host);
    }
  }

  /** Counts the connections that are open or being opened, to one host or in all. */
  count(name?: string): number {
    return name === undefined ? this.connections.size : (this.hosts.get(name)?.open ?? 0);
  }

  /** Closes what is idle, refuses new leases, and resolves when every leased session was given back and is gone. */
  drain(): Promise<void> {
    this.isDraining = true;
    const done = new Promise<void>((resolve) => (this.drained = resolve));
    for (const connection of this.idle) this.close(connection);
    if (this.connections.size === 0) this.drained?.();
    return done;
  }

  /** Drops all but `most` connections awaited over `waitMs` in one phase, longest first, none behind its final dot. Returns how many were dropped. */
  dropWaiting(waitMs: number, most: number): number {
    const before = this.clock.monotonic() - waitMs;
    const late = [...this.connections].filter((one) => waitingSince(one) <= before);
    const dropped = late.sort((a, b) => waitingSince(a) - waitingSince(b)).slice(0, Math.max(0, late.length - most));
    for (const connection of dropped) giveUp(connection, GAVE_WAY);
    return dropped.length;
  }

  abandon(evenPastDot = false): void {
    this.isDraining = true;
    for (const connection of this.connections) giveUp(connection, 'given up: the program stops', evenPastDot);
  }

  private failureOf({ reply, text }: Extract<OpenResult, { kind: 'failed' }>, lane: string): DialFailure {
    if (reply === null) return { text };
    const isCrowded = isAboutConnections(reply.text) && this.deps.hasOthers(lane);
    return { text: `${String(reply.code)} ${reply.text}`, isRefusal: true, isCrowded };
  }

  private hostOf(name: string): PooledHost {
    let host = this.hosts.get(name);
    if (host === undefined) {
      host = new PooledHost(name, this.limits.maxPerHost);
      this.hosts.set(name, host);
      if (this.hosts.size > MOST_HOSTS) this.forgetOneHost();
    }
    return host;
  }

  private forgetOneHost(): void {
    for (const [name, { open }] of this.hosts) {
      if (open > 0) continue;
      this.hosts.delete(name);
      return;
    }
  }

  private hasTurn(host: PooledHost, lane: string, limit: number): boolean {
    const others = this.deps.lanesWaiting(host.name).filter((other) => other !== lane);
    return others.length === 0 || host.hasTurn(lane, limit, others, this.clock.monotonic());
  }

  private roomFor(host: PooledHost, lane: string, limit: number): number {
    if (this.isDraining) return 0;
    const now = this.clock.monotonic();
    const others = this.deps.lanesWaiting(host.name).filter((other) => other !== lane);
    if (!host.hasTurn(lane, limit, others, now)) return 0;
    const room = host.room(limit, now);
    return others.length === 0
      ? room
      : Math.min(room, Math.max(1, Math.ceil(host.shareOf(lane, limit, others)) - host.usedBy(lane)));
  }

  private wakeLanes(host: PooledHost): void {
    for (const lane of this.deps.lanesWaiting(host.name)) {
      const room = this.roomFor(host, lane, host.limit);
      if (room > 0) this.deps.wake(lane, host.name, room);
    }
  }

  private dialBegins(host: PooledHost, { key, lane, maxMessages = this.limits.maxMessages }: LeaseRequest): Connection {
    const since = this.clock.monotonic();
    const connection: Connection = {
      host,
      key,
      since,
      maxMessages,
      dialling: new AbortController(),
      lane,
      session: null,
      ip: '',
      idleTimer: null,
      closed: null,
    };
    host.dialling++;
    host.diallingSince = host.open === 0 ? since : null;
    host.open++;
    this.connections.add(connection);
    this.countLane(lane, 1);
    host.countUse(lane, 1, since);
    // A worker has a connection or opens one, so those beyond the limit are idle.
    while (this.connections.size - this.closing > this.limits.maxOpen && this.closeIdle(this.idle));
    return connection;
  }

  private dialEnds({ host, lane }: Connection): void {
    host.dialling--;
    host.diallingSince = null;
    host.countUse(lane, -1, this.clock.monotonic());
  }

  private lend(connection: Connection, session: Session, lane: string): Lease {
    let isOut = true;
    if (connection.lane !== lane) {
      this.countLane(connection.lane, -1);
      this.countLane(lane, 1);
      connection.lane = lane;
    }
    connection.host.countUse(lane, 1, this.clock.monotonic());
    return {
      session,
      ip: connection.ip,
      reused: session.messages > 0,
      giveBack: (tooMany) => {
        if (!isOut) throw new Error('a lease was given back twice');
        isOut = false;
        if (tooMany !== undefined) this.refused(connection, tooMany);
        connection.host.countUse(lane, -1, this.clock.monotonic());
        const isOver = this.openOf(lane) > this.deps.mostOf(lane);
        const isKept = !this.isDraining && !isOver && tooMany === undefined && this.isReusable(connection);
        if (isKept) this.keepIdle(connection, session);
        else this.close(connection);
      },
    };
  }

  /** Notes that the host has let this connection in and then refused it as one too many. */
  private refused({ host, lane }: Connection, text: string): void {
    const others = host.open - host.dialling - 1;
    const failure = { text, isRefusal: true, isCrowded: this.deps.hasOthers(lane), wasOpen: true };
    host.gate = dialFailed(host.gate, others, failure, this.clock.monotonic(), this.deps.random());
  }

  private isReusable(connection: Connection): connection is Connection & { session: Session } {
    const { session, since, maxMessages } = connection;
    return (
      session?.usable() === true &&
      session.messages < Math.min(maxMessages, session.extensions.mailMax ?? Infinity) &&
      this.clock.monotonic() - since < this.limits.maxAgeMs
    );
  }

  private keepIdle(connection: Connection, session: Session): void {
    const dismiss = (): void => this.close(connection);
    connection.idleTimer = this.clock.after(this.limits.idleMs, dismiss);
    session.watch(dismiss);
    connection.host.idle.push(connection);
    this.idle.add(connection);
    this.offerIdle(connection);
  }

  /** Wakes the lane that gave the connection back; the others if that lane has no turn, or does not take it at once. */
  private offerIdle({ host, lane }: Connection): void {
    const waiting = this.deps.lanesWaiting(host.name);
    if (waiting.length === 0) return;
    if (!this.hasTurn(host, lane, host.limit)) {
      this.wakeLanes(host);
      return;
    }
    if (waiting.includes(lane)) this.deps.wake(lane, host.name, 1);
    host.offerTimer ??= this.clock.after(GOES_ON_MS, () => {
      host.offerTimer = null;
      if (host.idle.length > 0) this.wakeLanes(host);
    });
  }

  /** Takes the connection that was used last: the others may then reach their idle limit. */
  private takeIdle(host: PooledHost, { key, lane }: LeaseRequest): (Connection & { session: Session }) | null {
    const mayTakeOver = !this.isFull(lane);
    for (;;) {
      const connection = host.idle.findLast((each) => each.key === key && (mayTakeOver || each.lane === lane));
      if (connection === undefined) return null;
      this.removeIdle(connection);
      if (this.isReusable(connection)) return connection;
      this.close(connection);
    }
  }

  private removeIdle(connection: Connection): void {
    if (!this.idle.delete(connection)) return;
    connection.idleTimer?.cancel();
    connection.session?.watch(null);
    const { idle } = connection.host;
    const at = idle.indexOf(connection);
    if (at >= 0) idle.splice(at, 1);
  }

  /** Closes the first of these idle connections, of this lane if one is named; returns whether there was one. */
  private closeIdle(idle: Iterable<Connection>, lane?: string): boolean {
    for (const connection of idle) {
      if (lane !== undefined && connection.lane !== lane) continue;
      this.close(connection);
      return true;
    }
    return false;
  }

  /** The connection counts until its socket is gone, since the host counts it until then. */
  private close(connection: Connection): void {
    this.removeIdle(connection);
    this.closing++;
    connection.closed = (connection.session?.close() ?? Promise.resolve()).then(() => {
      this.closing--;
      this.forget(connection);
      this.wakeLanes(connection.host);
    });
  }

  /** Returns whether the lane has as many connections as the other nodes leave it. */
  private isFull(lane: string): boolean {
    return this.openOf(lane) >= this.deps.mostOf(lane);
  }

  /** Makes room for one connection more of the lane: closes an idle one at any host. Resolves when one is gone; null if all are in use. */
  private freeOne(lane: string): Promise<void> | null {
    this.closeIdle(this.idle, lane);
    const closing = [...this.connections].flatMap((one) => (one.lane === lane ? (one.closed ?? []) : []));
    return closing.length === 0 ? null : Promise.race(closing);
  }

  private countLane(lane: string, by: 1 | -1): void {
    const count = this.openOf(lane) + by;
    if (count === 0) this.byLane.delete(lane);
    else this.byLane.set(lane, count);
  }

  /** Stops counting a connection that is gone, or that could not be opened. */
  private forget(connection: Connection): void {
    const { host, lane } = connection;
    this.connections.delete(connection);
    this.countLane(lane, -1);
    host.open--;
    if (host.open === 0) {
      host.emptied(this.deps.lanesWaiting(host.name).length);
      if (host.isForgettable) this.hosts.delete(host.name);
    }
    if (this.isDraining && this.connections.size === 0) this.drained?.();
  }
}

/** Since when the host of a connection keeps us waiting in one phase, on the monotonic clock, in ms. */
const waitingSince = ({ session, since }: Connection): number =>
  session === null ? since : (session.waitingSince ?? Infinity);

function giveUp({ session, dialling }: Connection, why: string, evenPastDot = false): void {
  if (session === null) dialling.abort(why);
  else session.abandon(evenPastDot, why);
}
