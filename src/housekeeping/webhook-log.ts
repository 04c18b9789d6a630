/** Removes lines of the webhooks' delivery log, calls that were given up and finished replays after 30 days. */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { purgeDeliveries, purgeOldCalls } from '../webhooks/call-store.ts';
import type { SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';

const KEPT_MS = 30 * 86_400_000;
const HOURLY_MS = 60 * 60_000;

export function webhookLogRules({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): SizedRule[] {
  const rule = (name: string, purge: typeof purgeDeliveries): SizedRule => ({
    name,
    everyMs: HOURLY_MS,
    sizedStep: (rows) => timed({ clock, commit: db.commit }, (commit) => purge(commit, clock.now() - KEPT_MS, rows)),
  });
  return [rule('old webhook deliveries', purgeDeliveries), rule('old webhook calls', purgeOldCalls)];
}
