/** Text filters whose result could be far longer than their input, or whose arguments must be whole numbers in Liquid. */
import { failed } from './fault.ts';
import type { Filter, Named } from './filter.ts';
import { Float, joined, lengthOf, MOST_OUTPUT, plain, textOf } from './value.ts';

/** Returns a whole number, also one given as a text. Throws for any other value. */
function whole(value: unknown, filter: string): number {
  const given = plain(value);
  if (typeof given === 'number' && Number.isInteger(given) && !(value instanceof Float)) return given;
  if (typeof given === 'string' && /^\s*-?\d{1,15}\s*$/.test(given)) return Number(given);
  throw failed(`the filter '${filter}' needs a whole number`);
}

/** Replaces `pattern`, a plain text. An empty one is found between all characters and at both ends. */
function replaced(text: string, pattern: string, by: string): string {
  const parts = pattern === '' ? ['', ...Array.from(text), ''] : text.split(pattern);
  const length = text.length + (parts.length - 1) * (by.length - pattern.length);
  if (length > MOST_OUTPUT) throw failed(`a text grows longer than ${String(MOST_OUTPUT)} characters`);
  return parts.join(by);
}

/** Splits a text: by words for a blank; empty parts at the end are dropped. */
function split(text: string, by: string): string[] {
  if (text === '') return [];
  if (by === '') return Array.from(text);
  const parts = by === ' ' ? text.trim().split(/\s+/) : text.split(by);
  while (parts.at(-1) === '') parts.pop();
  return parts;
}

function slice(value: unknown, from: number, length: number): unknown {
  const inner = plain(value);
  const parts = Array.isArray(inner) ? inner : Array.from(textOf(inner));
  const start = from < 0 ? parts.length + from : from;
  const part = start < 0 || length < 0 ? [] : parts.slice(start, start + length);
  return Array.isArray(inner) ? part : joined(part, '');
}

/** Counts whole characters, so that none is cut in half. */
function truncated(text: string, most: number, end: string): string {
  if (text.length <= most) return text;
  const first = Array.from(text.slice(0, 2 * Math.max(0, most) + 2));
  return first.length <= most ? text : first.slice(0, Math.max(0, most - lengthOf(end))).join('') + end;
}

function truncatedWords(text: string, most: number, end: string): string {
  const words = text.trim().split(/\s+/);
  const keep = Math.max(1, most);
  return words.length <= keep ? text : words.slice(0, keep).join(' ') + end;
}

/** Returns the text that marks a cut; empty if an unknown variable is given. */
const ending = (args: readonly unknown[]): string => (args.length > 1 ? textOf(args[1]) : '...');

const first = (args: readonly unknown[], fallback: number, filter: string): number =>
  args.length === 0 ? fallback : whole(args[0], filter);

export const textFilters: readonly Named<Filter>[] = [
  ['replace', (_, value, [pattern, by]) => replaced(textOf(value), textOf(pattern), textOf(by))],
  [
    'remove',
    (_, value, [pattern]) => (textOf(pattern) === '' ? textOf(value) : replaced(textOf(value), textOf(pattern), '')),
  ],
  ['split', (_, value, [by]) => split(textOf(value), textOf(by))],
  [
    'slice',
    (_, value, [from, length]) =>
      slice(value, whole(from, 'slice'), length === null || length === undefined ? 1 : whole(length, 'slice')),
  ],
  ['truncate', (_, value, args) => truncated(textOf(value), first(args, 50, 'truncate'), ending(args))],
  ['truncatewords', (_, value, args) => truncatedWords(textOf(value), first(args, 15, 'truncatewords'), ending(args))],
];
