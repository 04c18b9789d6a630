/** The suppression list: addresses that are not mailed, for a whole account or for one of its streams. */
import { createBatchLoader } from '../base/batch-loader.ts';
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

/** Why an address is on the list. */
interface SuppressionHit {
  id: string;
  reason: SuppressionReason;
}

/** Which of these addresses must not be mailed on this stream, and why. */
export type FindSuppressed = (
  accountId: string,
  stream: string,
  addressKeys: readonly string[],
) => Promise<Map<string, SuppressionHit>>;

/** Looks in batches: what many requests ask at the same time is one statement. */
export function createSuppressionLookUp({ db, clock }: { db: Pick<Database, 'fast'>; clock: Clock }): FindSuppressed {
  const loader = createBatchLoader<SuppressionHit>(
    (questions) => lookUp(db.fast, clock.now(), questions),
    QUESTIONS_AT_ONCE,
  );
  return async (accountId, stream, addressKeys) => {
    const scope = scopeOf(stream);
    const hits = new Map<string, SuppressionHit>();
    const ask = async (key: string): Promise<void> => {
      const hit = await loader.load(JSON.stringify([accountId, key, scope]));
      if (hit !== undefined) hits.set(key, hit);
    };
    await Promise.all(addressKeys.map(ask));
    return hits;
  };
}

const QUESTIONS_AT_ONCE = 500;

/** `questions` are JSON arrays of account, address key and scope. An entry for the whole account goes before one for a stream. */
async function lookUp(db: Connection, now: number, questions: readonly string[]): Promise<Map<string, SuppressionHit>> {
  const hits = await db.all<SuppressionHit & { place: number }>(
    `SELECT q.key AS place, s.id, s.reason FROM json_each(?) AS q
     JOIN suppressions s ON s.account_id = q.value->>0 AND s.address_key = q.value->>1 AND s.scope IN ('account', q.value->>2)
     WHERE s.expires_at IS NULL OR s.expires_at > ? ORDER BY s.scope DESC`,
    [`[${questions.join(',')}]`, now],
  );
  // `account` sorts before `stream:…`, so it comes last here and wins where both are there.
  return new Map(hits.map(({ place, id, reason }) => [questions[place] ?? '', { id, reason }]));
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
