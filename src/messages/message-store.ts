/** Reading messages with what belongs to them. */
import type { Knex } from 'knex';
import { idFloor, MOST_AHEAD_MS } from '../base/id.ts';
import { addressKey } from '../mail/address.ts';
import type {
  AttachmentRow,
  AttemptRow,
  ContentRow,
  DeliveryRow,
  DeliveryStatus,
  MessageRow,
} from '../storage/tables.ts';
import { timestamp } from './message.ts';

export interface MessageFilter {
  accountId: string;
  status?: readonly DeliveryStatus[];
  /** An address among the recipients of any kind. */
  to?: string;
  from?: string;
  /** Words the subject must have, each as a beginning of one of its words. */
  subject?: string;
  /** All of these. */
  tags?: readonly string[];
  metadata?: Readonly<Record<string, string>>;
  templateId?: string;
  batchId?: string;
  stream?: string;
  /** The sending domain. */
  domain?: string;
  rfcMessageId?: string;
  /** Half-open range of acceptance times in ms. */
  createdAfter?: number;
  createdBefore?: number;
  opened?: boolean;
  clicked?: boolean;
  test?: boolean;
}

export interface MessagePage {
  messages: MessageRow[];
  hasMore: boolean;
}

/** Which part of the list: newest or oldest first, and from which message on (exclusive), forwards or backwards. */
export interface PageRequest {
  newestFirst: boolean;
  limit: number;
  after?: string;
  before?: string;
}

/** One page in the order asked for. Ids ascend with time, so they are both order and cursor. */
export async function listMessages(read: Knex, filter: MessageFilter, page: PageRequest): Promise<MessagePage> {
  const backwards = page.before !== undefined;
  const descending = page.newestFirst !== backwards;
  const query = read(sourceOf(read, filter)).select('m.*').where('m.account_id', filter.accountId);
  narrow(read, query, filter);
  const edge = page.after ?? page.before;
  if (edge !== undefined) query.where('m.id', descending ? '<' : '>', edge);
  const messages = (await query.orderBy('m.id', descending ? 'desc' : 'asc').limit(page.limit + 1)) as MessageRow[];
  const hasMore = messages.length > page.limit;
  if (hasMore) messages.length = page.limit;
  if (backwards) messages.reverse();
  return { messages, hasMore };
}

/** What the index `messages_apart` holds: it serves only who repeats its condition word for word. */
const apart: ReadonlySet<DeliveryStatus> = new Set(['scheduled', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'canceled']); // prettier-ignore
const APART = `m.status in (${[...apart].map((status) => `'${status}'`).join(', ')})`;

const areApart = (status: readonly DeliveryStatus[]): boolean => status.every((one) => apart.has(one));

/**
 * Without statistics SQLite would read all messages in their order until enough of a rare status came by. Where another
 * filter names few messages, that one's index is better.
 */
function sourceOf(read: Knex, { status, to, tags, metadata, batchId, rfcMessageId }: MessageFilter): Knex.Raw | string {
  const isNamed = [to, tags, metadata, batchId, rfcMessageId].some((one) => one !== undefined);
  const { client } = (read.client as Knex.Client).config as { client?: unknown };
  if (status === undefined || !areApart(status) || isNamed || client !== 'sqlite3') return 'messages as m';
  return read.raw('messages as m indexed by messages_apart');
}

function narrow(read: Knex, query: Knex.QueryBuilder, filter: MessageFilter): void {
  const {
    status,
    to,
    from,
    subject,
    tags = [],
    metadata = {},
    createdAfter,
    createdBefore,
    opened,
    clicked,
    test,
  } = filter;
  const equal = { 'm.template_id': filter.templateId, 'm.batch_id': filter.batchId, 'm.stream': filter.stream, 'm.from_domain': filter.domain}; // prettier-ignore
  for (const [column, value] of Object.entries(equal)) if (value !== undefined) query.where(column, value);
  if (filter.rfcMessageId !== undefined) narrowToRfcId(query, filter.rfcMessageId);
  if (status !== undefined) query.whereIn('m.status', status);
  if (status !== undefined && areApart(status)) query.whereRaw(APART);
  if (from !== undefined) query.whereRaw('lower(m.from_address) = ?', [addressKey(from)]);
  if (to !== undefined)
    query.whereIn('m.id', read('deliveries').select('message_id').where('address_key', addressKey(to)));
  if (subject !== undefined) for (const word of wordsOf(subject)) narrowToWord(query, word);
  for (const tag of tags) {
    query.whereIn('m.id', read('message_tags').select('message_id').where({ account_id: filter.accountId, tag }));
  }
  for (const [name, value] of Object.entries(metadata)) {
    query.whereIn(
      'm.id',
      read('message_metadata').select('message_id').where({ account_id: filter.accountId, name, value }),
    );
  }
  if (createdAfter !== undefined)
    query.where('m.id', '>=', idFloor('msg', createdAfter)).where('m.created_at', '>=', createdAfter);
  if (createdBefore !== undefined)
    query.where('m.created_at', '<', createdBefore).where('m.id', '<', idFloor('msg', createdBefore + MOST_AHEAD_MS));
  if (opened !== undefined) query.where('m.opens', opened ? '>' : '=', 0);
  if (clicked !== undefined) query.where('m.clicks', clicked ? '>' : '=', 0);
  if (test !== undefined) query.where('m.test', test ? 1 : 0);
}

