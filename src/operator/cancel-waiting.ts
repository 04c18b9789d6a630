/** Cancels waiting mail of one part of the queue, a page at a time. */
import type { Value } from '../storage/connection.ts';
import type { Part } from './parts.ts';
import type { Act } from '../operations/act.ts';
import type { MailOfLane } from './mail-of-lane.ts';
import type { OperatorDeps } from './deps.ts';
import { waitingPages } from './waiting-pages.ts';

/** A page is one commit, so that other writers get their turn between pages. */
const PAGE = 500;

type Ids = readonly { id: string }[];

/**
 * Returns how many deliveries were canceled. The first page's commit writes the audit line. `mail` is the mail of the part if it is a lane.
 */
export async function cancelPages(
  { db, recorder }: Pick<OperatorDeps, 'db' | 'recorder'>,
  part: Part,
  mail: Pick<MailOfLane, 'domains' | 'condition'> | null,
  act: Act,
): Promise<number> {
  const pages = mail === null ? pagesOf({ db }, part) : waitingPages({ db }, mail.domains, mail.condition, PAGE);
  let canceled = 0;
  let isFirst = true;
  for await (const page of pages) {
    const audit = isFirst ? act.rows() : {};
    isFirst = false;
    const recorded = await recorder.record(
      page.map(({ id }) => ({ deliveryId: id, change: { kind: 'canceled' } })),
      audit,
    );
    canceled += recorded.filter(({ applied }) => applied).length;
  }
  return canceled;
}

async function* pagesOf({ db }: Pick<OperatorDeps, 'db'>, part: Part): AsyncGenerator<Ids, void> {
  const { sql, values } = waitingOf(part);
  let after = '';
  for (;;) {
    const rows = await db.reader.raw<{ id: string }[]>(sql, [...values, after, PAGE]);
    if (rows.length === 0) return;
    after = rows.at(-1)?.id ?? after;
    yield rows;
  }
}

/** Returns the query of a page, in the order of ids, so that the position only moves forward. */
function waitingOf({ domain, account, stream, key, batch, message }: Part): { sql: string; values: Value[] } {
  const named = [
    ['d.message_id', message],
    ['d.domain', domain],
    ['d.account_id', account],
    ['m.stream', stream],
    ['m.key_id', key],
    ['m.batch_id', batch],
  ].flatMap(([column, value]) => (typeof column === 'string' && typeof value === 'string' ? [{ column, value }] : []));
  const isOfMessage = stream !== null || key !== null || batch !== null;
  return {
    sql: `SELECT d.id FROM deliveries d ${isOfMessage ? 'JOIN messages m ON m.id = d.message_id' : ''}
      WHERE ${named.map(({ column }) => `${column} = ? AND `).join('')}d.due_at IS NOT NULL AND d.claim_epoch IS NULL AND d.id > ?
      ORDER BY d.id LIMIT ?`,
    values: named.map(({ value }) => value),
  };
}
