/** Values of a template: their members, truth, comparison and printed text. */
import { escapeHtml } from '../../base/html.ts';
import { failed } from './fault.ts';

/** The value of the name `unsubscribe_url`: it stays in the stored content, and each recipient's copy has the address for it. */
export const UNSUBSCRIBE_URL = '{{unsubscribe_url}}';

/** Text that is already escaped for its part. */
export class Safe {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A whole number that came from a fraction, as `5.0`: it prints its `.0` and divides without rounding; otherwise it is a number. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
  toJSON(): number {
    return this.value;
  }
}

/** Liquid's `empty` and `blank`: equal to empty values; `blank` also to false and to text with blanks only. */
export class Nothing {
  readonly word: 'empty' | 'blank';
  constructor(word: 'empty' | 'blank') {
    this.word = word;
  }
}

/** A range without its elements: `(1..1000000)` costs nothing until a loop counts its turns. */
export class Range {
  readonly from: number;
  readonly to: number;
  constructor(from: number, to: number) {
    this.from = from;
    this.to = to;
  }
  get length(): number {
    return Math.max(0, this.to - this.from + 1);
  }
  /** The element of this index; from the end for a negative one, as that of a list. */
  at(index: number): number | undefined {
    const n = index < 0 ? this.length + index : index;
    return n >= 0 && n < this.length ? this.from + n : undefined;
  }
}

export const plain = (value: unknown): unknown =>
  value instanceof Safe ? value.text : value instanceof Float ? value.value : value;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !(value instanceof Safe) &&
  !(value instanceof Float) &&
  !(value instanceof Nothing) &&
  !(value instanceof Range) &&
  !(value instanceof Date);

/** Returns a member of a value. Only own properties count: templates must not reach prototypes. */
export function memberOf(given: unknown, key: string): unknown {
  const value = plain(given);
  if (value === null || value === undefined || key === '__proto__' || key === 'constructor') return undefined;
  if (typeof value === 'string') return key === 'size' || key === 'length' ? lengthOf(value) : undefined;
  if (Array.isArray(value)) return elementOf(value, key);
  if (value instanceof Range) return elementOf(value, key);
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, key)) return value[key];
  if (key === 'size') return keysOf(value).length;
  const first = key === 'first' ? keysOf(value)[0] : undefined;
  return first === undefined ? undefined : [first, value[first]];
}

/** Returns the number of characters: an emoji is one, though it has two units of UTF-16. */
export const lengthOf = (text: string): number => text.replace(/[\ud800-\udbff](?=[\udc00-\udfff])/g, '').length;

/** The keys of objects, which templates do not change: reading those of a large one takes milliseconds. */
const keysOfObjects = new WeakMap<object, readonly string[]>();

export function keysOf(value: object): readonly string[] {
  const known = keysOfObjects.get(value);
  if (known !== undefined) return known;
  const keys = Object.keys(value);
  keysOfObjects.set(value, keys);
  return keys;
}

function elementOf(list: readonly unknown[] | Range, key: string): unknown {
  if (/^-?\d{1,9}$/.test(key)) return list.at(Number(key));
  if (key === 'size' || key === 'length') return list.length;
  if (key === 'first') return list.at(0);
  if (key === 'last') return list.at(-1);
  return undefined;
}

/** Returns the elements of a loop. An object gives pairs of key and value. */
export function listOf(given: unknown, most: number): unknown[] {
  const value = plain(given);
  if (Array.isArray(value)) return value;
  if (value instanceof Range) return Array.from({ length: Math.min(value.length, most + 1) }, (_, n) => value.from + n);
  if (typeof value === 'string') return value === '' ? [] : [value];
  if (isObject(value)) return Object.entries(value);
  return [];
}

/** In Liquid only nil and false are false; in Handlebars' `{{#if}}` also empty text, zero and empty lists; in its sections also empty lists. */
export type Truth = 'handlebars' | 'section' | 'liquid';

export function isTrue(given: unknown, truth: Truth): boolean {
  const value = plain(given);
  if (value === null || value === undefined || value === false) return false;
  if (truth === 'liquid') return true;
  if (Array.isArray(value)) return value.length > 0;
  return truth === 'section' || !(value === '' || value === 0 || Number.isNaN(value));
}

