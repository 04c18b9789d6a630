/** Sending domains in the database: added with their DKIM keys, listed, found, their keys rotated. */
import type { Clock } from '../base/clock.ts';
import { isId, newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { Problem } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { DkimKeyRow, DomainRow } from '../storage/tables.ts';
import { makeDkimKeys } from './dkim-key.ts';
import { canonicalName, checkDomainName, refuseCommonNames } from './domain-name.ts';
import type { DomainWithKeys } from './domain-record.ts';

export interface DomainDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  /** Who keeps answers about domains, by name; a command that works on the database alone tells nobody. */
  changed?: (domainName: string) => void;
}

/** Which domain: the operator, who is above accounts, gives `accountId` null. */
export interface DomainRef {
  accountId: string | null;
  nameOrId: string;
}

export interface NewDomain {
  accountId: string;
  name: string;
  /** Verified without DNS, and stays so: for closed networks. */
  trusted?: boolean;
  /** Where bounces go; `rp.<name>` by default. */
  returnPath?: string;
  /** Null or absent: as the account says. */
  trackOpens?: boolean | null | undefined;
  trackClicks?: boolean | null | undefined;
}

/** What of a domain can be changed. A null goes back to the account's own default. */
export interface DomainChanges {
  trackOpens?: boolean | null | undefined;
  trackClicks?: boolean | null | undefined;
  returnPath?: string | undefined;
}

const LONGEST_LIST = 1000;

