/** API keys in the database: creating, listing, changing and revoking them. Callers are found by callers.ts. */
import { randomBytes } from 'node:crypto';
import { newId } from '../base/id.ts';
import { Problem, notFound } from '../base/problem.ts';
import { sha256Hex } from '../base/secret.ts';
import { DAY_MS } from '../base/time.ts';
import type { Connection, Value } from '../storage/connection.ts';
import { hasAtLeast, readPage } from '../storage/page.ts';
import type { StoreDeps } from '../storage/database.ts';
import { columnsOf, recordOf } from '../storage/record.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import { apiKeys, type ApiKeyRow } from '../storage/tables.ts';
import { usesIn } from './callers.ts';
import { KEY_RANDOM_BYTES, keyPrefix, makeKey } from './key-format.ts';
import { checkKeyChanges, checkNewKey, type KeyChanges, type KeyRequest, type NewKey } from './new-key.ts';

export interface KeyDeps extends StoreDeps {
  /** Clears the caches after changes; resolves when no node uses the old key. A command on the database alone has none. */
  callers?: { forget(publicId: string): Promise<void> };
}

/** Names a key. The operator, who may use all accounts, gives `accountId` null. */
export interface KeyRef {
  accountId: string | null;
  id: string;
}

export interface MadeKeyRow {
  row: ApiKeyRow;
  key: string;
}

/** The key that a new one replaces, and when the old one ends, in milliseconds since the epoch. */
export interface Replacement {
  id: string;
  revokeAt: number;
}

/** Keys of one account, with those that have ended. */
const MOST_KEYS = 10_000;

/**
 * Makes a key; the returned `key` is shown only this once. `createdBy`: `operator` or `key:<name>`. If the account has as many keys as it
 * may, the oldest that has ended is deleted. Throws a Problem: `invalid_state` if none has ended.
 */
export async function createKey(
  deps: KeyDeps,
  request: KeyRequest & { accountId: string; createdBy: string; replaces?: Replacement },
  alsoInTransaction: RowsFor<MadeKeyRow> = noRows,
): Promise<MadeKeyRow> {
  const now = deps.clock.now();
  const checked = checkNewKey(request, now);
  const { key, publicId } = makeKey(checked.mode, randomBytes(KEY_RANDOM_BYTES));
  const row = keyRow(checked, { now, key, publicId, accountId: request.accountId, createdBy: request.createdBy });
  const { accountId, replaces } = request;
  const old = await deps.db.commit.transact(async (tx) => {
    const replaced = replaces === undefined ? undefined : await retire(tx, accountId, replaces);
    await makeRoom(tx, accountId, now);
    await insertRows(tx, [{ api_keys: [row] }, alsoInTransaction({ row, key })]);
    return replaced;
  });
  if (old !== undefined) await deps.callers?.forget(old.public_id);
  return { row, key };
}

async function makeRoom(tx: Connection, accountId: string, now: number): Promise<void> {
  if (!(await hasAtLeast(tx, 'api_keys', accountId, MOST_KEYS))) return;
  const ended = await tx.all(
    `DELETE FROM api_keys WHERE id = (SELECT id FROM api_keys WHERE account_id = ? AND (revoked_at <= ? OR expires_at <= ?) ORDER BY id LIMIT 1)
     RETURNING id`,
    [accountId, now, now],
  );
  if (ended.length === 0)
    throw new Problem('invalid_state', `An account has at most ${String(MOST_KEYS)} API keys. Revoke one first.`);
}

/** Sets the end of a key, given twice; an earlier end stays. */
const ENDS_BY = 'revoked_at = CASE WHEN revoked_at < ? THEN revoked_at ELSE ? END';

async function retire(tx: Connection, accountId: string, { id, revokeAt }: Replacement): Promise<ApiKeyRow> {
  const [row] = await tx.all<ApiKeyRow>(`UPDATE api_keys SET ${ENDS_BY} WHERE id = ? AND account_id = ? RETURNING *`, [
    revokeAt,
    revokeAt,
    id,
    accountId,
  ]);
  if (row === undefined) throw notFound('replaces', 'There is no such key to replace.');
  return row;
}

/** Ends a key at once: when this resolves, no later request with it is accepted. A revoked key is left unchanged. Throws `not_found`. */
export async function revokeKey(
  deps: KeyDeps,
  ref: KeyRef,
  alsoInTransaction: RowsFor<ApiKeyRow> = noRows,
): Promise<ApiKeyRow> {
  const now = deps.clock.now();
  // A key whose end was set for later ends now.
  return change(deps, ref, ENDS_BY, [now, now], alsoInTransaction);
}

