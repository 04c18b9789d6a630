/** Whole lists as files: `posthorn export`, and the import and export of suppressions. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Problem } from '../base/problem.ts';
import type { AskedOf, Operator } from '../operator/door/operator.ts';
import type { SuppressionRecord } from '../suppressions/suppression.ts';
import { decodedText, importCsv, type Imported } from '../suppressions/suppression-csv.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { showProgress } from './progress.ts';

interface ImportOptions {
  file: string;
  reason: SuppressionRecord['reason'];
  stream?: string;
  account?: string;
  preview?: true;
  json?: true;
}

/** How many rejected lines people are shown, and programs. */
const MOST_TOLD = 50;
const MOST_LISTED = 1000;

export async function importSuppressions(context: Context, options: ImportOptions): Promise<void> {
  const result = await context.operate((operator) => importFile(context, operator, options));
  const { created, existing, rejected } = result;
  for (const { line, email, why } of rejected.slice(0, MOST_TOLD))
    context.note(`line ${String(line)}: ${JSON.stringify(email)}: ${why}`);
  if (rejected.length > MOST_TOLD) context.note(`... and ${String(rejected.length - MOST_TOLD)} more lines`);
  const record = { ...result, rejected: rejected.slice(0, MOST_LISTED), rejected_count: rejected.length };
  context.print(options.json, record, () => [
    options.preview === true
      ? `${String(created)} read (${byReason(result)}), ${String(rejected.length)} rejected; nothing is added`
      : `${String(created)} added, ${String(existing)} on the list already, ${String(rejected.length)} rejected`,
  ]);
  if (rejected.length > 0) context.end(exitCodes.data);
}

const byReason = ({ by_reason: counts }: Imported): string =>
  Object.entries(counts)
    .map(([reason, count]) => `${reason} ${String(count)}`)
    .join(', ');

async function importFile(
  context: Context,
  operator: Operator,
  { file, reason, stream, account, preview }: ImportOptions,
): Promise<Imported> {
  const isStandardInput = file === '-';
  const size = isStandardInput ? null : await sizeOf(file);
  const progress = showProgress(context, 'importing');
  const pieces = isStandardInput
    ? decodedText(context.input)
    : decodedText(createReadStream(file) as AsyncIterable<Buffer>);
  try {
    return await importCsv(pieces, {
      reason,
      stream: stream ?? null,
      add: preview === true ? null : (entries) => operator.call('suppressions.import', { account, entries }),
      progress: (characters) => {
        progress.at(characters, size);
      },
    });
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'invalid_field' || error.field !== null) throw error;
    const source = isStandardInput ? 'standard input' : file;
    throw new Problem('invalid_field', `${source}: ${error.message}`, { cause: error });
  } finally {
    progress.end();
  }
}

async function sizeOf(file: string): Promise<number> {
  const found = await stat(file).catch((error: unknown) => {
    throw new Problem('not_found', `${file} cannot be read`, { cause: error });
  });
  if (found.isDirectory()) throw new Problem('invalid_field', `${file} is a folder: name a file`);
  return found.size;
}

interface ListOptions {
  account?: string;
  json?: true;
}

export const exportSuppressions = (
  context: Context,
  { reason, stream, ...options }: ListOptions & { reason?: string; stream?: string },
): Promise<void> => printList(context, 'listSuppressions', { ...options, query: { reason, stream } });

/** The operations whose lists can be exported. */
const lists = {
  messages: 'listMessages',
  events: 'listEvents',
  stats: 'getStats',
  audit: 'listAuditEntries',
  suppressions: 'listSuppressions',
} as const;

export const exportList = (
  context: Context,
  { list, filters = {}, ...options }: ListOptions & { list: keyof typeof lists; filters?: Record<string, string> },
): Promise<void> => printList(context, lists[list], { ...options, query: filters });

/** Prints a list whose text comes in pieces: CSV, or one JSON object a line. */
async function printList(
  context: Context,
  operation: string,
  { json, account, query }: ListOptions & { query: NonNullable<AskedOf['query']> },
): Promise<void> {
  await context.operate(async (operator) => {
    let rest = '';
    const accept = json === true ? 'application/x-ndjson' : 'text/csv';
    for await (const piece of operator.text(operation, { account, query, accept })) {
      const text = rest + piece;
      const end = text.lastIndexOf('\n');
      if (end >= 0) context.outFile(text.slice(0, end), json);
      rest = text.slice(end + 1);
    }
  });
}