/** Adds a domain with a pair of DKIM keys. Throws `invalid_field` and `already_exists`. */
export async function addDomain(
  deps: DomainDeps & { keyring: Keyring },
  wish: NewDomain,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<DomainWithKeys> {
  const now = deps.clock.now();
  const row = domainRow(wish, now);
  const keys = await makeDkimKeys(deps, {
    domainId: row.id,
    now,
    state: wish.trusted === true ? 'active' : 'pending',
    taken: [],
  });
  await deps.db.commit.transact(async (tx) => {
    const [same] = await tx.all<Pick<DomainRow, 'account_id'>>(
      `SELECT account_id FROM domains WHERE name = ? AND (account_id = ? OR status = 'verified') LIMIT 1`,
      [row.name, row.account_id],
    );
    if (same !== undefined) throw addedAlready(row, same.account_id === row.account_id);
    if (row.status === 'verified') await endClaims(tx, row);
    await insertRows(tx, [{ domains: [row], dkim_keys: keys }, alsoInTransaction({ row, keys })]);
  });
  deps.changed?.(row.name);
  return { row, keys };
}

function addedAlready({ name }: DomainRow, isOwn: boolean): Problem {
  const why = isOwn
    ? `The domain ${name} was added already. Use the one that is there.`
    : `The domain ${name} is verified by another account of this server. Remove it there first, or ask the operator.`;
  return new Problem('already_exists', why, { field: 'name' });
}

/**
 * Several accounts may claim a name; who shows by DNS that it is theirs has it. The claims of others fail then, and are told so by
 * `taken`. Nothing is deleted: where the name becomes free again they can be verified.
 */
export async function endClaims(tx: Connection, { name, id }: Pick<DomainRow, 'name' | 'id'>): Promise<void> {
  await tx.run(`UPDATE domains SET status = 'failed' WHERE name = ? AND id <> ? AND status = 'pending'`, [name, id]);
}

/** Of several claims of a name, the one that a look-up by name alone means: that of the account that has it, or had it last. */
export const PRINCIPAL_FIRST = `status = 'verified' DESC, verified_at IS NULL, created_at, id`;

/** Throws `not_found`. */
export async function findDomain(
  { db }: Pick<DomainDeps, 'db'>,
  { accountId, nameOrId }: DomainRef,
): Promise<DomainWithKeys> {
  const query = db.reader<DomainRow>('domains');
  // No domain name can look like an id: those have a `_`.
  query.where(isId('dom', nameOrId) ? { id: nameOrId } : { name: canonicalName(nameOrId) });
  if (accountId !== null) query.andWhere({ account_id: accountId });
  const [found] = await withKeys(db, await query.orderByRaw(PRINCIPAL_FIRST).limit(1));
  if (found === undefined) throw noSuchDomain();
  return found;
}

/** Newest first. `status`: only those, e.g. `verified`. `after`: the id of the last one seen. */
export async function listDomains(
  { db }: { db: Pick<DomainDeps['db'], 'reader'> },
  filter: { accountId: string | null; status?: DomainRow['status']; limit: number; after?: string },
): Promise<DomainWithKeys[]> {
  const query = db.reader<DomainRow>('domains');
  if (filter.accountId !== null) query.where({ account_id: filter.accountId });
  if (filter.status !== undefined) query.andWhere({ status: filter.status });
  if (filter.after !== undefined) query.andWhere('id', '<', filter.after);
  return withKeys(db, await query.orderBy('id', 'desc').limit(Math.min(filter.limit, LONGEST_LIST)));
}

/** One page, newest first, from a domain on (its id, exclusive), forwards or backwards. */
export async function pageOfDomains(
  { db }: Pick<DomainDeps, 'db'>,
  page: { accountId: string; status?: DomainRow['status']; limit: number; after?: string; before?: string },
): Promise<{ domains: DomainWithKeys[]; hasMore: boolean }> {
  const { accountId, status, limit, after, before } = page;
  const query = db.reader<DomainRow>('domains').where({ account_id: accountId });
  if (status !== undefined) query.andWhere({ status });
  const { rows, hasMore } = await readPage<DomainRow>(query, { limit, after, before });
  return { domains: await withKeys(db, rows), hasMore };
}

/**
 * Changes tracking and return path. Another return path has other records, so the domain has to be verified again: until
 * its next check it stays what it is. Throws `not_found` and `invalid_field`.
 */
export async function updateDomain(
  deps: DomainDeps,
  ref: DomainRef,
  changes: DomainChanges,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<DomainWithKeys> {
  const { row: before, ...rest } = await findDomain(deps, ref);
  const { trackOpens, trackClicks, returnPath } = changes;
  const row: DomainRow = {
    ...before,
    ...(trackOpens === undefined ? {} : { track_opens: flagOf(trackOpens) }),
    ...(trackClicks === undefined ? {} : { track_clicks: flagOf(trackClicks) }),
    ...(returnPath === undefined ? {} : { return_path: checkDomainName(returnPath, 'return_path') }),
  };
  if (row.return_path !== row.name && !row.return_path.endsWith(`.${row.name}`))
    throw new Problem('invalid_field', `The return path must be ${row.name} or a name below it.`, {
      field: 'return_path',
    });
  const changed = await deps.db.commit.transact(async (tx) => {
    const [found] = await tx.all<DomainRow>(
      'UPDATE domains SET track_opens = ?, track_clicks = ?, return_path = ? WHERE id = ? RETURNING *',
      [row.track_opens, row.track_clicks, row.return_path, row.id],
    );
    if (found === undefined) throw noSuchDomain();
    await insertRows(tx, [alsoInTransaction({ row: found, ...rest })]);
    return found;
  });
  deps.changed?.(row.name);
  return { row: changed, ...rest };
}

/**
 * Removes a domain and its keys. Throws `not_found`, and `invalid_state` while mail from it waits: that mail could not be
 * signed any more.
 */
export async function removeDomain(
  deps: DomainDeps,
  ref: DomainRef,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<void> {
  const domain = await findDomain(deps, ref);
  const { id, account_id: accountId, name } = domain.row;
  await deps.db.commit.transact(async (tx) => {
    // Over what waits, not over the history: the partial index of the queue leads.
    const waiting = await tx.all(
      `SELECT 1 FROM deliveries d JOIN messages m ON m.id = d.message_id
       WHERE d.due_at IS NOT NULL AND m.account_id = ? AND m.from_domain = ? AND d.test = 0 LIMIT 1`,
      [accountId, name],
    );
    if (waiting.length > 0)
      throw new Problem('invalid_state', `Mail from ${name} waits to be delivered: cancel it, or wait for it.`);
    await tx.run('DELETE FROM dkim_keys WHERE domain_id = ?', [id]);
    const removed = await tx.all('DELETE FROM domains WHERE id = ? RETURNING id', [id]);
    if (removed.length === 0) throw noSuchDomain();
    await insertRows(tx, [alsoInTransaction(domain)]);
  });
  deps.changed?.(name);
}

const flagOf = (value: boolean | null): number | null => (value === null ? null : Number(value));
export const noSuchDomain = (): Problem => new Problem('not_found', 'There is no such domain.');

/** The domains of these rows. */
export async function withKeys(
  db: Pick<DomainDeps['db'], 'reader'>,
  rows: readonly DomainRow[],
): Promise<DomainWithKeys[]> {
  if (rows.length === 0) return [];
  const keys = await db
    .reader<DkimKeyRow>('dkim_keys')
    .whereIn(
      'domain_id',
      rows.map(({ id }) => id),
    )
    .orderBy('id');
  const owned = await ownersOf(db, rows);
  return rows.map((row) => ({
    row,
    keys: keys.filter(({ domain_id }) => domain_id === row.id),
    ...(row.status !== 'verified' && owned.has(row.name) ? { taken: true } : {}),
  }));
}

/** Which of these names some account has verified. */
async function ownersOf(db: Pick<DomainDeps['db'], 'reader'>, rows: readonly DomainRow[]): Promise<Set<string>> {
  const claimed = rows.filter(({ status }) => status !== 'verified').map(({ name }) => name);
  if (claimed.length === 0) return new Set();
  const owners = await db.reader<DomainRow>('domains').whereIn('name', claimed).andWhere({ status: 'verified' });
  return new Set(owners.map(({ name }) => name));
}

function domainRow(wish: NewDomain, now: number): DomainRow {
  const { accountId, trusted = false, returnPath, trackOpens = null, trackClicks = null } = wish;
  const name = checkDomainName(wish.name, 'name');
  // What an operator vouches for in a closed network is the operator's business.
  if (!trusted) refuseCommonNames(name);
  return {
    id: newId('dom', now),
    account_id: accountId,
    name,
    status: trusted ? 'verified' : 'pending',
    trusted: trusted ? 1 : 0,
    return_path: checkDomainName(returnPath ?? `rp.${name}`, 'return_path'),
    track_opens: flagOf(trackOpens),
    track_clicks: flagOf(trackClicks),
    records_json: '[]',
    created_at: now,
    verified_at: trusted ? now : null,
    checked_at: null,
    failing_since: null,
    found_again_at: null,
    refused_at: null,
    told_at: null,
  };
}
