/**
 * Query strings, and the few kinds of parameter. One given twice becomes a list, `metadata[order]=17` becomes `{ metadata: { order: '17' } }`; other
 * brackets, in which some programs write lists (axios `status[]=a`, PHP `status[0]=a`), mean `status=a`.
 */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { faults } from '../base/check.ts';
import { addressKey, parseMailbox } from '../mail/address.ts';

/** Most parameters of a query: no endpoint has a third as many, and a URL can hold thousands. */
const MOST_PARAMETERS = 100;

type Parameter = string | string[] | Record<string, string | string[]>;

/** Parses the text after the `?`; `isRecord`: the parameter has members. Throws `invalid_parameter` for broken text and too many. */
export function parseQuery(search: string, isRecord: (name: string) => boolean): Record<string, Parameter> {
  const found = new Map<string, string | string[]>();
  const groups = new Map<string, Map<string, string | string[]>>();
  const pairs = search === '' ? [] : search.split('&').filter((pair) => pair !== '');
  if (pairs.length > MOST_PARAMETERS)
    throw new Problem('invalid_parameter', `A query has at most ${MOST_PARAMETERS} parameters.`);
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), null);
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1), name);
    const [, group, member] = /^([a-z_]+)\[([^[\]]*)\]$/.exec(name) ?? [];
    // Zod leaves a member of this name out of an object, and the list would not be narrowed by it: so it is an unknown parameter.
    if (group === undefined || member === undefined || member === '__proto__') add(found, name, value);
    else if (/^\d*$/.test(member) && !isRecord(group)) add(found, group, value);
    else add(groups.get(group) ?? added(groups, group), member, value);
  }
  // fromEntries defines members one by one: a parameter called __proto__ stays an ordinary, unknown one.
  return Object.fromEntries<Parameter>([
    ...found,
    ...[...groups].map(([name, of]): [string, Parameter] => [name, Object.fromEntries(of)]),
  ]);
}

function added(groups: Map<string, Map<string, string | string[]>>, name: string): Map<string, string | string[]> {
  const group = new Map<string, string | string[]>();
  groups.set(name, group);
  return group;
}

function add(to: Map<string, string | string[]>, name: string, value: string): void {
  const before = to.get(name);
  if (before === undefined) to.set(name, value);
  else if (typeof before === 'string') to.set(name, [before, value]);
  else before.push(value);
}

function decode(text: string, field: string | null): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new Problem('invalid_parameter', 'The query is not percent-encoded UTF-8.', { field });
  }
}

export const integerParameter = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/)
    .register(faults, { says: `must be a whole number from ${min} to ${max}` })
    .transform(Number)
    .pipe(z.int().min(min).max(max));

export const booleanParameter = () =>
  z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .pipe(z.boolean());

/** The entries of a list: `name=a,b`, `name=a&name=b` and both together mean the same, an entry given twice counts once. */
const entriesOf = (given: string | string[]): string[] => [
  ...new Set([given].flat().flatMap((text) => text.split(','))),
];

/** Each text may hold several entries, so that this does not limit their number; a URL has at most 16 KiB. */
const listText = () => z.union([z.string().max(10_000), z.array(z.string().max(10_000)).max(100)]);

/** Names out of a fixed list, separated by commas or given one by one. */
export const listParameter = <const Name extends string>(names: readonly [Name, ...Name[]]) =>
  listText()
    .refine((given) => entriesOf(given).every((name) => (names as readonly string[]).includes(name)))
    .register(faults, { says: `must be one or more of ${names.join(', ')}, separated by commas` })
    .transform(entriesOf)
    .pipe(z.array(z.enum(names)).min(1).max(names.length));

/** A mail address in any spelling, as its stored key. A blank inside is a `+` that was not written as %2B: without quotes there is none. */
export const addressParameter = () =>
  z
    .string()
    .max(1000)
    .refine((text) => sought(text) !== null)
    .register(faults, { says: 'must be a mail address such as ana@example.net (a + in it is written %2B in a URL)' })
    .transform((text) => sought(text) ?? text);

function sought(text: string): string | null {
  for (const one of [text, text.trim().replaceAll(' ', '+')]) {
    const parsed = parseMailbox(one, { smtputf8: true });
    if (parsed.kind === 'ok') return addressKey(parsed.mailbox.address);
  }
  return null;
}

/** Texts without commas, separated by commas or given one by one. */
export const textsParameter = (item: z.ZodString, most: number) =>
  listText().transform(entriesOf).pipe(z.array(item).max(most));

/** Answers write years with four digits, also if a time has been rounded up or moved by an offset. */
const EARLIEST = Date.parse('0001-01-02T00:00:00Z');
const LATEST = Date.parse('9999-12-30T00:00:00Z');
const isWritable = (text: string): boolean => Date.parse(text) >= EARLIEST && Date.parse(text) <= LATEST;

/** RFC 3339 with an offset; gives milliseconds since the epoch. */
export const timeParameter = () =>
  z.iso
    .datetime({ offset: true })
    .refine(isWritable)
    .register(faults, {
      says: 'must be a time such as 2026-01-31T09:30:00Z, before the end of the year 9999 (the + of an offset is written %2B in a URL)',
    })
    .transform((text) => Date.parse(text));

/** RFC 3339 with an offset, in a body. */
export const timeMember = () =>
  z.iso.datetime({ offset: true }).refine(isWritable).register(faults, {
    says: 'must be an RFC 3339 time with an offset, such as 2026-01-31T09:30:00Z, before the end of the year 9999',
  });
