/** The delivery log of webhooks goes after 30 days, and with it what was given up and replays that are done. */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { PURGE_ROWS, purgeDeliveries, purgeOldCalls } from '../webhooks/call-store.ts';
import type { Rule } from './housekeeping.ts';

const KEPT_MS = 30 * 86_400_000;
const HOURLY_MS = 60 * 60_000;

export function webhookLogRules({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule[] {
  const rule = (name: string, step: () => Promise<number>): Rule => ({ name, everyMs: HOURLY_MS, stepRows: PURGE_ROWS, step }); // prettier-ignore
  return [
    rule('old webhook deliveries', () => purgeDeliveries(db.commit, clock.now() - KEPT_MS)),
    rule('old webhook calls', () => purgeOldCalls(db.commit, clock.now() - KEPT_MS)),
  ];
}
