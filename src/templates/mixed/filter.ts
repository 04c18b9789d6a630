/** The types of filters and helpers. */

/** The render that a filter or helper is part of. */
export interface Surroundings {
  part: 'html' | 'text' | 'subject' | 'header';
  locale: string;
  timezone: string;
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
