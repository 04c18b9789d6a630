/** How long finished things are kept: the settings `retention.*`, and for bodies and messages what an account asks for itself. */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config/schema.ts';
import { PURGE_ROWS, purgeAudit, purgeContents, purgeEvents, purgeMessages, purgeReports } from '../messages/purge.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

export interface RetentionDeps {
  db: Pick<Database, 'commit' | 'fast'>;
  clock: Clock;
  retention: Config['retention'];
}

const HOURLY_MS = 60 * 60_000;
const DAY_MS = 86_400_000;

export function retentionRules(deps: RetentionDeps): Rule[] {
  const { db, clock, retention } = deps;
  const rule = (name: string, step: () => Promise<number>): Rule => ({ name, everyMs: HOURLY_MS, stepRows: PURGE_ROWS, step }); // prettier-ignore
  return [
    rule('old bodies', () =>
      forAccounts(deps, 'content_days', retention.content, (id, before) => purgeContents(db.commit, id, before)),
    ),
    rule('old messages', () =>
      forAccounts(deps, 'messages_days', retention.messages, (id, before) =>
        purgeMessages(db.commit, id, before, clock.now()),
      ),
    ),
    rule('old events', () => purgeEvents(db.commit, clock.now() - retention.events)),
    rule('old reports', () => purgeReports(db.commit, clock.now() - retention.reports)),
    rule('old audit lines', () => purgeAudit(db.commit, clock.now() - retention.audit)),
  ];
}

/** One step for the first account that has something to go. An account may keep things for less long than the server, not longer. */
async function forAccounts(
  { db, clock }: RetentionDeps,
  setting: 'content_days' | 'messages_days',
  keptMs: number,
  purge: (accountId: string, before: number) => Promise<number>,
): Promise<number> {
  const accounts = await db.fast.all<{ id: string; days: number | null }>(
    `SELECT a.id, s.${setting} AS days FROM accounts a LEFT JOIN account_settings s ON s.account_id = a.id`,
  );
  let gone = 0;
  for (const { id, days } of accounts) {
    gone = await purge(id, clock.now() - Math.min(keptMs, days === null ? Infinity : days * DAY_MS));
    if (gone > 0) return gone < PURGE_ROWS ? PURGE_ROWS : gone;
  }
  return gone;
}
