/** Builds the HTTP side: the API with its routes, and the metrics for Prometheus. */
import { createInside, type Inside } from '../api/inside.ts';
import path from 'node:path';
import { isPostgresUrl } from '../base/postgres-url.ts';
import type { RateWindows } from '../scheduling/rate-windows.ts';
import type { Certificate } from '../config/certificate.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { trackingTargetOf } from '../tracking/host.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { Mta } from '../mta/mta.ts';
import type { Webhooks } from '../webhooks/dispatcher.ts';
import type { WireBytes } from '../api/context.ts';
import { readiness } from '../api/health.ts';
import type { Inbound } from '../inbound/inbound.ts';
import type { MailPortState } from '../inbound/mail-port.ts';
import { clientPackageFiles } from '../api/client-package.ts';
import { apiRoutes } from '../api/routes.ts';
import type { BodyMemory } from '../api/body-memory.ts';
import type { Newcomers } from '../api/newcomers.ts';
import { createApi, type Api, type ApiDeps } from '../api/server.ts';
import { metricsHandler, type MetricsDeps, type MetricsHandler } from '../operator/metrics/metrics.ts';
import { version } from '../version.ts';
import type { DeliveryEngine } from './delivery-engine.ts';
import type { AppContext } from './context.ts';

export interface WebParts {
  accept: AcceptDeps;
  mta: Mta;
  holds: DeliveryEngine['holds'];
  webhooks: Webhooks;
  laneFacts: LaneFactsOf;
  metrics: MetricsHandler | null;
  /** Requests of each account, counted for HTTP and submission together. */
  accountWindows: RateWindows;
  /** Shared with the dashboard. */
  bodyMemory: BodyMemory;
  newcomers: Newcomers;
  certificate: Certificate | null;
  mailDraft: Inbound['mailDraft'];
  /** The state of the ports for mail. */
  mailPorts: () => readonly MailPortState[];
}

/** Builds the API, with the dependencies of its server, which the control socket has as well. */
export function buildApi(context: AppContext, parts: WebParts): { api: Api; deps: ApiDeps; inside: Inside } {
  const { config, clock, db, notifiers, meters, callers, disk, planOf } = context;
  const { certificate, metrics } = parts;
  const routes = buildRoutes(context, parts);
  const inside = createInside({ clock, commit: db.commit }, routes);
  const deps: ApiDeps = {
    ...context,
    inside,
    accountWindows: parts.accountWindows,
    bodyMemory: parts.bodyMemory,
    newcomers: parts.newcomers,
    authenticate: callers.authenticate,
    keyChanges: notifiers.keys,
    noteUse: (keyId, ip, endpoint) => callers.recordUse(keyId, ip, endpoint),
    planLimit: (plan) => planOf(plan)?.requestsPerMinute ?? 0,
    audit: context.auditLog,
    keepBodies: config.requestLog.bodies,
    idempotency: { store: context.idempotency, onMismatch: config.idempotency.onMismatch },
    ready: () => readiness({ db, disk, nodes: context.nodes }, parts.mailPorts()),
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
  return { api: createApi(deps, routes), deps, inside };
}

function buildRoutes(
  context: AppContext,
  { accept, mta, holds, webhooks, laneFacts, mailDraft }: WebParts,
): ReturnType<typeof apiRoutes> {
  const { config, directory, streams, fetch } = context;
  return apiRoutes({
    ...context,
    accept,
    mailDraft,
    laneFacts,
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

/** Builds the metrics for Prometheus, or null if they are switched off. */
export function buildMetrics(
  { config, db, clock, log, meters, resolver, nodes, owners }: AppContext,
  engine: Pick<MetricsDeps, 'mta' | 'laneFacts' | 'limits'>,
  service: Pick<MetricsDeps, 'listeners' | 'certificate'>,
): MetricsHandler | null {
  if (meters === null) return null;
  const { dataDir, storage, backup } = config;
  return metricsHandler(
    {
      db,
      clock,
      log,
      nodes,
      owners,
      meters,
      resolver,
      version,
      url: storage.url,
      dataDir,
      backupDir: isPostgresUrl(storage.url) ? null : backup.dir,
      ...engine,
      ...service,
    },
    config.metrics.token,
  );
}

async function wireBytes(mta: Mta, deliveryId: string): Promise<WireBytes> {
  const mail = await mta.wireBytes(deliveryId);
  if (mail.kind === 'ready') return { kind: 'bytes', data: mail.data };
  return { kind: 'none', why: mail.kind === 'gone' ? 'it is gone' : mail.why };
}
