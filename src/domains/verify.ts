/**
 * Verifies a domain: looks up its records, compares them, decides the domain's state, writes it, and lets visible DKIM keys
 * sign.
 */
import type { Log } from '../base/log.ts';
import type { DnsAnswer, Resolver } from '../net/resolver.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { DkimKeyRow, DomainRow } from '../storage/tables.ts';
import { compareRecord, zonesOf, type DnsRecord } from './dns-records.ts';
import {
  checkOf,
  lostChecks,
  recordsOf,
  storedChecks,
  type DomainWithKeys,
  type RecordCheck,
} from './domain-record.ts';
import { promoted } from './dkim-key.ts';
import { activateKeys } from './dkim-rotation.ts';
import { endClaims, findDomain, noSuchDomain, type DomainDeps, type DomainRef } from './domain-store.ts';
import { lostText } from './lost-records.ts';
import { checkRecord, type Checked, type Seen } from './record-mistakes.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

export interface VerifyDeps extends DomainDeps {
  resolver: Pick<Resolver, 'txt' | 'mx' | 'a' | 'aaaa' | 'cname'>;
  /** Setting `smtp.hostname`. */
  hostname: string;
  /** The host that domains' tracking hosts lead to; absent or null if they have none. */
  trackingTarget?: string | null;
  /** Setting `domains.grace`: how long a domain keeps sending after it lost a record. */
  graceMs: number;
  /** The log for operators; a command on the database alone has none. */
  log?: Pick<Log, 'info' | 'warn'> | undefined;
}

/** The result of a look-up: what DNS shows, or trouble, which proves nothing. */
type Looked = ({ kind: 'answers' } & Seen) | { kind: 'trouble' };

/** Checks all records now and returns the domain after that. Throws `not_found`. */
export async function verifyDomain(
  deps: VerifyDeps,
  ref: DomainRef,
  alsoInTransaction: RowsFor<DomainWithKeys> = noRows,
): Promise<DomainWithKeys> {
  const domain = await findDomain(deps, ref);
  const asked = recordsOf(domain, deps.hostname, deps.trackingTarget);
  const looked = await Promise.all(asked.map((record) => lookUpWhole(deps, record)));
  const now = deps.clock.now();
  const seen = seenKeys(domain, checksOf(domain.row, asked, looked, now));
  // A key that is seen signs from now on, and the record of the one before it is not required any more.
  const wanted = recordsOf({ ...domain, keys: promoted(domain.keys, seen) }, deps.hostname, deps.trackingTarget);
  const checks = checksOf(domain.row, wanted, looked, now);
  const required = requiredOf(wanted, looked, checks);
  const { before, after } = await deps.db.commit.transact(async (tx) => {
    const before = await currentRow(tx, domain.row.id);
    const found = standingAfter(before, required, { now, graceMs: deps.graceMs });
    const taken = found.status === 'verified' && (await isTaken(tx, before));
    const standing: Standing = taken ? { ...found, status: 'failed', refused_at: before.refused_at } : found;
    const row = await write(tx, before, { checks, standing, now });
    if (row.status === 'verified') await endClaims(tx, row);
    // A rotation may have replaced pending keys while DNS was asked.
    const there = await tx.all<DkimKeyRow>('SELECT * FROM dkim_keys WHERE domain_id = ? ORDER BY id', [domain.row.id]);
    const keys = await activateKeys(tx, there, { seen, now });
    const after = { row, keys, taken: taken || (row.status !== 'verified' && domain.taken === true) };
    await insertRows(tx, [alsoInTransaction(after)]);
    return { before, after };
  });
  deps.changed?.(domain.row.name);
  if (deps.log !== undefined) logChange(deps.log, before, after);
  return after;
}

/** Returns whether another account has already verified the name. */
async function isTaken(tx: Connection, { name, id }: DomainRow): Promise<boolean> {
  const rows = await tx.all(`SELECT 1 FROM domains WHERE name = ? AND status = 'verified' AND id <> ?`, [name, id]);
  return rows.length > 0;
}

/** The comparison of a record with DNS; `unknown` if DNS does not answer. */
export type Found = Checked | { status: 'unknown' };

