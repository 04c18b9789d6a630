/** Which domains somebody has to look at now: those whose check is due, and those whose people have to be told of a lost record. */
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import type { DomainRow } from '../storage/tables.ts';
import type { DomainWithKeys } from './domain-record.ts';
import { withKeys, type DomainDeps } from './domain-store.ts';

/**
 * Domains whose last check is too long ago (or yet to come: the clock was set back), the ones checked longest ago first. Those that
 * lost a record come sooner, and once more when their countdown has ended.
 */
export async function domainsToCheck(
  { db, clock }: Pick<DomainDeps, 'clock'> & { db: Pick<Database, 'reader'> },
  { every, brokenEvery, most }: { every: number; brokenEvery: number; most: number },
): Promise<DomainRow[]> {
  const now = clock.now();
  return await db
    .reader<DomainRow>('domains')
    .where({ trusted: 0 })
    .whereRaw(
      `(checked_at IS NULL OR checked_at <= ? OR checked_at > ?
        OR ((failing_since IS NOT NULL OR (verified_at IS NOT NULL AND status <> 'verified')) AND checked_at <= ?)
        OR (status = 'verified' AND checked_at < refused_at AND refused_at <= ?))`,
      [now - every, now, now - brokenEvery, now],
    )
    .orderByRaw('checked_at IS NOT NULL, checked_at')
    .limit(most);
}

/** Domains that have lost a record, of which their people have not been told yet. */
export async function domainsToTellOf({ db }: Pick<DomainDeps, 'db'>, most: number): Promise<DomainWithKeys[]> {
  const rows = await db
    .reader<DomainRow>('domains')
    .whereNotNull('failing_since')
    .whereNull('found_again_at')
    .whereNull('told_at')
    .orderBy('failing_since')
    .limit(most);
  return withKeys(db, rows);
}

/** Notes that the people of the domain are told now, together with the rows that tell them; null where there is nothing to tell any more. */
export async function noteTold<Told extends { rows: readonly Rows[] }>(
  { db, clock }: Pick<DomainDeps, 'db' | 'clock'>,
  id: string,
  telling: (tx: Connection, row: DomainRow) => Promise<Told>,
): Promise<Told | null> {
  return await db.commit.transact(async (tx) => {
    const [row] = await tx.all<DomainRow>(
      `UPDATE domains SET told_at = ? WHERE id = ? AND failing_since IS NOT NULL AND found_again_at IS NULL AND told_at IS NULL
       RETURNING *`,
      [clock.now(), id],
    );
    if (row === undefined) return null;
    const told = await telling(tx, row);
    await insertRows(tx, told.rows);
    return told;
  });
}
