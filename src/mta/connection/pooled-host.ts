/** One host in the pool: dial gate, connections, lanes. Lanes share equally what it allows, or take turns of two seconds if that is too little. */
import type { Timer } from '../../base/clock.ts';
import type { Session } from './session.ts';

/** A connection, from the dial until its socket is gone. */
export interface Connection {
  readonly host: PooledHost;
  /** A connection is reused for an equal key only. */
  readonly key: string;
  /** When it was dialled, on the monotonic clock, in ms. */
  readonly since: number;
  readonly maxMessages: number;
  /** Aborts the dial. */
  readonly dialling: AbortController;
  /** The lane that uses it, or used it last. */
  lane: string;
  /** Null while it is being opened. */
  session: Session | null;
  ip: string;
  idleTimer: Timer | null;
  /** Resolves when the socket is gone; null until it is closed. */
  closed: Promise<void> | null;
}

/** How long a lane uses a host's connections while others wait for them and there is not one for each. */
const TURN_MS = 2_000;

export class PooledHost {
  readonly name: string;
  gate: DialGate = openGate;
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

  countUse(lane: string, by: 1 | -1, now: number): void {
    const count = this.usedBy(lane) + by;
    if (count === 0) this.used.delete(lane);
    else this.used.set(lane, count);
    if (by === 1 && now - this.turnBeganAt(lane) >= TURN_MS) this.turns.set(lane, now);
  }

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

  get isForgettable(): boolean {
    return this.gate === openGate && this.turns.size === 0;
  }

  private turnBeganAt(lane: string): number {
    return this.turns.get(lane) ?? -Infinity;
  }
}

/**
 * The dial gate of one mail host as it is reached from one of our sources: when a connection to it may be opened, and how many
 * may be open. It decides by what the host has shown:
 *
 *   - A refused dial while connections of ours are open says how many the host allows: as many as those are (`cap`). One more
 *     is tried 30 s later at the earliest, and only while all of them are in use; after one that was taken the next 10 s later.
 *   - A dial that fails while nothing is open, or a session that breaks before it has carried its mail, closes the gate for a
 *     while that grows with each such failure in a row. When it opens again one connection at a time is tried.
 *   - A host that lets a connection in, and then refuses its mail for the number of connections, has refused the dial.
 *   - A host that was not reached yet gets one dial; the others follow when that one has succeeded.
 *   - A dial that is refused for the number of connections while other nodes have some, and this one none, closes the gate for
 *     30 to 60 s, however often that happens: the host works, and a place is free as soon as another node ends.
 *
 * Connections that are open go on. Pure: times are on the monotonic clock, in ms, and handed in like chance.
 */

export interface DialGate {
  /** Connections that were open when one more was refused; null if none was. */
  readonly cap: number | null;
  /** When one connection more than those that were open was refused. */
  readonly refusedAt: number;
  /** When the cap was last raised. */
  readonly raisedAt: number;
  /** Dials and sessions that failed in a row, with no mail carried between. */
  readonly failures: number;
  /** True if the last failure came after the dial had succeeded; and if the host answered with a refusal. */
  readonly wasOpen: boolean;
  readonly isRefusal: boolean;
  readonly closedUntil: number;
  readonly cause: string;
  readonly since: number;
}

/** Counts of connections to the host: all, and those of them that are being opened. */
export interface ConnectionCounts {
  open: number;
  dialling: number;
  /** Since when the only connection to the host is being opened; null if there is none, or another one. */
  diallingSince?: number | null;
}

/** A host that has not let a connection in for so long keeps that one only: other mail goes to the site's other hosts. */
export const SILENT_MS = 5_000;

