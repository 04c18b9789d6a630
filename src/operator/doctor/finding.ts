/** The results of the doctor's checks: status, reason and cure. Pure. */

export type Status = 'ok' | 'warning' | 'failed';

export interface Verdict {
  status: Status;
  /** A sentence about what the check found. */
  why: string;
  /** The remedy; null if none is needed. */
  cure: string | null;
}

/** One line of the doctor's report. A check may have several, one for each thing it found. */
export interface Finding extends Verdict {
  check: string;
}

export const ok = (why: string): Verdict => ({ status: 'ok', why, cure: null });
/** Makes a warning: mail is still delivered. */
export const warning = (why: string, cure: string): Verdict => ({ status: 'warning', why, cure });
/** Makes a failure: mail, or a promise about it, is in danger. */
export const failed = (why: string, cure: string): Verdict => ({ status: 'failed', why, cure });

/** Returns the faults that a check found, or `well` if there are none. */
export const orWell = (faults: readonly Verdict[], well: string): readonly Verdict[] =>
  faults.length > 0 ? faults : [ok(well)];

/** Returns `1 domain`, `2 domains`. */
export const counted = (n: number, noun: string): string => `${String(n)} ${noun}${n === 1 ? '' : 's'}`;
