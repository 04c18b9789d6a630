/** Sending domains in the database: adding, finding, listing, changing and removing them. */
import type { Clock } from '../base/clock.ts';
import { isId, newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { Problem, invalid } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import { readPage, type PagePart } from '../storage/page.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import { columnsOf } from '../storage/record.ts';
import { domains, type DkimKeyRow, type DomainRow } from '../storage/tables.ts';
import { makeDkimKeys } from './dkim-key.ts';
import type { DomainWithKeys } from './domain-record.ts';
import { parse } from 'tldts';
import { isProviderDomain } from '../base/mailbox-providers.ts';
import { parseMailbox } from '../mail/address.ts';

export interface DomainDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  /** Is called with the name of a changed domain, to clear caches; a command on the database alone has none. */
  changed?: (domainName: string) => void;
}

/** Names a domain. The operator, who may use all accounts, gives `accountId` null. */
export interface DomainRef {
  accountId: string | null;
  nameOrId: string;
}

export interface NewDomain {
  accountId: string;
  name: string;
  /** True for a domain that is verified without DNS: for closed networks. */
  trusted?: boolean;
  /** The return path; `rp.<name>` by default. */
  returnPath?: string;
  /** Null or absent means the account's setting. */
  trackOpens?: boolean | null | undefined;
  trackClicks?: boolean | null | undefined;
}

export interface DomainChanges {
  track_opens?: boolean | null | undefined;
  track_clicks?: boolean | null | undefined;
  return_path?: string | undefined;
  receiving?: boolean | undefined;
  receiving_addresses?: string[] | undefined;
}

/** Domains of one account: each is checked again and again. Those that are trusted are not, so they do not count. */
const MOST_DOMAINS = 1000;

