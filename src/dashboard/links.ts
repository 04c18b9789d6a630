/** Links that keep the filters of the current address. Pure. */
import type { Page } from '../client/types.ts';

/** Returns the address with some parameters changed; null and '' remove one. Cursors are always dropped. */
export function linkTo(
  path: string,
  query: URLSearchParams | Record<string, string>,
  changes: Readonly<Record<string, string | null>> = {},
): string {
  const next = new URLSearchParams(
    [...new URLSearchParams(query)].filter(([name, value]) => value !== '' && !isCursor(name)),
  );
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') next.delete(name);
    else next.set(name, value);
  }
  const search = next.toString();
  return search === '' ? path : `${path}?${search}`;
}

/** `since` fixes the beginning of the time range while paging: a cursor is valid for one list only, and a range moves with the clock. */
const isCursor = (name: string): boolean => name === 'after' || name === 'before' || name === 'since';

/** Returns the parameters of the API's list for the page that the address names. */
export const pageOf = (query: URLSearchParams, limit = 50): Record<string, string | null> => ({
  after: query.get('after'),
  before: query.get('before'),
  limit: String(limit),
});

export type Cursors = Pick<Page<unknown>, 'next_cursor' | 'previous_cursor'>;

export type Pager = ReturnType<typeof pagerOf>;

/** Returns links to the next and previous page, from the cursors of the API's list. */
export function pagerOf(
  path: string,
  query: URLSearchParams,
  { next_cursor: next, previous_cursor: previous }: Cursors,
  since: string | null = null,
) {
  return {
    next: next === null ? null : linkTo(path, query, { after: next, since }),
    previous: previous === null ? null : linkTo(path, query, { before: previous, since }),
  };
}

/** Returns one chip for each value, '' for all; the active one links to the list without this filter. */
export function chipsOf(
  path: string,
  query: URLSearchParams,
  name: string,
  values: readonly (readonly [value: string, label: string])[],
) {
  const now = query.get(name) ?? '';
  return values.map(([value, label]) => {
    const on = now === value;
    return { label, on, href: linkTo(path, query, { [name]: on ? null : value }) };
  });
}

/** Returns a path of this dashboard to redirect to; `/` for anything else, such as `//evil.test`. */
export function placeWithin(wanted: string | null): string {
  return wanted !== null && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}$/.test(wanted) ? wanted : '/';
}
