/** Tells what a person sees of an operation: command, options, help, tables and completion (cli/derive.ts). Loads no operation, so `--help` is quick. */
import type { OperationName } from '../operator/routes.ts';
import type { ApiOperation } from '../operations/summaries.ts';

export interface Input {
  /** As the help shows it: `<id>`, `[id]` or `--name <name>`. */
  flag: string;
  says?: string;
  /** The member of the operation's input; by default the flag's name with `_` for `-`. Null: it only changes what is shown. */
  member?: string | null;
  /** The form of its value, or a function that reads it. */
  kind?:
    | (
        | 'text'
        | 'list'
        | 'names'
        | 'duration'
        | 'seconds'
        | 'until'
        | 'hold_time'
        | 'limit'
        | 'count'
        | 'days'
        | 'hours'
      )
    | ((text: string, before: never) => unknown);
  choices?: readonly string[];
  default?: string | number;
  isRequired?: boolean;
  /** The option that it cannot be given with. */
  conflicts?: string;
}

/** The values given to a command, by the name of the input with `_` for `-`. */
export type Given = Readonly<Record<string, unknown>>;

interface Column {
  /** The member of the record; null if it is made of several. */
  member: string | null;
  head: string;
  of(row: unknown): Cell;
}

export interface Presentation<Answer = unknown> {
  /** Its words: `keys create`. */
  command: string;
  operation: ApiOperation | OperationName;
  /** Its help, if that is not the summary of an operation of the API. */
  says?: string;
  input?: readonly Input[];
  /** The operation that is performed in its place if this input is given. */
  instead?: { given: string } & Pick<Presentation, 'operation' | 'columns' | 'lines'>;
  /** It has `--dry-run`, which tells what it would do. */
  isTried?: true;
  /** Input that the command stands for. */
  with?: object;
  /** The same, if it depends on what was given. */
  sends?(given: Given): object;
  /** A list that may go on behind the rows shown: how many there are without `--limit`, or at most. */
  list?: { limit: number } | { most: number };
  /** The way to what the list does not show. */
  beyond?: string | ((given: Given) => string);
  /** The record that `--json` prints, if it is not the answer. */
  record?(answer: Answer): unknown;
  /** `--json` prints one object a line. */
  isByLine?: true;
  /** The table of the records in `rows`, by default those of the list, or the answer. */
  columns?: readonly Column[];
  rows?(answer: Answer): readonly object[];
  /** Lines in the place of a table. */
  lines?(answer: Answer, given: Given): readonly string[];
  /** Said to people beside the result, on standard error. */
  tip?(answer: Answer, given: Given): string | null;
  /** Said on standard error, with `--json` too. */
  warning?(answer: Answer): string | null;
  /** The exit code, if it is not 0. */
  exit?(answer: Answer): number;
  examples: readonly string[];
}

/** Declares what a person sees of an operation that answers this. */
export const present = <Answer>(one: Presentation<Answer>): Presentation => one;

type ColumnOf<Row> = (keyof Row & string) | readonly [head: string, of: (row: Row) => Cell];

/** Declares columns: members, with their names in capitals as headings, or cells made of a record. Lists are joined. */
export const columns = <Row>(...all: readonly ColumnOf<Row>[]): readonly Column[] =>
  all.map((one) =>
    typeof one === 'string'
      ? { member: one, head: headOf(one), of: (row) => cellOf((row as Row)[one]) }
      : { member: null, head: one[0], of: (row) => one[1](row as Row) },
  );

const headOf = (member: string): string => member.replace(/_at$/, '').replaceAll('_', ' ').toUpperCase();

const cellOf = (value: unknown): Cell => (Array.isArray(value) ? value.join(',') : (value as Cell));

/** The mail that a command on the queue is about. */
export const selectors: readonly Input[] = [
  { flag: '--domain <domain>', says: "of this recipient's domain; ~simulator for simulated mail" },
  { flag: '--lane <lane>', says: 'of this lane, as `queue lanes` shows it' },
  { flag: '--account <account>', says: 'of this account, name or id (default: all)' },
  { flag: '--stream <stream>', says: 'of this stream' },
  { flag: '--key <id>', says: 'sent with this API key', member: 'key_id' },
  { flag: '--tag <tag>', says: 'with this tag' },
  { flag: '--batch <id>', says: 'of this bulk send', member: 'batch_id' },
  { flag: '--message <id>', says: 'of this message', member: 'message_id' },
];

export const ofAccount: Input = { flag: '--account <account>', says: 'name or id (default: default)' };

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

/** Writes JSON and escapes what controls a terminal or reorders its text (DEL, C1, writing direction). A reader gets the same value. */
export function json(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replaceAll(
    /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    escaped,
  );
}
