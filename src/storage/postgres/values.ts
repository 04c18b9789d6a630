/** Turns our statements and values into those of PostgreSQL, and its values into ours. */
import { LRUCache } from 'lru-cache';
import type { Value } from '../connection.ts';

export interface PostgresText {
  text: string;
  /** The places of the values that are JSON, whose escapes PostgreSQL reads. */
  json: readonly number[];
}

const MOST_TEXTS = 1000;
const known = new LRUCache<string, PostgresText>({ max: MOST_TEXTS });

/** Numbers the placeholders of a statement: `?` is `$1`, then `$2`. A question mark inside quotes is not a placeholder. */
export function postgresText(sql: string): PostgresText {
  const before = known.get(sql);
  if (before !== undefined) return before;
  let place = 0;
  const text = sql.replaceAll(/'(?:[^']|'')*'|"[^"]*"|\?/g, (part) => (part === '?' ? `$${String(++place)}` : part));
  const made = { text, json: jsonPlaces(text) };
  known.set(sql, made);
  return made;
}

/** Returns the places of the values that a statement with numbered placeholders reads as JSON. */
export const jsonPlaces = (text: string): number[] =>
  [...text.matchAll(/\$(\d+)::jsonb/g)].map(([, place]) => Number(place) - 1);

/** Stands for characters that PostgreSQL cannot store. */
const REPLACEMENT = '\uFFFD';
const REPLACEMENT_ESCAPE = '\\ufffd';
const NUL = '\0';

/**
 * Replaces what PostgreSQL refuses: the NUL character, and lone surrogates in JSON. A mail host's reply with a NUL would otherwise make its
 * outcome unwritable, and the mail would be sent again and again.
 */
export function cleaned(values: readonly Value[], json: readonly number[]): readonly Value[] {
  if (!values.some((value, place) => needsCleaning(value, json.includes(place)))) return values;
  return values.map((value, place) => {
    if (typeof value !== 'string') return value;
    const text = value.replaceAll(NUL, REPLACEMENT);
    return json.includes(place) ? cleanedJson(text) : text;
  });
}

const needsCleaning = (value: Value, isJson: boolean): boolean =>
  typeof value === 'string' && (value.includes(NUL) || (isJson && value.includes('\\u')));

/** JSON.stringify escapes NUL and lone surrogates; a backslash in front of the escape would make it the text of one. */
const cleanedJson = (json: string): string =>
  json.replaceAll(/\\\\|\\u0000|\\ud[89ab][0-9a-f]{2}|\\ud[c-f][0-9a-f]{2}/gi, (found) =>
    found === '\\\\' ? found : REPLACEMENT_ESCAPE,
  );

/** The types that the program reads as numbers, by their number in PostgreSQL's catalogue: bool, int8, int2, int4, float4, float8, numeric. */
const BOOLEAN = 16;
const NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 1700]);
const BYTES = 17;

const number = (text: string): number => Number(text);
const flag = (text: string): number => (text === 't' ? 1 : 0);
const bytes = (text: string): Buffer => Buffer.from(text.slice(2), 'hex');
const same = (text: string): string => text;

/** How the driver reads values: numbers and flags as numbers, as SQLite gives them, everything else as text. */
export const types = {
  getTypeParser(oid: number): (text: string) => unknown {
    if (NUMBERS.has(oid)) return number;
    if (oid === BOOLEAN) return flag;
    return oid === BYTES ? bytes : same;
  },
};
