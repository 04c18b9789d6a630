/** Builds housekeeping: the rules of what is deleted when, and of what is checked again. */
import { trackingTargetOf } from '../tracking/host.ts';
import { createClockTrust, whenTrusted } from '../housekeeping/clock-trust.ts';
import { domainChecks, domainNotices } from '../housekeeping/domain-checks.ts';
import { createHousekeeping, type Housekeeping } from '../housekeeping/housekeeping.ts';
import { oldRowRules } from '../housekeeping/old-rows.ts';
import { retentionRules } from '../housekeeping/retention.ts';
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
  const { commit } = db;
  const leads = (): boolean => nodes.isLeader;
  return createHousekeeping({ clock, log, commit, isBusy: () => commit.waiting > 0, leads }, [
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
    ...oldRowRules({ db, clock, trust, retention: config.retention, usedUp: context.usedUp }),
    ...retentionRules({ db, clock, retention: config.retention }).map((rule) => whenTrusted(trust, rule)),
  ]);
}
