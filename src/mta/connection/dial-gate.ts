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
  /** When one connection more than those that were open was refused, and how long dialling paused then. */
  readonly refusedAt: number;
  readonly pauseMs: number;
  /** When the cap was last raised. */
  readonly raisedAt: number;
  /** Dials and sessions that failed in a row, with no mail carried between. */
  readonly failures: number;
  /** True if the last failure came after the dial had succeeded; and if the host answered with a refusal. */
  readonly wasOpen: boolean;
  readonly isRefusal: boolean;
  /** The host is not dialled before then. */
  readonly closedUntil: number;
  /** The failure or the refusal, and when it was. */
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

/** Why a connection has to wait. */
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
  pauseMs: 0,
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
  return soonest(gate, Math.max(gate.refusedAt + Math.max(gate.pauseMs, RAISE_MS), gate.raisedAt + NEXT_RAISE_MS), now);
}

const soonest = ({ cause, since }: DialGate, at: number, now: number): GateWait | null =>
  now >= at ? null : { why: 'cap', until: at, cause, since };

/** How a dial has failed. */
export interface DialFailure {
  text: string;
  /** The host has answered, with a refusal. */
  isRefusal?: boolean;
  /** The refusal is about the number of connections, and other nodes have some. */
  isCrowded?: boolean;
  /** The host had let the connection in. */
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
    // Dials that began before the last refusal say the same once more.
    const isNew = now - gate.refusedAt >= FIRST_PAUSE_MS;
    const pauseMs = isNew ? Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, gate.pauseMs * 2)) : gate.pauseMs;
    const cap = Math.min(openCount, gate.cap ?? Infinity);
    return { ...gate, ...failure, cap, refusedAt: now, pauseMs: Math.max(pauseMs, FIRST_PAUSE_MS) };
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
  return { ...next, cap: openCount >= most ? null : openCount, raisedAt: now, pauseMs: 0 };
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
