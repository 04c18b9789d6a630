/**
 * Filters of lists, as Liquid has them. What is no list counts as a list of one, lists in lists as one list. Each walks its list
 * once (sorting: with its logarithm); `evaluate.ts` bounds what a list may hold.
 */
import { failed } from './fault.ts';
import type { Filter, Named } from './filter.ts';
import { sumOf } from './number-filters.ts';
import { compare, isEqual, isObject, isTrue, joined, jsonOf, memberOf, plain, textOf } from './value.ts';

/** Lists in lists, as deep as JSON may be, are one. */
const flat = (list: readonly unknown[]): unknown[] =>
  list.some((one) => Array.isArray(one)) ? list.flatMap((one) => (Array.isArray(one) ? flat(one) : [one])) : [...list];

function itemsOf(given: unknown): unknown[] {
  const value = plain(given);
  if (value === null || value === undefined) return [];
  return Array.isArray(value) ? flat(value) : [given];
}

/** Thrown for an element that has no members at all: the filter gives nothing then. */
class NoMembers extends Error {}

/**
 * The member that a filter looks at. A text has what is in it; a whole number has none, and who asks for it has another list in
 * mind than this.
 */
function memberOfItem(item: unknown, name: unknown): unknown {
  const value = plain(item);
  if (isObject(value)) return name === null || name === undefined ? undefined : memberOf(value, textOf(name));
  const member = textOf(name);
  if (typeof value === 'string') return value.includes(member) ? member : undefined;
  if (Number.isInteger(value)) throw failed(`'${member.slice(0, 100)}' is looked for in the number ${textOf(value)}`);
  throw new NoMembers();
}

/** `run` gets what tells whether an element is asked for: its member is the value given, or true where none is. */
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

/** The elements with what they are ordered or told apart by: themselves or a member. */
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

/** What is absent comes last. */
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
    throw failed(`the filter 'sort' finds things that have no order`);
  return compare(left, '<', right) ? -1 : Number(compare(left, '>', right));
}

/** Tells values apart: texts from numbers that look the same, and lists and objects by what they hold. */
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

/** Of a text and a number there is no first element. */
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
