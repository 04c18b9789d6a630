/** `posthorn suppressions import|export`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Problem } from '../base/problem.ts';
import type { Operator } from '../operator/door/operator.ts';
import type { SuppressionRecord } from '../suppressions/suppression-store.ts';
import { decodedText, importCsv, type Imported } from '../suppressions/suppression-csv.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { printList } from './export.ts';
import { showProgress } from './progress.ts';

type Reason = SuppressionRecord['reason'];

/** The operation checks it, and its error names the reasons. */
const reasonOption = (text: string): Reason => text as Reason;

export function addSuppressions(suppressions: CommandUnknownOpts, context: Context): void {
  addImport(suppressions, context);
  addExport(suppressions, context);
}

interface ImportOptions {
  reason: Reason;
  stream?: string;
  account?: string;
  preview?: boolean;
}

/** How many rejected lines people are shown. */
const MOST_TOLD = 50;

function addImport(suppressions: CommandUnknownOpts, context: Context): void {
  suppressions
    .command('import')
    .description('add the addresses of a CSV file to the suppressions; the others stay')
    .argument('<file>', 'an export of this or another service (CSV or JSON), or addresses alone; - for standard input')
    .option('--reason <reason>', 'if the file has none', reasonOption, 'manual')
    .option('--stream <slug>', 'if the file has none: only for this stream')
    .option('--preview', 'only say what is read, and what is not and why')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (file, options) => {
      const result = await context.operate((operator) => importFile(context, operator, file, options));
      for (const { line, email, why } of result.rejected.slice(0, MOST_TOLD))
        context.note(`line ${String(line)}: ${JSON.stringify(email)}: ${why}`);
      if (result.rejected.length > MOST_TOLD)
        context.note(`... and ${String(result.rejected.length - MOST_TOLD)} more lines`);
      context.print(
        options.json,
        { ...result, rejected: result.rejected.slice(0, 1000), rejected_count: result.rejected.length },
        () => [
          options.preview === true
            ? `${String(result.created)} read (${byReason(result)}), ${String(result.rejected.length)} rejected; nothing is added`
            : `${String(result.created)} added, ${String(result.existing)} on the list already, ${String(result.rejected.length)} rejected`,
        ],
      );
      if (result.rejected.length > 0) context.end(exitCodes.data);
    });
}

const byReason = ({ by_reason: counts }: Imported): string =>
  Object.entries(counts)
    .map(([reason, count]) => `${reason} ${String(count)}`)
    .join(', ');

async function importFile(
  context: Context,
  operator: Operator,
  file: string,
  { reason, stream, account, preview = false }: ImportOptions,
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
      add: preview ? null : (entries) => operator.call('suppressions.import', { account, entries }),
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

function addExport(suppressions: CommandUnknownOpts, context: Context): void {
  suppressions
    .command('export')
    .description('write all suppressions as CSV to standard output, newest first')
    .option('--reason <reason>', 'only this', reasonOption)
    .option('--stream <slug>', 'only those for this stream')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line instead')
    .action(({ reason, stream, account, json }) =>
      printList(context, 'listSuppressions', { account, query: { reason, stream }, json }),
    );
}
