/**
 * The rules that remove rows at a fixed age or end, and give the room back that rows have left; retention.ts has those whose age is a setting.
 */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { idFloor } from '../base/id.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, dayOf } from '../base/time.ts';
import type { Config } from '../config/schema.ts';
import { removeRetiredKeys } from '../domains/dkim-rotation.ts';
import { removeOldStats } from '../events/stats-store.ts';
import { purgeSessions } from '../members/session-store.ts';
import type { Database } from '../storage/database.ts';
import { purgeIdempotency } from '../storage/idempotency-store.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';
import { removeEnded } from '../suppressions/suppression-store.ts';
import { purgeDeliveries, purgeOldCalls, purgeOldReplays } from '../webhooks/call-store.ts';
import { whenTrusted, type ClockTrust } from './clock-trust.ts';
import { AIM_MS, type Rule, type Transactor } from './housekeeping.ts';

const AGGREGATES_KEPT_MS = 400 * DAY_MS;
const WEBHOOK_LOG_KEPT_MS = 30 * DAY_MS;
const WARM_UPS_KEPT_MS = 60 * DAY_MS;
const LIMITS_KEPT_MS = 30 * DAY_MS;

export interface OldRowDeps {
  db: Pick<Database, 'engine' | 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  trust: ClockTrust;
  retention: Pick<Config['retention'], 'audit' | 'events'>;
  usedUp: UsedUp;
}

export function oldRowRules({ db, clock, trust, retention, usedUp }: OldRowDeps): Rule[] {
  const rule = (name: string, everyMs: number, step: Rule['step']): Rule => ({ name, everyMs, step });
  const byAge = (name: string, everyMs: number, step: Rule['step']): Rule =>
    whenTrusted(trust, rule(name, everyMs, step));
  const before = (keptMs: number): number => clock.now() - keptMs;
  return [
    // Answers to repeated requests: most of all rows that expire.
    byAge('expired idempotency keys', 10 * MINUTE_MS, (rows, commit) => purgeIdempotency(commit, clock.now(), rows)),
    // Replaced DKIM keys, when no mail signed with them can be in transit any more: a domain has a few a year.
    byAge('retired DKIM keys', HOUR_MS, () => removeRetiredKeys({ db, clock })),
    // Readers already ignore them.
    byAge('ended suppressions', HOUR_MS, (rows, commit) => removeEnded({ db: { commit }, clock }, rows)),
    // Numbers by the hour after a month; later only days can be asked for.
    byAge('old numbers', DAY_MS, (rows, commit) => removeOldStats(commit, clock.now(), rows)),
    byAge('old aggregate reports', DAY_MS, (rows, commit) =>
      removeAggregates(commit, before(AGGREGATES_KEPT_MS), rows),
    ),
    byAge('old limits', HOUR_MS, (rows, commit) => removeLimits(commit, clock.now(), rows)),
    // The counts of warm-ups, after twice the time for which a site is remembered (mta/sources/sources.ts).
    byAge('old warm-ups', DAY_MS, (_rows, commit) => removeWarmUps(commit, dayOf(before(WARM_UPS_KEPT_MS)))),
    // Sign-ins are kept as long as the audit log. While the clock is not trusted only their number is kept within its budget.
    rule('old sessions', HOUR_MS, (rows, commit) =>
      purgeSessions({ db: { commit }, clock, usedUp }, trust.isTrusted() ? before(retention.audit) : 0, rows),
    ),
    byAge('old webhook deliveries', HOUR_MS, (rows, commit) =>
      purgeDeliveries(commit, before(WEBHOOK_LOG_KEPT_MS), rows),
    ),
    // Until then a replay of what failed finds them.
    byAge('old webhook calls', HOUR_MS, (rows, commit) => purgeOldCalls(commit, before(retention.events), rows)),
    byAge('old webhook replays', HOUR_MS, (rows, commit) => purgeOldReplays(commit, before(WEBHOOK_LOG_KEPT_MS), rows)),
    // PostgreSQL cleans up by itself.
    ...(db.engine === 'sqlite' ? [roomRule(db, clock)] : []),
  ];
}

