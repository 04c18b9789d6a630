/** Reads a message with its recipients, attempts and content; lists of messages are in messages/list/. */
import { rfc3339 } from '../../base/rfc3339.ts';
import {
  attempts,
  deliveries,
  type AttachmentRow,
  type AttemptRow,
  type ContentRow,
  type DeliveryRow,
  type MessageRow,
  reports,
  type ReportRow,
} from '../../storage/tables.ts';
import { bodyOf, filesOf, isSealedContent, wholeRaw } from './stored-content.ts';
import type { Knex } from 'knex';
import type { Connection } from '../../storage/connection.ts';
import { recordOf } from '../../storage/record.ts';

/** The mail that a caller may see and change: of an account, or only its simulated mail (for test keys). */
export interface MailReach {
  accountId: string;
  onlyTest: boolean;
}

export function findMessage(
  read: Knex,
  { accountId, onlyTest }: MailReach,
  id: string,
): Promise<MessageRow | undefined> {
  const own = { id, account_id: accountId, ...(onlyTest ? { test: 1 } : {}) };
  return read('messages').where(own).first() as Promise<MessageRow | undefined>;
}

/** Returns a message of any account, for the operator. */
export function findAnyMessage(read: Knex, id: string): Promise<MessageRow | undefined> {
  return read('messages').where({ id }).first() as Promise<MessageRow | undefined>;
}

/** Recipients, and attempts, that a message shows. */
const SHOWN = 20;

/** Returns when each delivery is tried next; null if no attempt is planned. */
export type NextTriesOf = (rows: readonly DeliveryRow[]) => Promise<readonly (string | null)[]>;

/** Returns the recipients, `to` first. Without `nextTries`, which knows what lanes wait for, mail is tried when it is due. */
export async function recipientsOf(
  read: Knex,
  messageId: string,
  { limit = SHOWN, nextTries }: { limit?: number; nextTries?: NextTriesOf | undefined } = {},
): Promise<RecipientRecord[]> {
  const rows = (await read('deliveries').where({ message_id: messageId }).orderBy('id').limit(limit)) as DeliveryRow[];
  const next = await nextTries?.(rows);
  return rows.map((row, at) => recipientRecord(row, next === undefined ? nextAttemptAt(row) : (next[at] ?? null)));
}

export type RecipientRecord = ReturnType<typeof recipientRecord>;

export const recipientMembers = recordOf(null, deliveries);

function recipientRecord(row: DeliveryRow, next: string | null) {
  const { smtp_code: code, enhanced_code: enhanced, smtp_reply: reply, mx, tls } = row;
  const smtp = code === null && reply === null ? null : { code, enhanced, reply, mx, tls };
  return recipientMembers(row, { email: row.address, next_attempt_at: next, smtp });
}

/** Returns when the next attempt is due; null during one, while the delivery is held (see delivery/why.ts), and if its time is over before. */
export const nextAttemptAt = (
  row: Pick<DeliveryRow, 'claim_epoch' | 'due_at' | 'give_up_at' | 'held_by'>,
): string | null =>
  row.claim_epoch !== null || row.held_by !== null || (row.due_at ?? 0) >= row.give_up_at ? null : rfc3339(row.due_at);

/** Returns the last attempts, oldest first. */
export async function attemptsOf(read: Knex, messageId: string, limit: number = SHOWN): Promise<AttemptRecord[]> {
  const rows = (await read('attempts as a')
    .join('deliveries as d', 'd.id', 'a.delivery_id')
    .select('a.*', 'd.address')
    .where('a.message_id', messageId)
    .orderBy('a.id', 'desc')
    .limit(limit)) as (AttemptRow & { address: string })[];
  return rows.reverse().map(attemptRecord);
}

const noTimings = { dns: 0, connect: 0, banner: 0, tls: 0, mail: 0, rcpt: 0, data: 0, dot: 0 };

export type AttemptRecord = ReturnType<typeof attemptRecord>;

export const attemptMembers = recordOf('attempt', attempts);

function attemptRecord(row: AttemptRow & { address: string }) {
  const timings = { ...noTimings, ...(JSON.parse(row.timings_json) as Partial<typeof noTimings>) };
  return attemptMembers(row, { recipient: row.address, timings_ms: timings });
}

export async function contentOf(read: Knex, contentId: string): Promise<ContentRow | undefined> {
  const row = (await read('contents').where({ id: contentId }).first()) as ContentRow | undefined;
  if (row === undefined || isSealedContent(contentId)) return undefined;
  return { ...row, ...bodyOf(row), raw: await wholeRaw(row.raw, () => piecesOf(read, contentId)) };
}

const piecesOf = (read: Knex, contentId: string): Promise<AttachmentRow[]> =>
  read('attachments').where({ content_id: contentId }).orderBy('position') as Promise<AttachmentRow[]>;

/** Returns the files of a content, in their order. */
export const attachmentsOf = async (read: Knex, contentId: string): Promise<AttachmentRow[]> =>
  filesOf(await piecesOf(read, contentId));

const MOST_REPORTS = 100;

type ReportOfRecipient = Pick<ReportRow, 'id' | 'kind' | 'received_at' | 'sender' | 'size' | 'state'> & {
  recipient: DeliveryRow['address'];
};

/** Returns the first hundred reports, oldest first: a mail host that answers could send any number. */
export async function reportsOf(read: Knex, messageId: string): Promise<ReportRecord[]> {
  const rows = await read('reports as r')
    .join('deliveries as d', 'd.id', 'r.delivery_id')
    .where('r.message_id', messageId)
    .orderBy('r.id')
    .limit(MOST_REPORTS)
    .select<ReportOfRecipient[]>({
      id: 'r.id',
      kind: 'r.kind',
      received_at: 'r.received_at',
      recipient: 'd.address',
      sender: 'r.sender',
      size: 'r.size',
      state: 'r.state',
    });
  return rows.map(reportRecord);
}

export const reportMembers = recordOf('report', reports);
export type ReportRecord = ReturnType<typeof reportRecord>;

const reportRecord = (row: ReportOfRecipient) =>
  reportMembers(row, { recipient: row.recipient, verified: row.state !== 'unverified' });

/** Returns the raw mail, or null if the message has no such report. */
export async function rawReport(db: Connection, messageId: string, id: string): Promise<Buffer | null> {
  const [row] = await db.all<Pick<ReportRow, 'raw'>>('SELECT raw FROM reports WHERE id = ? AND message_id = ?', [
    id,
    messageId,
  ]);
  return row?.raw ?? null;
}
