/**
 * Connections to mail hosts: the idle ones, which wait for their next mail, and how many are open to each host. A lease is one
 * mail's use of a connection; its holder gives it back. No caller waits in here: if no connection can be had the answer says
 * until when, the caller keeps its mail, and `wake` is called when it is worth asking again. So one lane never holds up another.
 *
 * Hosts are counted once for each of our sources (`host:port/source`), since receivers count what comes from each address by
 * itself. The dial gate of a host decides when it may be dialled (dial-gate.ts), and pooled-host.ts how lanes share it.
 */
import type { Clock } from '../../base/clock.ts';
import { isAboutConnections } from '../attempt/subject.ts';
import { carried, dialFailed, dialled, sessionBroke, tryNow, type DialFailure, type GateWait } from './dial-gate.ts';
import type { OpenResult } from './open-session.ts';
import { LaneConnections, BusyConnections, PooledHost, type Connection } from './pooled-host.ts';
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
  /** The session carried a message before this lease. */
  readonly reused: boolean;
  /**
   * Puts the session back if it can be used again, or closes it. `tooMany`: the answer that refused the mail because there are too
   * many connections; so this one is closed, and the gate takes it for a refused dial.
   */
  giveBack(tooMany?: string): void;
}

export interface LeaseRequest {
  /** From `connectionKey` (dial.ts). */
  key: string;
  /** `host:port`, with the source if there is one. */
  host: string;
  /** The lane that asks. */
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
  /** Returns the lanes that have mail waiting for a connection to this host. */
  lanesWaiting?: (host: string) => readonly string[];
  /** Is called when the lane may have `room` connections to this host. */
  wake?: (lane: string, host: string, room: number) => void;
  /** Returns how many connections the lane may have here, idle ones included, if other nodes send to its receiver as well. */
  mostOf?: (lane: string) => number;
  /** Returns whether other nodes send to the lane's receiver. */
  hasOthers?: (lane: string) => boolean;
}

/** A lane that gives back a connection takes it for its next mail within this time, or has no next mail. */
const GOES_ON_MS = 50;
/** Hosts of which something is remembered; the ones met longest ago are forgotten first. */
const MOST_HOSTS = 20_000;

export class Pool {
  private readonly clock: Clock;
  private readonly random: () => number;
  private readonly lanesWaiting: (host: string) => readonly string[];
  private readonly wake: (lane: string, host: string, room: number) => void;
  private readonly mostOf: (lane: string) => number;
  private readonly hasOthers: (lane: string) => boolean;
  private readonly limits: PoolLimits;
  private readonly lanes = new LaneConnections();
  private readonly hosts = new Map<string, PooledHost>();
  private readonly busy = new BusyConnections();
  /** The idle connections to all hosts, longest idle first. */
  private readonly idle = new Set<Connection>();
  private total = 0;
  /** Connections to which QUIT was said, and whose socket is not gone yet. */
  private closing = 0;
  private isDraining = false;
  private drained: (() => void) | null = null;

  constructor(deps: PoolDeps, limits: PoolLimits = defaultPoolLimits) {
    const { clock, random = Math.random, lanesWaiting = () => [], wake = noop } = deps;
    const { mostOf = () => Infinity, hasOthers = () => false } = deps;
    this.clock = clock;
    this.random = random;
    this.lanesWaiting = lanesWaiting;
    this.wake = wake;
    this.mostOf = mostOf;
    this.hasOthers = hasOthers;
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
    if (connection !== null) return { kind: 'leased', lease: this.lend(connection, request.lane) };
    const wait = host.waitOf(limit, this.clock.monotonic());
    if (wait === null) return { kind: 'dial' };
    // An idle connection that this mail cannot use is closed; its place is free when it is gone.
    if (wait.why === 'full' || wait.why === 'cap') this.closeOneIdle(host);
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
    const controller = new AbortController();
    this.dialBegins(host, lane, controller);
    let opened: OpenResult;
    try {
      opened = await open(controller.signal);
    } catch (error) {
      this.dialEnds(host, lane, controller);
      host.gate = dialFailed(host.gate, 0, { text: 'a fault of ours' }, clock.monotonic(), this.random());
      this.lanes.count(lane, -1);
      this.countOpen(host, -1);
      throw error;
    }
    this.dialEnds(host, lane, controller);
    // A connection that has failed is counted until it is gone.
    const openCount = host.open - host.dialling - (opened.kind === 'failed' ? 1 : 0);
    if (opened.kind === 'failed') {
      // Nothing was dialled if this machine has no descriptor left; TLS that a policy misses is about that policy's mail.
      if (opened.tlsBroken) this.broke(host.name, `tls: ${opened.text}`);
      else if (opened.ours !== true && !opened.tlsUnsatisfied)
        host.gate = dialFailed(host.gate, openCount, this.failureOf(opened, lane), clock.monotonic(), this.random());
      this.lanes.count(lane, -1);
      this.countOpen(host, -1);
      return opened;
    }
    host.gate = dialled(host.gate, openCount, limit, clock.monotonic());
    // It may have been given up in the very moment it was open.
    if (controller.signal.aborted) opened.session.abandon();
    const lease = this.lend(this.connectionOf(host, request, opened), lane);
    // Lanes that waited for this dial to succeed may dial now.
    this.wakeLanes(host);
    return { kind: 'leased', lease };
  }

