/** What the messages of a list must have, as conditions of SQL: whatever is read first, these are looked at in each message. */
import type { Knex } from 'knex';
import { addressKey } from '../../mail/address.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';

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
  /** No index has it: give a narrow range of times with it. */
  requestId?: string;
  /** Half-open range of acceptance times in ms. */
  createdAfter?: number;
  createdBefore?: number;
  opened?: boolean;
  clicked?: boolean;
  test?: boolean;
}

/** Named messages are few: the database finds them by itself. */
export const isNamed = ({ batchId, rfcMessageId }: MessageFilter): boolean =>
  batchId !== undefined || rfcMessageId !== undefined;

/** `id`: the message's id where the branch has it first, so that what an index tells is looked at before the message is read. */
export function narrow(query: Knex.QueryBuilder, filter: MessageFilter, id: string): void {
  const {
    accountId,
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
  const equal = {
    'm.template_id': filter.templateId,
    'm.batch_id': filter.batchId,
    'm.stream': filter.stream,
    'm.from_domain': filter.domain,
    'm.request_id': filter.requestId,
  };
  for (const [column, value] of Object.entries(equal)) if (value !== undefined) query.where(column, value);
  if (filter.rfcMessageId !== undefined) narrowToRfcId(query, filter.rfcMessageId);
  if (status !== undefined) query.whereIn('m.status', status);
  if (from !== undefined) query.whereRaw('lower(m.from_address) = ?', [addressKey(from)]);
  if (to !== undefined)
    query.whereRaw(`EXISTS (SELECT 1 FROM deliveries x WHERE x.address_key = ? AND x.message_id = ${id})`, [
      addressKey(to),
    ]);
  if (subject !== undefined) for (const word of wordsOf(subject)) narrowToWord(query, word);
  for (const tag of tags)
    query.whereRaw(
      `EXISTS (SELECT 1 FROM message_tags x WHERE x.account_id = ? AND x.tag = ? AND x.message_id = ${id})`,
      [accountId, tag],
    );
  for (const [name, value] of Object.entries(metadata))
    query.whereRaw(
      `EXISTS (SELECT 1 FROM message_metadata x WHERE x.account_id = ? AND x.name = ? AND x.value = ? AND x.message_id = ${id})`,
      [accountId, name, value],
    );
  if (createdAfter !== undefined) query.where('m.created_at', '>=', createdAfter);
  if (createdBefore !== undefined) query.where('m.created_at', '<', createdBefore);
  if (opened !== undefined) query.where('m.opens', opened ? '>' : '=', 0);
  if (clicked !== undefined) query.where('m.clicks', clicked ? '>' : '=', 0);
  if (test !== undefined) query.where('m.test', test ? 1 : 0);
}

/** The id of ours that a Message-ID names, if it does. */
export const ownIdIn = (rfcMessageId: string): string | undefined =>
  /^<(msg_[0-7][0-9a-hjkmnp-tv-z]{25})@/.exec(rfcMessageId)?.[1];

/** Our own ids name the message; those of submitted mail have an index of their own. */
function narrowToRfcId(query: Knex.QueryBuilder, rfcMessageId: string): void {
  const own = ownIdIn(rfcMessageId);
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

/** The words of what is looked for. */
export const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const escapeLike = (word: string): string => word.replace(/[\\%_]/g, '\\$&');
