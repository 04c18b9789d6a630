/** Builds housekeeping: the rules of what is deleted when, and of what is checked again. */
import { trackingTargetOf } from '../tracking/host.ts';
import { createClockTrust, whenTrusted } from '../housekeeping/clock-trust.ts';
import { domainChecks } from '../housekeeping/domain-checks.ts';
import { domainNotices } from '../housekeeping/domain-notices.ts';
import { createHousekeeping, type Housekeeping } from '../housekeeping/housekeeping.ts';
import {
  endedSuppressions,
  expiredIdempotency,
  oldAggregates,
  oldSessions,
  oldStats,
  oldLimits,
  oldWarmUps,
  retiredKeys,
  webhookLogRules,
} from '../housekeeping/old-rows.ts';
import { retentionRules } from '../housekeeping/retention.ts';
import { spaceRules } from '../housekeeping/space.ts';
import { listingRule } from '../operator/listings.ts';
import { domainNotice, type AccountNotices } from './notices.ts';
import type { AppContext } from './context.ts';

export async function buildHousekeeping(
  context: AppContext,
  { notices }: { notices: AccountNotices },
): Promise<Housekeeping> {
  const { config, db, clock, log, resolver, nodes } = context;
  const trust = await createClockTrust({ db, clock, log });
  context.idempotency.expireWhile(() => trust.isTrusted());
  return createHousekeeping({ clock, log, isBusy: () => db.commit.waiting > 0, leads: () => nodes.isLeader }, [
    whenTrusted(trust, expiredIdempotency({ store: context.idempotency, clock })),
    whenTrusted(trust, retiredKeys({ db, clock })),
    domainChecks({
      db,
      clock,
      log,
      resolver,
      hostname: config.smtp.hostname,
      trackingTarget: trackingTargetOf(config),
      graceMs: config.domains.grace,
      changed: context.changes.domainChanged,
    }),
    domainNotices({ db, clock, log, notice: domainNotice(notices, config) }),
    listingRule({ db, clock, log, resolver, config, nodes }),
    whenTrusted(trust, endedSuppressions({ db, clock })),
    whenTrusted(trust, oldStats({ db, clock })),
    whenTrusted(trust, oldAggregates({ db, clock })),
    whenTrusted(trust, oldLimits({ db, clock })),
    whenTrusted(trust, oldWarmUps({ db, clock })),
    oldSessions({ db, clock, trust, keptMs: config.retention.audit, usedUp: context.usedUp }),
    ...retentionRules({ db, clock, retention: config.retention }).map((rule) => whenTrusted(trust, rule)),
    ...webhookLogRules({ db, clock, eventsKeptMs: config.retention.events }).map((rule) => whenTrusted(trust, rule)),
    ...spaceRules({ db, clock }),
  ]);
}
