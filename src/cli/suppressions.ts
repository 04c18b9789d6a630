/** `posthorn suppressions add|import|export`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Problem } from '../base/problem.ts';
import type { Operator } from '../operator/door/operator.ts';
import { addressFault } from '../suppressions/suppression-store.ts';
import type { SuppressionRecord } from '../suppressions/suppression.ts';
import { importCsv, type AddedRecord, type Imported, decodedText } from '../suppressions/suppression-csv.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { printText } from './export.ts';
import { groupAt } from './derive.ts';
import { durationOption } from './options.ts';
import { showProgress } from './progress.ts';

type Reason = SuppressionRecord['reason'];

/** The operation checks it, and its error names the reasons. */
const reasonOption = (text: string): Reason => text as Reason;

export function addSuppressions(program: CommandUnknownOpts, context: Context): void {
  const suppressions = groupAt(program, ['suppressions']);
  addAdd(suppressions, context);
  addImport(suppressions, context);
  addExport(suppressions, context);
}

function addAdd(suppressions: CommandUnknownOpts, context: Context): void {
  suppressions
    .command('add')
    .description(helpOf('suppressions.import', 'add'))
    .argument('<email>')
    .option('--reason <reason>', 'hard_bounce, complaint, unsubscribe or manual', reasonOption, 'manual')
    .option('--stream <slug>', 'only for this stream')
    .option('--note <text>', 'a note for others')
    .option('--for <duration>', 'ends after this, such as 90d (default: never)', durationOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (email, options) => {
      const { reason, stream, note, account, json } = options;
      const expires_at = options.for === undefined ? null : new Date(context.now() + options.for).toISOString();
      const entry = await context.operate(async (operator) => {
        const { data } = await operator.call('suppressions.import', {
          account,
          entries: [{ email, reason, stream, note, expires_at }],
        });
        return data[0];
      });
      if (entry === undefined) throw new Error('one entry was added and none came back');
      if (entry.result === 'rejected') throw new Problem(codeOf(email), entry.why);
      context.print(json, entry.entry, () => {
        if (entry.result === 'existing' && entry.entry.expires_at !== expires_at)
          context.note(
            'the entry keeps its end: `posthorn suppressions remove` takes it off the list, and it can be added with another end',
          );
        return [addedLine(entry)];
      });
    });
}

/** It is not always the address that is wrong: there may be no such stream, or the end is over. */
const codeOf = (email: string): 'invalid_address' | 'invalid_field' =>
  addressFault(email) === null ? 'invalid_field' : 'invalid_address';

function addedLine({ result, entry }: Exclude<AddedRecord, { result: 'rejected' }>): string {
  const { email, reason, scope, expires_at: end } = entry;
  const until = end === null ? '' : `until ${end}`;
  const how =
    result === 'created'
      ? `is not mailed ${until || 'any more'}`
      : `was on the list already${until === '' ? '' : `, ${until}`}`;
  return `${email} ${how} (${reason}, ${scope})`;
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
    .description(helpOf('suppressions.import'))
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
    .description(helpOf('listSuppressions', 'export'))
    .option('--reason <reason>', 'only this', reasonOption)
    .option('--stream <slug>', 'only those for this stream')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line instead')
    .action(async ({ reason, stream, account, json: asJson }) => {
      await context.operate(async (operator) => {
        const accept = asJson === true ? 'application/x-ndjson' : 'text/csv';
        const asked = { account, query: { reason, stream }, accept };
        await printText(context, operator.text('listSuppressions', asked), asJson);
      });
    });
}
