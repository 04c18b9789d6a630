/** What acceptance needs, whichever way a mail comes in: by the API, by submission, from the command line. */
import { createGate } from '../scheduling/gate.ts';
import { createSuppressionLookUp } from '../suppressions/suppression-store.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { createTrackingRule } from '../messages/request/tracking-rule.ts';
import { trackingBase } from '../tracking/host.ts';
import type { AppContext } from './context.ts';

/** Acceptances written at once: enough to fill a group of commits, few beside the deliveries that wait for the same writer. */
const MOST_ACCEPTED_AT_ONCE = 128;
/** Beyond that a client is better off trying again in a second. */
const MOST_WAITING_TO_BE_ACCEPTED = 1024;

/** Of a plan that is no more: it allows no requests, so there is nothing to count. */
const NO_QUOTA = { mailsPerDay: null, mailsPerMonth: null };

export function buildAccept(ground: AppContext): AcceptDeps {
  const { config, db, clock, notifiers, streams, directory, disk, quotas, planOf } = ground;
  return {
    commit: db.commit,
    clock,
    notifiers,
    findStream: (accountId, slug) => streams.find(accountId, slug),
    trackingRule: createTrackingRule({ accounts: ground.accountTracking, directory, baseOf: trackingBase(config) }),
    isVerified: (accountId, domain) => directory.isVerified(accountId, domain),
    whyRefused: (accountId, domain) => directory.whyRefused(accountId, domain),
    findSuppressed: createSuppressionLookUp({ db, clock }),
    hasRoom: () => disk.hasRoom(),
    intake: createGate({ most: MOST_ACCEPTED_AT_ONCE, waiting: MOST_WAITING_TO_BE_ACCEPTED }),
    takeQuota: (accountId, plan, mails) => quotas.take(accountId, planOf(plan) ?? NO_QUOTA, mails),
    retry: { maxAge: config.delivery.maxAge },
    simulatorDomain: config.simulator.domain,
    notices: ground.notices,
  };
}
