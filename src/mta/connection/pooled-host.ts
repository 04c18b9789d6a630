/**
 * One host in the pool: its dial gate, the connections to it, and the lanes that use them. Lanes share what the host allows: equal
 * shares if there are enough connections, turns of two seconds if there are not.
 */
import type { Timer } from '../../base/clock.ts';
import { isFree, openGate, waitOf, type DialGate, type GateWait } from './dial-gate.ts';
import type { Session } from './session.ts';

/** An open connection. */
export interface Connection {
  readonly session: Session;
  readonly ip: string;
  /** A connection is reused for an equal key only. */
  readonly key: string;
  readonly host: PooledHost;
  /** The lane that uses it, or used it last. */
  lane: string;
  /** On the monotonic clock, in ms. */
  readonly openedAt: number;
  readonly maxMessages: number;
  idleTimer: Timer | null;
}

/** How long a lane uses a host's connections while others wait for them and there is not one for each. */
const TURN_MS = 2_000;

export class PooledHost {
  readonly name: string;
  gate: DialGate = openGate;
  /** The limit of connections that the last request gave. */
  limit: number;
  /** Connections that are open, being opened or being closed. */
  open = 0;
  dialling = 0;
  /** Since when its only connection is being opened, on the monotonic clock; null if there is none, or another one. */
  diallingSince: number | null = null;
  readonly idle: Connection[] = [];
  /** Runs while a connection is idle that the lane which gave it back may take again. */
  offerTimer: Timer | null = null;
  /** Connections that each lane uses or opens. */
  private readonly used = new Map<string, number>();
  /** When the last turn of each lane began. */
  private readonly turns = new Map<string, number>();

  constructor(name: string, limit: number) {
    this.name = name;
    this.limit = limit;
  }

  usedBy(lane: string): number {
    return this.used.get(lane) ?? 0;
  }

  /** Counts one connection more or less that the lane uses; the first one after a pause begins its turn. */
  countUse(lane: string, by: 1 | -1, now: number): void {
    const count = this.usedBy(lane) + by;
    if (count === 0) this.used.delete(lane);
    else this.used.set(lane, count);
    if (by === 1 && now - this.turnBeganAt(lane) >= TURN_MS) this.turns.set(lane, now);
  }

  /** Returns why no connection may be opened, or null. */
  waitOf(limit: number, now: number): GateWait | null {
    return waitOf(this.gate, this, limit, now);
  }

  /** Returns whether it is this lane's turn: it may not use more than its share while `others` wait for theirs. */
  hasTurn(lane: string, limit: number, others: readonly string[], now: number): boolean {
    if (others.length === 0) return true;
    const share = Math.floor(this.shareOf(lane, limit, others));
    if (share >= 1) return this.usedBy(lane) < share || !others.some((other) => this.usedBy(other) < share);
    const isInTurn = (one: string): boolean => now - this.turnBeganAt(one) < TURN_MS;
    if (isInTurn(lane)) return true;
    // The next turn is that of the lane whose last one is the longest ago.
    return others.every((other) => !isInTurn(other) && this.turnBeganAt(other) >= this.turnBeganAt(lane));
  }

  /** Returns how many connections each of the lanes that use the host or wait for it may have. */
  shareOf(lane: string, limit: number, others: readonly string[]): number {
    const users = new Set([...this.used.keys(), ...others, lane]);
    return Math.min(limit, this.gate.cap ?? limit) / users.size;
  }

  /** Returns how many connections more a lane may use that has its turn: the idle ones, and those that may be opened. */
  room(limit: number, now: number): number {
    const idle = this.idle.length;
    if (this.waitOf(limit, now) !== null) return idle;
    return idle + (isFree(this.gate) && this.open > 0 ? limit - this.open : 1);
  }

  /** The host has no connection any more. Turns are kept if several lanes wait: they go on with the next connection. */
  emptied(waitingLanes: number): void {
    this.offerTimer?.cancel();
    this.offerTimer = null;
    if (waitingLanes < 2) this.turns.clear();
  }

  /** Returns whether nothing is known of the host that is worth keeping. */
  get isForgettable(): boolean {
    return this.gate === openGate && this.turns.size === 0;
  }

  private turnBeganAt(lane: string): number {
    return this.turns.get(lane) ?? -Infinity;
  }
}

/** The text in the attempt's record for a connection that others needed more. */
const GAVE_WAY = 'given up: it kept us waiting while other destinations had no connection';

/**
 * The connections that are being opened and those that carry a mail: how long their hosts have kept us waiting, and giving them up. The
 * pool has them here from the dial, or from the loan of an idle one, until they are given back.
 */