/** Looks up these records, in their order, and writes nothing. Never rejects because of DNS. */
export function lookUpRecords(deps: Pick<VerifyDeps, 'resolver'>, wanted: readonly DnsRecord[]): Promise<Found[]> {
  return Promise.all(
    wanted.map(async (record) => {
      const looked = await lookUpWhole(deps, record);
      return looked.kind === 'answers' ? checkRecord(record, looked) : { status: 'unknown' };
    }),
  );
}

/** Looks up a record and, if it is not as wanted, the names under which a mistake would have put it. That proves nothing by itself. */
async function lookUpWhole(deps: Pick<VerifyDeps, 'resolver'>, record: DnsRecord): Promise<Looked> {
  const looked = await lookUp(deps, record);
  if (looked.kind === 'trouble') return looked;
  const { status } = compareRecord(record, looked.values);
  if (status === 'ok') return looked;
  const alias = record.type === 'TXT' ? await deps.resolver.cname(record.host, { fresh: true }) : null;
  if (alias?.kind === 'found') return { ...looked, alias: alias.records[0] ?? null };
  return status === 'missing' ? { ...looked, doubledAt: await doubledNameOf(deps, record) } : looked;
}

/** Returns the name with its domain added once more, if the right record is there. */
async function doubledNameOf(deps: Pick<VerifyDeps, 'resolver'>, record: DnsRecord): Promise<string | null> {
  for (const zone of zonesOf(record.host)) {
    const host = `${record.host}.${zone}`;
    const looked = await lookUpAt(deps, { ...record, host });
    if (looked.kind === 'answers' && compareRecord(record, looked.values).status === 'ok') return host;
  }
  return null;
}

async function lookUpText({ resolver }: Pick<VerifyDeps, 'resolver'>, host: string): Promise<Looked> {
  return values(await resolver.txt(host, { fresh: true }));
}

function lookUpAt(deps: Pick<VerifyDeps, 'resolver'>, record: DnsRecord): Promise<Looked> {
  if (record.type === 'MX') return lookUpMx(deps, record.host);
  return record.type === 'CNAME' ? lookUpAlias(deps, record) : lookUpText(deps, record.host);
}

async function lookUp(deps: Pick<VerifyDeps, 'resolver'>, record: DnsRecord): Promise<Looked> {
  const found = await lookUpAt(deps, record);
  if (record.purpose !== 'dmarc' || found.kind === 'trouble' || compareRecord(record, found.values).found !== null)
    return found;
  return lookUpDmarcAbove(deps, record.host);
}

/** A domain without a DMARC record has that of the organization above it (RFC 7489 section 6.6.3): the next name up is tried. */
async function lookUpDmarcAbove(deps: Pick<VerifyDeps, 'resolver'>, host: string): Promise<Looked> {
  const above = host.split('.').slice(2);
  if (above.length < 2) return { kind: 'answers', values: [] };
  return values(await deps.resolver.txt(`_dmarc.${above.join('.')}`, { fresh: true }));
}

/** A host without MX is its own MX of preference 0 (RFC 5321 section 5.1), so a CNAME to our host counts. */
async function lookUpMx({ resolver }: Pick<VerifyDeps, 'resolver'>, host: string): Promise<Looked> {
  const found = await resolver.mx(host, { fresh: true });
  if (found.kind === 'found')
    return { kind: 'answers', values: found.records.map((mx) => `${String(mx.preference)} ${mx.exchange}`) };
  if (found.kind !== 'no_data') return values(found);
  const addresses = await Promise.all([resolver.a(host, { fresh: true }), resolver.aaaa(host, { fresh: true })]);
  const own = addresses.find((answer) => answer.kind === 'found');
  if (own !== undefined) return { kind: 'answers', values: [`0 ${own.name}`] };
  return addresses.some(({ kind }) => kind === 'trouble') ? { kind: 'trouble' } : { kind: 'answers', values: [] };
}

/**
 * The name must lead to us: by an alias, also over others, or by the same addresses. The resolver says which alias was published
 * only if it is asked for it, which an alias that leads nowhere needs.
 */
