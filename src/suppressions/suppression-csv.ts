/** The import of suppression lists, for every door. What an export writes an import accepts. */
import { CsvFault, readCsv, unguarded } from '../base/csv.ts';
import { Problem } from '../base/problem.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { Rows } from '../storage/rows.ts';
import {
  manyAdded,
  suppressionRecord,
  type SuppressionRecord,
  addressFault,
  addSuppressions,
  type NewSuppression,
} from './suppression-store.ts';
import { suppressionReasons } from '../storage/tables.ts';

/** The result for an entry: its record, or the reason why it was rejected. */
export type AddedRecord =
  { result: 'created' | 'existing'; entry: SuppressionRecord } | { result: 'rejected'; email: string; why: string };

export interface Imported {
  created: number;
  existing: number;
  /** Addresses by the reason that was read for them. */
  by_reason: Partial<Record<SuppressionRecord['reason'], number>>;
  rejected: { line: number; email: string; why: string }[];
}

export interface ImportOptions extends Usual {
  /** Puts at most `ENTRIES_AT_ONCE` entries on the list; the results are in their order. Null for a preview, which adds nothing. */
  add: ((entries: ImportedEntry[]) => Promise<{ data: readonly AddedRecord[] }>) | null;
  /** Hears how many characters have been read. */
  progress?(characters: number): void;
}

/** Entries that one call adds: a grouped commit holds up others for that long. */
export const ENTRIES_AT_ONCE = 500;

/** Puts the addresses of an export on the list, whose text comes in pieces. Throws `invalid_field` if the text breaks its format. */
export async function importCsv(
  pieces: Iterable<string> | AsyncIterable<string>,
  options: ImportOptions,
): Promise<Imported> {
  const result: Imported = { created: 0, existing: 0, by_reason: {}, rejected: [] };
  const waiting: { line: number; entry: ImportedEntry }[] = [];
  let characters = 0;

  async function flush(): Promise<void> {
    const part = waiting.splice(0, ENTRIES_AT_ONCE);
    if (part.length === 0) return;
    const entries = part.map(({ entry }) => entry);
    const data = options.add === null ? entries.map(previewed) : (await options.add(entries)).data;
    data.forEach((one, i) => {
      const { line = 0, entry } = part[i] ?? {};
      if (one.result === 'rejected') result.rejected.push({ line, email: one.email, why: one.why });
      else {
        result[one.result]++;
        if (entry !== undefined) result.by_reason[entry.reason] = (result.by_reason[entry.reason] ?? 0) + 1;
      }
    });
  }

  async function* counted(): AsyncGenerator<string> {
    for await (const piece of pieces) {
      options.progress?.((characters += piece.length));
      yield piece;
    }
  }

  try {
    for await (const entries of readExport(counted(), options)) {
      for (const one of entries) {
        if ('entry' in one) waiting.push(one);
        else result.rejected.push(one);
      }
      while (waiting.length >= ENTRIES_AT_ONCE) await flush();
    }
  } catch (error) {
    if (!(error instanceof CsvFault || error instanceof ExportFault)) throw error;
    const count = String(result.created + result.existing);
    throw new Problem('invalid_field', `${error.message}; ${count} addresses before it are on the list`, {
      cause: error,
    });
  }
  while (waiting.length > 0) await flush();
  return result;
}

/** Says what would be added, as far as that is known without the list: all good addresses are new. */
function previewed({
  email,
}: ImportedEntry): { result: 'created' } | { result: 'rejected'; email: string; why: string } {
  const why = addressFault(email);
  return why === null ? { result: 'created' } : { result: 'rejected', email, why };
}

