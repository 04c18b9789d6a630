/**
 * Filters of a list. A page declares them once: they are read for the API from the address, shown as a form whose rarer fields are folded
 * (views/_filters.hbs), and as chips for those in use, each a link to the list without it.
 */
import { linkTo } from './links.ts';
import type { Range } from './range.ts';
import type { Visit } from './page.ts';
import { titleOf } from './words.ts';

type Choices = readonly (readonly [value: string, label: string])[];

export interface Filter {
  name: string;
  /** Without one it is in the address only, such as in a link of another page. */
  label?: string;
  /** Without them it is a text. */
  choices?: Choices;
  /** Shown at once, and not folded. */
  isFirst?: boolean;
  /** The name of the empty choice. */
  any?: string;
  type?: 'search' | 'email';
  placeholder?: string;
  /** Said when the pointer rests on it. */
  about?: string;
  most?: number;
}

export type Filters = ReturnType<typeof filtersOf>;

/**
 * Returns the given values, as the API has them, and the form for the view. An empty value does not undo what a typed text asks for. `button` is the
 * word on its button; `keeps` names other parameters of the address that stay.
 */
export function filtersOf(
  path: string,
  query: URLSearchParams,
  declared: readonly Filter[],
  { range, button = 'Search', keeps = [] }: { range?: Range; button?: string; keeps?: readonly string[] } = {},
) {
  const given = Object.fromEntries(
    declared.flatMap(({ name }): [string, string][] => {
      const value = query.get(name)?.trim() ?? '';
      return value === '' ? [] : [[name, value]];
    }),
  );
  const fields = declared.flatMap((one) =>
    one.label === undefined
      ? []
      : [{ type: 'text', most: 200, ...one, value: given[one.name], choices: choicesOf(one, given) }],
  );
  const inUse = declared.filter(({ name, isFirst = false }) => name in given && !isFirst);
  const isFiltered = Object.keys(given).length > 0;
  const kept = [...declared.filter(({ label }) => label === undefined).map(({ name }) => name), ...keeps];
  return {
    given,
    isFiltered,
    filters: {
      path,
      button,
      range,
      first: fields.filter(({ isFirst }) => isFirst),
      folded: fields.filter(({ isFirst }) => !isFirst),
      kept: kept.flatMap((name) => ((query.get(name) ?? '') === '' ? [] : [{ name, value: query.get(name) }])),
      chips: inUse.map((one) => ({
        text: `${one.label ?? titleOf(one.name)}: ${textOf(one, given[one.name] ?? '')}`,
        href: linkTo(path, query, { [one.name]: null }),
      })),
      clear: isFiltered ? linkTo(path, Object.fromEntries(keeps.map((name) => [name, query.get(name) ?? '']))) : null,
    },
  };
}

const textOf = ({ choices = [] }: Filter, value: string): string =>
  choices.find(([one]) => one === value)?.[1] ?? value;

/** Returns the choices with the chosen one; a value of the address that is not among them stays one. */
function choicesOf({ name, choices, any = 'all' }: Filter, given: Readonly<Record<string, string>>) {
  const now = given[name] ?? '';
  if (choices === undefined) return null;
  const known = now === '' || choices.some(([value]) => value === now);
  const all: Choices = [['', any], ...choices, ...(known ? [] : [[now, now] as const])];
  return all.map(([value, label]) => ({ value, label, on: value === now }));
}

/** Lists have more than a select can show from here on: the newest are offered. */
const MOST = '100';

export const streamsOf = async ({ ask }: Visit): Promise<Choices> =>
  (await ask('listStreams', { query: { limit: MOST } })).data.map(({ slug }) => [slug, slug]);

export const keysOf = async ({ ask }: Visit): Promise<Choices> =>
  (await ask('listKeys', { query: { limit: MOST } })).data.map(({ id, name }) => [id, name]);

export const domainsOf = async ({ ask }: Visit): Promise<Choices> =>
  (await ask('listDomains', { query: { status: 'any', limit: MOST } })).data.map(({ name }) => [name, name]);
