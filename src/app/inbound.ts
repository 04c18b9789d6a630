/** Builds the ports for mail: port 25 for reports, and submission. */
import { secondsLeft, type RateWindows } from '../scheduling/rate-windows.ts';
import type { Certificate } from '../config/certificate.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { returnPathKeys } from '../messages/delivery/return-path.ts';
import { mailFolder } from '../storage/database.ts';
import { diskBytes } from '../storage/disk-guard.ts';
import { isDraining } from '../storage/nodes.ts';
import { createInbound, type Inbound, type InboundDeps } from '../inbound/inbound.ts';
import { unsubscribeByMail } from '../tracking/unsubscribe.ts';
import type { AppContext } from './context.ts';

export async function buildInbound(
  context: AppContext,
  accept: AcceptDeps,
  accountWindows: RateWindows,
  certificate: Certificate,
): Promise<Inbound> {
  const size = await diskBytes(mailFolder(context.config));
  return createInbound(listenerDeps(context, accept, accountWindows), context.config, certificate, size);
}

function listenerDeps(context: AppContext, accept: AcceptDeps, accountWindows: RateWindows): InboundDeps {
  const { config, clock, log, db, live, notifiers, recorder, directory, disk, callers, meters, planOf } = context;
  const { submission } = config.smtp;
  return {
    clock,
    log,
    db,
    notifiers,
    recorder,
    keys: returnPathKeys(context.keyring),
    isOurHost: async (host) => host === config.smtp.hostname || (await directory.isReturnPath(host)),
    isVerifiedHost: async (host) => host === config.smtp.hostname || (await directory.isVerifiedReturnPath(host)),
    receiverOf: (local, domain) => directory.receiverOf(local, domain),
    mailViewer: context.mailViewer,
    hasRoomForStrangers: () => disk.hasRoomForStrangers(),
    usedUp: context.usedUp,
    resolver: context.resolver,
    accept,
    authenticate: callers.authenticate,
    unsubscribe: (wish, deliveryId) =>
      unsubscribeByMail({ db, clock, recorder, keys: context.trackKeys }, wish, deliveryId),
    bounceRules: () => live.rules,
    keyChanges: notifiers.keys,
    trustedCaller: () => (submission.trustedKey === null ? Promise.resolve(null) : callers.byId(submission.trustedKey)),
    noteUse: (keyId, ip, endpoint) => callers.recordUse(keyId, ip, endpoint),
    takeRequest(accountId, plan) {
      const now = clock.now();
      const rate = accountWindows.take(accountId, planOf(plan)?.requestsPerMinute ?? 0, now);
      return rate.over ? secondsLeft(rate, now) : null;
    },
    isVerified: (accountId, domain) => accept.isVerified(accountId, domain),
    failed: context.report,
    ownAccount: context.ownAccount,
    forward: { operatorAddress: config.smtp.operatorAddress, ...context.notices },
    audit: context.auditLog,
    idempotency: { store: context.idempotency, onMismatch: config.idempotency.onMismatch },
    isDraining: () => isDraining(context.nodes),
    submitted: (code) => meters?.submitted(code),
  };
}
