/**
 * The reputation of our mail: outcomes by day and by mailbox provider, and the reports of receivers (DMARC and TLS aggregate
 * reports). Any host may send such a report, so it is a hint, not a proof.
 */
import type { Knex } from 'knex';
import { z } from 'zod';
import { rfc3339 } from '../../base/rfc3339.ts';
import { type StatType } from '../../events/stats.ts';
import { readSourceDays, readStats, type StatLine } from '../../events/stats-store.ts';
import { accountArgument, accountNamed } from '../team/accounts.ts';
import { storeRoute } from '../server-route.ts';
import { DAY_MS, dayOf } from '../../base/time.ts';

/** The counts that show a reputation. */
const shown = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'bounced_hard',
  'bounced_block',
  'complained',
] as const satisfies readonly StatType[];

export interface ReputationDay {
  /** `2026-01-31` */
  day: string;
  /** Null for the sum of all providers. */
  provider: string | null;
  counts: Record<(typeof shown)[number], number>;
}

/** Counts of mail from one of our sources, by name; `sent` counts attempts. */
export interface ReputationSourceDay {
  day: string;
  source: string;
  counts: ReputationDay['counts'];
}

/** Mail in the name of a domain that came from one address on one day, as receivers saw it. */
export interface DmarcLine {
  day: string;
  domain: string;
  source_ip: string;
  org: string;
  dkim: string;
  spf: string;
  disposition: string;
  count: number;
}

/** Connections of one organization to us with the same result. */
export interface TlsLine {
  day: string;
  domain: string;
  org: string;
  policy: string;
  /** `success`, or the failure of RFC 8460 section 4.3. */
  result: string;
  sessions: number;
}

export interface ReputationRecord {
  object: 'reputation';
  since: string;
  until: string;
  days: ReputationDay[];
  providers: ReputationDay[];
  /** Empty if no sources have names. */
  sources: ReputationSourceDay[];
  dmarc: DmarcLine[];
  tls: TlsLine[];
}

/** The most lines of each kind of report, those with the most mail first. */
const MOST_LINES = 1000;

export const reputationOperations = {
  reputation: storeRoute({
    scope: 'stats:read',
    body: z.strictObject({ account: accountArgument, days: z.int().min(1).max(400).optional() }),
    async run({ db, clock }, { account, days = 30 }): Promise<ReputationRecord> {
      const { id } = await accountNamed({ db }, account);
      return readReputation(db.reader, { accountId: id, now: clock.now(), days });
    },
  }),
};

/** Reads the last `days` days, today included. Lines are in the order of time, newest day last. */
export async function readReputation(
  read: Knex,
  { accountId, now, days }: { accountId: string; now: number; days: number },
): Promise<ReputationRecord> {
  const until = Math.ceil((now + 1) / DAY_MS) * DAY_MS;
  const since = until - days * DAY_MS;
  const asked = { accountId, since, until, bucket: 'day', only: {}, test: false } as const;
  const [all, byProvider, bySource, dmarc, tls] = await Promise.all([
    readStats(read, { ...asked, by: null }),
    readStats(read, { ...asked, by: 'provider' }),
    readSourceDays(read, { accountId, since, until }),
    dmarcLines(read, accountId, since),
    tlsLines(read, accountId, since),
  ]);
  return {
    object: 'reputation',
    since: rfc3339(since),
    until: rfc3339(until),
    days: all.map(dayFrom),
    providers: byProvider.map(dayFrom),
    sources: bySource.map(({ at, key, counts }) => ({ day: dayOf(at), source: key ?? '', counts: shownOf(counts) })),
    dmarc,
    tls,
  };
}

const dayFrom = ({ at, key, counts }: StatLine): ReputationDay => ({
  day: dayOf(at),
  provider: key,
  counts: shownOf(counts),
});

const shownOf = (counts: StatLine['counts']): ReputationDay['counts'] =>
  Object.fromEntries(shown.map((type) => [type, counts[type]])) as ReputationDay['counts'];

/** Reports are for whole days that need not be UTC's: a report counts for the day in which its middle lies. */
const MIDDLE = '(from_at + until_at) / 2';

async function dmarcLines(read: Knex, accountId: string, since: number): Promise<DmarcLine[]> {
  const rows = (await read('dmarc_rows as r')
    .select({
      domain: 'r.domain',
      source_ip: 'r.source_ip',
      org: 'r.org',
      dkim: 'r.dkim',
      spf: 'r.spf',
      disposition: 'r.disposition',
    })
    .select(read.raw(`${MIDDLE} / ${String(DAY_MS)} as at`))
    .sum({ count: 'r.count' })
    .where('r.from_at', '>=', since - DAY_MS)
    .whereExists(ofAccount(read, accountId))
    .groupBy('r.domain', 'r.source_ip', 'r.org', 'r.dkim', 'r.spf', 'r.disposition', 'at')
    .orderBy([{ column: 'count', order: 'desc' }, { column: 'r.source_ip' }])
    .limit(MOST_LINES)) as (Omit<DmarcLine, 'day' | 'count'> & { at: number | string; count: number | string })[];
  return inOrder(
    rows.map(({ at, count, ...row }) => ({ day: dayOf(Number(at) * DAY_MS), ...row, count: Number(count) })),
    since,
  );
}

async function tlsLines(read: Knex, accountId: string, since: number): Promise<TlsLine[]> {
  const rows = (await read('tls_report_rows as r')
    .select({ domain: 'r.domain', org: 'r.org', policy: 'r.policy', result: 'r.result' })
    .select(read.raw(`${MIDDLE} / ${String(DAY_MS)} as at`))
    .sum({ sessions: 'r.sessions' })
    .where('r.from_at', '>=', since - DAY_MS)
    .whereExists(ofAccount(read, accountId))
    .groupBy('r.domain', 'r.org', 'r.policy', 'r.result', 'at')
    .orderBy([{ column: 'sessions', order: 'desc' }, { column: 'r.domain' }])
    .limit(MOST_LINES)) as (Omit<TlsLine, 'day' | 'sessions'> & { at: number | string; sessions: number | string })[];
  return inOrder(
    rows.map(({ at, sessions, result, ...row }) => ({
      day: dayOf(Number(at) * DAY_MS),
      ...row,
      result: result || 'success',
      sessions: Number(sessions),
    })),
    since,
  );
}

/**
 * Matches a domain that the account has proved, its return path, or a parent domain, whose DMARC policy may apply. A domain that another
 * account has proved does not match: an account may have a name below it.
 */
const ofAccount = (read: Knex, accountId: string): Knex.QueryBuilder =>
  read('domains as d')
    .select(read.raw('1'))
    .where('d.account_id', accountId)
    .whereNotNull('d.verified_at')
    .whereRaw("(d.name = r.domain OR d.return_path = r.domain OR d.name LIKE '%.' || r.domain)")
    .whereNotExists(
      read('domains as o')
        .select(read.raw('1'))
        .whereRaw('o.name = r.domain')
        .andWhere('o.status', 'verified')
        .andWhereNot('o.account_id', accountId),
    );

const inOrder = <Line extends { day: string }>(lines: Line[], since: number): Line[] =>
  lines.filter(({ day }) => day >= dayOf(since)).sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : 0));
