/** One mail as a file or from the shell: `posthorn send`, `received save`, `inbound show` and `inbound simulate`. */
import { readFile, writeFile } from 'node:fs/promises';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { notRunning } from '../base/unavailable.ts';
import type { Message, ReceivedMessage } from '../client/types.ts';
import { textFromHtml } from '../mail/text-from-html.ts';
import type { Operator } from '../operator/door/operator.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import type { ShownReport } from '../operator/reports/inbound.ts';
import { receivedLines } from '../presentations/messages.ts';
import { printable } from '../presentations/presentation.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';

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
