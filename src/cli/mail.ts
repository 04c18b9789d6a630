/** Commands about mail: one from the shell or as a file, what happens to it live, and whole lists. */
import { readFile, writeFile, stat } from 'node:fs/promises';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { notRunning } from '../base/unavailable.ts';
import type { Message, ReceivedMessage, EventRecord, Page } from '../client/types.ts';
import { textFromHtml } from '../mail/text-from-html.ts';
import type { Operator, AskedOf } from '../operator/door/operator.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import type { ShownReport } from '../operator/reports/inbound.ts';
import { receivedLines } from '../presentations/messages.ts';
import { printable, json } from '../presentations/presentation.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import type { ResultOf } from '../operator/routes.ts';
import { createReadStream } from 'node:fs';
import type { SuppressionRecord } from '../suppressions/suppression-store.ts';
import { decodedText, importCsv, type Imported } from '../suppressions/suppression-csv.ts';
import { showProgress } from './progress.ts';

/** It is read at once, unless much waits. */
const LOOK_MS = 200;
const LOOKS = 150;

interface SaveOptions {
  id: string;
  file: string;
  attachment?: number;
  json?: true;
}

export async function save(context: Context, { id, file, attachment, json }: SaveOptions): Promise<void> {
  const bytes = await context.operate((operator) =>
    attachment === undefined
      ? operator.bytes('getReceivedRaw', { params: { id } })
      : operator.bytes('getReceivedAttachment', { params: { id, index: String(attachment) } }),
  );
  await writeFile(file, bytes, { flag: 'wx' }).catch((error: unknown) => {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const why = isThere ? `${printable(file)}: it exists already: take another name` : String(error);
    throw new Refusal(exitCodes.cannotCreate, why);
  });
  const saved = { object: 'saved_file', id, file, bytes: bytes.length };
  context.print(json, saved, () => [`saved: ${printable(file)}, ${String(bytes.length)} bytes`]);
}

interface SimulateOptions {
  file: string;
  to: string;
  from: string;
  json?: true;
}

export async function simulate(context: Context, { file, to, from, json }: SimulateOptions): Promise<void> {
  const bytes = await readFile(file).catch((error: unknown) => {
    throw new Refusal(exitCodes.noInput, error instanceof Error ? error.message : String(error));
  });
  const mail = bytes.toString('base64');
  const mailOf = await context.operate(async (operator) => {
    const handed = await operator.call('inbound.simulate', { to, from, mail });
    if (!handed.taken) {
      context.note(`posthorn: it was not taken: ${handed.reply}`);
      context.end(1);
    } else if (handed.received_id === null)
      context.note(`posthorn: taken by one of our own addresses: ${handed.reply}`);
    return handed.received_id === null ? null : await readMail(operator, handed.received_id);
  });
  if (mailOf !== null) context.print(json, mailOf, () => receivedLines(mailOf));
}

/** Waits until the mail has been read. */
async function readMail(operator: Operator, id: string): Promise<ReceivedMessage> {
  for (let look = 0; ; look++) {
    const mail = await operator.ask<ReceivedMessage>('getReceived', { params: { id } });
    if (mail.status !== 'new') return mail;
    if (look === LOOKS) throw new Problem('invalid_state', `The mail ${id} was taken, and is not read yet.`);
    await systemClock.sleep(LOOK_MS);
  }
}

interface SendOptions {
  from: string;
  to: string;
  subject: string;
  text?: string;
  html?: string;
  account?: string;
  json?: true;
}

export async function send(context: Context, options: SendOptions): Promise<void> {
  const { from, to, subject, text, html, account, json } = options;
  // Before anything is read or opened: without a server a database would be made, or migrated, for a mail that is refused.
  const { config } = context.load();
  if ((await lookAtSocket(socketPath(config.dataDir))) !== 'live') throw notRunning();
  const fromInput = text === undefined && html === undefined;
  const body = fromInput ? { text: await context.read(config.limits.textBytes) } : { text, html };
  const message = await context.operate((operator) =>
    operator.ask<Message>('sendMessage', { account, body: { from, to, subject, ...body } }),
  );
  context.print(json, message, () => [`${message.id} is ${message.status}`]);
  if (json !== true) context.note(`To follow it: posthorn messages trace ${message.id}`);
}

