/** The rules that remove rows at a fixed age or end, and give the room back that rows have left; retention.ts has those whose age is a setting. */
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { idFloor } from '../base/id.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, dayOf } from '../base/time.ts';
import type { Config } from '../config/schema.ts';
import { removeRetiredKeys } from '../domains/dkim-rotation.ts';
import { removeOldStats } from '../events/stats-store.ts';
import { SESSION_IDLE_MS, SESSION_LIFE_MS } from '../members/session-store.ts';
import type { Database, StoreDeps } from '../storage/database.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';
import { whenTrusted, type ClockTrust } from './clock-trust.ts';
import type { Rule, Transactor } from './housekeeping.ts';

const AGGREGATES_KEPT_MS = 400 * DAY_MS;
const WEBHOOK_LOG_KEPT_MS = 30 * DAY_MS;
const WARM_UPS_KEPT_MS = 60 * DAY_MS;
const LIMITS_KEPT_MS = 30 * DAY_MS;

export interface OldRowDeps extends StoreDeps {
  trust: ClockTrust;
  retention: Pick<Config['retention'], 'audit' | 'events'>;
  usedUp: UsedUp;
}

interface RowsOf {
  table: string;
  /** The columns of its key. */
  key: string;
  where: string;
  /** A part of the table to look for them in; the whole table if absent. */
  within?: string;
}

/** Removes some of the rows; returns how many. `values` are those of the condition. */
async function removeRows(
  commit: Transactor,
  { table, key, where, within = table }: RowsOf,
  values: readonly (number | string)[],
  most: number,
): Promise<number> {
  const sql = `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${within} WHERE ${where} LIMIT ?) RETURNING 1`;
  return (await commit.transact((tx) => tx.all(sql, [...values, most]))).length;
}

/** No index has the times of these lines. */
const OLDEST_CALLS = '(SELECT position, at FROM webhook_deliveries ORDER BY position LIMIT 1000) AS oldest';
/** Failed sign-ins beyond their budget. */
const SURPLUS = `(SELECT id FROM sign_ins WHERE result IN ('refused', 'code_refused')
  ORDER BY id DESC LIMIT 1000 OFFSET ${String(budgets.sign_in_rows.most)}) AS surplus`;
/** A limit that a receiver taught is learnt again within a minute; a source that no mail has tried at a site begins again there after a month. */
const OLD_LIMIT = `changed_at < ? AND CASE WHEN set_by = 'operator' THEN ended = 1 OR (until > 0 AND until < ?)
  ELSE changed_at < ? OR kind IN ('rate', 'connections') END`;

export function oldRowRules({ db, clock, trust, retention, usedUp }: OldRowDeps): Rule[] {
  const byAge = (name: string, everyMs: number, step: Rule['step']): Rule =>
    whenTrusted(trust, { name, everyMs, step });
  const rows = (name: string, everyMs: number, of: RowsOf, values: (now: number) => (number | string)[]): Rule =>
    byAge(name, everyMs, (most, commit) => removeRows(commit, of, values(clock.now()), most));
  /** By the time in the id, whatever period a report claims to be about. */
  const reports = (name: string, table: string, key: string, id: string): Rule =>
    rows(name, DAY_MS, { table, key, where: `${id} < ?` }, (now) => [idFloor('rep', now - AGGREGATES_KEPT_MS)]);
  return [
    // Answers to repeated requests: most of all rows that expire.
    rows(
      'expired idempotency keys',
      10 * MINUTE_MS,
      { table: 'idempotency', key: 'key', where: 'expires_at <= ?' },
      (now) => [now],
    ),
    // Replaced DKIM keys, when no mail signed with them can be in transit any more: a domain has a few a year.
    byAge('retired DKIM keys', HOUR_MS, () => removeRetiredKeys({ db, clock })),
    // Readers already ignore them.
    rows('ended suppressions', HOUR_MS, { table: 'suppressions', key: 'id', where: 'expires_at <= ?' }, (now) => [now]),
    // Numbers by the hour after a month; later only days can be asked for.
    byAge('old numbers', DAY_MS, (most, commit) => removeOldStats(commit, clock.now(), most)),
    reports('old DMARC rows', 'dmarc_rows', 'id', 'id'),
    reports('old TLS report rows', 'tls_report_rows', 'id', 'id'),
    reports('old aggregate reports', 'aggregate_reports', AGGREGATE_KEY, 'report_id'),
    rows('old limits', HOUR_MS, { table: 'limits', key: 'id', where: OLD_LIMIT }, (now) => [
      now - DAY_MS,
      now,
      now - LIMITS_KEPT_MS,
    ]),
    // The counts of warm-ups, after twice the time for which a site is remembered (messages/limits/counts.ts).
    rows(
      'old counts of limits',
      DAY_MS,
      { table: 'limit_counts', key: 'rule, subject, span', where: "span < ? AND (rule <> '~warm-up' OR span < ?)" },
      (now) => [dayOf(now - 2 * DAY_MS), dayOf(now - WARM_UPS_KEPT_MS)],
    ),
    rows(
      'old sessions',
      HOUR_MS,
      { table: 'sessions', key: 'token_hash', where: 'seen_at <= ? OR created_at <= ?' },
      (now) => [now - SESSION_IDLE_MS, now - SESSION_LIFE_MS],
    ),
    rows('old set-up links', HOUR_MS, { table: 'setup_links', key: 'token_hash', where: 'expires_at <= ?' }, (now) => [
      now,
    ]),
    // Sign-ins are kept as long as the audit log. While the clock is not trusted only their number is kept within its budget.
    rows('old sign-ins', HOUR_MS, { table: 'sign_ins', key: 'id', where: 'at < ?' }, (now) => [now - retention.audit]),
    {
      name: 'surplus sign-ins',
      everyMs: HOUR_MS,
      async step(most, commit) {
        const gone = await removeRows(
          commit,
          { table: 'sign_ins', key: 'id', within: SURPLUS, where: 'true' },
          [],
          most,
        );
        if (gone > 0) usedUp('sign_in_rows');
        return gone;
      },
    },
    rows(
      'old webhook deliveries',
      HOUR_MS,
      { table: 'webhook_deliveries', key: 'position', within: OLDEST_CALLS, where: 'at < ?' },
      (now) => [now - WEBHOOK_LOG_KEPT_MS],
    ),
    // Calls that were given up; until then a replay of what failed finds them.
    rows(
      'old webhook calls',
      HOUR_MS,
      { table: 'webhook_calls', key: 'webhook_id, sequence', where: 'due_at IS NULL AND created_at < ?' },
      (now) => [now - retention.events],
    ),
    rows(
      'old webhook replays',
      HOUR_MS,
      { table: 'webhook_replays', key: 'id', where: "id < ? AND status = 'done'" },
      (now) => [idFloor('whr', now - WEBHOOK_LOG_KEPT_MS)],
    ),
    // PostgreSQL cleans up by itself.
    ...(db.engine === 'sqlite' ? [roomRule(db, clock)] : []),
  ];
}

/** The share of all pages that may stay free, and at least 8 MiB: the next mail will use them anyway. */
const FREE_SHARE = 0.05;
const LEAST_FREE_PAGES = 1024;
/**
 * Pages moved between two looks at the clock. Most move within 0.1 ms, but one with some hundred children takes 2 to 10 ms, since the
 * file records the parent of each child elsewhere. Such pages come in groups.
 */
const PAGES_AT_ONCE = 2;
/** The longest time for which a step holds the writer. */
const AIM_MS = 5;

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
