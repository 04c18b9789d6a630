/**
 * The dial gate of one mail host as it is reached from one of our sources: when a connection to it may be opened, and how many
 * may be open. It replaces guessing by what the host has shown:
 *
 *   - A refused dial while connections of ours are open says how many the host allows: as many as those are (`cap`). One more
 *     is tried 30 s later at the earliest, and only while all of them are in use; after one that was taken the next 10 s later.
 *   - A dial that fails while nothing is open, or a session that breaks before it has carried its mail, closes the gate for a
 *     while that grows with each such failure in a row. When it opens again one connection at a time is tried.
 *   - A host that nobody has reached yet gets one dial; the others follow when that one has succeeded.
 *
 * Connections that are open go on. Pure: times are on the monotonic clock, in ms, and handed in like chance.
 */

export interface DialGate {
  /** Connections that were open when one more was refused; null where none was. */
  readonly cap: number | null;
  /** When one more than those that were open was refused, and how long dialling paused then. */
  readonly refusedAt: number;
  readonly pauseMs: number;
  /** When the cap was last raised. */
  readonly raisedAt: number;
  /** Dials and sessions that failed in a row, with no mail carried between. */
  readonly failures: number;
  /** Whether the last failure was a session that broke, not a dial; and whether the host refused in words. */
  readonly isBroken: boolean;
  readonly isRefusal: boolean;
  /** Nobody dials before. */
  readonly closedUntil: number;
  /** What the host did or said, and when. */
  readonly cause: string;
  readonly since: number;
}

/** Who is there: connections to the host that are open, and those of them that are being opened. */
export interface Standing {
  open: number;
  dialling: number;
}

/** Why a connection has to wait. */
export type GateWait =
  /** The host was dialled in vain, or its sessions break: nobody dials until then, or until the one that tries is done. */
  | {
      why: 'closed' | 'probing';
      until: number | null;
      how: 'unreachable' | 'refused' | 'broken';
      cause: string;
      since: number;
    }
  /** It allows no more than are open. */
  | { why: 'cap'; until: number | null; cause: string; since: number }
  /** The first connection, or one more than it once allowed, is being opened. */
  | { why: 'opening'; until: null }
  /** As many are open as we open to one host. */
  | { why: 'full'; until: null };

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** One connection more than the host allowed is tried so long after its refusal, */
const RAISE_MS = 30_000;
/** and so long after one more was taken. */
const NEXT_RAISE_MS = 10_000;
/** Pauses after the first, second ... failed dial in a row: three are a dead host. */
const DEAD_HOST_MS = [1_000, 2_000, 60_000, 120_000, 240_000, 480_000, 900_000] as const;
/** A host that answers and breaks its sessions is asked more often, since each try costs one mail's attempt only. */
const BROKEN_SESSIONS_MS = [
  1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000, 120_000, 240_000, 480_000, 900_000,
] as const;
/** From so many broken sessions in a row on one connection is open at a time. */
const ONE_AT_A_TIME = 3;
/** A pause is this much longer at most, so that sources and nodes do not come back together. */
const JITTER = 0.2;

export const openGate: DialGate = {
  cap: null,
  refusedAt: -Infinity,
  pauseMs: 0,
  raisedAt: -Infinity,
  failures: 0,
  isBroken: false,
  isRefusal: false,
  closedUntil: -Infinity,
  cause: '',
  since: 0,
};

/** Whether the host itself is what keeps mail from it, rather than the number of connections: then a worse host may take it. */
export const isDown = ({ why }: { why: string }): boolean => why === 'closed' || why === 'probing';