/** Adds the valid entries in one transaction, and says why others are rejected. `rowsFor` gets what the audit says, and returns rows to add. */
export async function addImported(
  deps: StoreDeps,
  { accountId, createdBy }: Pick<NewSuppression, 'accountId' | 'createdBy'>,
  entries: readonly ImportedEntry[],
  rowsFor: (deed: ReturnType<typeof manyAdded>) => Rows,
): Promise<{ data: AddedRecord[] }> {
  const rows = (await deps.db.reader('streams').select('slug').where({ account_id: accountId })) as { slug: string }[];
  const streams = new Set(rows.map(({ slug }) => slug));
  const now = deps.clock.now();
  const faults = entries.map(({ email, stream, expires_at: end }) => {
    const fault = addressFault(email);
    if (fault !== null) return fault;
    if (stream !== null && !streams.has(stream)) return `there is no stream ${JSON.stringify(stream)}`;
    return end !== null && Date.parse(end) <= now ? 'it has ended already' : null;
  });
  const sound = entries.flatMap(({ expires_at: end, ...one }, i) =>
    faults[i] === null ? [{ ...one, accountId, createdBy, expiresAt: end === null ? null : Date.parse(end) }] : [],
  );
  const emails = entries.map(({ email }) => email);
  const rest = [...(await addSuppressions(deps, sound, (all) => rowsFor(manyAdded(emails, all))))];
  const data = emails.map((email, i): AddedRecord => {
    const why = faults[i] ?? null;
    if (why !== null) return { result: 'rejected', email, why };
    const one = rest.shift();
    if (one === undefined) throw new Error('fewer entries came back than were added');
    return { result: one.created ? 'created' : 'existing', entry: suppressionRecord(one.row) };
  });
  return { data };
}

/**
 * Reads a list of addresses that are not mailed, in the form in which this or another service exports it: CSV, JSON or a JSON object a
 * line; headings whatever their case and separators; the services' words for reasons. Prose in their place is the note of a bounce. Pure.
 */

type Reason = SuppressionRecord['reason'];

export interface ImportedEntry {
  email: string;
  reason: Reason;
  note: string | null;
  stream: string | null;
  expires_at: string | null;
}

/** An entry of the file, or why it cannot be one. */
export type ReadEntry = { line: number } & ({ entry: ImportedEntry } | { email: string; why: string });

/** The values that the file does not say; `stream` is null for the whole account. */
export interface Usual {
  reason: Reason;
  stream: string | null;
  /** Most characters of JSON, which is read as a whole. Default: 256 MiB. */
  mostJson?: number;
}

/** Headings in lower case without separators, the most telling first. */
const headings = {
  email: ['email', 'emailaddress', 'address', 'recipient', 'recipientemail', 'mail', 'suppressedemail'],
  reason: ['suppressionreason', 'reason', 'bouncetype', 'type', 'origin'],
  note: ['note', 'detail', 'details', 'error', 'message', 'comment', 'description'],
  scope: ['scope'],
  stream: ['stream'],
  expires: ['expiresat', 'expires'],
  expired: ['expired'],
} as const;
type Heading = keyof typeof headings;
type Fields = Partial<Record<Heading, string>>;

/** Headings that only one kind of export has, which says no reason in words. */
const telling: readonly (readonly [heading: string, reason: Reason])[] = [
  ['code', 'hard_bounce'],
  ['ip', 'complaint'],
  ['count', 'complaint'],
  ['tags', 'unsubscribe'],
];

/** Words for reasons in lower case without separators: those of Postmark, SES, SendGrid, Mailgun, Brevo, Mailchimp and Resend. */
const words: Readonly<Record<Reason, string>> = {
  hard_bounce:
    'hardbounce hardbounced hard bounce bounced bounces softbounce softbounced permanent invalid invalidemail invalidemails bademailaddress badmailbox undeliverable',
  complaint:
    'complaint complaints complained spam spamcomplaint spamcomplaints spamreport spamreports spamnotification contactflaggedasspam flaggedasspam abuse markedasspam',
  unsubscribe:
    'unsubscribe unsubscribed unsubscribes unsub optout optedout unsubscribedviaemail unsubscribedviaapi unsubscribedviama groupunsubscribe globalunsubscribe listunsubscribe',
  manual:
    'manual manualsuppression manuallydeactivated custom customer admin adminblocked blocked block blocks unconfirmed',
};
const reasonOf = new Map<string, Reason>(
  suppressionReasons.flatMap((reason) => words[reason].split(' ').map((word): [string, Reason] => [word, reason])),
);

