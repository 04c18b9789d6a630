/**
 * The digest of a table's rows, the same on both engines. A row is the JSON list of its values in the order of the columns: bytes as
 * hexadecimal digits, and U+FFFD for the NUL character, which PostgreSQL cannot store. The SHA-256 sums of the rows are added, so that their
 * order does not matter: the engines may sort differently what they cannot both store.
 */
import { hash } from 'node:crypto';

/** A value as it travels: bytes are hexadecimal digits. */
export type Cell = string | number | null;
export type Row = readonly Cell[];

const NUL = '\0';
const REPLACEMENT = '\uFFFD';
const WORDS = 8;

/** Returns the row as JSON text. */
export function rowText(row: Row): string {
  const text = JSON.stringify(row);
  // The escape may also be a backslash of the text itself.
  return text.includes('\\u0000') ? JSON.stringify(row.map(withoutNul)) : text;
}

const withoutNul = (value: Cell): Cell => (typeof value === 'string' ? value.replaceAll(NUL, REPLACEMENT) : value);

/** Returns how many values of the row have a NUL character. */
export const countNuls = (row: Row): number =>
  row.filter((value) => typeof value === 'string' && value.includes(NUL)).length;

export class Digest {
  rows = 0;
  readonly #sums = new Uint32Array(WORDS);

  /** Adds a row, as `rowText` writes it. */
  add(text: string): void {
    const sum = hash('sha256', text, 'buffer');
    for (let word = 0; word < WORDS; word++) this.#sums[word] = (this.#sums[word] ?? 0) + sum.readUInt32BE(4 * word);
    this.rows++;
  }

  /** Returns the digest in lower-case hex. */
  text(): string {
    return [...this.#sums].map((word) => word.toString(16).padStart(8, '0')).join('');
  }
}
