/** The suppression list: addresses that are not mailed, for a whole account or for one of its streams. */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { addressKey, parseMailbox } from '../mail/address.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { insertRows } from '../storage/rows.ts';
import type { SuppressionReason, SuppressionRow } from '../storage/tables.ts';

export interface SuppressionDeps {
  db: Pick<Database, 'commit' | 'fast' | 'read'>;
  clock: Clock;
}

export interface NewSuppression {
  accountId: string;
  email: string;
  /** A stream's slug, or null for the whole account. */
  stream: string | null;
  reason: SuppressionReason;
  sourceMessageId?: string | null;
  note?: string | null;
  createdBy: string;
  /** Milliseconds since the epoch, or null for an entry that does not end. */
  expiresAt?: number | null;
}

const LONGEST_LIST = 1000;
const LONGEST_NOTE = 500;

/** Which of these addresses must not be mailed on this stream, and why. One statement, however many. */
export async function findSuppressed(
  { db, clock }: Pick<SuppressionDeps, 'db' | 'clock'>,
  accountId: string,
  stream: string,
  addressKeys: readonly string[],
): Promise<Map<string, { id: string; reason: SuppressionReason }>> {
  type Hit = Pick<SuppressionRow, 'address_key' | 'id' | 'reason'>;
  const hits = await db.fast.all<Hit>(
    `SELECT address_key, id, reason FROM suppressions
     WHERE account_id = ? AND address_key IN (SELECT value FROM json_each(?)) AND scope IN ('account', ?)
       AND (expires_at IS NULL OR expires_at > ?)
     ORDER BY scope DESC`,
    [accountId, JSON.stringify(addressKeys), scopeOf(stream), clock.now()],
  );
  // `account` sorts before `stream:…`, so it comes last here and wins where both are there.
  return new Map(hits.map(({ address_key, id, reason }) => [address_key, { id, reason }]));
}

/** Adds an entry, or returns the one that is there already (`created: false`). Throws `invalid_address`. */
export async function addSuppression(
  deps: SuppressionDeps,
  entry: NewSuppression,
): Promise<{ row: SuppressionRow; created: boolean }> {
  const now = deps.clock.now();
  const row = suppressionRow(entry, now);
  return deps.db.commit.transact(async (tx) => {
    const [old] = await tx.all<SuppressionRow>(
      'SELECT * FROM suppressions WHERE account_id = ? AND address_key = ? AND scope = ?',
      [row.account_id, row.address_key, row.scope],
    );
    if (old !== undefined && (old.expires_at === null || old.expires_at > now)) return { row: old, created: false };
    if (old !== undefined) await tx.run('DELETE FROM suppressions WHERE id = ?', [old.id]);
    await insertRows(tx, [{ suppressions: [row] }]);
    return { row, created: true };
  });
}

/**
 * Removes the entries of an address, in one scope where a stream or `null` (the account) is given, else in all; returns
 * them. Throws `invalid_state` for a complaint without `force`: whoever complained must ask for mail again.
 */
export async function removeSuppressions(
  { db }: Pick<SuppressionDeps, 'db'>,
  entry: { accountId: string; email: string; stream?: string | null; force?: boolean },
): Promise<SuppressionRow[]> {
  const parsed = parseMailbox(entry.email, { smtputf8: true });
  const key = addressKey(parsed.kind === 'ok' ? parsed.mailbox.address : entry.email);
  return db.commit.transact(async (tx) => {
    const rows = (await ofAddress(tx, entry.accountId, key)).filter(
      ({ scope }) => entry.stream === undefined || scope === scopeOf(entry.stream),
    );
    if (entry.force !== true && rows.some(({ reason }) => reason === 'complaint')) {
      throw new Problem('invalid_state', 'an entry made by a complaint is removed only with `force`');
    }
    for (const { id } of rows) await tx.run('DELETE FROM suppressions WHERE id = ?', [id]);
    return rows;
  });
}

/** Newest first, without those that have ended. `after`: the id of the last one seen. */
export async function listSuppressions(
  { db, clock }: Pick<SuppressionDeps, 'db' | 'clock'>,
  filter: { accountId: string; reason?: SuppressionReason; limit: number; after?: string },
): Promise<SuppressionRow[]> {
  const query = db.read<SuppressionRow>('suppressions').where({ account_id: filter.accountId });
  query.whereRaw('(expires_at IS NULL OR expires_at > ?)', [clock.now()]);
  if (filter.reason !== undefined) query.andWhere({ reason: filter.reason });
  if (filter.after !== undefined) query.andWhere('id', '<', filter.after);
  return await query.orderBy('id', 'desc').limit(Math.min(filter.limit, LONGEST_LIST));
}

function ofAddress(tx: Connection, accountId: string, key: string): Promise<SuppressionRow[]> {
  return tx.all<SuppressionRow>('SELECT * FROM suppressions WHERE account_id = ? AND address_key = ?', [
    accountId,
    key,
  ]);
}

function scopeOf(stream: string | null): string {
  return stream === null ? 'account' : `stream:${stream}`;
}

function suppressionRow(entry: NewSuppression, now: number): SuppressionRow {
  const parsed = parseMailbox(entry.email, { smtputf8: true });
  if (parsed.kind === 'bad') throw new Problem('invalid_address', parsed.why, { field: 'email' });
  const note = entry.note ?? null;
  if (note !== null && note.length > LONGEST_NOTE) {
    throw new Problem('field_too_long', `the note may have at most ${String(LONGEST_NOTE)} characters`, {
      field: 'note',
    });
  }
  const { address } = parsed.mailbox;
  return {
    id: newId('sup', now),
    account_id: entry.accountId,
    email: address,
    address_key: addressKey(address),
    scope: scopeOf(entry.stream),
    reason: entry.reason,
    source_message_id: entry.sourceMessageId ?? null,
    note,
    created_at: now,
    created_by: entry.createdBy,
    expires_at: entry.expiresAt ?? null,
  };
}
