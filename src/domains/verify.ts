/** Verifies a domain: looks up its records, compares them, decides the domain's state, writes it, and lets visible DKIM keys sign. */
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
import { HOUR_MS } from '../base/time.ts';

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
  const looked = await Promise.all(asked.map((record) => lookUpWhole(deps.resolver, record)));
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

type Dns = VerifyDeps['resolver'];
const fresh = { fresh: true };

/** Looks up these records, in their order, and writes nothing. Never rejects because of DNS. */
export function lookUpRecords({ resolver }: { resolver: Dns }, wanted: readonly DnsRecord[]): Promise<Found[]> {
  return Promise.all(
    wanted.map(async (record) => {
      const looked = await lookUpWhole(resolver, record);
      return looked.kind === 'answers' ? checkRecord(record, looked) : { status: 'unknown' };
    }),
  );
}

/** Looks up a record and, if it is not as wanted, the names under which a mistake would have put it. That proves nothing by itself. */
async function lookUpWhole(dns: Dns, record: DnsRecord): Promise<Looked> {
  const looked = await lookUp(dns, record);
  if (looked.kind === 'trouble') return looked;
  const { status } = compareRecord(record, looked.values);
  if (status === 'ok') return looked;
  const alias = record.type === 'TXT' ? await dns.cname(record.host, fresh) : null;
  if (alias?.kind === 'found') return { ...looked, alias: alias.records[0] ?? null };
  return status === 'missing' ? { ...looked, doubledAt: await doubledNameOf(dns, record) } : looked;
}

/** Returns the name with its domain added once more, if the right record is there. */
async function doubledNameOf(dns: Dns, record: DnsRecord): Promise<string | null> {
  for (const zone of zonesOf(record.host)) {
    const host = `${record.host}.${zone}`;
    const looked = await lookUp(dns, { ...record, host });
    if (looked.kind === 'answers' && compareRecord(record, looked.values).status === 'ok') return host;
  }
  return null;
}

async function lookUp(dns: Dns, record: DnsRecord): Promise<Looked> {
  if (record.type === 'MX') return lookUpMx(dns, record.host);
  if (record.type === 'CNAME') return lookUpAlias(dns, record);
  const found = values(await dns.txt(record.host, fresh));
  if (record.purpose !== 'dmarc' || found.kind === 'trouble' || compareRecord(record, found.values).found !== null)
    return found;
  // A domain without a DMARC record has that of the organization above it (RFC 7489 section 6.6.3): the next name up is tried.
  const above = record.host.split('.').slice(2);
  return above.length < 2 ? { kind: 'answers', values: [] } : values(await dns.txt(`_dmarc.${above.join('.')}`, fresh));
}

/** A host without MX is its own MX of preference 0 (RFC 5321 section 5.1), so a CNAME to our host counts. */
async function lookUpMx(dns: Dns, host: string): Promise<Looked> {
  const found = await dns.mx(host, fresh);
  if (found.kind === 'found')
    return { kind: 'answers', values: found.records.map((mx) => `${String(mx.preference)} ${mx.exchange}`) };
  if (found.kind !== 'no_data') return values(found);
  const addresses = await Promise.all([dns.a(host, fresh), dns.aaaa(host, fresh)]);
  const own = addresses.find((answer) => answer.kind === 'found');
  if (own !== undefined) return { kind: 'answers', values: [`0 ${own.name}`] };
  return addresses.some(({ kind }) => kind === 'trouble') ? { kind: 'trouble' } : { kind: 'answers', values: [] };
}

/** The name must lead to us: by an alias, also over others, or by the same addresses. The target of an alias that leads nowhere has to be asked for. */
async function lookUpAlias(dns: Dns, { host, value }: DnsRecord): Promise<Looked> {
  const addressesOf = (name: string) => Promise.all([dns.a(name, fresh), dns.aaaa(name, fresh)]);
  const own = await addressesOf(host);
  const [first] = own.flatMap((answer) => (answer.kind === 'found' ? [answer] : []));
  if (first === undefined)
    return own.some(({ kind }) => kind === 'trouble') ? { kind: 'trouble' } : values(await dns.cname(host, fresh));
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
  const { status, failing_since, refused_at } = standing;
  const verifiedAt = status === 'verified' ? (before.verified_at ?? now) : before.verified_at;
  const [row] = await tx.all<DomainRow>(
    `UPDATE domains SET status = ?, records_json = ?, verified_at = ?, checked_at = ?, failing_since = ?, refused_at = ?
     WHERE id = ? RETURNING *`,
    [status, JSON.stringify(checks), verifiedAt, now, failing_since, refused_at, before.id],
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

export type Required = 'ok' | 'not_ok' | 'unclear';

type Standing = Pick<DomainRow, 'status' | 'failing_since' | 'refused_at'>;

/** Time until a domain that was never verified changes from `pending` to `failed`. It is verified whenever its records appear. */
const PENDING_MS = 72 * HOUR_MS;

/**
 * Returns the columns after a check. The first one that misses a required record of a verified domain starts a countdown of `graceMs`
 * (`domains.grace`); one that does so after it makes the domain `failed`. DNS trouble starts and ends nothing.
 */
export function standingAfter(
  row: Standing & Pick<DomainRow, 'trusted' | 'created_at'>,
  required: Required,
  { now, graceMs }: { now: number; graceMs: number },
): Standing {
  const { status, failing_since, refused_at } = row;
  if (row.trusted === 1 || required === 'ok') return { status: 'verified', failing_since: null, refused_at: null };
  const isMissing = required === 'not_ok';
  if (status !== 'verified') {
    const isGivenUp = isMissing && !(status === 'pending' && now - row.created_at < PENDING_MS);
    return { status: isGivenUp ? 'failed' : status, failing_since, refused_at };
  }
  const since = failing_since ?? (isMissing ? now : null);
  if (since === null) return { status, failing_since, refused_at };
  const endsAt = since + graceMs;
  const isOver = isMissing && endsAt <= now;
  return { status: isOver ? 'failed' : 'verified', failing_since: since, refused_at: isOver ? now : endsAt };
}

const isCountingDown = ({ status, failing_since }: Standing): boolean =>
  status === 'verified' && failing_since !== null;