const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

const LONGEST_CELL = 1000;
const LONGEST_NOTE = 500;
/** Characters of JSON, which is read as a whole. */
const LONGEST_JSON = 256 * 1024 * 1024;
/** RFC 3339 knows four digits of a year. */
const LAST_TIME = Date.parse('9999-12-31T23:59:59Z');

/** Yields the entries of a file whose text comes in pieces. Throws `CsvFault` where the text breaks its format. */
export async function* readExport(
  pieces: Iterable<string> | AsyncIterable<string>,
  usual: Usual,
): AsyncGenerator<ReadEntry[]> {
  let begin = '';
  let kind: 'csv' | 'json' | null = null;
  const csv = csvEntries(usual);
  for await (const piece of pieces) {
    if (kind === 'csv') {
      yield csv.push(piece);
      continue;
    }
    begin += piece;
    const first = begin.replace(/^\ufeff/, '').trimStart()[0];
    if (first === undefined) continue;
    if (kind === null && first !== '[' && first !== '{') {
      kind = 'csv';
      yield csv.push(begin);
    } else kind = 'json';
    const most = usual.mostJson ?? LONGEST_JSON;
    if (begin.length > most)
      throw new ExportFault(`the JSON is longer than ${String(most / 1024)} KiB: import it in parts, or as CSV`);
  }
  yield kind === 'json' ? jsonEntries(begin, usual) : [...(kind === null ? csv.push(begin) : []), ...csv.end()];
}

/** The JSON is not that of a list. */
export class ExportFault extends Error {}

function csvEntries(usual: Usual): { push(piece: string): ReadEntry[]; end(): ReadEntry[] } {
  const reader = readCsv();
  let columns: string[] | null = null;
  const take = (records: readonly { line: number; fields: string[] }[]): ReadEntry[] =>
    records.flatMap(({ line, fields }) => {
      if (columns === null) {
        const names = fields.map(plain);
        const isHeaded = names.some((name) => (headings.email as readonly string[]).includes(name));
        columns = isHeaded ? names : [];
        if (isHeaded) return [];
      }
      const cells = fields.map((field) => unguarded(field.trim()));
      if (columns.length > 0) {
        const named = columns;
        return [entryOf(line, Object.fromEntries(cells.map((cell, n) => [named[n] ?? '', cell])), usual)];
      }
      // A line of addresses, as mail programs copy them, is one entry for each.
      const texts = cells.filter((text) => text !== '');
      const isList = texts.length > 1 && texts.every((text) => text.includes('@'));
      return (isList ? texts : [cells[0] ?? '']).map((email) => entryOf(line, { email }, usual));
    });
  return { push: (piece) => take(reader.push(piece)), end: () => take(reader.end()) };
}

type Json = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Reads a list, an object with a list in it, or an object a line. */
function jsonEntries(text: string, usual: Usual): ReadEntry[] {
  const list = listIn(text.replace(/^\ufeff/, ''));
  if (list === null) throw new ExportFault('it is neither CSV nor a list in JSON');
  return list.map((one, index) => {
    const line = index + 1;
    if (typeof one === 'string') return entryOf(line, { email: one }, usual);
    if (!isObject(one)) return { line, email: '', why: 'it is not an object' };
    return entryOf(line, flat(one), usual);
  });
}

function listIn(text: string): readonly unknown[] | null {
  const parse = (one: string): unknown => {
    try {
      return JSON.parse(one) as unknown;
    } catch {
      return null;
    }
  };
  const whole = parse(text);
  if (Array.isArray(whole)) return whole as unknown[];
  if (isObject(whole)) {
    const list = Object.values(whole).find(Array.isArray) as unknown[] | undefined;
    return list ?? (Object.keys(whole).some((name) => plain(name).includes('email')) ? [whole] : null);
  }
  const lines = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parse);
  return lines.length > 0 && lines.every(isObject) ? lines : null;
}

