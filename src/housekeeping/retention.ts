/** How long finished things are kept: the settings `retention.*`, and for bodies, messages and events what an account asks for itself. */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config/schema.ts';
import {
  purgeAudit,
  purgeContents,
  purgeEvents,
  purgeEventsOf,
  purgeMessages,
  purgeReports,
} from '../messages/purge.ts';
import type { Database } from '../storage/database.ts';
import type { SizedRule } from './housekeeping.ts';
import { timed, type Timed, type Transactor } from './timed.ts';

export interface RetentionDeps {
  db: Pick<Database, 'commit' | 'fast'>;
  clock: Clock;
  retention: Config['retention'];
}

const HOURLY_MS = 60 * 60_000;
const DAY_MS = 86_400_000;

export function retentionRules(deps: RetentionDeps): SizedRule[] {
  const { db, clock, retention } = deps;
  const rule = (name: string, sizedStep: SizedRule['sizedStep']): SizedRule => ({
    name,
    everyMs: HOURLY_MS,
    sizedStep,
  });
  const old = (name: string, keptMs: number, purge: typeof purgeEvents): SizedRule =>
    rule(name, (most) => timed({ clock, commit: db.commit }, (commit) => purge(commit, clock.now() - keptMs, most)));
  return [
    rule('old bodies', (most) =>
      forAccounts(deps, { setting: 'content_days', keptMs: retention.content, most }, (commit, id, before) =>
        purgeContents(commit, id, before, most),
      ),
    ),
    rule('old messages', (most) =>
      forAccounts(deps, { setting: 'messages_days', keptMs: retention.messages, most }, (commit, id, before) =>
        purgeMessages(commit, id, { before, now: clock.now(), most }),
      ),
    ),
    old('old events', retention.events, purgeEvents),
    rule('old events of accounts', (most) =>
      forAccounts(deps, { setting: 'events_days', keptMs: null, most }, (commit, id, before) =>
        purgeEventsOf(commit, id, before, most),
      ),
    ),
    old('old reports', retention.reports, purgeReports),
    old('old audit lines', retention.audit, purgeAudit),
  ];
}

/**
 * One step for the first account that has something to go. An account may keep things for less long than the server, not longer.
 * `keptMs` null: of the server's own time another rule takes care.
 */
async function forAccounts(
  { db, clock }: RetentionDeps,
  {
    setting,
    keptMs,
    most,
  }: { setting: 'content_days' | 'messages_days' | 'events_days'; keptMs: number | null; most: number },
  purge: (commit: Transactor, accountId: string, before: number) => Promise<number>,
): Promise<Timed> {
  const accounts = await db.fast.all<{ id: string; days: number | null }>(
    `SELECT a.id, s.${setting} AS days FROM accounts a LEFT JOIN account_settings s ON s.account_id = a.id
     WHERE ${keptMs === null ? `s.${setting} IS NOT NULL` : 'true'}`,
  );
  for (const { id, days } of accounts) {
    const before = clock.now() - Math.min(keptMs ?? Infinity, days === null ? Infinity : days * DAY_MS);
    const { rows, ms } = await timed({ clock, commit: db.commit }, (commit) => purge(commit, id, before));
    // What is left of this account, and the next one, are for the step after this.
    if (rows > 0) return { rows: most, ms };
  }
  return { rows: 0, ms: 0 };
}
