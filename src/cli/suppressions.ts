/** `posthorn suppressions list|add|remove|import|export`. */
import type { Command } from 'commander';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { CsvFault, csvLine, readCsv, unguarded, type CsvRecord } from '../base/csv.ts';
import { Problem } from '../base/problem.ts';
import type { Operator } from '../operator/operator.ts';
import type { ArgsOf, ResultOf } from '../operator/operations.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { durationOption, examples, limitOption } from './options.ts';
import { showProgress } from './progress.ts';
import { table } from './table.ts';

type Entry = ArgsOf<'suppressions.add'>['entries'][number];
type Suppression = ResultOf<'suppressions.list'>['data'][number];
type Reason = Suppression['reason'];

interface Scope {
  stream?: string;
  account?: string;
  json?: true;
}

export function addSuppressions(program: Command, context: Context): void {
  const suppressions = program.command('suppressions').description('addresses that are not mailed');
  suppressions.addHelpText(
    'after',
    examples(
      'posthorn suppressions list --reason hard_bounce',
      'posthorn suppressions add ana@example.net --note "asked by phone"',
      'posthorn suppressions import old-provider.csv',
      'posthorn suppressions export > suppressions.csv',
    ),
  );
  addList(suppressions, context);
  addAdd(suppressions, context);
  addRemove(suppressions, context);
  addImport(suppressions, context);
  addExport(suppressions, context);
}

function addList(suppressions: Command, context: Context): void {
  suppressions
    .command('list')
    .description('the newest entries')
    .option('--reason <reason>', 'only this: hard_bounce, complaint, unsubscribe or manual')
    .option('--stream <slug>', 'only those for this stream')
    .option('--limit <n>', 'at most so many', limitOption, 100)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ reason, stream, limit, account, json }: Scope & { reason?: Reason; limit: number }) => {
      const list = await context.operate((operator) =>
        operator.call('suppressions.list', { reason, stream, limit, account }),
      );
      context.print(json, { data: list.data }, () => rows(list.data));
    });
}

const rows = (data: readonly Suppression[]): string[] =>
  table(
    ['ADDRESS', 'REASON', 'SCOPE', 'SINCE', 'UNTIL', 'BY', 'NOTE'],
    data.map((one) => [one.email, one.reason, one.scope, one.created_at, one.expires_at, one.created_by, one.note]),
  );

function addAdd(suppressions: Command, context: Context): void {
  suppressions
    .command('add')
    .description('do not mail an address any more')
    .argument('<email>')
    .option('--reason <reason>', 'hard_bounce, complaint, unsubscribe or manual', 'manual')
    .option('--stream <slug>', 'only for this stream')
    .option('--note <text>', 'for whoever looks at it later')
    .option('--for <duration>', 'ends after this, such as 90d (default: never)', durationOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (email: string, options: Scope & { reason: Reason; note?: string; for?: number }) => {
      const { reason, stream, note, account, json } = options;
      const expires_at = options.for === undefined ? null : new Date(context.now() + options.for).toISOString();
      const { data } = await context.operate((operator) =>
        operator.call('suppressions.add', { account, entries: [{ email, reason, stream, note, expires_at }] }),
      );
      const [added] = data;
      if (added === undefined) throw new Error('one entry was added and none came back');
      if (added.result === 'rejected') throw new Problem('invalid_address', added.why, { field: 'email' });
      const how = added.result === 'created' ? 'is not mailed any more' : 'was on the list already';
      context.print(json, added.entry, () => [
        `${added.entry.email} ${how} (${added.entry.reason}, ${added.entry.scope})`,
      ]);
    });
}

function addRemove(suppressions: Command, context: Context): void {
  suppressions
    .command('remove')
    .description('mail an address again')
    .argument('<email>')
    .option('--stream <slug>', 'only for this stream')
    .option('--force', 'also an entry made by a complaint: whoever complained must have asked for mail again')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (email: string, { stream, force, account, json }: Scope & { force?: true }) => {
      const removed = await context.operate((operator) =>
        operator.call('suppressions.remove', { email, stream, force, account }),
      );
      context.print(json, removed, () => removed.data.map((one) => `${one.email} is mailed again (${one.scope})`));
    });
}

interface ImportOptions extends Scope {
  reason: Reason;
}

interface Imported {
  created: number;
  existing: number;
  rejected: { line: number; email: string; why: string }[];
}

/** Entries of one call, and how many rejected lines are told of. */
const AT_ONCE = 500;
const MOST_TOLD = 50;

function addImport(suppressions: Command, context: Context): void {
  suppressions
    .command('import')
    .description('add the addresses of a CSV file; the others stay')
    .argument(
      '<file>',
      'CSV with a line of headings (email, reason, scope or stream, note, expires_at), or addresses alone',
    )
    .option('--reason <reason>', 'where the file has none', 'manual')
    .option('--stream <slug>', 'where the file has none: only for this stream')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .addHelpText('after', examples('posthorn suppressions import bounces.csv --reason hard_bounce'))
    .action(async (file: string, options: ImportOptions) => {
      const result = await context.operate((operator) => importFile(context, operator, file, options));
      for (const { line, email, why } of result.rejected.slice(0, MOST_TOLD))
        context.note(`line ${String(line)}: ${JSON.stringify(email)}: ${why}`);
      if (result.rejected.length > MOST_TOLD)
        context.note(`... and ${String(result.rejected.length - MOST_TOLD)} more lines`);
      context.print(
        options.json,
        { ...result, rejected: result.rejected.slice(0, 1000), rejected_count: result.rejected.length },
        () => [
          `${String(result.created)} added, ${String(result.existing)} on the list already, ${String(result.rejected.length)} rejected`,
        ],
      );
      if (result.rejected.length > 0) context.end(exitCodes.data);
    });
}