async function lookUpAlias({ resolver }: Pick<VerifyDeps, 'resolver'>, { host, value }: DnsRecord): Promise<Looked> {
  const addressesOf = (name: string) =>
    Promise.all([resolver.a(name, { fresh: true }), resolver.aaaa(name, { fresh: true })]);
  const own = await addressesOf(host);
  const [first] = own.flatMap((answer) => (answer.kind === 'found' ? [answer] : []));
  if (first === undefined)
    return own.some(({ kind }) => kind === 'trouble')
      ? { kind: 'trouble' }
      : values(await resolver.cname(host, { fresh: true }));
  if (first.name === value) return { kind: 'answers', values: [value] };
  const answers = await addressesOf(value);
  const ours = new Set(answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : [])));
  const isUs = first.records.every((address) => ours.has(address));
  if (!isUs && answers.some(({ kind }) => kind === 'trouble')) return { kind: 'trouble' };
  return { kind: 'answers', values: [isUs ? value : first.name === host ? first.records.join(', ') : first.name] };
}

function values(answer: DnsAnswer<unknown>): Looked {
  if (answer.kind === 'trouble') return { kind: 'trouble' };
  return {
    kind: 'answers',
    values: answer.kind === 'found' ? answer.records.filter((record) => typeof record === 'string') : [],
  };
}

/** Returns the checks; for a record with DNS trouble, the one before. */
function checksOf(row: DomainRow, wanted: readonly DnsRecord[], looked: readonly Looked[], now: number): RecordCheck[] {
  const before = storedChecks(row);
  return wanted.flatMap((record, index) => {
    const found = looked[index];
    if (found?.kind === 'answers') {
      const { purpose, host, required } = record;
      return [{ purpose, host, required, ...checkRecord(record, found), checkedAt: now }];
    }
    const old = checkOf(before, record);
    return old === undefined ? [] : [old];
  });
}

function requiredOf(wanted: readonly DnsRecord[], looked: readonly Looked[], checks: readonly RecordCheck[]): Required {
  const required = wanted.filter((record) => record.required);
  if (required.some((record) => looked[wanted.indexOf(record)]?.kind !== 'answers')) return 'unclear';
  return required.every((record) => checkOf(checks, record)?.status === 'ok') ? 'ok' : 'not_ok';
}

function seenKeys({ row, keys }: DomainWithKeys, checks: readonly RecordCheck[]): Set<string> {
  const hosts = new Set(
    checks.filter(({ purpose, status }) => purpose === 'dkim' && status === 'ok').map(({ host }) => host),
  );
  return new Set(keys.filter(({ selector }) => hosts.has(`${selector}._domainkey.${row.name}`)).map(({ id }) => id));
}

/** Returns the present row: another check may have ended while DNS was asked. */
async function currentRow(tx: Connection, id: string): Promise<DomainRow> {
  const [row] = await tx.all<DomainRow>('SELECT * FROM domains WHERE id = ?', [id]);
  if (row === undefined) throw noSuchDomain();
  return row;
}

async function write(
  tx: Connection,
  before: DomainRow,
  { checks, standing, now }: { checks: readonly RecordCheck[]; standing: Standing; now: number },
): Promise<DomainRow> {
  const { status, failing_since, found_again_at, refused_at, told_at } = standing;
  const verifiedAt = status === 'verified' ? (before.verified_at ?? now) : before.verified_at;
  const [row] = await tx.all<DomainRow>(
    `UPDATE domains SET status = ?, records_json = ?, verified_at = ?, checked_at = ?, failing_since = ?, found_again_at = ?,
       refused_at = ?, told_at = ? WHERE id = ? RETURNING *`,
    [status, JSON.stringify(checks), verifiedAt, now, failing_since, found_again_at, refused_at, told_at, before.id],
  );
  if (row === undefined) throw noSuchDomain();
  return row;
}

function logChange(log: Pick<Log, 'info' | 'warn'>, before: DomainRow, { row: after, taken }: DomainWithKeys): void {
  const { name: domain, account_id, status } = after;
  const lost = lostText(lostChecks(after));
  if (before.status !== status) {
    const fields = { event: 'domain_status', domain, account_id, before: before.status, status };
    if (status === 'verified') log.info(fields, 'a domain is verified');
    else if (taken === true)
      log.warn(fields, 'the name of a domain is verified by another account: mail from it is refused');
    else
      log.warn({ ...fields, lost }, 'a required DNS record of a domain is missing or wrong: mail from it is refused');
  } else if (isCountingDown(after) && !isCountingDown(before)) {
    const fields = { event: 'domain_failing', domain, account_id, lost, until: rfc3339(after.refused_at) };
    log.warn(fields, 'a required DNS record of a domain is missing or wrong: mail from it will be refused');
  } else if (isCountingDown(before) && !isCountingDown(after)) {
    const fields = { event: 'domain_recovered', domain, account_id };
    log.info(fields, 'all required DNS records of a domain are found again');
  }
}

