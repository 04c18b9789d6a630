/** Builds the dependencies of the doors: of the routes of the API and its server, the ports for mail, and the operations on the server. */
import path from 'node:path';
import { clientPackageFiles } from '../api/client-package.ts';
import type { WireBytes } from '../api/context.ts';
import { readiness } from '../api/health.ts';
import type { Inside } from '../api/inside.ts';
import { apiRoutes } from '../api/routes.ts';
import type { ApiDeps } from '../api/server.ts';
import type { Certificate } from '../config/certificate.ts';
import { watchSettings } from '../config/settings-state.ts';
import { createInbound, type Inbound, type InboundDeps } from '../inbound/inbound.ts';
import { handIn, selfTest } from '../inbound/self-test.ts';
import { returnPathKeys } from '../messages/delivery/return-path.ts';
import type { Mta } from '../mta/mta.ts';
import type { MetricsHandler } from '../operator/metrics/metrics.ts';
import type { OperatorDeps } from '../operator/server-route.ts';
import { secondsLeft } from '../scheduling/rate-windows.ts';
import { mailFolder } from '../storage/database.ts';
import { diskBytes } from '../storage/disk-guard.ts';
import { isDraining } from '../storage/nodes.ts';
import { trackingTargetOf } from '../tracking/host.ts';
import { unsubscribeByMail } from '../tracking/unsubscribe.ts';
import { version } from '../version.ts';
import { signingKey, type AppContext } from './core.ts';
import { invitationMail } from './notices.ts';
import type { Parts } from './running.ts';

/** Returns the dependencies of the API's server, which the control socket has as well. */
export function apiDeps(
  context: AppContext,
  parts: Parts,
  { inside, metrics }: { inside: Inside; metrics: MetricsHandler | null },
): ApiDeps {
  const { config, db, meters, callers, disk, planOf } = context;
  const { certificate } = parts;
  return {
    ...context,
    ...parts,
    inside,
    authenticate: callers.authenticate,
    keyChanges: context.notifiers.keys,
    noteUse: (keyId, ip, endpoint) => callers.recordUse(keyId, ip, endpoint),
    planLimit: (plan) => planOf(plan)?.requestsPerMinute ?? 0,
    audit: context.auditLog,
    keepBodies: config.requestLog.bodies,
    idempotency: { store: context.idempotency, onMismatch: config.idempotency.onMismatch },
    ready: () => readiness({ db, disk, nodes: context.nodes }, parts.inbound.mailPorts()),
    ...(meters === null ? {} : { answered: (request) => meters.answered(request) }),
    ...(metrics === null || config.metrics.port !== null ? {} : { beside: metrics }),
    settings: {
      publicUrl: config.http.publicUrl,
      version,
      trustedProxies: config.http.trustedProxies,
      ...(certificate === null ? {} : { tls: certificate }),
      body: { bodyBytes: config.limits.bodyBytes, singleBodyBytes: config.limits.singleBodyBytes },
    },
  };
}

export function buildRoutes(context: AppContext, parts: Parts): ReturnType<typeof apiRoutes> {
  const { config, directory, streams, fetch } = context;
  const { accept, mta, holds, webhooks, inbound } = parts;
  return apiRoutes({
    ...context,
    ...parts,
    mailDraft: inbound.mailDraft,
    holdOf: holds.of,
    retry: accept.retry,
    wireBytes: (deliveryId) => wireBytes(mta, deliveryId),
    requestsWritten: () => context.auditLog.settled(),
    limits: config.limits,
    smtputf8: config.delivery.smtputf8,
    clientPackage: { version, files: clientPackageFiles(version), kept: path.join(config.dataDir, 'clients') },
    hostname: config.smtp.hostname,
    trackingTarget: trackingTargetOf(config),
    domainGraceMs: config.domains.grace,
    retention: config.retention,
    usedBy: context.quotas.used,
    keys: context.trackKeys,
    publicHost: new URL(config.http.publicUrl).hostname,
    findDomain: (name) => directory.find(name),
    findStream: (accountId, slug) => streams.find(accountId, slug),
    vetUrl: (url) => fetch.vet(url),
    testWebhook: webhooks.test,
  });
}

