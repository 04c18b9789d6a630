/** The rules that remove rows at a fixed age or end; retention.ts has those whose age is a setting. */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { idFloor } from '../base/id.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, dayOf } from '../base/time.ts';
import { removeRetiredKeys } from '../domains/dkim-rotation.ts';
import type { DomainDeps } from '../domains/domain-store.ts';
import { removeOldStats } from '../events/stats-store.ts';
import { purgeSessions } from '../members/session-store.ts';
import type { Database } from '../storage/database.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';
import { PURGE_STEP, type IdempotencyStore } from '../storage/idempotency-store.ts';
import { removeEnded } from '../suppressions/suppression-store.ts';
import { purgeDeliveries, purgeOldCalls, purgeOldReplays } from '../webhooks/call-store.ts';
import type { ClockTrust } from './clock-trust.ts';
import type { Rule, SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';

/** Rows of one step. */
const STEP = 100;
const AGGREGATES_KEPT_MS = 400 * DAY_MS;
const WEBHOOK_LOG_KEPT_MS = 30 * DAY_MS;
const WARM_UPS_KEPT_MS = 60 * DAY_MS;
const LIMITS_KEPT_MS = 30 * DAY_MS;

/** Removes suppressions whose end has passed; readers already ignore them. */
export function endedSuppressions(deps: Parameters<typeof removeEnded>[0]): Rule {
  return {
    name: 'ended suppressions',
    everyMs: HOUR_MS,
    stepRows: STEP,
    step: () => removeEnded(deps, STEP),
  };
}

/** Removes answers kept for repeated requests after their 24 hours. Most of all rows that expire are these. */
export function expiredIdempotency(deps: { store: Pick<IdempotencyStore, 'purge'>; clock: Clock }): Rule {
  return {
    name: 'expired idempotency keys',
    everyMs: 10 * MINUTE_MS,
    stepRows: PURGE_STEP,
    step: () => deps.store.purge(deps.clock.now()),
  };
}

/**
 * Removes ended sessions and set-up links of the dashboard; sign-ins are kept as long as the audit log. While the clock is not trusted it only
 * keeps their number within its budget.
 */
export function oldSessions(deps: {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
  trust: ClockTrust;
  keptMs: number;
  usedUp: UsedUp;
}): Rule {
  return {
    name: 'old sessions',
    everyMs: HOUR_MS,
    stepRows: STEP,
    step: () => purgeSessions(deps, deps.trust.isTrusted() ? deps.clock.now() - deps.keptMs : 0, STEP),
  };
}

/** Removes numbers by the hour after a month; later only days can be asked for. */
export function oldStats({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old numbers',
    everyMs: DAY_MS,
    stepRows: STEP,
    step: () => removeOldStats(db.commit, clock.now(), STEP),
  };
}

/** Removes aggregate reports (DMARC and TLS) 400 days after they arrived, by the time in their id, whatever period they claim to be about. */
export function oldAggregates({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old aggregate reports',
    everyMs: DAY_MS,
    stepRows: STEP,
    step: () =>
      db.commit.transact(async (tx) => {
        const before = idFloor('rep', clock.now() - AGGREGATES_KEPT_MS);
        const gone: number[] = [];
        for (const table of ['dmarc_rows', 'tls_report_rows']) {
          const rows = await tx.all(
            `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE id < ? ORDER BY id LIMIT ?) RETURNING id`,
            [before, STEP],
          );
          gone.push(rows.length);
        }
        const known = await tx.all(
          `DELETE FROM aggregate_reports WHERE (${AGGREGATE_KEY}) IN
             (SELECT ${AGGREGATE_KEY} FROM aggregate_reports WHERE report_id < ? ORDER BY report_id LIMIT ?) RETURNING report_id`,
          [before, STEP],
        );
        gone.push(known.length);
        return Math.max(...gone);
      }),
  };
}

/** Removes the counts of warm-ups after twice the time for which a site is remembered (mta/sources/warm-up.ts). */
export function oldWarmUps({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old warm-ups',
    everyMs: DAY_MS,
    // One step removes all: a day has as many rows as sources that are warmed up have sites.
    stepRows: Infinity,
    step: () =>
      db.commit.transact(async (tx) => {
        const before = dayOf(clock.now() - WARM_UPS_KEPT_MS);
        return (await tx.all('DELETE FROM warm_up WHERE day < ? RETURNING day', [before])).length;
      }),
  };
}

/**
 * Removes what receivers taught (mta/limits/book.ts) when it is too old to hold: a source that no mail has tried at a site begins again there
 * after 30 days; numbers are learnt again within a minute.
 */
export function oldLimits({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old limits',
    everyMs: HOUR_MS,
    stepRows: STEP,
    step: () =>
      db.commit.transact(async (tx) => {
        const now = clock.now();
        const rows = await tx.all(
          `DELETE FROM limits WHERE id IN (SELECT id FROM limits WHERE changed_at < ? AND CASE
             WHEN set_by = 'operator' THEN ended = 1 OR (until > 0 AND until < ?)
             ELSE changed_at < ? OR kind IN ('rate', 'connections') END LIMIT ?) RETURNING id`,
          [now - DAY_MS, now, now - LIMITS_KEPT_MS, STEP],
        );
        return rows.length;
      }),
  };
}

/** Removes replaced DKIM keys when no mail signed with them can be in transit any more. */
export function retiredKeys(deps: Pick<DomainDeps, 'db' | 'clock'>): Rule {
  return {
    name: 'retired DKIM keys',
    everyMs: HOUR_MS,
    // One step removes all: a domain has a few a year.
    stepRows: Infinity,
    step: () => removeRetiredKeys(deps),
  };
}

/**
 * Removes lines of the webhooks' delivery log and finished replays after 30 days, and calls that were given up when events are (`eventsKeptMs`):
 * until then a replay of what failed finds them.
 */
export function webhookLogRules({
  db,
  clock,
  eventsKeptMs,
}: {
  db: Pick<Database, 'commit'>;
  clock: Clock;
  eventsKeptMs: number;
}): SizedRule[] {
  const rule = (name: string, keptMs: number, purge: typeof purgeDeliveries): SizedRule => ({
    name,
    everyMs: HOUR_MS,
    sizedStep: (rows) => timed({ clock, commit: db.commit }, (commit) => purge(commit, clock.now() - keptMs, rows)),
  });
  return [
    rule('old webhook deliveries', WEBHOOK_LOG_KEPT_MS, purgeDeliveries),
    rule('old webhook calls', eventsKeptMs, purgeOldCalls),
    rule('old webhook replays', WEBHOOK_LOG_KEPT_MS, purgeOldReplays),
  ];
}
