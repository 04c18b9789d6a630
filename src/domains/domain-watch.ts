/** Finds domains that need attention: those whose check is due, and those whose members must be told of a lost record. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import type { DomainRow } from '../storage/tables.ts';
import type { DomainWithKeys } from './domain-record.ts';
import { withKeys, type DomainDeps } from './domain-store.ts';

/** How long after a check a domain is checked again, in ms, and how many at once. */
export interface CheckTimes {
  every: number;
  brokenEvery: number;
  /** Of a domain that was never verified, for a time after it was added. */
  fresh: { every: number; forMs: number };
  most: number;
}

/**
 * A domain that lost a record is checked more often, since its mail is or soon will be refused; one that was just added while its owner publishes
 * the records. Each check costs half a dozen look-ups, and one step a minute is enough for 7,000 domains.
 */
export const checkTimes = {
  every: 6 * HOUR_MS,
  brokenEvery: 30 * MINUTE_MS,
  fresh: { every: 2 * MINUTE_MS, forMs: HOUR_MS },
  most: 20,
} as const;

/**
 * Returns the domains to check: those never checked, first come first, and those whose last check is too old (or in the future: the clock was set
 * back); each kind has half of the places, and what the other leaves. Domains that lost a record come sooner, and at the end of their countdown; most
 * often come those just added, whose owner looks at the page.
 */
export async function domainsToCheck(
  { db, clock }: Pick<DomainDeps, 'clock'> & { db: Pick<Database, 'reader'> },
  { every, brokenEvery, fresh: { every: freshEvery, forMs }, most }: CheckTimes,
): Promise<DomainRow[]> {
  const now = clock.now();
  const watched = () => db.reader<DomainRow>('domains').where({ trusted: 0 }).limit(most);
  const [unchecked, due] = await Promise.all([
    watched().whereNull('checked_at').orderBy('id'),
    watched()
      .whereRaw(
        `(checked_at <= ? OR checked_at > ?
          OR ((failing_since IS NOT NULL OR (verified_at IS NOT NULL AND status <> 'verified')) AND checked_at <= ?)
          OR (verified_at IS NULL AND created_at > ? AND checked_at <= ?)
          OR (status = 'verified' AND checked_at < refused_at AND refused_at <= ?))`,
        [now - every, now, now - brokenEvery, now - forMs, now - freshEvery, now],
      )
      .orderBy('checked_at'),
  ]);
  const half = Math.ceil(most / 2);
  const ofFresh = unchecked.slice(0, Math.max(half, most - due.length));
  return [...ofFresh, ...due.slice(0, most - ofFresh.length)];
}

/** True if the members have not been told of the present failure; of a record that comes and goes they are told once a day. */
const UNTOLD = '(told_at IS NULL OR (told_at < failing_since AND told_at < ?))';
const TOLD_AGAIN_MS = DAY_MS;

/** Returns domains that lost a record and whose members have not been told yet. */
export async function domainsToReport(
  { db, clock }: Pick<DomainDeps, 'db' | 'clock'>,
  most: number,
): Promise<DomainWithKeys[]> {
  const rows = await db
    .reader<DomainRow>('domains')
    .whereNotNull('failing_since')
    .whereRaw(UNTOLD, [clock.now() - TOLD_AGAIN_MS])
    .orderBy('failing_since')
    .limit(most);
  return withKeys(db, rows);
}

/** Marks the domain's members as told and writes the rows of the mails to them; null if there is nothing to tell any more. */
export async function notifyMembers<Notice extends { rows: readonly Rows[] }>(
  { db, clock }: Pick<DomainDeps, 'db' | 'clock'>,
  id: string,
  makeNotice: (tx: Connection, row: DomainRow) => Promise<Notice>,
): Promise<Notice | null> {
  return await db.commit.transact(async (tx) => {
    const [row] = await tx.all<DomainRow>(
      `UPDATE domains SET told_at = ? WHERE id = ? AND failing_since IS NOT NULL AND ${UNTOLD} RETURNING *`,
      [clock.now(), id, clock.now() - TOLD_AGAIN_MS],
    );
    if (row === undefined) return null;
    const notice = await makeNotice(tx, row);
    await insertRows(tx, notice.rows);
    return notice;
  });
}