export class BusyConnections {
  private readonly leased = new Set<Connection>();
  private readonly opening = new Map<AbortController, { since: number; lane: string }>();

  /** Notes that the lane opens a connection; `controller` aborts that. `since` is on the monotonic clock, in ms. */
  opens(controller: AbortController, lane: string, since: number): void {
    this.opening.set(controller, { since, lane });
  }

  /** Notes that a connection is open, or could not be opened. */
  opened(controller: AbortController): void {
    this.opening.delete(controller);
  }

  lend(connection: Connection): void {
    this.leased.add(connection);
  }

  giveBack(connection: Connection): void {
    this.leased.delete(connection);
  }

  /** Counts, for each lane, the connections whose host has kept us waiting in one phase since before this time. */
  waitingLong(before: number): Map<string, number> {
    const counts = new Map<string, number>();
    const count = (lane: string, since: number): void => {
      if (since <= before) counts.set(lane, (counts.get(lane) ?? 0) + 1);
    };
    for (const { lane, since } of this.opening.values()) count(lane, since);
    for (const { lane, session } of this.leased) count(lane, session.waitingSince ?? Infinity);
    return counts;
  }

  /**
   * Drops connections that have been waited for in one phase since before this time, except for `most` of them: those that waited
   * longest go first, none behind its final dot. Returns how many were dropped.
   */
  dropWaiting(before: number, most: number): number {
    const waiting: { since: number; drop: () => void }[] = [];
    for (const [controller, { since }] of this.opening) {
      const drop = (): void => controller.abort(GAVE_WAY);
      waiting.push({ since, drop });
    }
    for (const { session } of this.leased) {
      const drop = (): void => session.abandon(false, GAVE_WAY);
      waiting.push({ since: session.waitingSince ?? Infinity, drop });
    }
    const late = waiting.filter(({ since }) => since <= before).sort((a, b) => a.since - b.since);
    const dropped = late.slice(0, Math.max(0, late.length - most));
    for (const { drop } of dropped) drop();
    return dropped.length;
  }

  /** Drops every one, as the program stops; see `Session.abandon`. */
  abandon(evenPastDot: boolean): void {
    for (const controller of this.opening.keys()) controller.abort('given up: the program stops');
    for (const { session } of this.leased) session.abandon(evenPastDot);
  }
}

interface Counted {
  /** Connections that are open, being opened or being closed. */
  open: number;
  /** The idle ones, longest idle first. */
  readonly idle: Set<Connection>;
  readonly closing: Set<Promise<void>>;
}

const nothing: Readonly<Counted> = { open: 0, idle: new Set(), closing: new Set() };

/** Counts the connections of each lane, whatever host they lead to: receivers count those that are idle, too. */
export class LaneConnections {
  private readonly lanes = new Map<string, Counted>();

  count(lane: string, by: 1 | -1): void {
    const counted = this.lanes.get(lane) ?? { open: 0, idle: new Set(), closing: new Set() };
    counted.open += by;
    if (counted.open === 0) this.lanes.delete(lane);
    else this.lanes.set(lane, counted);
  }

  open(lane: string): number {
    return this.of(lane).open;
  }

  /** Returns the lanes with more than one connection. */
  withSeveral(): string[] {
    return [...this.lanes].flatMap(([lane, { open }]) => (open > 1 ? [lane] : []));
  }

  /** Notes that another lane uses the connection from now on. */
  move(connection: Connection, lane: string): void {
    if (connection.lane === lane) return;
    this.count(connection.lane, -1);
    this.count(lane, 1);
    connection.lane = lane;
  }

  keepIdle(connection: Connection): void {
    this.lanes.get(connection.lane)?.idle.add(connection);
  }

  removeIdle(connection: Connection): void {
    this.lanes.get(connection.lane)?.idle.delete(connection);
  }

  longestIdle(lane: string): Connection | null {
    const [first = null] = this.of(lane).idle;
    return first;
  }

  /** Counts the connection until it is closed. */
  closes(lane: string, closed: Promise<void>): void {
    const closing = this.lanes.get(lane)?.closing;
    closing?.add(closed);
    void closed.then(() => {
      closing?.delete(closed);
      this.count(lane, -1);
    });
  }

  /** Resolves when a connection that is being closed is gone; null if none is. */
  freed(lane: string): Promise<void> | null {
    const { closing } = this.of(lane);
    return closing.size === 0 ? null : Promise.race(closing);
  }

  private of(lane: string): Readonly<Counted> {
    return this.lanes.get(lane) ?? nothing;
  }
}
