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