/** Whether one connection more may be opened now, of at most `most`; null where it may. */
export function waitOf(gate: DialGate, { open, dialling }: Standing, most: number, now: number): GateWait | null {
  const { cap, failures, isBroken, closedUntil, cause, since } = gate;
  const how = isBroken ? 'broken' : gate.isRefusal ? 'refused' : 'unreachable';
  if (now < closedUntil) return { why: 'closed', until: closedUntil, how, cause, since };
  if (dialling > 0 && failures > 0) return { why: 'probing', until: null, how, cause, since };
  if (dialling > 0 && (open === dialling || cap !== null)) return { why: 'opening', until: null };
  if (isBroken && failures >= ONE_AT_A_TIME && open > 0) return { why: 'probing', until: null, how, cause, since };
  if (open >= most) return { why: 'full', until: null };
  if (cap === null) return null;
  // A connection has ended since: its place is free, but a host that counts slowly is not asked at once.
  if (open < cap) return soonest(gate, gate.refusedAt + FIRST_PAUSE_MS, now);
  return soonest(gate, Math.max(gate.refusedAt + Math.max(gate.pauseMs, RAISE_MS), gate.raisedAt + NEXT_RAISE_MS), now);
}

const soonest = ({ cause, since }: DialGate, at: number, now: number): GateWait | null =>
  now >= at ? null : { why: 'cap', until: at, cause, since };

/** A dial was refused or failed; `standing` connections were open without it. `lot` is in [0, 1). */
export function dialFailed(
  gate: DialGate,
  standing: number,
  { text, isRefusal = false }: { text: string; isRefusal?: boolean },
  now: number,
  lot: number,
): DialGate {
  const told = { cause: text.slice(0, 200), since: now };
  if (standing > 0) {
    // Dials that began before the last refusal say the same once more.
    const isNew = now - gate.refusedAt >= FIRST_PAUSE_MS;
    const pauseMs = isNew ? Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, gate.pauseMs * 2)) : gate.pauseMs;
    const cap = Math.min(standing, gate.cap ?? Infinity);
    return { ...gate, ...told, cap, refusedAt: now, pauseMs: Math.max(pauseMs, FIRST_PAUSE_MS) };
  }
  return closed({ ...gate, ...told, isBroken: false, isRefusal }, DEAD_HOST_MS, now, lot);
}

/** A session broke after the host had greeted us and before it had answered for the mail. */
export function sessionBroke(gate: DialGate, text: string, now: number, lot: number): DialGate {
  return closed({ ...gate, isBroken: true, cause: text.slice(0, 200), since: now }, BROKEN_SESSIONS_MS, now, lot);
}

/** A dial has succeeded. `standing` counts the new connection. */
export function dialled(gate: DialGate, standing: number, most: number, now: number): DialGate {
  const { cap } = gate;
  // The mail that it carries decides whether broken sessions are over.
  const next = gate.isBroken || gate.failures === 0 ? gate : { ...gate, failures: 0, closedUntil: -Infinity };
  if (cap === null || standing <= cap) return next;
  return { ...next, cap: standing >= most ? null : standing, raisedAt: now, pauseMs: 0 };
}

/** The host has answered for a mail, whatever it said. */
export const carried = (gate: DialGate): DialGate =>
  gate.failures === 0 ? gate : { ...gate, failures: 0, isBroken: false, closedUntil: -Infinity };

/** Whether the host has done nothing that limits how many connections are opened to it. */
export const isFree = ({ cap, failures }: DialGate): boolean => cap === null && failures === 0;

/** Somebody wants to know now: the next connection may be tried at once, one at a time where the host had failed. */
export const tryNow = (gate: DialGate): DialGate => ({
  ...gate,
  closedUntil: -Infinity,
  refusedAt: -Infinity,
  raisedAt: -Infinity,
});

function closed(gate: DialGate, pauses: readonly number[], now: number, lot: number): DialGate {
  // What failed together is one failure, but a first one counts at once.
  if (now < gate.closedUntil && gate.failures > 0) return gate;
  const failures = gate.failures + 1;
  const pause = pauses[Math.min(failures, pauses.length) - 1] ?? LONGEST_PAUSE_MS;
  return { ...gate, failures, closedUntil: now + pause * (1 + JITTER * lot) };
}
