/**
 * Connections to mail hosts: those that are idle and wait for their next mail, and how many are open to each host. A lease is one
 * mail's use of a connection; whoever leases gives back. Nobody waits in here: where no connection can be had the answer says
 * until when, the caller keeps its mail, and `wake` tells when it is worth asking again. So one lane can never hold up another.
 *
 * Hosts are counted as one of our sources reaches them (`host:port/source`), since receivers count what comes from each address
 * by itself. When a host may be dialled is decided by its gate (dial-gate.ts). Lanes that use one host share what it allows:
 * equal shares where there are enough connections, turns of two seconds where there are not.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import {
  carried,
  dialFailed,
  dialled,
  isFree,
  openGate,
  sessionBroke,
  tryNow,
  waitOf,
  type DialGate,
  type GateWait,
} from './dial-gate.ts';
import type { OpenResult } from './open-session.ts';
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
}

export const defaultPoolLimits: PoolLimits = { idleMs: 5000, maxMessages: 100, maxAgeMs: 300_000, maxPerHost: 20 };

/** One message's right to a session. Give it back exactly once. */
export interface Lease {
  readonly session: Session;
  readonly ip: string;
  /** The session carried a message before this lease. */
  readonly reused: boolean;
  /** Puts the session back if it can be used again, or closes it. */
  giveBack(): void;
}

export interface LeaseRequest {
  /** From `connectionKey`: a session is reused for an equal key only. */
  key: string;
  /** `host:port`, with the source where there is one. */
  host: string;
  /** The lane that asks: lanes of one host share its connections. */
  lane: string;
  /** Overrides the pool's limit for this host (operator table). */
  maxPerHost?: number;
  maxMessages?: number;
}

/** No connection can be had now. `lane`: another lane's turn has come. */
export type LeaseWait = GateWait | { why: 'lane' | 'draining'; until: null };

export type LeaseResult =
  { kind: 'leased'; lease: Lease } | { kind: 'wait'; wait: LeaseWait } | Extract<OpenResult, { kind: 'failed' }>;

export interface Pool {
  /** An idle connection, or why there is none: `dial` says that one may be opened. */
  take(request: LeaseRequest): { kind: 'leased'; lease: Lease } | { kind: 'wait'; wait: LeaseWait } | { kind: 'dial' };
  /** Opens a connection, where the gate lets one through; the signal says that it is no longer wanted. */
  dial(request: LeaseRequest, open: (signal: AbortSignal) => Promise<OpenResult>): Promise<LeaseResult>;
  /** The host has answered for a mail. */
  carried(host: string): void;
  /** A session with the host broke while it carried a mail. */
  broke(host: string, text: string): void;
  /** How many connections the lane may use beside those that it has. */
  room(host: string, lane: string, maxPerHost?: number): number;
  /** Connections to this host that the lane uses or opens. */
  usedBy(host: string, lane: string): number;
  /** Connections of the lane whose host has kept us waiting for over `waitMs` in one phase. */
  waitingLong(lane: string, waitMs: number): number;
  /** What keeps new connections to this host from being opened, or null; a connection that waits idle is not counted in. */
  waitOf(host: string, maxPerHost?: number): GateWait | null;
  /** What the host has shown it allows, and why; null where nothing limits it. */
  capOf(host: string): { cap: number; cause: string; ageMs: number } | null;
  /** Hosts that had failed or refused may be tried at once; null: all of them. */
  tryNow(hosts: readonly string[] | null): void;
  /** Connections open or being opened, to one host or in all. */
  count(host?: string): number;
  /** Closes what is idle, refuses new leases, and resolves when every leased session was given back and is gone. */
  drain(): Promise<void>;
  /**
   * Drops connections that have been waited for over `waitMs` in one phase, except for `most` of them: those that waited
   * longest go first, none behind its final dot. Gives how many were dropped.
   */
  dropWaiting(waitMs: number, most: number): number;
  /** Refuses new leases and drops every connection that is being opened or carries a message; see `Session.abandon`. */
  abandon(evenPastDot?: boolean): void;
}

export interface PoolDeps {
  clock: Clock;
  /** From 0 up to but not including 1: varies pauses. */
  random?: () => number;
  /** Lanes that have mail waiting for a connection to this host. */
  lanesWaiting?: (host: string) => readonly string[];
  /** The lane may have so many connections to this host now. */
  wake?: (lane: string, host: string, room: number) => void;
}

