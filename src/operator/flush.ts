/** Makes deliveries that wait for a later time due at once, a page at a time, and notifies the engines. */
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import { hintsOfChanged } from '../messages/delivery/due-hint.ts';
import type { Act } from '../operations/act.ts';
import type { OperatorDeps } from './deps.ts';
import { waitingPages, type Condition, type Waiting } from './waiting-pages.ts';

/** A page is one commit, so that other writers get their turn between pages. */
const PAGE = 500;

/** The deliveries to flush; without any of these, all of them. */
export interface FlushFilter {
  domain?: string | undefined;
  messageId?: string | undefined;
  /** The domains of a lane, and which of their mail is of the lane. */
  lane?: { domains: readonly string[]; condition: Condition } | undefined;
}

/** Returns how many deliveries were made due, and their domains; null is all. The first page's commit writes the audit line. */
export async function flushPages(
  deps: Pick<OperatorDeps, 'db' | 'clock' | 'recorder' | 'notifiers'>,
  filter: FlushFilter,
  act: Act,
): Promise<{ flushed: number; domains: readonly string[] | null }> {
  let flushed = 0;
  let isFirst = true;
  for await (const page of pagesOf(deps, filter, deps.clock.now())) {
    const rows = isFirst ? act.rows() : {};
    isFirst = false;
    const recorded = await deps.recorder.record(
      page.map(({ id }) => ({ deliveryId: id, change: { kind: 'flushed' } })),
      rows,
    );
    flushed += recorded.filter(({ applied }) => applied).length;
    deps.notifiers.deliveries.notify(hintsOfChanged(page, recorded));
  }
  return { flushed, domains: await domainsOf(deps, filter) };
}

/** Deliveries in these states can be flushed. */
const LATER = `status IN ('queued', 'sent', 'deferred')`;

async function* pagesOf(
  deps: Pick<OperatorDeps, 'db'>,
  filter: FlushFilter,
  begun: number,
): AsyncGenerator<Waiting[], void> {
  if (filter.lane !== undefined) {
    const { domains, condition } = filter.lane;
    const later = { sql: `AND d.due_at > ? AND d.${LATER} ${condition.sql}`, values: [begun, ...condition.values] };
    yield* waitingPages(deps, domains, later, PAGE);
    return;
  }
  let page = await waitingAfter(deps, filter, begun, null);
  while (page.length > 0) {
    yield page;
    page = await waitingAfter(deps, filter, begun, page.at(-1) ?? null);
  }
}

/** Returns the recipient domains of the flush; null means all of them. */
async function domainsOf(
  { db }: Pick<OperatorDeps, 'db'>,
  { domain, messageId, lane }: FlushFilter,
): Promise<readonly string[] | null> {
  if (lane !== undefined) return lane.domains;
  if (messageId === undefined) return domain === undefined ? null : [domain];
  const rows = (await db.reader('deliveries').distinct('domain').where({ message_id: messageId })) as {
    domain: string;
  }[];
  return rows.map((row) => row.domain);
}

/**
 * Returns the next page in the order of the due index. The position only moves forward, so a delivery that the flush moves
 * back in the index (it falls due sooner) is not read again.
 */
async function waitingAfter(
  { db }: Pick<OperatorDeps, 'db'>,
  { domain, messageId }: FlushFilter,
  begun: number,
  last: Waiting | null,
): Promise<Waiting[]> {
  const where = [`due_at > ?`, `claim_epoch IS NULL`, LATER];
  const values: Value[] = [begun];
  if (domain !== undefined) {
    where.push('domain = ?');
    values.push(domain);
  }
  if (messageId !== undefined) {
    where.push('message_id = ?');
    values.push(messageId);
  }
  if (last !== null) {
    where.push('(domain, class, account_id, due_at, id) > (?, ?, ?, ?, ?)');
    values.push(last.domain, last.class, last.account_id, last.due_at, last.id);
  }
  const from = messageId === undefined ? `deliveries ${dialectOf(db.reader).using('deliveries_due')}` : 'deliveries';
  const sql = `SELECT id, domain, class, account_id, due_at FROM ${from} WHERE ${where.join(' AND ')}
    ORDER BY domain, class, account_id, due_at, id LIMIT ${String(PAGE)}`;
  return await db.reader.raw<Waiting[]>(sql, values);
}