/** Adds a domain with a pair of DKIM keys. Throws `invalid_field`, `already_exists` and `invalid_state`. */
export async function addDomain(
  deps: DomainDeps & { keyring: Keyring },
  input: NewDomain,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<DomainWithKeys> {
  const now = deps.clock.now();
  const row = domainRow(input, now);
  const keys = await makeDkimKeys(deps, {
    domainId: row.id,
    now,
    state: input.trusted === true ? 'active' : 'pending',
    taken: [],
  });
  await deps.db.commit.transact(async (tx) => {
    const [same] = await tx.all<Pick<DomainRow, 'account_id'>>(
      `SELECT account_id FROM domains WHERE name = ? AND (account_id = ? OR status = 'verified') LIMIT 1`,
      [row.name, row.account_id],
    );
    if (same !== undefined) throw alreadyAdded(row, same.account_id === row.account_id);
    if (row.trusted === 0) await refuseTooMany(tx, row);
    if (row.status === 'verified') await endClaims(tx, row);
    await insertRows(tx, [{ domains: [row], dkim_keys: keys }, alsoInTransaction({ row, keys })]);
  });
  deps.changed?.(row.name);
  return { row, keys };
}

async function refuseTooMany(tx: Connection, { account_id: accountId }: DomainRow): Promise<void> {
  const there = await tx.all('SELECT id FROM domains WHERE account_id = ? AND trusted = 0 LIMIT ?', [
    accountId,
    MOST_DOMAINS,
  ]);
  if (there.length >= MOST_DOMAINS)
    throw new Problem('invalid_state', `An account has at most ${String(MOST_DOMAINS)} domains. Remove one first.`);
}

function alreadyAdded({ name, trusted }: DomainRow, isOwn: boolean): Problem {
  const howToTrust =
    trusted === 1
      ? ' To trust it without DNS, remove it first (`DELETE /v1/domains/{id}`, or its page in the dashboard).'
      : '';
  const why = isOwn
    ? `The domain ${name} was already added. Use that one.${howToTrust}`
    : `The domain ${name} is verified by another account of this server. Remove it there first, or ask the operator.`;
  return new Problem('already_exists', why, { field: 'name' });
}

/** Ends the claims of other accounts when one has proved by DNS that the name is its own: `failed`, to be verified when it is free again. */
export async function endClaims(tx: Connection, { name, id }: Pick<DomainRow, 'name' | 'id'>): Promise<void> {
  await tx.run(`UPDATE domains SET status = 'failed' WHERE name = ? AND id <> ? AND status = 'pending'`, [name, id]);
}

/** SQL order of the claims of a name: the account that has verified it, or had it last, comes first. */
export const PRINCIPAL_FIRST = `status = 'verified' DESC, verified_at IS NULL, created_at, id`;

/** Returns a domain by name or id. Throws `not_found`. */
export async function findDomain(
  { db }: Pick<DomainDeps, 'db'>,
  { accountId, nameOrId }: DomainRef,
): Promise<DomainWithKeys> {
  const query = db.reader<DomainRow>('domains');
  // A domain name cannot look like an id: ids have a `_`.
  query.where(isId('dom', nameOrId) ? { id: nameOrId } : { name: canonicalName(nameOrId) });
  if (accountId !== null) query.andWhere({ account_id: accountId });
  const [found] = await withKeys(db, await query.orderByRaw(PRINCIPAL_FIRST).limit(1));
  if (found === undefined) throw noSuchDomain();
  return found;
}

/** Returns one page, newest first, from a domain on (its id, exclusive), forwards or backwards; of all accounts if `accountId` is null. */
export async function pageOfDomains(
  { db }: { db: Pick<Database, 'reader'> },
  page: PagePart & { accountId: string | null; status?: DomainRow['status'] },
): Promise<{ domains: DomainWithKeys[]; hasMore: boolean }> {
  const { accountId, status, ...part } = page;
  const query = db.reader<DomainRow>('domains');
  if (accountId !== null) query.where({ account_id: accountId });
  if (status !== undefined) query.andWhere({ status });
  const { rows, hasMore } = await readPage<DomainRow>(query, part);
  return { domains: await withKeys(db, rows), hasMore };
}

/** Changes a domain. With another return path it keeps its status until its next check. Throws `not_found` and `invalid_field`. */
export async function updateDomain(
  deps: DomainDeps,
  ref: DomainRef,
  changes: DomainChanges,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<DomainWithKeys> {
  const { row: before, ...rest } = await findDomain(deps, ref);
  const { name, id } = before;
  const { return_path: host } = changes;
  const columns = columnsOf(domains, {
    ...changes,
    return_path: host === undefined ? host : checkReturnPath(name, host),
    receiving_addresses: changes.receiving_addresses && uniquePatterns(changes.receiving_addresses),
  });
  const changed = await deps.db.commit.transact(async (tx) => {
    // Another change may have been made since the row was read.
    const [found] = await tx.all<DomainRow>('SELECT * FROM domains WHERE id = ?', [id]);
    if (found === undefined) throw noSuchDomain();
    const row: DomainRow = { ...found, ...columns };
    await tx.run(
      'UPDATE domains SET track_opens = ?, track_clicks = ?, return_path = ?, receiving = ?, receiving_addresses_json = ? WHERE id = ?',
      [row.track_opens, row.track_clicks, row.return_path, row.receiving, row.receiving_addresses_json, id],
    );
    await insertRows(tx, [alsoInTransaction({ row, ...rest })]);
    return row;
  });
  deps.changed?.(name);
  return { row: changed, ...rest };
}

/** Removes a domain and its keys. Throws `not_found`, and `invalid_state` while mail from it waits, which could not be signed any more. */
export async function removeDomain(
  deps: DomainDeps,
  ref: DomainRef,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<void> {
  const domain = await findDomain(deps, ref);
  const { id, account_id: accountId, name } = domain.row;
  await deps.db.commit.transact(async (tx) => {
    // The partial index of the queue limits this to waiting mail.
    const waiting = await tx.all(
      `SELECT 1 FROM deliveries d JOIN messages m ON m.id = d.message_id
       WHERE d.due_at IS NOT NULL AND m.account_id = ? AND m.from_domain = ? AND d.test = 0 LIMIT 1`,
      [accountId, name],
    );
    if (waiting.length > 0)
      throw new Problem(
        'invalid_state',
        `Mail from ${name} waits to be delivered. Cancel it, or wait until it is sent.`,
      );
    await tx.run('DELETE FROM dkim_keys WHERE domain_id = ?', [id]);
    const removed = await tx.all('DELETE FROM domains WHERE id = ? RETURNING id', [id]);
    if (removed.length === 0) throw noSuchDomain();
    await insertRows(tx, [alsoInTransaction(domain)]);
  });
  deps.changed?.(name);
}

/** Local parts are compared without regard to case; `*` makes the others superfluous. */
function uniquePatterns(patterns: readonly string[]): string[] {
  const unique = [...new Set(patterns.map((one) => one.toLowerCase()))];
  return unique.includes('*') ? ['*'] : unique;
}

const flagOf = (value: boolean | null): number | null => (value === null ? null : Number(value));
export const noSuchDomain = (): Problem => new Problem('not_found', 'There is no such domain.');

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

/** Returns which of these names an account has verified. */
async function ownersOf(db: Pick<DomainDeps['db'], 'reader'>, rows: readonly DomainRow[]): Promise<Set<string>> {
  const claimed = rows.filter(({ status }) => status !== 'verified').map(({ name }) => name);
  if (claimed.length === 0) return new Set();
  const owners = await db.reader<DomainRow>('domains').whereIn('name', claimed).andWhere({ status: 'verified' });
  return new Set(owners.map(({ name }) => name));
}

/** Returns the return path as A-labels in lower case. Throws `invalid_field` for one that is not the domain's own. */
export function checkReturnPath(domainName: string, text: string): string {
  const name = checkDomainName(domainName, 'name');
  const returnPath = checkDomainName(text, 'return_path');
  if (returnPath === name || returnPath.endsWith(`.${name}`)) return returnPath;
  throw invalid('return_path', `The return path must be ${name} or a name below it.`);
}

function domainRow(input: NewDomain, now: number): DomainRow {
  const { accountId, trusted = false, returnPath, trackOpens = null, trackClicks = null } = input;
  const name = checkDomainName(input.name, 'name');
  // Names that an operator trusts in a closed network are not restricted.
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
    receiving: 0,
    receiving_addresses_json: '["*"]',
    created_at: now,
    verified_at: trusted ? now : null,
    checked_at: null,
    failing_since: null,
    refused_at: null,
    told_at: null,
  };
}

/** Returns the name as A-labels in lower case, if it is valid after the `@` of a sender. Throws `invalid_field`. */
function checkDomainName(text: string, field: string): string {
  // The check below would take the text before the @ for a part of an address.
  if (text.includes('@')) throw invalid(field, 'This is not a domain name: it has an @. Give what comes after it.');
  // White space at its end would be cut, and not that at its beginning.
  if (/\s/.test(text)) throw invalid(field, 'This is not a domain name: it has white space.');
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  if (parsed.kind === 'bad') throw invalid(field, `This is not a domain name: ${parsed.why}.`);
  return parsed.mailbox.domain;
}

/** Refuses names under which many people have addresses: public suffixes and mailbox providers. Throws `invalid_field`. */
function refuseCommonNames(name: string): void {
  const { publicSuffix, isIcann } = parse(name, { allowPrivateDomains: false });
  if (publicSuffix === name && isIcann === true)
    throw invalid(
      'name',
      `${name} is a public suffix, under which others register their domains. Add your own domain.`,
    );
  if (isProviderDomain(name))
    throw invalid(
      'name',
      `${name} is the domain of a mailbox provider, and only the provider can send from it. Add your own domain.`,
    );
}

/** Returns the name as the database has it, or the text itself if it is not a name. */
function canonicalName(text: string): string {
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  return parsed.kind === 'ok' ? parsed.mailbox.domain : text;
}

const withoutFinalDot = (name: string): string => (name.endsWith('.') ? name.slice(0, -1) : name);