function isNothing(given: unknown, { word }: Nothing): boolean {
  const value = plain(given);
  if (value === '' || (Array.isArray(value) && value.length === 0)) return true;
  if (isObject(value)) return keysOf(value).length === 0;
  if (value instanceof Nothing) return value.word === word;
  if (word === 'empty') return false;
  return value === null || value === undefined || value === false || (typeof value === 'string' && value.trim() === '');
}

export function isEqual(a: unknown, b: unknown): boolean {
  if (b instanceof Nothing) return isNothing(a, b);
  if (a instanceof Nothing) return isNothing(b, a);
  const [left, right] = [plain(a), plain(b)];
  if ((left === null || left === undefined) && (right === null || right === undefined)) return true;
  if (left instanceof Range && right instanceof Range) return left.from === right.from && left.to === right.to;
  if (Array.isArray(left) && Array.isArray(right))
    return left.length === right.length && left.every((one, n) => isEqual(one, right[n]));
  return left === right;
}

/** Returns whether a text is compared with a number: a fault in Liquid, while other different types just are not in order. */
export const haveNoOrder = (a: unknown, operator: string, b: unknown): boolean => {
  if (!['<', '<=', '>', '>='].includes(operator)) return false;
  const kinds = `${typeof plain(a)} ${typeof plain(b)}`;
  return kinds === 'string number' || kinds === 'number string';
};

/** Compares two values; values of different types have no order. */
export function compare(a: unknown, operator: string, b: unknown): boolean {
  if (operator === '==') return isEqual(a, b);
  if (operator === '!=' || operator === '<>') return !isEqual(a, b);
  return operator === 'contains' ? contains(plain(a), plain(b)) : inOrder(plain(a), operator, plain(b));
}

function contains(whole: unknown, part: unknown): boolean {
  if (part === null || part === undefined) return false;
  if (typeof whole === 'string') return whole.includes(textOf(part));
  if (Array.isArray(whole)) return whole.some((one) => isEqual(one, part));
  return isObject(whole) && typeof part === 'string' && Object.hasOwn(whole, part);
}

function inOrder(a: unknown, operator: string, b: unknown): boolean {
  const comparable =
    (typeof a === 'number' && typeof b === 'number') || (typeof a === 'string' && typeof b === 'string');
  if (!comparable) return false;
  if (a === b) return operator.endsWith('=');
  return operator.startsWith('<') ? a < b : a > b;
}

/** Returns the value as it is printed: lists as their elements, as in Liquid, objects as JSON. */
export function textOf(given: unknown): string {
  if (given instanceof Float) return Number.isInteger(given.value) ? `${String(given.value)}.0` : String(given.value);
  const value = plain(given);
  if (value === null || value === undefined || value instanceof Nothing) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return joined(value, '');
  if (value instanceof Range) return `${String(value.from)}..${String(value.to)}`;
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value);
}

/** Characters of the longest value, printed or counted by `weightOf`. */
export const MOST_OUTPUT = 5 * 1024 * 1024;

/** Joins the printed elements with `glue`. Throws if that gets too long: a list can have one long text many times. */
export function joined(list: readonly unknown[], glue: string, print = textOf): string {
  const texts: string[] = [];
  let length = 0;
  for (const one of list) {
    const text = print(one);
    length += text.length + glue.length;
    if (length - glue.length > MOST_OUTPUT) throw failed(`a text grows longer than ${String(MOST_OUTPUT)} characters`);
    texts.push(text);
  }
  return texts.join(glue);
}

/** Returns the value as JSON. Throws if that gets too long. */
export function jsonOf(given: unknown): string {
  const value = plain(given) ?? null;
  return Array.isArray(value) ? `[${joined(value, ',', jsonOf)}]` : JSON.stringify(value);
}

/** Returns the number of characters and elements in a value, no further than `most`, so that the count itself stays cheap. */
export function weightOf(given: unknown, most: number): number {
  const value = plain(given);
  if (typeof value === 'string') return value.length;
  if (value instanceof Range) return Math.min(value.length, most + 1);
  const parts = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : null;
  if (parts === null) return 1;
  let weight = 1;
  for (const part of parts) {
    weight += weightOf(part, most - weight);
    if (weight > most) break;
  }
  return weight;
}

/** Escapes a text; ampersands that begin a reference stay. */
export const escapedOnce = (text: string): string =>
  text.replace(/&(?!#\d{1,7};|#x[\da-fA-F]{1,6};|[A-Za-z][A-Za-z\d]{1,31};)|[<>"']/g, (char) => escapeHtml(char));