export type GateWait =
  /** The host was dialled in vain, or its sessions break: it is not dialled until then, or until the one dial that probes it has ended. */
  | {
      why: 'closed' | 'probing';
      until: number | null;
      how: 'unreachable' | 'refused' | 'broken' | 'silent';
      cause: string;
      since: number;
    }
  /** The host allows as many connections as are open. */
  | { why: 'cap'; until: number | null; cause: string; since: number }
  /** The first connection, or one more than it once allowed, is being opened. */
  | { why: 'opening'; until: null }
  /** The limit of connections that we open to one host is reached. */
  | { why: 'full'; until: null };

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** How long after a refusal one connection more than the host allowed is tried, in ms. */
const RAISE_MS = 30_000;
/** How long after a connection more was accepted the next one is tried, in ms. */
const NEXT_RAISE_MS = 10_000;
/** Pauses after the first, second ... failed dial in a row: three are a dead host. */
const DEAD_HOST_MS = [1_000, 2_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;
/** A host that answers and breaks its sessions is asked more often, since each try costs one mail's attempt only. */
const BROKEN_SESSIONS_MS = [
  1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000, 120_000, 240_000, 480_000, 900_000,
] as const;
/** Failures of open connections in a row from which on one connection is open at a time. */
const ONE_AT_A_TIME = 3;
/** A pause is up to this share longer, so that sources and servers do not come back at the same time. */
const JITTER = 0.2;

export const openGate: DialGate = {
  cap: null,
  refusedAt: -Infinity,
  raisedAt: -Infinity,
  failures: 0,
  wasOpen: false,
  isRefusal: false,
  closedUntil: -Infinity,
  cause: '',
  since: 0,
};

/** Returns whether the host itself is the reason to wait, rather than the number of connections: then mail may go to a worse host. */
export const isDown = ({ why }: { why: string }): boolean => why === 'closed' || why === 'probing';

/** Returns why one connection more, of at most `most`, may not be opened now; null if it may. */
export function waitOf(
  gate: DialGate,
  { open, dialling, diallingSince = null }: ConnectionCounts,
  most: number,
  now: number,
): GateWait | null {
  const { cap, failures, wasOpen, closedUntil, cause, since } = gate;
  const how = gate.isRefusal ? 'refused' : wasOpen ? 'broken' : 'unreachable';
  if (now < closedUntil) return { why: 'closed', until: closedUntil, how, cause, since };
  if (dialling > 0 && failures > 0) return { why: 'probing', until: null, how, cause, since };
  if (diallingSince !== null && now - diallingSince >= SILENT_MS)
    return { why: 'probing', until: null, how: 'silent', cause: '', since: diallingSince };
  if (dialling > 0 && (open === dialling || cap !== null)) return { why: 'opening', until: null };
  if (wasOpen && failures >= ONE_AT_A_TIME && open > 0) return { why: 'probing', until: null, how, cause, since };
  if (open >= most) return { why: 'full', until: null };
  if (cap === null) return null;
  // A connection has ended since: its place is free, but a host that counts slowly is not asked at once.
  if (open < cap) return soonest(gate, gate.refusedAt + FIRST_PAUSE_MS, now);
  return soonest(gate, Math.max(gate.refusedAt + RAISE_MS, gate.raisedAt + NEXT_RAISE_MS), now);
}

/** The cause is that of the last failure, which may have been of another kind. */
const soonest = ({ cause, since, refusedAt }: DialGate, at: number, now: number): GateWait | null =>
  now >= at ? null : { why: 'cap', until: at, cause: since === refusedAt ? cause : '', since: refusedAt };

export interface DialFailure {
  text: string;
  isRefusal?: boolean;
  /** The refusal is about the number of connections, and other nodes have some. */
  isCrowded?: boolean;
  wasOpen?: boolean;
}

/** Notes that a dial was refused or failed; `openCount` connections were open without it. `lot` is in [0, 1). */
export function dialFailed(
  gate: DialGate,
  openCount: number,
  { text, isRefusal = false, isCrowded = false, wasOpen = false }: DialFailure,
  now: number,
  lot: number,
): DialGate {
  const failure = { cause: text.slice(0, 200), since: now };
  if (openCount > 0) {
    return { ...gate, ...failure, cap: Math.min(openCount, gate.cap ?? Infinity), refusedAt: now };
  }
  const failed = { ...gate, ...failure, wasOpen, isRefusal };
  if (isCrowded) return { ...failed, failures: 1, closedUntil: now + RAISE_MS * (1 + lot) };
  return closed(failed, DEAD_HOST_MS, now, lot);
}

/** Notes that a session broke after the greeting and before the host had answered for the mail. */
export function sessionBroke(gate: DialGate, text: string, now: number, lot: number): DialGate {
  const broken = { ...gate, wasOpen: true, isRefusal: false, cause: text.slice(0, 200), since: now };
  return closed(broken, BROKEN_SESSIONS_MS, now, lot);
}

/** Notes that a dial has succeeded. `openCount` counts the new connection. */
export function dialled(gate: DialGate, openCount: number, most: number, now: number): DialGate {
  const { cap } = gate;
  // The mail that it carries decides whether failures of open connections are over.
  const next = gate.wasOpen || gate.failures === 0 ? gate : { ...gate, failures: 0, closedUntil: -Infinity };
  if (cap === null || openCount <= cap) return next;
  return { ...next, cap: openCount >= most ? null : openCount, raisedAt: now };
}

/** Notes that the host has answered for a mail, with whatever reply. */
export const carried = (gate: DialGate): DialGate =>
  gate.failures === 0 ? gate : { ...gate, failures: 0, wasOpen: false, closedUntil: -Infinity };

/** Returns whether nothing limits how many connections are opened to the host. */
export const isFree = ({ cap, failures }: DialGate): boolean => cap === null && failures === 0;

/** Lets the next connection be tried at once, on an operator's request; one at a time if the host had failed. */
export const tryNow = (gate: DialGate): DialGate => ({
  ...gate,
  closedUntil: -Infinity,
  refusedAt: -Infinity,
  raisedAt: -Infinity,
});

function closed(gate: DialGate, pauses: readonly number[], now: number, lot: number): DialGate {
  // Dials that failed together count as one failure, but the first one counts at once.
  if (now < gate.closedUntil && gate.failures > 0) return gate;
  const failures = gate.failures + 1;
  const pause = pauses[Math.min(failures, pauses.length) - 1] ?? LONGEST_PAUSE_MS;
  return { ...gate, failures, closedUntil: now + pause * (1 + JITTER * lot) };
}
