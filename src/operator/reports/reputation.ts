/**
 * The reputation of our mail: outcomes by day and by mailbox provider, the reports of receivers (DMARC and TLS aggregate reports), and what may
 * have changed it: block lists, sites that refuse an address, and changed settings. Any host may send such a report, so it is a hint, not a proof.
 */
import type { Knex } from 'knex';
import { z } from 'zod';
import { each, many, maybe, ofKind, text, time, whole } from '../../api/record-schema.ts';
import { idFloor } from '../../base/id.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import { statTypes, type StatType } from '../../events/stats.ts';
import {
  readSourceDays,
  readStats,
  type StatLine,
  senderKeys,
  statKeys,
  type AnyStatKey,
  type StatsQuery,
} from '../../events/stats-store.ts';
import { sourceWords, type AuditRow, type LimitRow, type ListingRow } from '../../storage/tables.ts';
import { type StoreDeps, storeRoute } from '../server-route.ts';
import { readListings } from '../listings.ts';
import { accountArgument, accountNamed } from '../team/accounts.ts';
import { DAY_MS, dayOf, HOUR_MS } from '../../base/time.ts';

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

/** Mail in the name of a domain that came from one address on one day, as receivers saw it. */
const dmarcReports = {
  table: 'dmarc_rows',
  by: ['domain', 'source_ip', 'org', 'dkim', 'spf', 'disposition'],
  sum: 'count',
} as const;

/** Connections of one organization to us with the same result: empty for success, or the failure of RFC 8460 section 4.3. */
const tlsReports = { table: 'tls_report_rows', by: ['domain', 'org', 'policy', 'result'], sum: 'sessions' } as const;

const counts = z.record(z.enum(shown), whole());
const DayOfMail = z.object({ day: text(), provider: maybe('Null for the sum of all providers.'), counts });

const Moment = z.object({
  at: time(),
  kind: z.enum(['listed', 'unlisted', 'blocked', 'changed']),
  what: text(),
  by: maybe('The person who did it; null if it was not one of ours.'),
});
type Moment = z.infer<typeof Moment>;

const Reputation = ofKind('reputation', {
  ...each(time(), 'since', 'until'),
  ...each(many(DayOfMail), 'days', 'providers'),
  /** Mail from our sources, of which `sent` counts attempts; empty if no sources have names. */
  sources: many(z.object({ ...each(text(), 'day', 'source'), counts })),
  dmarc: many(z.object({ ...each(text(), 'day', ...dmarcReports.by), count: whole() })),
  tls: many(z.object({ ...each(text(), 'day', ...tlsReports.by), sessions: whole() })),
  moments: many(Moment),
  block_lists: many(z.object({ ...each(text(), 'ip', 'list', 'state'), at: time() })),
});

const Stats = ofKind('stats', {
  bucket: z.enum(['hour', 'day', 'total']),
  by: z.enum([...senderKeys, ...statKeys]).nullable(),
  ...each(time(), 'since', 'until'),
  data: many(
    z.object({
      at: time(),
      key: maybe(),
      ...each(text('Of an account, or of a key and the account that it is of.').optional(), 'name', 'account'),
      counts: z.record(z.enum(statTypes), whole()),
    }),
  ),
  simulated: whole('If there is no data: the recipients of simulated mail, which was left out.'),
});

/** The most lines of each kind of report, those with the most mail first. */
const MOST_LINES = 1000;