/** Our own ids name the message; those of submitted mail have an index of their own. */
function narrowToRfcId(query: Knex.QueryBuilder, rfcMessageId: string): void {
  const [, own] = /^<(msg_[0-7][0-9a-hjkmnp-tv-z]{25})@/.exec(rfcMessageId) ?? [];
  if (own === undefined) query.whereRaw("substr(m.rfc_message_id, 1, 5) <> '<msg_'");
  else query.where('m.id', own);
  query.where('m.rfc_message_id', rfcMessageId);
}

/** SQLite folds the case of ASCII only; beyond that the usual spellings of a word are asked for one by one. */
function narrowToWord(query: Knex.QueryBuilder, word: string): void {
  const lower = word.toLowerCase();
  const title = lower.replace(/^./u, (first) => first.toUpperCase());
  const spellings = [...new Set([word, lower, title, word.toUpperCase()])];
  const like = spellings.map(() => `' ' || m.subject LIKE ? ESCAPE '\\'`).join(' OR ');
  query.whereRaw(
    `(${like})`,
    spellings.map((spelling) => `% ${escapeLike(spelling)}%`),
  );
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const escapeLike = (word: string): string => word.replace(/[\\%_]/g, '\\$&');

/** A message of this account, or undefined. */
export function findMessage(read: Knex, accountId: string, id: string): Promise<MessageRow | undefined> {
  return read('messages').where({ id, account_id: accountId }).first() as Promise<MessageRow | undefined>;
}

/** A message whoever it belongs to: for the operator. */
export function findAnyMessage(read: Knex, id: string): Promise<MessageRow | undefined> {
  return read('messages').where({ id }).first() as Promise<MessageRow | undefined>;
}

/** How many recipients and attempts a message shows. */
const SHOWN = 20;

export interface RecipientRecord {
  email: string;
  type: 'to' | 'cc' | 'bcc';
  status: DeliveryStatus;
  status_at: string;
  attempt_count: number;
  next_attempt_at: string | null;
  smtp: {
    code: number | null;
    enhanced: string | null;
    reply: string | null;
    mx: string | null;
    tls: string | null;
  } | null;
}

/** The recipients, `to` first. */
export async function recipientsOf(read: Knex, messageId: string, limit: number = SHOWN): Promise<RecipientRecord[]> {
  const rows = (await read('deliveries').where({ message_id: messageId }).orderBy('id').limit(limit)) as DeliveryRow[];
  return rows.map(recipientRecord);
}

function recipientRecord(row: DeliveryRow): RecipientRecord {
  const answered = row.smtp_code !== null || row.smtp_reply !== null;
  return {
    email: row.address,
    type: row.type,
    status: row.status,
    status_at: timestamp(row.status_at),
    attempt_count: row.attempt_count,
    next_attempt_at: nextAttemptAt(row),
    smtp: answered
      ? { code: row.smtp_code, enhanced: row.enhanced_code, reply: row.smtp_reply, mx: row.mx, tls: row.tls }
      : null,
  };
}

/** Null while it is being tried, and while it is held: then what holds it decides (messages/why.ts). */
export const nextAttemptAt = (row: Pick<DeliveryRow, 'claim_epoch' | 'due_at' | 'held_by'>): string | null =>
  row.claim_epoch !== null || row.held_by !== null ? null : timestamp(row.due_at);

export interface AttemptRecord {
  object: 'attempt';
  id: string;
  recipient: string;
  number: number;
  started_at: string;
  ended_at: string;
  mx: string | null;
  ip: string | null;
  source: string | null;
  tls: { protocol: string; cipher: string; verified: boolean; policy: string } | null;
  timings_ms: Record<'dns' | 'connect' | 'banner' | 'tls' | 'mail' | 'rcpt' | 'data' | 'dot', number>;
  outcome: AttemptRow['outcome'];
  smtp_code: number | null;
  enhanced_code: string | null;
  smtp_reply: string | null;
  class: string | null;
  reason: string | null;
  next_attempt_at: string | null;
}

/** The last attempts, oldest first. */
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

function attemptRecord(row: AttemptRow & { address: string }): AttemptRecord {
  return {
    object: 'attempt',
    id: row.id,
    recipient: row.address,
    number: row.number,
    started_at: timestamp(row.started_at),
    ended_at: timestamp(row.ended_at),
    mx: row.mx,
    ip: row.ip,
    source: row.source,
    tls: row.tls_json === null ? null : (JSON.parse(row.tls_json) as AttemptRecord['tls']),
    timings_ms: { ...noTimings, ...(JSON.parse(row.timings_json) as Partial<typeof noTimings>) },
    outcome: row.outcome,
    smtp_code: row.smtp_code,
    enhanced_code: row.enhanced_code,
    smtp_reply: row.smtp_reply,
    class: row.class,
    reason: row.reason,
    next_attempt_at: timestamp(row.next_attempt_at),
  };
}

/** The stored body of a message. */
export function contentOf(read: Knex, contentId: string): Promise<ContentRow | undefined> {
  return read('contents').where({ id: contentId }).first() as Promise<ContentRow | undefined>;
}

/** The files of a content, in their order. */
export function attachmentsOf(read: Knex, contentId: string): Promise<AttachmentRow[]> {
  return read('attachments').where({ content_id: contentId }).orderBy('position') as Promise<AttachmentRow[]>;
}