/**
 * Decides how long a verified domain keeps sending after it lost a required DNS record. Pure.
 *
 * The first check that finds a required record missing or wrong starts a countdown. Only a check that still finds it so after
 * the countdown makes the domain `failed`; then its mail is refused. DNS trouble starts and ends nothing.
 *
 * Records that come and go are one failure: the countdown continues, and members are told once, until all records have been
 * found for a whole day. The time between checks counts: while the server was down, or when its clock jumped, the countdown
 * advances by a few hours at most.
 */

/** The state of all required records at a check. */
export type Required = 'ok' | 'not_ok' | 'unclear';

/** The columns of a domain that a check changes. */
export type Standing = Pick<DomainRow, 'status' | 'failing_since' | 'found_again_at' | 'refused_at' | 'told_at'>;

/** Time until a domain that was never verified changes from `pending` to `failed`. It is verified whenever its records appear. */
const PENDING_MS = 72 * HOUR_MS;
/** Time that all required records must be found until a failure is over; the next one then has its own countdown. */
export const STEADY_MS = DAY_MS;
/** The most that a countdown advances between two checks, which are half an hour apart while the server runs. */
export const MOST_UNSEEN_MS = 6 * HOUR_MS;

const NO_FAILURE = { failing_since: null, found_again_at: null, refused_at: null, told_at: null };

/** Returns the columns after a check. `graceMs`: setting `domains.grace`. */
export function standingAfter(
  row: Standing & Pick<DomainRow, 'trusted' | 'created_at' | 'checked_at'>,
  required: Required,
  { now, graceMs }: { now: number; graceMs: number },
): Standing {
  if (row.trusted === 1) return { ...NO_FAILURE, status: 'verified' };
  const { status, found_again_at, told_at } = row;
  const before = {
    status,
    failing_since: adjustedStart(row, now),
    found_again_at,
    refused_at: row.refused_at,
    told_at,
  };
  switch (required) {
    case 'ok':
      return afterFound(before, now);
    case 'unclear':
      return isCountingDown(before) ? { ...before, refused_at: before.failing_since + graceMs } : before;
    case 'not_ok':
      if (status === 'verified') return afterLost(before, now, graceMs);
      return { ...before, found_again_at: null, status: isStillPending(row, now) ? 'pending' : 'failed' };
  }
}

/** Returns whether it is a verified domain that lacks a required record. */
function isCountingDown<S extends Pick<Standing, 'status' | 'failing_since' | 'found_again_at'>>(
  standing: S,
): standing is S & { failing_since: number } {
  const { status, failing_since, found_again_at } = standing;
  return status === 'verified' && failing_since !== null && found_again_at === null;
}

const isStillPending = ({ status, created_at }: Pick<DomainRow, 'status' | 'created_at'>, now: number): boolean =>
  status === 'pending' && now - created_at < PENDING_MS;

function afterFound(before: Standing, now: number): Standing {
  const { failing_since } = before;
  const found_again_at = Math.min(before.found_again_at ?? now, now);
  if (failing_since === null || now - found_again_at >= STEADY_MS) return { ...NO_FAILURE, status: 'verified' };
  return { ...before, status: 'verified', found_again_at, refused_at: null };
}

function afterLost(before: Standing, now: number, graceMs: number): Standing {
  const failing_since = before.failing_since ?? now;
  const endsAt = failing_since + graceMs;
  const isOver = endsAt <= now;
  return {
    ...before,
    status: isOver ? 'failed' : 'verified',
    failing_since,
    found_again_at: null,
    refused_at: isOver ? now : endsAt,
  };
}

/**
 * Returns the start of the failure, moved forward if the time since the last check was too long, or back if the clock was set
 * back.
 */
function adjustedStart(
  { failing_since, checked_at }: Pick<DomainRow, 'failing_since' | 'checked_at'>,
  now: number,
): number | null {
  if (failing_since === null || checked_at === null) return failing_since;
  const passed = now - checked_at;
  return failing_since + passed - Math.min(Math.max(passed, 0), MOST_UNSEEN_MS);
}
