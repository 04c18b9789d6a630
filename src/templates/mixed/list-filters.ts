/**
 * Liquid's list filters. A value that is not a list counts as a list of one; nested lists count as one list. Each filter walks
 * its list once (sorting: n log n); `evaluate.ts` limits the length of lists.
 */
import { failed } from './fault.ts';
import type { Filter, Named } from './filter.ts';
import { sumOf } from './number-filters.ts';
import { compare, isEqual, isObject, isTrue, joined, jsonOf, memberOf, plain, textOf } from './value.ts';

/** Flattens nested lists, as deep as JSON may be. */
const flat = (list: readonly unknown[]): unknown[] =>
  list.some((one) => Array.isArray(one)) ? list.flatMap((one) => (Array.isArray(one) ? flat(one) : [one])) : [...list];

function itemsOf(given: unknown): unknown[] {
  const value = plain(given);
  if (value === null || value === undefined) return [];
  return Array.isArray(value) ? flat(value) : [given];
}

/** Thrown for an element without members: then the filter returns nothing. */
class NoMembers extends Error {}

/**
 * Returns the member that a filter compares. A text has the texts in it as members. A whole number has none: asking for one is
 * a mistake in the template.
 */
function memberOfItem(item: unknown, name: unknown): unknown {
  const value = plain(item);
  if (isObject(value)) return name === null || name === undefined ? undefined : memberOf(value, textOf(name));
  const member = textOf(name);
  if (typeof value === 'string') return value.includes(member) ? member : undefined;
  if (Number.isInteger(value))
    throw failed(`'${member.slice(0, 100)}' cannot be read from the number ${textOf(value)}`);
  throw new NoMembers();
}

/** Makes a filter whose test is true for elements with the given value of a member, or with a true one if no value is given. */
const selecting = (
  name: string,
  run: (items: unknown[], test: (item: unknown) => boolean) => unknown,
): Named<Filter> => [
  name,
  (_, value, [member, wanted]) => {
    const test = (item: unknown): boolean => {
      const found = memberOfItem(item, member);
      return wanted === null || wanted === undefined ? isTrue(found, 'liquid') : isEqual(found, wanted);
    };
    try {
      return run(itemsOf(value), test);
    } catch (error) {
      if (error instanceof NoMembers) return undefined;
      throw error;
    }
  },
];

/** Returns the elements with the key that they are compared by: the element itself or a member. */
const keyed = (value: unknown, member: unknown): { item: unknown; key: unknown }[] =>
  itemsOf(value).map((item) => ({
    item,
    key: member === null || member === undefined ? item : memberOr(item, member),
  }));

function memberOr(item: unknown, name: unknown): unknown {
  try {
    return memberOfItem(item, name);
  } catch (error) {
    if (error instanceof NoMembers) return undefined;
    throw error;
  }
}

/** Sorts by key; elements without one come last. */
function sorted(value: unknown, member: unknown, order: (a: unknown, b: unknown) => number): unknown[] {
  const isAbsent = (key: unknown): boolean => key === null || key === undefined;
  return keyed(value, member)
    .sort((a, b) =>
      isAbsent(a.key) || isAbsent(b.key) ? Number(isAbsent(a.key)) - Number(isAbsent(b.key)) : order(a.key, b.key),
    )
    .map(({ item }) => item);
}

function inOrder(a: unknown, b: unknown): number {
  const [left, right] = [plain(a), plain(b)];
  if (typeof left !== typeof right || (typeof left !== 'number' && typeof left !== 'string'))
    throw failed(`the filter 'sort' has values that cannot be compared`);
  return compare(left, '<', right) ? -1 : Number(compare(left, '>', right));
}

/**
 * Returns a key that differs for different values: texts differ from equal-looking numbers, lists and objects are compared by
 * content.
 */
function identity(value: unknown): string {
  const inner = plain(value) ?? null;
  return typeof inner === 'object' ? jsonOf(inner) : `${typeof inner} ${textOf(inner)}`;
}

function unique(value: unknown, member: unknown): unknown[] {
  const seen = new Set<string>();
  return keyed(value, member).flatMap(({ item, key }) => {
    const id = identity(key);
    if (seen.has(id)) return [];
    seen.add(id);
    return [item];
  });
}

/** Returns the first or last element; a text and a number have none. */
const endOf = (value: unknown, end: 'first' | 'last'): unknown =>
  Array.isArray(plain(value)) || isObject(plain(value)) ? memberOf(value, end) : undefined;

export const listFilters: readonly Named<Filter>[] = [
  selecting('where', (items, test) => items.filter(test)),
  selecting('reject', (items, test) => items.filter((item) => !test(item))),
  selecting('find', (items, test) => items.find(test)),
  selecting('find_index', (items, test) => {
    const found = items.findIndex(test);
    return found < 0 ? undefined : found;
  }),
  selecting('has', (items, test) => items.some(test)),
  ['map', (_, value, [member]) => itemsOf(value).map((item) => memberOr(item, member))],
  ['sum', (_, value, [member]) => sumOf(keyed(value, member).map(({ key }) => key))],
  [
    'compact',
    (_, value, [member]) =>
      keyed(value, member)
        .filter(({ key }) => key !== null && key !== undefined)
        .map(({ item }) => item),
  ],
  ['uniq', (_, value, [member]) => unique(value, member)],
  ['sort', (_, value, [member]) => sorted(value, member, inOrder)],
  [
    'sort_natural',
    (_, value, [member]) => sorted(value, member, (a, b) => inOrder(textOf(a).toLowerCase(), textOf(b).toLowerCase())),
  ],
  ['reverse', (_, value) => itemsOf(value).reverse()],
  ['first', (_, value) => endOf(value, 'first')],
  ['last', (_, value) => endOf(value, 'last')],
  ['join', (_, value, [glue]) => joined(itemsOf(value), glue === undefined ? ' ' : textOf(glue))],
  [
    'concat',
    (_, value, [other]) => {
      if (!Array.isArray(plain(other))) throw failed("the filter 'concat' needs a list");
      return [...itemsOf(value), ...itemsOf(other)];
    },
  ],
  ['size', (_, value) => memberOf(value, 'size') ?? 0],
];