  /** Notes that the host has answered for a mail. */
  carried(name: string): void {
    const host = this.hosts.get(name);
    if (host !== undefined) host.gate = carried(host.gate);
  }

  /** Notes that a session with the host broke, in its TLS handshake or while it carried a mail. */
  broke(name: string, text: string): void {
    const host = this.hostOf(name);
    host.gate = sessionBroke(host.gate, text, this.clock.monotonic(), this.random());
  }

  /** Returns how many connections the lane may use in addition to those that it has. */
  room(name: string, lane: string, maxPerHost = this.limits.maxPerHost): number {
    const host = this.hosts.get(name);
    return host === undefined ? 1 : this.roomFor(host, lane, maxPerHost);
  }

  /** Counts the connections to this host that the lane uses or opens. */
  usedBy(name: string, lane: string): number {
    return this.hosts.get(name)?.usedBy(lane) ?? 0;
  }

  /** Counts the connections of the lane that are open, being opened or being closed. */
  openOf(lane: string): number {
    return this.lanes.open(lane);
  }

  /** Returns the lanes with more than one connection. */
  lanesWithSeveral(): string[] {
    return this.lanes.withSeveral();
  }

  /** Closes idle connections of the lane beyond those that it may have. */
  shrink(lane: string): void {
    for (let over = this.lanes.open(lane) - this.mostOf(lane); over > 0; over--) {
      const idle = this.lanes.longestIdle(lane);
      if (idle === null) return;
      this.removeIdle(idle);
      this.close(idle);
    }
  }

  /** Counts, for each lane that has some, the connections whose host has kept us waiting for over `waitMs` in one phase. */
  waitingLong(waitMs: number): ReadonlyMap<string, number> {
    return this.busy.waitingLong(this.clock.monotonic() - waitMs);
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
    return name === undefined ? this.total : (this.hosts.get(name)?.open ?? 0);
  }

  /** Closes what is idle, refuses new leases, and resolves when every leased session was given back and is gone. */
  drain(): Promise<void> {
    this.isDraining = true;
    const done = new Promise<void>((resolve) => (this.drained = resolve));
    for (const connection of this.idle) {
      this.removeIdle(connection);
      this.close(connection);
    }
    if (this.total === 0) this.drained?.();
    return done;
  }

  /**
   * Drops connections that have been waited for over `waitMs` in one phase, except for `most` of them: those that waited
   * longest go first, none behind its final dot. Returns how many were dropped.
   */
  dropWaiting(waitMs: number, most: number): number {
    return this.busy.dropWaiting(this.clock.monotonic() - waitMs, most);
  }

  /** Refuses new leases and drops every connection that is being opened or carries a message; see `Session.abandon`. */
  abandon(evenPastDot = false): void {
    this.isDraining = true;
    this.busy.abandon(evenPastDot);
  }

  /** Returns what the host said or did instead of letting us in. */
  private failureOf({ reply, text }: Extract<OpenResult, { kind: 'failed' }>, lane: string): DialFailure {
    if (reply === null) return { text };
    const isCrowded = isAboutConnections(reply.text) && this.hasOthers(lane);
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
    const others = this.lanesWaiting(host.name).filter((other) => other !== lane);
    return others.length === 0 || host.hasTurn(lane, limit, others, this.clock.monotonic());
  }

  private roomFor(host: PooledHost, lane: string, limit: number): number {
    if (this.isDraining) return 0;
    const now = this.clock.monotonic();
    const others = this.lanesWaiting(host.name).filter((other) => other !== lane);
    if (!host.hasTurn(lane, limit, others, now)) return 0;
    const room = host.room(limit, now);
    return others.length === 0
      ? room
      : Math.min(room, Math.max(1, Math.ceil(host.shareOf(lane, limit, others)) - host.usedBy(lane)));
  }

  /** Wakes the lanes that may have a connection to this host now. */
  private wakeLanes(host: PooledHost): void {
    for (const lane of this.lanesWaiting(host.name)) {
      const room = this.roomFor(host, lane, host.limit);
      if (room > 0) this.wake(lane, host.name, room);
    }
  }

  private dialBegins(host: PooledHost, lane: string, controller: AbortController): void {
    const now = this.clock.monotonic();
    this.busy.opens(controller, lane, now);
    host.dialling++;
    host.diallingSince = host.open === 0 ? now : null;
    this.lanes.count(lane, 1);
    this.countOpen(host, 1);
    host.countUse(lane, 1, now);
    this.closeBeyond();
  }

  /** A worker has a connection or opens one, so those beyond the limit are idle. */
  private closeBeyond(): void {
    for (const connection of this.idle) {
      if (this.total - this.closing <= this.limits.maxOpen) return;
      this.removeIdle(connection);
      this.close(connection);
    }
  }

