/** The types of filters and helpers. */

/** The render that a filter or helper is part of. */
export interface Surroundings {
  part: 'html' | 'text' | 'subject' | 'header' | 'address';
  /** BCP 47, for dates and numbers. */
  locale: string;
  /** An IANA name, such as `Europe/Vienna`. */
  timezone: string;
  /** The time of `now`, in ms since the epoch: the same for all renders of a message. */
  now: number;
}

export type Filter = (
  around: Surroundings,
  value: unknown,
  args: readonly unknown[],
  named: ReadonlyMap<string, unknown>,
) => unknown;

export type Helper = (around: Surroundings, args: readonly unknown[], named: ReadonlyMap<string, unknown>) => unknown;

/** A filter or helper with its name. */
export type Named<Kind> = readonly [name: string, run: Kind];