export const reputationOperations = {
  /** Returns the last `days` days, today included. Lines are in the order of time, newest day last. */
  reputation: storeRoute({
    answer: Reputation,
    scope: 'stats:read',
    forMembers: { server: false },
    body: z.strictObject({
      account: accountArgument,
      days: z.int().min(1).max(400).optional(),
      /** Includes moments that concern the server; only administrators see them. */
      server: z.boolean().optional(),
    }),
    async run(deps, { account, days = 30, server = true }) {
      const read = deps.db.reader;
      const now = deps.clock.now();
      const { id: accountId } = await accountNamed(deps, account);
      const until = Math.ceil((now + 1) / DAY_MS) * DAY_MS;
      const since = until - days * DAY_MS;
      const asked = { accountId, since, until, bucket: 'day', only: {}, test: false } as const;
      const [all, byProvider, bySource, dmarc, tls, happened] = await Promise.all([
        readStats(read, { ...asked, by: null }),
        readStats(read, { ...asked, by: 'provider' }),
        readSourceDays(read, { accountId, since, until }),
        reported(deps, dmarcReports, { accountId, since }),
        reported(deps, tlsReports, { accountId, since }),
        readMoments(deps, { accountId, since: now - days * DAY_MS, server }),
      ]);
      return {
        object: 'reputation' as const,
        since: rfc3339(since),
        until: rfc3339(until),
        days: all.map(dayFrom),
        providers: byProvider.map(dayFrom),
        sources: bySource.map(({ at, key, counts }) => ({
          day: dayOf(at),
          source: key ?? '',
          counts: shownOf(counts),
        })),
        dmarc,
        tls: tls.map((one) => ({ ...one, result: one.result || 'success' })),
        ...happened,
      };
    },
  }),
  /** Returns the hours or days in which something happened; with `by` a line for each, of the whole range. */
  stats: storeRoute({
    answer: Stats,
    body: z.strictObject({
      days: z.int().min(1).max(400).optional(),
      /** In the place of days. */
      hours: z.int().min(1).max(744).optional(),
      by: z.enum([...senderKeys, ...statKeys]).optional(),
      test: z.boolean().optional(),
      account: accountArgument,
    }),
    async run(deps, { days, hours, by = null, test = false, account }) {
      const step = hours === undefined ? DAY_MS : HOUR_MS;
      const until = Math.ceil((deps.clock.now() + 1) / step) * step;
      const asked: StatsQuery<AnyStatKey> = {
        accountId: account === undefined ? null : (await accountNamed(deps, account)).id,
        since: until - (hours ?? days ?? 7) * step,
        until,
        bucket: by !== null ? 'total' : hours === undefined ? 'day' : 'hour',
        by,
        only: {},
        test,
      };
      const found = await readStats(deps.db.reader, asked);
      const lines = found.filter(({ counts }) => Object.values(counts).some((count) => count > 0));
      return {
        object: 'stats' as const,
        bucket: asked.bucket,
        by,
        since: rfc3339(asked.since),
        until: rfc3339(until),
        data: await named(deps, by, lines),
        simulated: lines.length > 0 || test ? 0 : await simulated(deps, asked),
      };
    },
  }),
};

const dayFrom = ({ at, key, counts }: StatLine) => ({ day: dayOf(at), provider: key, counts: shownOf(counts) });

const shownOf = (counts: StatLine['counts']): Record<(typeof shown)[number], number> =>
  Object.fromEntries(shown.map((type) => [type, counts[type]])) as Record<(typeof shown)[number], number>;

/**
 * Matches a domain that the account has proved, its return path, or a parent domain, whose DMARC policy may apply. A domain that another
 * account has proved does not match: an account may have a name below it.
 */
const OF_ACCOUNT = `EXISTS (SELECT 1 FROM domains d WHERE d.account_id = ? AND d.verified_at IS NOT NULL
    AND (d.name = r.domain OR d.return_path = r.domain OR d.name LIKE '%.' || r.domain))
  AND NOT EXISTS (SELECT 1 FROM domains o WHERE o.name = r.domain AND o.status = 'verified' AND o.account_id <> ?)`;

/**
 * Sums the rows of a kind of report by day and by these columns, in the order of time. Reports are for whole days that need not be UTC's: a
 * report counts for the day in which its middle lies.
 */
async function reported<By extends string, Sum extends string>(
  { db }: StoreDeps,
  { table, by, sum }: { table: string; by: readonly By[]; sum: Sum },
  { accountId, since }: { accountId: string; since: number },
) {
  const columns = by.map((name) => `r.${name}`).join(', ');
  const rows = await db.prepared.all<Record<By, string> & { at: number | string; sum: number | string }>(
    `SELECT ${columns}, (r.from_at + r.until_at) / 2 / ${String(DAY_MS)} AS at, SUM(r.${sum}) AS sum FROM ${table} r
     WHERE r.from_at >= ? AND ${OF_ACCOUNT} GROUP BY ${columns}, at ORDER BY sum DESC, ${columns} LIMIT ?`,
    [since - DAY_MS, accountId, accountId, MOST_LINES],
  );
  return rows
    .map(({ at, sum: total, ...row }) => ({ day: dayOf(Number(at) * DAY_MS), ...row, [sum]: Number(total) }))
    .filter(({ day }) => day >= dayOf(since))
    .sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : 0)) as unknown as ({ day: string } & Record<By, string> &
    Record<Sum, number>)[];
}

