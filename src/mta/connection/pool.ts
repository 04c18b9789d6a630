/**
 * Open connections waiting for their next message, and the count of all that are open per host. A lease is one message's
 * use of a connection; whoever leases gives back. Nobody waits in here: a host at its cap is an answer, and the lane that
 * asked keeps its mail. So one lane can never hold up another.
 */
import type { Clock, Timer } from '../../base/clock.ts';
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
  /** `host:port`, for the cap. */
  host: string;
  /** Overrides the pool's cap for this host (operator table). */
  maxPerHost?: number;
  maxMessages?: number;
  /** Called when no idle session fits; the signal says that it is no longer wanted. */
  open: (signal: AbortSignal) => Promise<OpenResult>;
  /** Do not reuse an idle session: after one broke on its first word. */
  fresh?: boolean;
}

export type LeaseResult =
  | { kind: 'leased'; lease: Lease }
  /** The host has as many connections as it may have. */
  | { kind: 'full' }
  | { kind: 'draining' }
  | Extract<OpenResult, { kind: 'failed' }>;

export interface Pool {
  lease(request: LeaseRequest): Promise<LeaseResult>;
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

/** What the attempt's record says of a connection that others needed more. */
const GAVE_WAY = 'given up: it kept us waiting while other destinations had no connection';

interface Held {
  session: Session;
  ip: string;
  key: string;
  host: string;
  openedAt: number;
  maxMessages: number;
  idleTimer: Timer | null;
}

export function createPool(deps: { clock: Clock }, limits: PoolLimits = defaultPoolLimits): Pool {
  const { clock } = deps;
  const idle = new Map<string, Held[]>();
  const perHost = new Map<string, number>();
  const leased = new Set<Held>();
  const opening = new Map<AbortController, number>();
  let total = 0;
  let closing = 0;
  let draining = false;
  let emptied: (() => void) | null = null;

  async function lease(request: LeaseRequest): Promise<LeaseResult> {
    if (draining) return { kind: 'draining' };
    const waiting = request.fresh === true ? null : takeIdle(request.key);
    if (waiting !== null) return { kind: 'leased', lease: leaseOf(waiting) };
    if (!makeRoom(request)) return { kind: 'full' };
    const { key, host, maxMessages = limits.maxMessages } = request;
    const controller = new AbortController();
    opening.set(controller, clock.monotonic());
    adjust(host, 1);
    try {
      const opened = await request.open(controller.signal);
      if (opened.kind === 'failed') {
        adjust(host, -1);
        return opened;
      }
      const { session, ip } = opened;
      // Given up in the very moment it stood.
      if (controller.signal.aborted) session.abandon();
      const most = Math.min(maxMessages, session.extensions.mailMax ?? maxMessages);
      const held: Held = { session, ip, key, host, openedAt: clock.monotonic(), maxMessages: most, idleTimer: null };
      return { kind: 'leased', lease: leaseOf(held) };
    } catch (error) {
      adjust(host, -1);
      throw error;
    } finally {
      opening.delete(controller);
    }
  }

  function leaseOf(held: Held): Lease {
    let out = true;
    leased.add(held);
    return {
      session: held.session,
      ip: held.ip,
      reused: held.session.messages > 0,
      giveBack() {
        if (!out) throw new Error('a lease was given back twice');
        out = false;
        leased.delete(held);
        if (draining || !fitForMore(held)) close(held);
        else putIdle(held);
      },
    };
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
    const others = idle.get(held.key);
    if (others === undefined) idle.set(held.key, [held]);
    else others.push(held);
  }

  /** The one used last: the others may then reach their idle limit. */
  function takeIdle(key: string): Held | null {
    for (;;) {
      const held = idle.get(key)?.at(-1);
      if (held === undefined) return null;
      removeIdle(held);
      if (fitForMore(held)) return held;
      close(held);
    }
  }

  function removeIdle(held: Held): void {
    held.idleTimer?.cancel();
    held.session.watch(null);
    const others = idle.get(held.key);
    if (others === undefined) return;
    const at = others.indexOf(held);
    if (at >= 0) others.splice(at, 1);
    if (others.length === 0) idle.delete(held.key);
  }

  /** At the cap, an idle connection of another key to the same host has to go first. */
  function makeRoom({ host, maxPerHost = limits.maxPerHost }: LeaseRequest): boolean {
    if ((perHost.get(host) ?? 0) < maxPerHost) return true;
    for (const others of idle.values()) {
      const held = others.find((each) => each.host === host);
      if (held === undefined) continue;
      removeIdle(held);
      close(held);
      return true;
    }
    return false;
  }

  function close(held: Held): void {
    closing++;
    adjust(held.host, -1);
    void held.session.close().then(() => {
      closing--;
      settle();
    });
  }

  function adjust(host: string, by: 1 | -1): void {
    total += by;
    const count = (perHost.get(host) ?? 0) + by;
    if (count === 0) perHost.delete(host);
    else perHost.set(host, count);
    settle();
  }

  function settle(): void {
    if (draining && total === 0 && closing === 0) emptied?.();
  }

  return {
    lease,
    count: (host) => (host === undefined ? total : (perHost.get(host) ?? 0)),
    drain() {
      draining = true;
      const done = new Promise<void>((resolve) => (emptied = resolve));
      for (const held of [...idle.values()].flat()) {
        removeIdle(held);
        close(held);
      }
      settle();
      return done;
    },
    dropWaiting(waitMs, most) {
      const before = clock.monotonic() - waitMs;
      const waiting = [
        ...[...opening].map(([controller, since]) => ({ since, drop: () => { controller.abort(GAVE_WAY); } })),
        ...[...leased].map(({ session }) => ({ since: session.waitingSince ?? Infinity, drop: () => { session.abandon(false, GAVE_WAY); } })),
      ].filter(({ since }) => since <= before); // prettier-ignore
      waiting.sort((a, b) => a.since - b.since);
      const dropped = waiting.slice(0, Math.max(0, waiting.length - most));
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