async function wireBytes(mta: Mta, deliveryId: string): Promise<WireBytes> {
  const mail = await mta.wireBytes(deliveryId);
  if (mail.kind === 'ready') return { kind: 'bytes', data: mail.data };
  return { kind: 'none', why: mail.kind === 'gone' ? 'it is gone' : mail.why };
}

export async function buildInbound(
  context: AppContext,
  parts: Pick<Parts, 'accept' | 'accountWindows' | 'intake'>,
  certificate: Certificate,
): Promise<Inbound> {
  const size = await diskBytes(mailFolder(context.config));
  return createInbound(listenerDeps(context, parts), context.config, certificate, size);
}

function listenerDeps(
  context: AppContext,
  { accept, accountWindows, intake }: Pick<Parts, 'accept' | 'accountWindows' | 'intake'>,
): InboundDeps {
  const { config, clock, live, notifiers, directory, disk, callers, meters, planOf } = context;
  const { submission } = config.smtp;
  return {
    ...context,
    keys: returnPathKeys(context.keyring),
    isOurHost: async (host) => host === config.smtp.hostname || (await directory.isReturnPath(host)),
    isVerifiedHost: async (host) => host === config.smtp.hostname || (await directory.isVerifiedReturnPath(host)),
    receiverOf: (local, domain) => directory.receiverOf(local, domain),
    hasRoomForStrangers: () => disk.hasRoomForStrangers(),
    accept,
    intake,
    authenticate: callers.authenticate,
    unsubscribe: (wish, deliveryId) => unsubscribeByMail({ ...context, keys: context.trackKeys }, wish, deliveryId),
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
    forward: { operatorAddress: config.smtp.operatorAddress, ...context.notices },
    audit: context.auditLog,
    idempotency: { store: context.idempotency, onMismatch: config.idempotency.onMismatch },
    isDraining: () => isDraining(context.nodes),
    submitted: (code) => meters?.submitted(code),
  };
}

/** Builds the dependencies of the operator's operations, which the command line and the dashboard share. */
export function buildOperator(context: AppContext, parts: Parts, inside: Inside): OperatorDeps {
  const { clock, db, notifiers, keyring, config, ownAccount, live } = context;
  const { inbound } = parts;
  return {
    ...context,
    ...parts,
    // Those in force: a reload replaces some of them.
    get config() {
      return live.config;
    },
    invitations: invitationMail(parts.notices, context),
    inside,
    listeners: () => inbound.mailPorts(),
    unknownProxies: () => [...context.unknownProxies],
    settings: watchSettings(
      { clock },
      { inForce: () => live.config, read: context.overrides.readSettings ?? (() => live.config) },
    ),
    certificate: parts.certificateWatch,
    async handIn({ from, to, mail }) {
      const port = inbound.ports().mx;
      if (port === null) return { taken: false, reply: 'smtp.mx.port is taken by another program' };
      const host = dialAddressOf(config.smtp.mx.host);
      const given = { host, port, helo: config.smtp.hostname, from, to, mail, patienceMs: HAND_IN_MS };
      const done = await handIn(given);
      return done.kind === 'taken' ? { taken: true, reply: done.reply } : { taken: false, reply: done.why };
    },
    selfTest(through) {
      const port = inbound.ports().mx;
      return selfTest(
        { clock, db, notifiers, ownAccount, returnPathKey: signingKey(keyring) },
        {
          mx: port === null ? null : { host: dialAddressOf(config.smtp.mx.host), port },
          hostname: config.smtp.hostname,
          simulatorDomain: config.simulator.domain,
          through,
        },
      );
    },
  };
}

/** A mail of the largest size takes a few seconds. */
const HAND_IN_MS = 15_000;

/** Returns the address to dial: a port that listens on all addresses is dialled on the loopback. */
const dialAddressOf = (host: string): string => (host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host);
