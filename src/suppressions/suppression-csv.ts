/** The import of suppression lists, for every door. What an export writes an import accepts. */
import { CsvFault } from '../base/csv.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Database } from '../storage/database.ts';
import type { Rows } from '../storage/rows.ts';
import { manyAdded, suppressionRecord, type SuppressionRecord } from './suppression.ts';
import { ExportFault, readExport, type ImportedEntry, type Usual } from './suppression-export.ts';
import { addressFault, addSuppressions, type NewSuppression } from './suppression-store.ts';

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

/**
 * Adds the valid entries in one transaction, and says of each other one why it is rejected. `rowsFor` gets what the audit says of them,
 * and returns the rows that are written with them.
 */
export async function addImported(
  deps: { db: Pick<Database, 'commit' | 'reader'>; clock: Clock },
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