  private dialEnds(host: PooledHost, lane: string, controller: AbortController): void {
    this.busy.opened(controller);
    host.dialling--;
    host.diallingSince = null;
    host.countUse(lane, -1, this.clock.monotonic());
  }

  private connectionOf(
    host: PooledHost,
    { key, lane, maxMessages = this.limits.maxMessages }: LeaseRequest,
    { session, ip }: Extract<OpenResult, { kind: 'open' }>,
  ): Connection {
    return {
      session,
      ip,
      key,
      host,
      lane,
      openedAt: this.clock.monotonic(),
      maxMessages: Math.min(maxMessages, session.extensions.mailMax ?? maxMessages),
      idleTimer: null,
    };
  }

  private lend(connection: Connection, lane: string): Lease {
    let isOut = true;
    this.lanes.move(connection, lane);
    this.busy.lend(connection);
    connection.host.countUse(lane, 1, this.clock.monotonic());
    return {
      session: connection.session,
      ip: connection.ip,
      reused: connection.session.messages > 0,
      giveBack: (tooMany) => {
        if (!isOut) throw new Error('a lease was given back twice');
        isOut = false;
        if (tooMany !== undefined) this.refused(connection, tooMany);
        this.busy.giveBack(connection);
        connection.host.countUse(connection.lane, -1, this.clock.monotonic());
        const isOver = this.lanes.open(connection.lane) > this.mostOf(connection.lane);
        const isKept = !this.isDraining && !isOver && tooMany === undefined && this.isReusable(connection);
        if (isKept) this.keepIdle(connection);
        else this.close(connection);
      },
    };
  }

  /** Notes that the host has let this connection in and then refused it as one too many. */
  private refused({ host, lane }: Connection, text: string): void {
    const others = host.open - host.dialling - 1;
    const failure = { text, isRefusal: true, isCrowded: this.hasOthers(lane), wasOpen: true };
    host.gate = dialFailed(host.gate, others, failure, this.clock.monotonic(), this.random());
  }

  private isReusable({ session, openedAt, maxMessages }: Connection): boolean {
    return (
      session.usable() && session.messages < maxMessages && this.clock.monotonic() - openedAt < this.limits.maxAgeMs
    );
  }

  private keepIdle(connection: Connection): void {
    const dismiss = (): void => {
      this.removeIdle(connection);
      this.close(connection);
    };
    connection.idleTimer = this.clock.after(this.limits.idleMs, dismiss);
    connection.session.watch(dismiss);
    connection.host.idle.push(connection);
    this.idle.add(connection);
    this.lanes.keepIdle(connection);
    this.offerIdle(connection);
  }

  /** Wakes the lane that gave the connection back; the others if that lane has no turn, or does not take it at once. */
  private offerIdle({ host, lane }: Connection): void {
    const waiting = this.lanesWaiting(host.name);
    if (waiting.length === 0) return;
    if (!this.hasTurn(host, lane, host.limit)) {
      this.wakeLanes(host);
      return;
    }
    if (waiting.includes(lane)) this.wake(lane, host.name, 1);
    host.offerTimer ??= this.clock.after(GOES_ON_MS, () => {
      host.offerTimer = null;
      if (host.idle.length > 0) this.wakeLanes(host);
    });
  }

  /** Takes the connection that was used last: the others may then reach their idle limit. */
  private takeIdle(host: PooledHost, { key, lane }: LeaseRequest): Connection | null {
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
    connection.idleTimer?.cancel();
    connection.session.watch(null);
    this.lanes.removeIdle(connection);
    this.idle.delete(connection);
    const { idle } = connection.host;
    const at = idle.indexOf(connection);
    if (at >= 0) idle.splice(at, 1);
  }

  private closeOneIdle(host: PooledHost): void {
    const [connection] = host.idle;
    if (connection === undefined) return;
    this.removeIdle(connection);
    this.close(connection);
  }

  /** The connection counts until its socket is gone, since the host counts it until then. */
  private close({ session, host, lane }: Connection): void {
    const closed = session.close();
    this.lanes.closes(lane, closed);
    this.closing++;
    void closed.then(() => {
      this.closing--;
      this.countOpen(host, -1);
      this.wakeLanes(host);
    });
  }

  /** Returns whether the lane has as many connections as the other nodes leave it. */
  private isFull(lane: string): boolean {
    return this.lanes.open(lane) >= this.mostOf(lane);
  }

  /**
   * Makes room for one connection more of the lane: closes one that is idle, at whatever host. Resolves when one is gone; null if
   * all are in use.
   */
  private freeOne(lane: string): Promise<void> | null {
    const idle = this.lanes.longestIdle(lane);
    if (idle !== null) {
      this.removeIdle(idle);
      this.close(idle);
    }
    return this.lanes.freed(lane);
  }

  private countOpen(host: PooledHost, by: 1 | -1): void {
    this.total += by;
    host.open += by;
    if (host.open === 0) {
      host.emptied(this.lanesWaiting(host.name).length);
      if (host.isForgettable) this.hosts.delete(host.name);
    }
    if (this.isDraining && this.total === 0) this.drained?.();
  }
}

const noop = (): void => undefined;