/** Changes name, scopes, domains, addresses or end. Throws a Problem. */
export async function updateKey(
  deps: KeyDeps,
  ref: KeyRef,
  changes: KeyChanges,
  alsoInTransaction: RowsFor<ApiKeyRow> = noRows,
): Promise<ApiKeyRow> {
  const { name, scopes, domains, allowedIps: allowed_ips, expiresAt } = checkKeyChanges(changes, deps.clock.now());
  const columns = {
    ...columnsOf(apiKeys, { name, scopes, domains, allowed_ips }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
  const set = ['id = id', ...Object.keys(columns).map((column) => `${column} = ?`)].join(', ');
  return change(deps, ref, set, Object.values(columns), alsoInTransaction);
}

/** Returns a key. Throws `not_found`. */
export async function findKey({ db }: Pick<StoreDeps, 'db'>, { accountId, id }: KeyRef): Promise<ApiKeyRow> {
  const query = db.reader<ApiKeyRow>('api_keys').where({ id });
  if (accountId !== null) query.andWhere({ account_id: accountId });
  const [row] = await query;
  if (row === undefined) throw noSuchKey();
  return row;
}

/** Returns one page, newest first, with revoked keys; from a key on (its id, exclusive), forwards or backwards. */
export async function pageOfKeys(
  { db }: Pick<StoreDeps, 'db'>,
  { accountId, limit, after, before }: { accountId: string; limit: number; after?: string; before?: string },
): Promise<{ rows: ApiKeyRow[]; hasMore: boolean }> {
  const query = db.reader<ApiKeyRow>('api_keys').where({ account_id: accountId });
  return readPage<ApiKeyRow>(query, { limit, after, before });
}

/** Returns the valid keys that a person or key has made in the last month, in all accounts, newest first. */
export const keysMadeBy = async ({ db, clock }: StoreDeps, by: string): Promise<ApiKeyRow[]> =>
  await db
    .reader<ApiKeyRow>('api_keys')
    .where({ created_by: by, revoked_at: null })
    .where('created_at', '>', clock.now() - 30 * DAY_MS)
    .orderBy('id', 'desc')
    .limit(50);

export const keyMembers = recordOf('key', apiKeys);
export type KeyRecord = ReturnType<typeof toKeyRecord>;

/** Returns the record as the API and `--json` show it at this time. */
export function toKeyRecord(row: ApiKeyRow, now: number) {
  return keyMembers(row, { prefix: keyPrefix(row.mode, row.public_id), requests_24h: usesIn(row.uses_json, now) });
}

function keyRow(
  checked: NewKey,
  made: { now: number; key: string; publicId: string; accountId: string; createdBy: string },
): ApiKeyRow {
  return {
    id: newId('key', made.now),
    account_id: made.accountId,
    name: checked.name,
    mode: checked.mode,
    public_id: made.publicId,
    hash: sha256Hex(made.key),
    scopes_json: JSON.stringify(checked.scopes),
    domains_json: JSON.stringify(checked.domains),
    allowed_ips_json: JSON.stringify(checked.allowedIps),
    expires_at: checked.expiresAt,
    created_at: made.now,
    created_by: made.createdBy,
    revoked_at: null,
    last_used_at: null,
    last_used_ip: null,
    last_used_endpoint: null,
    uses_json: '[]',
  };
}

/** `set` is SQL text of this file, never input. */
async function change(
  deps: KeyDeps,
  { accountId, id }: KeyRef,
  set: string,
  values: readonly Value[],
  alsoInTransaction: RowsFor<ApiKeyRow>,
): Promise<ApiKeyRow> {
  const own = accountId === null ? '' : ' AND account_id = ?';
  const row = await deps.db.commit.transact(async (tx: Connection) => {
    const rows = await tx.all<ApiKeyRow>(`UPDATE api_keys SET ${set} WHERE id = ?${own} RETURNING *`, [
      ...values,
      id,
      ...(accountId === null ? [] : [accountId]),
    ]);
    const [changed] = rows;
    if (changed === undefined) throw noSuchKey();
    await insertRows(tx, [alsoInTransaction(changed)]);
    return changed;
  });
  await deps.callers?.forget(row.public_id);
  return row;
}

const noSuchKey = (): Problem => new Problem('not_found', 'There is no such key.');
