/** Builds the dependencies of acceptance, which the API, submission and the command line share. */
import { createGate } from '../scheduling/gate.ts';
import { createSuppressionLookUp } from '../suppressions/suppression-store.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { createTrackingRule } from '../messages/request/tracking-rule.ts';
import { trackingBase } from '../tracking/host.ts';
import type { AppContext } from './context.ts';

/** Acceptances written at once: enough to fill a grouped commit, few compared with the deliveries that wait for the same writer. */
const MOST_ACCEPTED_AT_ONCE = 128;
/** Acceptances that may wait; a client beyond them should try again in a second. */
const MOST_WAITING_TO_BE_ACCEPTED = 1024;

/** The quota of a plan that was removed: it allows no requests, so nothing is counted. */
const NO_QUOTA = { mailsPerDay: null, mailsPerMonth: null };

export function buildAccept(context: AppContext): AcceptDeps {
  const { config, db, clock, notifiers, streams, directory, disk, quotas, planOf } = context;
  return {
    commit: db.commit,
    clock,
    notifiers,
    findStream: (accountId, slug) => streams.find(accountId, slug),
    trackingRule: createTrackingRule({ accounts: context.accountTracking, directory, baseOf: trackingBase(config) }),
    isVerified: (accountId, domain) => directory.isVerified(accountId, domain),
    whyRefused: (accountId, domain) => directory.whyRefused(accountId, domain),
    findSuppressed: createSuppressionLookUp({ db, clock }),
    hasRoom: () => disk.hasRoom(),
    intake: createGate({ most: MOST_ACCEPTED_AT_ONCE, waiting: MOST_WAITING_TO_BE_ACCEPTED }),
    takeQuota: (accountId, plan, mails) => quotas.take(accountId, planOf(plan) ?? NO_QUOTA, mails),
    retry: { maxAge: config.delivery.maxAge },
    simulatorDomain: config.simulator.domain,
    notices: context.notices,
    fresh: context.fresh,
  };
}