/** The most moments of a kind. */
const MOST = 200;

/** Returns the moments that may have changed a reputation, in the order of time, and the last answers of block lists. */
async function readMoments(
  { db }: StoreDeps,
  { accountId, since, server }: { accountId: string; since: number; server: boolean },
) {
  const [{ listings, checks }, blocks, changed, ours] = await Promise.all([
    readListings(db, since),
    server ? db.reader<LimitRow>('limits').where('kind', 'block_list').where('since', '>=', since).limit(MOST) : [],
    changesOf(db.reader, accountId, since),
    server ? changesOf(db.reader, null, since) : [],
  ]);
  const moments = [
    ...listings.flatMap((row) => listingMoments(row, since)),
    ...blocks.map(blockMoment),
    ...[...changed, ...ours].map(changeMoment),
  ].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  return { moments, block_lists: checks.map(({ ip, list, state, at }) => ({ ip, list, state, at: rfc3339(at) })) };
}

function listingMoments({ ip, list, since: from, until, codes }: ListingRow, since: number): Moment[] {
  const listed: Moment = { at: rfc3339(from), kind: 'listed', what: `${ip} by ${list} (${codes})`, by: null };
  const over: Moment[] =
    until === null ? [] : [{ at: rfc3339(until), kind: 'unlisted', what: `${ip} by ${list}`, by: null }];
  return from < since && until !== null ? over : [listed, ...over];
}

const blockMoment = ({ source, site, domain, since, cause }: LimitRow): Moment => ({
  at: rfc3339(since),
  kind: 'blocked',
  what: `${sourceWords(source)} by ${site === '' ? 'several sites' : domain === null ? site : `${site} (${domain})`}: ${cause}`,
  by: null,
});

/** Acts of people that may change how mail is taken, by their operations. */
const changes: ReadonlySet<string> = new Set([
  'updateSettings',
  'createDomain',
  'updateDomain',
  'deleteDomain',
  'rotateDomainDkim',
  'createStream',
  'updateStream',
  'deleteStream',
  'accounts.plan',
  'accounts.pause',
  'queue.hold',
  'queue.release',
  'queue.limit',
  'queue.unblock',
]);

/** Reads the small index of acts of people. `accountId` null: acts that concern no account. */
async function changesOf(read: Knex, accountId: string | null, since: number): Promise<AuditRow[]> {
  const query = read<AuditRow>('audit').whereNull('key_id').andWhere('id', '>=', idFloor('aud', since));
  if (accountId === null) query.whereNull('account_id');
  else query.andWhere({ account_id: accountId });
  query.andWhere({ result: 'ok' }).whereIn('operation', [...changes]);
  return await query.orderBy('id', 'desc').limit(MOST);
}

const changeMoment = (row: AuditRow): Moment => ({
  at: rfc3339(row.at),
  kind: 'changed',
  what: row.summary ?? row.endpoint,
  by: row.actor,
});

async function simulated({ db }: Pick<StoreDeps, 'db'>, asked: StatsQuery<AnyStatKey>): Promise<number> {
  const [total] = await readStats(db.reader, { ...asked, by: null, bucket: 'total', test: true });
  return total?.counts.sent ?? 0;
}

/** Adds the names of accounts and keys, and whose keys they are. */
async function named({ db }: Pick<StoreDeps, 'db'>, by: AnyStatKey | null, lines: readonly StatLine[]) {
  const ids = lines.flatMap(({ key }) => (key === null ? [] : [key]));
  const rows =
    by === 'account'
      ? await db.reader('accounts').whereIn('id', ids).select<Named[]>('id', 'name')
      : by === 'key'
        ? await db
            .reader('api_keys as k')
            .join('accounts as a', 'a.id', 'k.account_id')
            .whereIn('k.id', ids)
            .select<Named[]>('k.id as id', 'k.name as name', 'a.name as account')
        : [];
  const names = new Map(rows.map((row) => [row.id, row]));
  return lines.map(({ at, key, counts }) => {
    const row = names.get(key ?? '');
    const { account } = row ?? {};
    return {
      at: rfc3339(at),
      key,
      ...(row === undefined ? {} : { name: row.name }),
      ...(account === undefined ? {} : { account }),
      counts,
    };
  });
}

interface Named {
  id: string;
  name: string;
  account?: string;
}
