/** The suppression list as CSV, for every door: what an export writes an import accepts. Pure. */
import { CsvFault, readCsv, unguarded, type CsvRecord } from '../base/csv.ts';
import { Problem } from '../base/problem.ts';
import { suppressionReasons, type SuppressionRecord } from './suppression.ts';

type Reason = SuppressionRecord['reason'];

/** An address that an import puts on the list. */
export interface ImportedEntry {
  email: string;
  reason: Reason;
  note: string | null;
  stream: string | null;
  expires_at: string | null;
}

/** The result for an entry: its record, or the reason why it was rejected. */
export type AddedRecord =
  { result: 'created' | 'existing'; entry: SuppressionRecord } | { result: 'rejected'; email: string; why: string };

export interface Imported {
  created: number;
  existing: number;
  rejected: { line: number; email: string; why: string }[];
}

export interface ImportOptions {
  /** If the file has none. */
  reason: Reason;
  /** If the file has none: null for the whole account. */
  stream: string | null;
  /** Puts at most `ENTRIES_AT_ONCE` entries on the list; the results are in their order. */
  add(entries: ImportedEntry[]): Promise<{ data: readonly AddedRecord[] }>;
  /** Hears how many characters have been read. */
  progress?(characters: number): void;
}

/** Entries that one call adds: a grouped commit holds up others for that long. */
export const ENTRIES_AT_ONCE = 500;

/** Puts the addresses of CSV on the list, which comes in pieces. Throws `invalid_field` if the text breaks the format. */
export async function importCsv(
  pieces: Iterable<string> | AsyncIterable<string>,
  options: ImportOptions,
): Promise<Imported> {
  const reader = readCsv();
  const result: Imported = { created: 0, existing: 0, rejected: [] };
  const waiting: { line: number; entry: ImportedEntry }[] = [];
  let columns: Columns | null = null;

  async function flush(): Promise<void> {
    const part = waiting.splice(0, ENTRIES_AT_ONCE);
    if (part.length === 0) return;
    const { data } = await options.add(part.map(({ entry }) => entry));
    data.forEach((one, i) => {
      if (one.result === 'rejected') result.rejected.push({ line: part[i]?.line ?? 0, email: one.email, why: one.why });
      else result[one.result]++;
    });
  }

  async function take(records: readonly CsvRecord[]): Promise<void> {
    for (const { line, fields } of records) {
      if (columns === null) {
        columns = columnsOf(fields);
        if (columns.isHeaded) continue;
      }
      for (const read of entriesOf(fields, columns, options)) {
        if ('why' in read) result.rejected.push({ line, ...read });
        else waiting.push({ line, entry: read });
      }
      if (waiting.length >= ENTRIES_AT_ONCE) await flush();
    }
  }

  try {
    let characters = 0;
    for await (const piece of pieces) {
      await take(reader.push(piece));
      options.progress?.((characters += piece.length));
    }
    await take(reader.end());
  } catch (error) {
    if (!(error instanceof CsvFault)) throw error;
    const count = String(result.created + result.existing);
    throw new Problem('invalid_field', `${error.message}; ${count} addresses before it are on the list`, {
      cause: error,
    });
  }
  while (waiting.length > 0) await flush();
  return result;
}

interface Columns {
  isHeaded: boolean;
  email: number;
  reason: number;
  scope: number;
  stream: number;
  note: number;
  expiresAt: number;
}

/** Finds columns by their headings; without a heading for the address the first column is it, and nothing else is read. */
function columnsOf(fields: readonly string[]): Columns {
  const names = fields.map((field) => field.trim().toLowerCase().replaceAll(/[ -]/g, '_'));
  const email = names.findIndex((name) => ['email', 'e_mail', 'address', 'recipient', 'email_address'].includes(name));
  const at = (name: string): number => (email < 0 ? -1 : names.indexOf(name));
  return {
    isHeaded: email >= 0,
    email: Math.max(0, email),
    reason: at('reason'),
    scope: at('scope'),
    stream: at('stream'),
    note: at('note'),
    expiresAt: at('expires_at'),
  };
}

const reasons: ReadonlySet<string> = new Set(suppressionReasons);

const LONGEST_CELL = 1000;
const LONGEST_NOTE = 500;
/** RFC 3339 knows four digits of a year. */
const LAST_TIME = Date.parse('9999-12-31T23:59:59Z');

const isTime = (at: number): boolean => at >= 0 && at <= LAST_TIME;
const shortened = (text: string): string => (text.length > 80 ? `${text.slice(0, 80).toWellFormed()}...` : text);

type Read = ImportedEntry | { email: string; why: string };

/** A line of a table is one entry; a line of addresses, as mail programs copy them, is one entry for each. */
function entriesOf(fields: readonly string[], columns: Columns, options: ImportOptions): Read[] {
  const texts = fields.map((field) => field.trim()).filter((text) => text !== '');
  const isList = !columns.isHeaded && texts.length > 1 && texts.every((text) => text.includes('@'));
  return isList ? texts.map((text) => entryOf([text], columns, options)) : [entryOf(fields, columns, options)];
}

function entryOf(
  fields: readonly string[],
  columns: Columns,
  { reason: usual, stream: usualStream }: ImportOptions,
): Read {
  const at = (place: number): string => (place < 0 ? '' : unguarded((fields[place] ?? '').trim()));
  const email = at(columns.email);
  // A longer one would have its whole part refused, with lines that are good.
  if (email.length > LONGEST_CELL) return { email: shortened(email), why: 'too long for an address' };
  const reason = at(columns.reason).toLowerCase();
  if (reason !== '' && !reasons.has(reason))
    return { email, why: `there is no reason ${JSON.stringify(shortened(reason))}: ${[...reasons].join(', ')}` };
  const scope = at(columns.scope);
  if (scope !== '' && scope !== 'account' && !scope.startsWith('stream:'))
    return { email, why: 'the scope is `account` or `stream:` and a slug' };
  const stream = at(columns.stream) || (scope.startsWith('stream:') ? scope.slice('stream:'.length) : '');
  if (stream.length > LONGEST_CELL) return { email, why: 'too long for the slug of a stream' };
  const expiresAt = at(columns.expiresAt);
  if (expiresAt !== '' && !isTime(Date.parse(expiresAt)))
    return { email, why: 'expires_at is not a time such as 2026-01-31T09:30:00Z' };
  return {
    email,
    reason: reason === '' ? usual : (reason as Reason),
    note: at(columns.note).slice(0, LONGEST_NOTE).toWellFormed() || null,
    stream: stream !== '' ? stream : scope === 'account' ? null : usualStream,
    expires_at: expiresAt === '' ? null : new Date(Date.parse(expiresAt)).toISOString(),
  };
}
