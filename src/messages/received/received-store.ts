/** Mails that came to domains that receive: read, listed and removed. The listener writes them (inbound/received.ts). */
import type { Knex } from 'knex';
import { idFloor } from '../../base/id.ts';
import type { Connection } from '../../storage/connection.ts';
import { readPage, type PagePart, type RowPage } from '../../storage/page.ts';
import { recordOf } from '../../storage/record.ts';
import { statement } from '../../storage/sql.ts';
import { received, type ReceivedRow } from '../../storage/tables.ts';
import type { MailReach } from '../store/message-store.ts';
import type { Purge } from '../store/purge.ts';

export const receivedMembers = recordOf('received_message', received);

/** Text and html, which lists and events leave out. */
export const noBodies = { text: null, html: null, reply_text: null };

export interface ReceivedFilter extends PagePart {
  reach: MailReach;
  domain?: string | undefined;
  /** The author's address, in the form in which addresses are compared. */
  fromKey?: string | undefined;
  answers?: string | undefined;
  /** Half-open range of times in ms. */
  from?: number | undefined;
  until?: number | undefined;
}

const bodies = new Set(Object.keys(noBodies));
const listed = received.names.filter((name) => !bodies.has(name));

/** Returns one page, newest first; no mail of a test key is received. */
export async function listReceived(read: Knex, filter: ReceivedFilter): Promise<RowPage<ReceivedRow>> {
  const { reach, domain, fromKey, answers, from, until, ...page } = filter;
  if (reach.onlyTest) return { rows: [], hasMore: false };
  const query = read<ReceivedRow>('received')
    .select(...listed)
    .where({ account_id: reach.accountId });
  if (domain !== undefined) query.andWhere({ domain });
  if (fromKey !== undefined) query.andWhere({ from_key: fromKey });
  if (answers !== undefined) query.andWhere({ answers });
  if (from !== undefined) query.andWhere('id', '>=', idFloor('rcv', from));
  if (until !== undefined) query.andWhere('id', '<', idFloor('rcv', until));
  const { rows, hasMore } = await readPage<ReceivedRow>(query, page);
  return { rows: rows.map((row) => ({ ...row, ...noBodies })), hasMore };
}

export async function findReceived(
  db: Connection,
  { accountId, onlyTest }: MailReach,
  id: string,
): Promise<ReceivedRow | undefined> {
  if (onlyTest) return undefined;
  const [row] = await db.all<ReceivedRow>('SELECT * FROM received WHERE id = ? AND account_id = ?', [id, accountId]);
  return row;
}

/** Returns the source of a mail; null if there is none (any more). */
export async function sourceOf(db: Connection, id: string): Promise<Buffer | null> {
  const [row] = await db.all<{ raw: Buffer }>('SELECT raw FROM received_sources WHERE received_id = ?', [id]);
  return row?.raw ?? null;
}

type Leaving = Pick<ReceivedRow, 'id' | 'answers'>;

/** Removes mails with their sources and events, and what receivers of webhooks answered to these. */
export async function removeReceived(tx: Connection, rows: readonly Leaving[]): Promise<void> {
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const places = JSON.stringify(rows.flatMap(({ id, answers }) => (answers === null ? [id] : [id, answers])));
  const events = await tx.all<{ sequence: number }>(eventsOf, [places, ids]);
  await tx.run(withoutAnswers, [JSON.stringify(events.map(({ sequence }) => sequence))]);
  await tx.run(withoutSources, [ids]);
  await tx.run(withoutRows, [ids]);
}

const eventsOf = statement(
  ({ among }) =>
    `DELETE FROM events WHERE message_id ${among('text')} AND delivery_id ${among('text')} RETURNING sequence`,
);
const withoutAnswers = statement(
  ({ among }) => `UPDATE webhook_deliveries SET answer = NULL WHERE sequence ${among('integer')}`,
);
const withoutSources = statement(({ among }) => `DELETE FROM received_sources WHERE received_id ${among('text')}`);
const withoutRows = statement(({ among }) => `DELETE FROM received WHERE id ${among('text')}`);

/** Mails removed in one step: the source of each may have 25 MiB. */
const ERASED_AT_ONCE = 10;

/** Removes some of the mails that a person has written, or with null some of all that the account has; returns how many. */
export async function eraseReceivedFrom(
  tx: Connection,
  { accountId, onlyTest }: MailReach,
  key: string | null,
): Promise<number> {
  if (onlyTest) return 0;
  const rows = await tx.all<Leaving>(
    `SELECT id, answers FROM received WHERE account_id = ?${key === null ? '' : ' AND from_key = ?'} LIMIT ?`,
    [accountId, ...(key === null ? [] : [key]), ERASED_AT_ONCE],
  );
  if (rows.length > 0) await removeReceived(tx, rows);
  return rows.length;
}

/** Mails that are kept for as long as bodies. One that has not been read stays. */
export const oldReceived: Purge<Leaving> = {
  choose: (reader, { accountId, before, after, most }) =>
    reader.all(
      `SELECT id, answers FROM received WHERE account_id = ? AND id > ? AND id < ? AND status <> 'new' ORDER BY id LIMIT ?`,
      [accountId, after?.id ?? '', idFloor('rcv', before), Math.min(most, ERASED_AT_ONCE)],
    ),
  remove: removeReceived,
};