/** Returns the members by their plain names. Of a reason that is an object, `code` is the reason and `message` the note. */
function flat(object: Json): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(object)) {
    if (isObject(value) && plain(name) === 'reason')
      Object.assign(found, { reason: cell(value['code']), message: cell(value['message']) });
    else found[plain(name)] = cell(value);
  }
  return found;
}

const cell = (value: unknown): string =>
  typeof value === 'string'
    ? value.trim()
    : value == null
      ? ''
      : Array.isArray(value)
        ? value.map(cell).join(' ')
        : JSON.stringify(value);

const shortened = (text: string): string => (text.length > 80 ? `${text.slice(0, 80).toWellFormed()}...` : text);

function entryOf(line: number, cells: Readonly<Record<string, string>>, usual: Usual): ReadEntry {
  const fields: Fields = {};
  for (const [heading, names] of Object.entries(headings) as [Heading, readonly string[]][]) {
    const name = names.find((one) => (cells[one] ?? '') !== '');
    if (name !== undefined) fields[heading] = cells[name] ?? '';
  }
  const { email = '', scope = '', expires = '' } = fields;
  const refuse = (why: string): ReadEntry => ({ line, email: shortened(email), why });
  // A longer one would have its whole part refused, with lines that are good.
  if (email.length > LONGEST_CELL) return refuse('too long for an address');
  const said = reasonIn(fields, cells, usual);
  if (said === null)
    return refuse(
      `there is no reason ${JSON.stringify(shortened(fields.reason ?? ''))}: ${suppressionReasons.join(', ')}`,
    );
  if (scope !== '' && scope !== 'account' && !scope.startsWith('stream:'))
    return refuse('the scope is `account` or `stream:` and a slug');
  const stream = fields.stream ?? (scope.startsWith('stream:') ? scope.slice('stream:'.length) : '');
  if (stream.length > LONGEST_CELL) return refuse('too long for the slug of a stream');
  if (/^(?:true|yes|1)$/i.test(fields.expired ?? '')) return refuse('it has ended already');
  const end = expires === '' ? null : Date.parse(expires);
  if (end !== null && !(end >= 0 && end <= LAST_TIME))
    return refuse('expires_at is not a time such as 2026-01-31T09:30:00Z');
  return {
    line,
    entry: {
      email,
      reason: said.reason,
      note: said.note.slice(0, LONGEST_NOTE).toWellFormed() || null,
      stream: stream !== '' ? stream : scope === 'account' ? null : usual.stream,
      expires_at: end === null ? null : new Date(end).toISOString(),
    },
  };
}

/** Returns the reason and the note; null for a word that is not known. */
function reasonIn(
  { reason = '', note = '' }: Fields,
  cells: Readonly<Record<string, string>>,
  usual: Usual,
): { reason: Reason; note: string } | null {
  const known = reasonOf.get(plain(reason));
  if (known !== undefined) return { reason: known, note };
  const given = usual.reason === 'manual' ? null : usual.reason;
  if (reason !== '')
    return /[\s\d]/.test(reason) ? { reason: given ?? 'hard_bounce', note: note === '' ? reason : note } : null;
  const [, told = usual.reason] = telling.find(([heading]) => heading in cells) ?? [];
  return { reason: given ?? told, note };
}

/** Decodes a file that comes in pieces: UTF-16 by its mark or by the zeros of ASCII in it, else UTF-8. */
export async function* decodedText(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let decoder: InstanceType<typeof TextDecoder> | null = null;
  for await (const piece of input) {
    decoder ??= new TextDecoder(encodingOf(piece));
    yield decoder.decode(piece, { stream: true });
  }
  yield (decoder ?? new TextDecoder()).decode();
}

function encodingOf([first, second]: Uint8Array): string {
  if ((first === 0xff && second === 0xfe) || second === 0) return 'utf-16le';
  return (first === 0xfe && second === 0xff) || first === 0 ? 'utf-16be' : 'utf-8';
}
