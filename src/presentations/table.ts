/** Tables for people; each column is as wide as its longest cell. Pure. */
import type { Column } from './presentation.ts';

export type Cell = string | number | boolean | null | undefined;

/** Returns the lines of a table with headings; the last column is not padded. Without rows there are no lines. */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  if (rows.length === 0) return [];
  const lines = [headings, ...rows.map((row) => row.map(cell))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, column) => (column === line.length - 1 ? text : text.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

function cell(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return printable(String(value));
}

/** Returns the lines of a table of records, of several or none. */
export const tableOf = (columns: readonly Column[], rows: readonly unknown[]): string[] =>
  table(
    columns.map(({ head }) => head),
    rows.map((row) => columns.map((column) => column.of(row))),
  );

/** Returns a line for each fact, without those that are empty. */
export const facts = (all: readonly (readonly [string, Cell])[]): string[] =>
  table(
    ['', ''],
    all.filter(([, value]) => value !== null && value !== undefined && value !== ''),
  ).slice(1);

/** Escapes characters that control a terminal or reorder its text: replies and subjects come from strangers. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, escaped);
}

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/**
 * Writes JSON and escapes characters that control a terminal or reorder its text: DEL, the C1 characters and the controls of
 * writing direction. A reader of the JSON gets the same value.
 */
export function json(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replaceAll(
    /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    escaped,
  );
}
