/** What filters and helpers are to the language, whatever they do. */

/** What a filter or helper may ask about the render it is part of. */
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

/** As it is registered. */
export type Named<Kind> = readonly [name: string, run: Kind];
