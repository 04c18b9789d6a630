/** The results of the doctor's checks: status, reason and cure. Pure. */

export type Status = 'ok' | 'warning' | 'failed';

export interface Verdict {
  status: Status;
  /** A sentence about what the check found. */
  why: string;
  /** The remedy; null if none is needed. */
  cure: string | null;
  /** The object that it is about, for a link. */
  about?: { object: 'domain' | 'webhook'; id: string; name: string; account_id: string };
  /** Commands and values of the remedy, to be copied. */
  copy?: readonly string[];
}

/** One line of the doctor's report. A check may have several, one for each thing it found. */
export interface Finding extends Required<Omit<Verdict, 'about'>> {
  check: string;
  about: NonNullable<Verdict['about']> | null;
}

export const ok = (why: string): Verdict => ({ status: 'ok', why, cure: null });
type More = Pick<Verdict, 'about' | 'copy'>;
/** Makes a warning: mail is still delivered. */
export const warning = (why: string, cure: string, more: More = {}): Verdict => ({
  status: 'warning',
  why,
  cure,
  ...more,
});
/** Makes a failure: mail, or a promise about it, is in danger. */
export const failed = (why: string, cure: string, more: More = {}): Verdict => ({
  status: 'failed',
  why,
  cure,
  ...more,
});

/** Makes the warning of a check that has nothing to look at. */
export const unseen = ({ why, cure }: { why: string; cure: string }): Verdict =>
  warning(`cannot be looked at: ${why}`, cure);

/** Returns the faults that a check found, or `well` if there are none. */
export const orWell = (faults: readonly Verdict[], well: string): readonly Verdict[] =>
  faults.length > 0 ? faults : [ok(well)];
