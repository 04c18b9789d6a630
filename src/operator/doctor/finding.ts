/** What a check of the doctor says: how it stands, why, and what to do about it. Pure. */

export type Status = 'ok' | 'warning' | 'failed';

export interface Verdict {
  status: Status;
  /** A sentence with what was seen. */
  why: string;
  /** What to do about it; null where nothing is to be done. */
  cure: string | null;
}

/** One line of the doctor's report. A check may have several, one for each thing it found. */
export interface Finding extends Verdict {
  check: string;
}

export const ok = (why: string): Verdict => ({ status: 'ok', why, cure: null });
/** Mail goes all the same, now. */
export const warning = (why: string, cure: string): Verdict => ({ status: 'warning', why, cure });
/** Mail, or what was promised about it, is in danger. */
export const failed = (why: string, cure: string): Verdict => ({ status: 'failed', why, cure });

/** The findings of a check that looks for several faults: `well` where there is none. */
export const orWell = (faults: readonly Verdict[], well: string): readonly Verdict[] =>
  faults.length > 0 ? faults : [ok(well)];

/** `1 domain`, `2 domains`. */
export const counted = (n: number, noun: string): string => `${String(n)} ${noun}${n === 1 ? '' : 's'}`;