/** Removes aggregate reports (DMARC and TLS) by the time in their id, whatever period they claim to be about. */
function removeAggregates(commit: Transactor, before: number, most: number): Promise<number> {
  const floor = idFloor('rep', before);
  return commit.transact(async (tx) => {
    const gone: number[] = [];
    for (const table of ['dmarc_rows', 'tls_report_rows']) {
      const rows = await tx.all(
        `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE id < ? ORDER BY id LIMIT ?) RETURNING id`,
        [floor, most],
      );
      gone.push(rows.length);
    }
    const known = await tx.all(
      `DELETE FROM aggregate_reports WHERE (${AGGREGATE_KEY}) IN
         (SELECT ${AGGREGATE_KEY} FROM aggregate_reports WHERE report_id < ? ORDER BY report_id LIMIT ?) RETURNING report_id`,
      [floor, most],
    );
    return Math.max(...gone, known.length);
  });
}

/** Removes all at once: a day has as many rows as sources that are warmed up have sites. */
const removeWarmUps = async (commit: Transactor, day: string): Promise<number> =>
  (await commit.transact((tx) => tx.all('DELETE FROM warm_up WHERE day < ? RETURNING day', [day]))).length;

/**
 * Removes what receivers taught (mta/limits/book.ts) when it is too old to hold: a source that no mail has tried at a site begins again there
 * after 30 days; numbers are learnt again within a minute.
 */
async function removeLimits(commit: Transactor, now: number, most: number): Promise<number> {
  const rows = await commit.transact((tx) =>
    tx.all(
      `DELETE FROM limits WHERE id IN (SELECT id FROM limits WHERE changed_at < ? AND CASE
         WHEN set_by = 'operator' THEN ended = 1 OR (until > 0 AND until < ?)
         ELSE changed_at < ? OR kind IN ('rate', 'connections') END LIMIT ?) RETURNING id`,
      [now - DAY_MS, now, now - LIMITS_KEPT_MS, most],
    ),
  );
  return rows.length;
}

/** The share of all pages that may stay free, and at least 8 MiB: the next mail will use them anyway. */
const FREE_SHARE = 0.05;
const LEAST_FREE_PAGES = 2048;
/**
 * Pages moved between two looks at the clock. Most move within 0.1 ms, but one with some hundred children takes 2 to 10 ms, since the
 * file records the parent of each child elsewhere. Such pages come in groups.
 */
const PAGES_AT_ONCE = 2;

/** Returns free pages of SQLite's file to the disk, a few at a time. */
export function roomRule({ prepared }: Pick<Database, 'prepared'>, clock: Clock): Rule {
  return {
    name: 'free pages',
    everyMs: HOUR_MS,
    silent: true,
    async step(most, commit) {
      if ((await sparePages(prepared)) < most) return 0;
      const rows = await commit.transact(async (tx) => {
        const from = clock.monotonic();
        let pages = 0;
        while (pages < most && clock.monotonic() - from < AIM_MS) {
          // SQLite frees one page for each row that is read, so all rows have to be read.
          await tx.all(`PRAGMA incremental_vacuum(${String(PAGES_AT_ONCE)})`);
          pages += PAGES_AT_ONCE;
        }
        return pages;
      });
      return { rows, more: true };
    },
  };
}

async function sparePages(prepared: Database['prepared']): Promise<number> {
  const [pages] = await prepared.all<{ page_count: number }>('PRAGMA page_count');
  const [free] = await prepared.all<{ freelist_count: number }>('PRAGMA freelist_count');
  return (free?.freelist_count ?? 0) - Math.max(LEAST_FREE_PAGES, (pages?.page_count ?? 0) * FREE_SHARE);
}
