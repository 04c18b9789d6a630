/** Cancels waiting mail of one part of the queue, a page at a time. */
import type { Value } from '../storage/connection.ts';
import type { HoldRow } from '../storage/tables.ts';
import type { Act } from '../operations/act.ts';
import type { MailOfLane } from './mail-of-lane.ts';
import type { OperatorDeps } from './deps.ts';
import { waitingPages } from './waiting-pages.ts';

/** A page is one commit, so that other writers get their turn between pages. */
const PAGE = 500;

/** The part of the queue that an act is about. */
export type HoldTarget = Pick<HoldRow, 'scope' | 'target' | 'account_id'>;
type Ids = readonly { id: string }[];

/**
 * Returns how many deliveries were canceled. The first page's commit writes the audit line. `mail` is the mail of the part if it is a lane.
 */
export async function cancelPages(
  { db, recorder }: Pick<OperatorDeps, 'db' | 'recorder'>,
  target: HoldTarget,
  mail: Pick<MailOfLane, 'domains' | 'condition'> | null,
  act: Act,
): Promise<number> {
  const pages = mail === null ? pagesOf({ db }, target) : waitingPages({ db }, mail.domains, mail.condition, PAGE);
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

async function* pagesOf({ db }: Pick<OperatorDeps, 'db'>, target: HoldTarget): AsyncGenerator<Ids, void> {
  const { sql, values } = waitingOf(target);
  let after = '';
  for (;;) {
    const rows = await db.reader.raw<{ id: string }[]>(sql, [...values, after, PAGE]);
    if (rows.length === 0) return;
    after = rows.at(-1)?.id ?? after;
    yield rows;
  }
}

/** Returns the query of a page, in the order of ids, so that the position only moves forward. */
function waitingOf({ scope, target, account_id: account }: HoldTarget): {
  sql: string;
  values: Value[];
} {
  const rest = 'AND d.due_at IS NOT NULL AND d.claim_epoch IS NULL AND d.id > ? ORDER BY d.id LIMIT ?';
  if (scope === 'lane' || scope === 'source') throw new Error('only the engine knows the mail of a lane or a source');
  if (scope === 'stream')
    return {
      sql: `SELECT d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.account_id = ? AND m.stream = ? ${rest}`,
      values: [account, target],
    };
  const column = { message: 'message_id', domain: 'domain', account: 'account_id' }[scope];
  return { sql: `SELECT d.id FROM deliveries d WHERE d.${column} = ? ${rest}`, values: [target] };
}
