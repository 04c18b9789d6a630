/** `posthorn inbound`: mail that comes back. `parse` reads mails from files and needs no server. */
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Keyring } from '../base/keyring.ts';
import type { FindingRecord } from '../inbound/finding.ts';
import type { openReportParser, ReportParser } from '../inbound/report-reader.ts';
import type { ShownReport } from '../operator/reports/inbound.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { json, printable, table, type Cell } from '../presentations/table.ts';

/** The listener reads as much; the rest is ignored. */
const MOST_BYTES = 512 * 1024;
/** Files in memory at the same time. */
const WINDOW = 16;

/** Opens the reader of the listener (inbound/report-reader.ts), which is handed in. */
export type OpenReportParser = (...given: Parameters<typeof openReportParser>) => Promise<ReportParser>;

export function addInbound(
  inbound: CommandUnknownOpts,
  context: Context,
  openParser: OpenReportParser | undefined,
): void {
  inbound
    .command('show')
    .description('show a mail that came back as a mail program would: addresses, subject, text and files')
    .argument('<report>', 'its id')
    .option('--json', 'as one JSON object')
    .action(async (id, { json: asJson }) => {
      const report = await context.operate((operator) => operator.call('inbound.show', { id }));
      const { textFromHtml } = await import('../mail/text-from-html.ts');
      context.print(asJson, report, () => linesOfReport(report, textFromHtml));
    });
  inbound
    .command('parse')
    .description('show how the listener would read mails in files')
    .argument('<file...>')
    .option('--json', 'one JSON object a line')
    .action(async (files, options) => {
      if (openParser === undefined) throw new Error('this program was built without a listener');
      const { readBounceRules } = await import('../config/data-file.ts');
      const rules = readBounceRules(context.load().config.delivery.bounceRules);
      const parser = await openParser(await keyringIn(context), rules);
      try {
        await parseAll(context, parser, files, options.json === true);
      } finally {
        await parser.close();
      }
    });
}

/** Returns the keys of the installation, or null if they cannot be read: then only the form of tokens is checked. */
async function keyringIn(context: Context): Promise<Keyring | null> {
  const { dataDir } = context.load().config;
  if (!existsSync(path.join(dataDir, 'secret.key'))) return null;
  const { openKeyring } = await import('../base/keyring.ts');
  try {
    return openKeyring(dataDir);
  } catch (error) {
    context.note(`posthorn: tokens are checked by their form alone: ${error instanceof Error ? error.message : ''}`);
    return null;
  }
}

/** Prints the files in their order; a file that cannot be read does not stop the others. */
async function parseAll(
  context: Context,
  parser: ReportParser,
  files: readonly string[],
  asJson: boolean,
): Promise<void> {
  const rows: Cell[][] = [];
  for (let start = 0; start < files.length; start += WINDOW) {
    const some = files.slice(start, start + WINDOW);
    const records = await Promise.all(some.map((file) => parseFile(context, parser, file)));
    for (const [at, record] of records.entries()) {
      const file = some[at] ?? '';
      if (record === null) continue;
      if (asJson) context.out(json({ file, ...record }, 0));
      else rows.push(...rowsOf(file, record));
    }
  }
  if (asJson || rows.length === 0) return;
  for (const line of table(['FILE', 'KIND', 'RECIPIENT', 'ACTION', 'STATUS', 'CLASS', 'REASON'], rows))
    context.out(line);
}

async function parseFile(context: Context, parser: ReportParser, file: string): Promise<FindingRecord | null> {
  const bytes = await beginOf(file).catch((error: unknown) => {
    context.note(`posthorn: ${printable(file)}: ${error instanceof Error ? error.message : String(error)}`);
    context.end(exitCodes.noInput);
    return null;
  });
  if (bytes === null) return null;
  const { record, fault } = await parser.parse(bytes);
  if (fault !== null) context.note(`posthorn: ${printable(file)}: ${fault}`);
  return record;
}

/** Reads to the end or to the limit: a pipe has no size, and gives what it has in pieces. */
async function beginOf(file: string): Promise<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    const bytes = Buffer.alloc(MOST_BYTES);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      ({ bytesRead: read } = await handle.read(bytes, length, bytes.length - length, null));
    return bytes.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** Shows html as text, and a mail that cannot be parsed as its source. */
function linesOfReport({ view, source }: ShownReport, textFromHtml: (html: string) => string): string[] {
  if (view === null) return ['This mail cannot be parsed. Its source:', '', ...printedLines(source ?? '')];
  const fields = [
    ['From', view.from],
    ['To', view.to],
    ['Cc', view.cc],
    ['Date', view.date],
    ['Subject', view.subject],
  ].flatMap(([name, value]) => (value ? [`${name ?? ''}: ${printable(value)}`] : []));
  const files = view.attachments.map(
    ({ filename, content_type: type, size }) =>
      `Attached: ${printable(filename || 'without a name')} (${printable(type)}, ${String(size)} bytes)`,
  );
  return [...fields, ...files, '', ...printedLines(view.text ?? textFromHtml(view.html ?? ''))];
}

const printedLines = (text: string): string[] => text.replaceAll('\t', '  ').split(/\r?\n/).map(printable);

function rowsOf(file: string, { kind, recipients, feedback_type: type }: FindingRecord): Cell[][] {
  const what = type === null ? kind : `${kind} (${type})`;
  if (recipients.length === 0) return [[file, what, null, null, null, null, null]];
  return recipients.map((one) => [file, what, one.address, one.action, one.status, one.class, one.reason]);
}