export async function showReport(context: Context, options: { report: string; json?: true }): Promise<void> {
  const report = await context.operate((operator) => operator.call('inbound.show', { id: options.report }));
  context.print(options.json, report, () => linesOfReport(report));
}

/** Shows html as text, and a mail that cannot be parsed as its source. */
function linesOfReport({ view, source }: ShownReport): string[] {
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

interface TailOptions {
  types?: string[];
  since?: string;
  limit: number;
  account?: string;
  follow: boolean;
  json?: true;
}

const PAGE = 500;
const POLL_MS = 500;

export const tail = (context: Context, options: TailOptions): Promise<void> =>
  context.operate((operator) => tailFrom(context, operator, options));

async function tailFrom(context: Context, operator: Operator, options: TailOptions): Promise<void> {
  const { types, since, limit, account, follow } = options;
  const pageOf = (query: AskedOf['query']): Promise<Page<EventRecord>> =>
    operator.ask('listEvents', { account, query: { type: types?.join(','), occurred_after: since, ...query } });
  const write = options.json === true ? (event: EventRecord) => json(event, 0) : line;
  let page = await pageOf(since === undefined ? { before: 'end', limit } : { after: 'start', limit: PAGE });
  let isOver = since === undefined || !page.has_more;
  for (;;) {
    for (const event of page.data) context.out(write(event));
    if (isOver && !follow) return;
    if (isOver) await systemClock.sleep(POLL_MS);
    page = await pageOf({ after: page.next_cursor ?? undefined, limit: PAGE });
    isOver = !page.has_more;
  }
}

function line({ timestamp, type, test, data }: EventRecord): string {
  const detail = (data as Readonly<Record<string, unknown>>)[type];
  const reply = typeof detail === 'object' && detail !== null && 'smtp_reply' in detail ? detail.smtp_reply : null;
  const said = typeof reply === 'string' ? [printable(reply)] : [];
  return [
    timestamp,
    type.padEnd(10),
    printable(data.recipient),
    data.message_id,
    ...(test ? ['(simulated)'] : []),
    ...said,
  ].join('  ');
}

interface WatchOptions {
  lane?: string;
  message?: string;
  for?: number;
  json?: true;
}

type Line = ResultOf<'queue.watch'>['data'][number];

const WAIT_MS = 20_000;

export const watch = (context: Context, options: WatchOptions): Promise<void> =>
  context.operate((operator) => watchFrom(context, operator, options));

async function watchFrom(context: Context, operator: Operator, options: WatchOptions): Promise<void> {
  const { lane, message, for: forMs = Infinity, json: asJson } = options;
  const end = systemClock.now() + forMs;
  let page = await operator.call('queue.watch', { lane, message_id: message });
  if (page.lane_known === false)
    context.note(
      `there is no lane ${JSON.stringify(lane)} now: what is shown begins with its first mail. If the name is mistyped, \`posthorn queue lanes\` shows the right one`,
    );
  for (;;) {
    if (page.lost > 0) context.note(`${String(page.lost)} lines came too fast to be shown`);
    const isFleet = page.nodes.length > 1;
    for (const line of page.data) context.out(asJson === true ? json(line, 0) : text(line, isFleet));
    const left = end - systemClock.now();
    if (left <= 0) return;
    const wait = Math.max(0, Math.min(WAIT_MS, Math.floor(left)));
    page = await operator.call('queue.watch', { watch: page.watch, after: page.position, wait_ms: wait });
  }
}

/** Connections are numbered by their node. */
const text = ({ at, connection, host, side, text: said, node }: Line, isFleet: boolean): string =>
  `${at}  ${isFleet ? `${node}  ` : ''}${host}#${String(connection)}  ${side} ${printable(said)}`;

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
