/** Operations that explain a message of any account: its past, and what it waits for. */
import { z } from 'zod';
import { many, maybe, text, time } from '../api/record-schema.ts';
import type { Problem } from '../base/problem.ts';
import { notFound } from '../base/problem.ts';
import { allEventTypes, eventRecord } from '../events/event.ts';
import { eventsBefore } from '../events/event-log.ts';
import { reasonsOf } from '../messages/list/message-reasons.ts';
import { messageRecord, type MessageRecord } from '../messages/store/message.ts';
import {
  attemptsOf,
  findAnyMessage,
  recipientsOf,
  type AttemptRecord,
  type RecipientRecord,
} from '../messages/store/message-store.ts';
import type { EventRecord } from '../client/types.ts';
import { whyWaiting, type Waiting } from '../messages/delivery/why.ts';
import { storeRoute, type OperatorDeps, type StoreDeps } from './server-route.ts';

/** A mail is tried 24 times in its 72 hours; with fifty recipients this shows all of it. */
const TRACED = 2000;

export interface WholeMessage extends MessageRecord {
  request_id: string | null;
  recipients: RecipientRecord[];
  attempts: AttemptRecord[];
  events: EventRecord[];
}

const TraceLine = z.object({
  at: time(),
  what: z.enum(['accepted', 'attempt', 'event', 'next']),
  recipient: maybe(),
  text: text(),
});
type TraceLine = z.infer<typeof TraceLine>;

export const messageOperations = {
  /** Returns the events of its life in the order of time, in words. */
  'messages.trace': storeRoute({
    answer: z.object({ data: many(TraceLine.extend({ message_id: text() })) }),
    body: z.strictObject({ id: z.string().max(100) }),
    async run(deps, { id }) {
      const lines = trace(await wholeMessage(deps, id), isServer(deps) ? await whyOf(deps, id) : []);
      return { data: lines.map((line) => ({ ...line, message_id: id })) };
    },
  }),
};

async function wholeMessage({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<WholeMessage> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  const filter = { accountId: row.account_id, messageId: id, types: allEventTypes };
  const [recipients, attempts, { events }, reasons] = await Promise.all([
    recipientsOf(db.reader, id, { limit: TRACED }),
    attemptsOf(db.reader, id, TRACED),
    eventsBefore(db.reader, filter, Number.MAX_SAFE_INTEGER, TRACED),
    reasonsOf(db.reader, [row]),
  ]);
  return {
    ...messageRecord(row, reasons.get(id)),
    request_id: row.request_id,
    recipients,
    attempts,
    // The operator sees opens and clicks as well.
    events: events.map((one) => eventRecord(one, { engagement: true }) as unknown as EventRecord),
  };
}

/** Returns whether these are the server's: without a server, the reason why mail waits is unknown. */
const isServer = (deps: StoreDeps): deps is OperatorDeps => 'mta' in deps;

async function whyOf({ db, clock, holds, laneFacts }: OperatorDeps, id: string): Promise<Waiting[]> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  return await whyWaiting({ db, holdOf: holds.of, laneFacts }, row, clock.now());
}

/** Returns the account of the message that an operation names in `message_id`. Throws `not_found`. */
export async function accountOfMessage({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<string> {
  const row = (await db.reader('messages').select('account_id').where({ id }).first()) as
    { account_id: string } | undefined;
  if (row === undefined) throw notThere(id, 'message_id');
  return row.account_id;
}

const notThere = (id: string, field = 'id'): Problem => notFound(field, `there is no message ${JSON.stringify(id)}`);

/** Writes a message's history as lines in the order of time: acceptance, attempts with replies, events, and the next step. */
export function trace(message: WholeMessage, why: readonly Waiting[] = []): TraceLine[] {
  const { created_at: at, from, to, cc, bcc, subject, stream, test, send_at: sendAt } = message;
  const others = cc.length + bcc.length === 0 ? '' : ` and ${String(cc.length + bcc.length)} more`;
  const notes = [
    `stream ${stream}`,
    ...(test ? ['simulated'] : []),
    ...(sendAt === null ? [] : [`to be sent at ${sendAt}`]),
  ];
  const accepted = `from ${from} to ${to}${others}: ${JSON.stringify(subject)} (${notes.join(', ')})`;
  const lines: TraceLine[] = [
    { at, what: 'accepted', recipient: null, text: accepted },
    ...message.attempts.map(attemptLine),
    ...message.events.map(eventLine),
  ];
  // Times are all written in one form, so they sort as text; lines of one millisecond stay in the order above.
  lines.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const last = lines.at(-1)?.at ?? at;
  return [...lines, ...message.recipients.flatMap((recipient) => nextLine(recipient, why, last))];
}

function attemptLine(attempt: AttemptRecord): TraceLine {
  const { number, ended_at: at, recipient, mx, ip, tls, outcome, smtp_reply: reply, next_attempt_at: next } = attempt;
  const peer = mx === null ? 'no connection' : ip === null ? mx : `${mx} [${ip}]`;
  const secured = mx === null ? '' : tls === null ? ', no TLS' : `, ${tls.protocol}${tls.verified ? ' verified' : ''}`;
  const said = reply === null ? '' : `: ${replyText(attempt.smtp_code, reply)}`;
  const why = attempt.reason === null ? '' : ` (${[attempt.class, attempt.reason].filter(Boolean).join(', ')})`;
  const then = next === null ? '' : `, next try ${next}`;
  const text = `attempt ${String(number)} ${outcome}${why} by ${peer}${secured}${said} [${timings(attempt)}]${then}`;
  return { at, what: 'attempt', recipient, text };
}

/** Puts the code before a reply that does not begin with it. */
function replyText(code: number | null, reply: string): string {
  return code === null || reply.startsWith(String(code)) ? reply : `${String(code)} ${reply}`;
}

function timings({ started_at: from, ended_at: to, timings_ms: phases }: AttemptRecord): string {
  const total = `${String(Date.parse(to) - Date.parse(from))} ms`;
  const parts = Object.entries(phases).flatMap(([name, ms]) => (ms > 0 ? [`${name} ${String(Math.round(ms))}`] : []));
  return [total, ...parts].join(', ');
}

function eventLine({ timestamp: at, type, sequence, data }: EventRecord): TraceLine {
  return {
    at,
    what: 'event',
    recipient: data.recipient,
    text: `${type} (event ${String(sequence)}), status ${data.status}`,
  };
}

/** Returns what it waits for, as `messages why` does; without a running server only its next time is known. */
function nextLine(recipient: WholeMessage['recipients'][number], why: readonly Waiting[], now: string): TraceLine[] {
  const { email, status, next_attempt_at: next, attempt_count: count } = recipient;
  const known = why.find((one) => one.email === email && one.reason !== 'finished');
  if (known !== undefined)
    return [{ at: known.until ?? next ?? now, what: 'next', recipient: email, text: `${status}: ${known.message}` }];
  if (next === null) return [];
  const text = `${status}, to be tried ${count === 0 ? 'for the first time' : 'again'}`;
  return [{ at: next, what: 'next', recipient: email, text }];
}