/** What the attempt's record says of a connection that others needed more. */
const GAVE_WAY = 'given up: it kept us waiting while other destinations had no connection';
/** How long a lane uses a host's connections while others wait for them and there is not one for each. */
const TURN_MS = 2_000;
/** A lane that gives back a connection takes it for its next mail within that time, or has none. */
const GOES_ON_MS = 50;
/** What was learnt about hosts; the ones met longest ago are forgotten first. */
const MOST_HOSTS = 20_000;

interface Held {
  session: Session;
  ip: string;
  key: string;
  host: HostState;
  lane: string;
  openedAt: number;
  maxMessages: number;
  idleTimer: Timer | null;
}

interface HostState {
  readonly name: string;
  gate: DialGate;
  /** As many connections as we open to it, as it was asked for last. */
  most: number;
  /** Connections that are open, being opened or being closed. */
  open: number;
  dialling: number;
  idle: Held[];
  /** Connections that each lane uses or opens. */
  used: Map<string, number>;
  /** When the last turn of each lane began. */
  turns: Map<string, number>;
  /** Runs while a connection is idle that the lane which gave it back may take again. */
  look: Timer | null;
}

export function createPool(deps: PoolDeps, limits: PoolLimits = defaultPoolLimits): Pool {
  const { clock, random = Math.random, lanesWaiting = () => [], wake = () => undefined } = deps;
  const hosts = new Map<string, HostState>();
  const leased = new Set<Held>();
  const opening = new Map<AbortController, { since: number; lane: string }>();
  let total = 0;
  let draining = false;
  let emptied: (() => void) | null = null;

  const limitOf = (maxPerHost: number | undefined): number => maxPerHost ?? limits.maxPerHost;

  function hostOf(name: string): HostState {
    let host = hosts.get(name);
    if (host === undefined) {
      host = {
        name,
        gate: openGate,
        most: limits.maxPerHost,
        open: 0,
        dialling: 0,
        idle: [],
        used: new Map(),
        turns: new Map(),
        look: null,
      };
      hosts.set(name, host);
      if (hosts.size > MOST_HOSTS) forgetOne();
    }
    return host;
  }

  function forgetOne(): void {
    for (const [name, { open }] of hosts) {
      if (open > 0) continue;
      hosts.delete(name);
      return;
    }
  }

  /** Whether it is this lane's turn: it may not use more than its share while others wait for theirs. */
  function hasTurn(host: HostState, lane: string, most: number): boolean {
    const others = lanesWaiting(host.name).filter((other) => other !== lane);
    if (others.length === 0) return true;
    const users = new Set([...host.used.keys(), ...others, lane]);
    const share = Math.floor(Math.min(most, host.gate.cap ?? most) / users.size);
    const used = (one: string): number => host.used.get(one) ?? 0;
    if (share >= 1) return used(lane) < share || !others.some((other) => used(other) < share);
    const isInTurn = (one: string): boolean => clock.monotonic() - began(host, one) < TURN_MS;
    if (isInTurn(lane)) return true;
    // The next turn is that of the lane whose last one is the longest ago.
    return others.every((other) => !isInTurn(other) && began(host, other) >= began(host, lane));
  }

  /** Tells the lanes that may have a connection to this host now. */
  function wakeLanes(host: HostState): void {
    for (const lane of lanesWaiting(host.name)) wakeLane(host, lane);
  }

  function wakeLane(host: HostState, lane: string): void {
    const room = roomIn(host, lane, host.most);
    if (room > 0) wake(lane, host.name, room);
  }

  function roomIn(host: HostState, lane: string, most: number): number {
    if (draining || !hasTurn(host, lane, most)) return 0;
    if (host.idle.length > 0) return host.idle.length;
    if (waitOf(host.gate, host, most, clock.monotonic()) !== null) return 0;
    return isFree(host.gate) && host.open > 0 ? most - host.open : 1;
  }

  function take(request: LeaseRequest): ReturnType<Pool['take']> {
    if (draining) return { kind: 'wait', wait: { why: 'draining', until: null } };
    const host = hostOf(request.host);
    const most = limitOf(request.maxPerHost);
    host.most = most;
    if (!hasTurn(host, request.lane, most)) return { kind: 'wait', wait: { why: 'lane', until: null } };
    const held = takeIdle(host, request.key);
    if (held !== null) return { kind: 'leased', lease: leaseOf(held, request.lane) };
    const wait = waitOf(host.gate, host, most, clock.monotonic());
    if (wait === null) return { kind: 'dial' };
    // An idle connection that this mail cannot use goes; its place is free when it is gone.
    if (wait.why === 'full' || wait.why === 'cap') closeOneIdle(host);
    return { kind: 'wait', wait };
  }

  async function dial(request: LeaseRequest, open: (signal: AbortSignal) => Promise<OpenResult>): Promise<LeaseResult> {
    const { key, lane, maxMessages = limits.maxMessages } = request;
    const host = hostOf(request.host);
    const most = limitOf(request.maxPerHost);
    const wait = draining
      ? ({ why: 'draining', until: null } as const)
      : waitOf(host.gate, host, most, clock.monotonic());
    if (wait !== null) return { kind: 'wait', wait };
    const controller = new AbortController();
    opening.set(controller, { since: clock.monotonic(), lane: request.lane });
    host.dialling++;
    adjust(host, 1);
    use(host, lane, 1);
    let opened: OpenResult;
    try {
      opened = await open(controller.signal);
    } catch (error) {
      opening.delete(controller);
      host.dialling--;
      use(host, lane, -1);
      host.gate = dialFailed(host.gate, 0, { text: 'a fault of ours' }, clock.monotonic(), random());
      adjust(host, -1);
      throw error;
    }
    opening.delete(controller);
    host.dialling--;
    // The one that has failed is counted until it is gone.
    const standing = host.open - host.dialling - (opened.kind === 'failed' ? 1 : 0);
    if (opened.kind === 'failed') {
      use(host, lane, -1);
      // Nothing was dialled where this machine has no descriptor left; TLS that a policy misses is about that policy's mail.
      if (opened.ours !== true && !opened.tlsUnsatisfied)
        host.gate = dialFailed(host.gate, standing, saidBy(opened), clock.monotonic(), random());
      adjust(host, -1);
      return opened;
    }
    host.gate = dialled(host.gate, standing, most, clock.monotonic());
    const { session, ip } = opened;
    // Given up in the very moment it was open.
    if (controller.signal.aborted) session.abandon();
    const mostMessages = Math.min(maxMessages, session.extensions.mailMax ?? maxMessages);
    const held: Held = {
      session,
      ip,
      key,
      host,
      lane,
      openedAt: clock.monotonic(),
      maxMessages: mostMessages,
      idleTimer: null,
    };
    use(host, lane, -1);
    const lease = leaseOf(held, lane);
    // Who waited for this dial to succeed may dial now.
    wakeLanes(host);
    return { kind: 'leased', lease };
  }

  function leaseOf(held: Held, lane: string): Lease {
    let out = true;
    held.lane = lane;
    leased.add(held);
    use(held.host, lane, 1);
    return {
      session: held.session,
      ip: held.ip,
      reused: held.session.messages > 0,
      giveBack() {
        if (!out) throw new Error('a lease was given back twice');
        out = false;
        leased.delete(held);
        use(held.host, held.lane, -1);
        if (draining || !fitForMore(held)) close(held);
        else putIdle(held);
      },
    };
  }

  function use(host: HostState, lane: string, by: 1 | -1): void {
    const count = (host.used.get(lane) ?? 0) + by;
    if (count === 0) host.used.delete(lane);
    else host.used.set(lane, count);
    const now = clock.monotonic();
    if (by === 1 && now - began(host, lane) >= TURN_MS) host.turns.set(lane, now);
  }

  function fitForMore({ session, openedAt, maxMessages }: Held): boolean {
    return session.usable() && session.messages < maxMessages && clock.monotonic() - openedAt < limits.maxAgeMs;
  }

  function putIdle(held: Held): void {
    const dismiss = (): void => {
      removeIdle(held);
      close(held);
    };
    held.idleTimer = clock.after(limits.idleMs, dismiss);
    held.session.watch(dismiss);
    held.host.idle.push(held);
    offerIdle(held);
  }

  /** Goes to the lane that gave it back, which may go on at once; to the others where that has no turn, or does not take it. */
  function offerIdle({ host, lane }: Held): void {
    const waiting = lanesWaiting(host.name);
    if (waiting.length === 0) return;
    if (!hasTurn(host, lane, host.most)) {
      wakeLanes(host);
      return;
    }
    if (waiting.includes(lane)) wake(lane, host.name, 1);
    host.look ??= clock.after(GOES_ON_MS, () => {
      host.look = null;
      if (host.idle.length > 0) wakeLanes(host);
    });
  }

  /** The one used last: the others may then reach their idle limit. */
  function takeIdle(host: HostState, key: string): Held | null {
    for (;;) {
      const held = host.idle.findLast((each) => each.key === key);
      if (held === undefined) return null;
      removeIdle(held);
      if (fitForMore(held)) return held;
      close(held);
    }
  }

  function removeIdle(held: Held): void {
    held.idleTimer?.cancel();
    held.session.watch(null);
    const { idle } = held.host;
    const at = idle.indexOf(held);
    if (at >= 0) idle.splice(at, 1);
  }

  function closeOneIdle(host: HostState): void {
    const [held] = host.idle;
    if (held === undefined) return;
    removeIdle(held);
    close(held);
  }

  /** The connection counts until its socket is gone, since the host counts it until then. */
  function close(held: Held): void {
    void held.session.close().then(() => {
      adjust(held.host, -1);
      wakeLanes(held.host);
    });
  }

  function adjust(host: HostState, by: 1 | -1): void {
    total += by;
    host.open += by;
    if (host.open === 0) {
      host.look?.cancel();
      host.look = null;
      // Where several wait their turns go on with the next connection.
      if (lanesWaiting(host.name).length < 2) host.turns.clear();
      if (host.gate === openGate && host.turns.size === 0) hosts.delete(host.name);
    }
    if (draining && total === 0) emptied?.();
  }

  return {
    take,
    dial,
    carried(name) {
      const host = hosts.get(name);
      if (host !== undefined) host.gate = carried(host.gate);
    },
    broke(name, text) {
      const host = hostOf(name);
      host.gate = sessionBroke(host.gate, text, clock.monotonic(), random());
    },
    room(name, lane, maxPerHost) {
      const host = hosts.get(name);
      return host === undefined ? 1 : roomIn(host, lane, limitOf(maxPerHost));
    },
    usedBy: (name, lane) => hosts.get(name)?.used.get(lane) ?? 0,
    waitingLong(lane, waitMs) {
      const before = clock.monotonic() - waitMs;
      let count = 0;
      for (const one of opening.values()) if (one.lane === lane && one.since <= before) count++;
      for (const held of leased) if (held.lane === lane && (held.session.waitingSince ?? Infinity) <= before) count++;
      return count;
    },
    waitOf(name, maxPerHost) {
      const host = hosts.get(name);
      if (host === undefined || host.idle.length > 0) return null;
      return waitOf(host.gate, host, limitOf(maxPerHost), clock.monotonic());
    },
    capOf(name) {
      const gate = hosts.get(name)?.gate;
      if (gate?.cap == null) return null;
      return { cap: gate.cap, cause: gate.cause, ageMs: clock.monotonic() - gate.since };
    },
    tryNow(names) {
      for (const name of names ?? hosts.keys()) {
        const host = hosts.get(name);
        if (host === undefined) continue;
        host.gate = tryNow(host.gate);
        wakeLanes(host);
      }
    },
    count: (name) => (name === undefined ? total : (hosts.get(name)?.open ?? 0)),
    drain() {
      draining = true;
      const done = new Promise<void>((resolve) => (emptied = resolve));
      for (const held of [...hosts.values()].flatMap(({ idle }) => idle)) {
        removeIdle(held);
        close(held);
      }
      if (total === 0) emptied?.();
      return done;
    },
    dropWaiting(waitMs, most) {
      const before = clock.monotonic() - waitMs;
      const waiting: { since: number; drop: () => void }[] = [];
      for (const [controller, { since }] of opening) {
        const drop = (): void => {
          controller.abort(GAVE_WAY);
        };
        waiting.push({ since, drop });
      }
      for (const { session } of leased) {
        const drop = (): void => {
          session.abandon(false, GAVE_WAY);
        };
        waiting.push({ since: session.waitingSince ?? Infinity, drop });
      }
      const late = waiting.filter(({ since }) => since <= before).sort((a, b) => a.since - b.since);
      const dropped = late.slice(0, Math.max(0, late.length - most));
      for (const { drop } of dropped) drop();
      return dropped.length;
    },
    abandon(evenPastDot = false) {
      draining = true;
      for (const controller of opening.keys()) controller.abort('given up: the program stops');
      for (const { session } of leased) session.abandon(evenPastDot);
    },
  };
}

/** What the host said or did instead of letting us in. */
const saidBy = ({ reply, text }: Extract<OpenResult, { kind: 'failed' }>): { text: string; isRefusal: boolean } =>
  reply === null ? { text, isRefusal: false } : { text: `${String(reply.code)} ${reply.text}`, isRefusal: true };

const began = ({ turns }: HostState, lane: string): number => turns.get(lane) ?? -Infinity;