async function importFile(
  context: Context,
  operator: Operator,
  file: string,
  options: ImportOptions,
): Promise<Imported> {
  const size = await sizeOf(file);
  const reader = readCsv();
  const progress = showProgress(context, 'importing');
  const result: Imported = { created: 0, existing: 0, rejected: [] };
  let columns: Columns | null = null;
  let waiting: { line: number; entry: Entry }[] = [];
  let bytes = 0;

  const flush = async (): Promise<void> => {
    const part = waiting.splice(0, AT_ONCE);
    if (part.length === 0) return;
    const { data } = await operator.call('suppressions.add', {
      account: options.account,
      entries: part.map(({ entry }) => entry),
    });
    data.forEach((one, i) => {
      if (one.result === 'rejected') result.rejected.push({ line: part[i]?.line ?? 0, email: one.email, why: one.why });
      else result[one.result]++;
    });
    progress.at(bytes, size);
  };
  const take = async (records: readonly CsvRecord[]): Promise<void> => {
    for (const record of records) {
      if (columns === null) {
        columns = columnsOf(record.fields);
        if (columns.headed) continue;
      }
      const read = entryOf(record.fields, columns, options);
      if ('why' in read) result.rejected.push({ line: record.line, ...read });
      else waiting.push({ line: record.line, entry: read });
      if (waiting.length >= AT_ONCE) await flush();
    }
  };
  try {
    for await (const piece of createReadStream(file, { encoding: 'utf8' }) as AsyncIterable<string>) {
      bytes += Buffer.byteLength(piece);
      await take(reader.push(piece));
    }
    await take(reader.end());
    waiting = [...waiting];
    await flush();
  } catch (error) {
    if (error instanceof CsvFault)
      throw new Problem('invalid_field', `${file}: ${error.message}; lines before it are imported`, { cause: error });
    throw error;
  } finally {
    progress.end();
  }
  return result;
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    throw new Problem('not_found', `${file} cannot be read`, { cause: error });
  }
}

interface Columns {
  headed: boolean;
  email: number;
  reason: number;
  scope: number;
  stream: number;
  note: number;
  expiresAt: number;
}

/** By the headings that there are; without a heading for the address the first column is it, and nothing else is read. */
function columnsOf(fields: readonly string[]): Columns {
  const names = fields.map((field) => field.trim().toLowerCase().replaceAll(/[ -]/g, '_'));
  const email = names.findIndex((name) => ['email', 'address', 'recipient', 'email_address'].includes(name));
  const at = (name: string): number => (email < 0 ? -1 : names.indexOf(name));
  return {
    headed: email >= 0,
    email: Math.max(0, email),
    reason: at('reason'),
    scope: at('scope'),
    stream: at('stream'),
    note: at('note'),
    expiresAt: at('expires_at'),
  };
}

const reasons: ReadonlySet<string> = new Set<Reason>(['hard_bounce', 'complaint', 'unsubscribe', 'manual']);

const LONGEST_CELL = 1000;
/** RFC 3339 knows four digits of a year. */
const LAST_TIME = Date.parse('9999-12-31T23:59:59Z');

const isTime = (at: number): boolean => at >= 0 && at <= LAST_TIME;
const shortened = (text: string): string => (text.length > 80 ? `${text.slice(0, 80).toWellFormed()}...` : text);

function entryOf(
  fields: readonly string[],
  columns: Columns,
  { reason: usual, stream: usualStream }: ImportOptions,
): Entry | { email: string; why: string } {
  const at = (place: number): string => (place < 0 ? '' : unguarded((fields[place] ?? '').trim()));
  const written = at(columns.email);
  // Longer ones would have the whole part refused that they go in, with lines that are good.
  if (written.length > LONGEST_CELL) return { email: shortened(written), why: 'too long for an address' };
  const email = written;
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
    return { email, why: 'expires_at is no time such as 2026-01-31T09:30:00Z' };
  return {
    email,
    reason: reason === '' ? usual : (reason as Reason),
    note: at(columns.note).slice(0, 500).toWellFormed() || null,
    stream: stream !== '' ? stream : scope === 'account' ? null : (usualStream ?? null),
    expires_at: expiresAt === '' ? null : new Date(Date.parse(expiresAt)).toISOString(),
  };
}

const headings = [
  'email',
  'reason',
  'scope',
  'note',
  'source_message_id',
  'created_at',
  'created_by',
  'expires_at',
] as const;
const PAGE = 1000;

function addExport(suppressions: Command, context: Context): void {
  suppressions
    .command('export')
    .description('write all entries as CSV to standard output, newest first')
    .option('--reason <reason>', 'only this')
    .option('--stream <slug>', 'only those for this stream')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line instead')
    .action(async ({ reason, stream, account, json }: Scope & { reason?: Reason }) => {
      const progress = showProgress(context, 'exporting');
      await context.operate(async (operator) => {
        if (json !== true) context.out(csvLine(headings));
        let done = 0;
        let after: string | undefined;
        for (;;) {
          const page = await operator.call('suppressions.list', { reason, stream, account, after, limit: PAGE });
          for (const one of page.data)
            context.out(json === true ? JSON.stringify(one) : csvLine(headings.map((name) => one[name])));
          progress.at((done += page.data.length), null);
          after = page.data.at(-1)?.id;
          if (!page.has_more) break;
        }
      });
      progress.end();
    });
}
