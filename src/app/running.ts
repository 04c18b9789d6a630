/**
 * Builds the parts that run, each from parts that exist already: acceptance, the ports for mail, the delivery engine and webhooks, and then
 * the doors to their operations. Nothing runs before app.ts starts it.
 */
import { RateWindows } from '../scheduling/rate-windows.ts';
import {
  certificateFiles,
  watchCertificate,
  type Certificate,
  type CertificateWatch,
  type WatchDeps,
} from '../config/certificate.ts';
import type { Config } from '../config/schema.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { BodyMemory } from '../api/body-memory.ts';
import { bodyLimits } from '../api/body.ts';
import { createInside } from '../api/inside.ts';
import { Newcomers } from '../api/newcomers.ts';
import type { Api } from '../api/server.ts';
import type { Dashboard } from '../dashboard/dashboard.ts';
import type { OwnPort } from '../dashboard/dashboard.ts';
import type { Housekeeping } from '../housekeeping/housekeeping.ts';
import type { Inbound } from '../inbound/inbound.ts';
import type { Mta } from '../mta/mta.ts';
import type { Control, Served } from '../operator/door/control.ts';
import { createLaneFacts } from '../operator/lanes.ts';
import type { MetricsHandler, MetricsServer } from '../operator/metrics/metrics.ts';
import type { OperatorDeps } from '../operator/deps.ts';
import { nodeFigures } from '../operator/all-figures.ts';
import { FigureWriter } from '../operator/node-figures.ts';
import { hearWatches } from '../operator/watch.ts';
import { serverRoutes } from '../operator/routes.ts';
import { Webhooks } from '../webhooks/dispatcher.ts';
import { buildAccept } from './accepting.ts';
import { accountNotices, disabledNotice, type AccountNotices } from './notices.ts';
import type { AppContext } from './context.ts';
import { buildDashboard } from './dashboard.ts';
import { buildDeliveryEngine, type DeliveryEngine } from './delivery-engine.ts';
import { buildHousekeeping } from './housekeeping.ts';
import { buildInbound } from './inbound.ts';
import { buildOperator } from './operator.ts';
import { shareState, type SharedState } from './shared-state.ts';
import { buildApi, buildMetrics } from './web.ts';

/** The parts that run. */
export interface Running extends Doors {
  mta: Mta;
  inbound: Inbound;
  webhooks: Webhooks;
  housekeeping: Housekeeping;
  certificateWatch: CertificateWatch;
  shared: SharedState;
  /** The certificate that the HTTP ports begin with; null if they speak plain HTTP. */
  certificate: Certificate | null;
  /** The dashboard's own port; null until it is opened, and if the dashboard shares that of the API. */
  apart: OwnPort | null;
  /** The server of the control socket; null until it listens. */
  control: Control | null;
  /** The metrics' own port; null until it is opened, and if they have none. */
  metricsServer: MetricsServer | null;
  /** Set when the stop has begun: nothing more is started. */
  isStopping: boolean;
}

/** The doors by which people, programs and other nodes reach the operations. */
interface Doors {
  api: Api;
  operator: OperatorDeps;
  /** The routes of the control socket. */
  served: Served;
  dashboard: Dashboard;
  /** Null if metrics are switched off. */
  metrics: MetricsHandler | null;
  figures: FigureWriter<OperatorDeps>;
  newcomers: Newcomers;
}

/** True if the dashboard does not share the port of the API. */
export const hasOwnPort = ({ dashboard, http }: Pick<Config, 'dashboard' | 'http'>): boolean =>
  dashboard.port !== http.port;

export async function buildRunning(context: AppContext, present: WatchDeps['present']): Promise<Running> {
  const { config, clock, log, live, nodes } = context;
  const accept = buildAccept(context);
  const accountWindows = new RateWindows({ isShared: () => nodes.hasOthers });
  const inbound = await buildInbound(context, accept, accountWindows, present.certificate);
  const delivery = await buildDeliveryEngine(context, inbound.mailPorts);
  const { mta } = delivery;
  const notices = accountNotices(context);
  const webhooks = buildWebhooks(context, notices);
  const certificateWatch = watchCertificate({ clock, log, present, files: () => certificateFiles(live.config) });
  const certificate = config.http.tls ? present.certificate : null;
  const parts = { accept, accountWindows, inbound, delivery, notices, webhooks, certificateWatch, certificate };
  const doors = buildDoors(context, parts);
  const housekeeping = await buildHousekeeping(context, { notices });
  return {
    ...doors,
    mta,
    inbound,
    webhooks,
    housekeeping,
    certificateWatch,
    shared: shareState(context, { mta, accountWindows, inbound }),
    certificate,
    apart: null,
    control: null,
    metricsServer: null,
    isStopping: false,
  };
}

function buildWebhooks(context: AppContext, notices: AccountNotices): Webhooks {
  const { config, db, clock, keyring, log, fetch, notifiers, tail, owners, nodes, random } = context;
  return new Webhooks({
    db,
    clock,
    keyring,
    log,
    fetch,
    notifiers,
    tail,
    owners,
    hasOthers: () => nodes.hasOthers,
    random,
    notice: disabledNotice(notices, config),
  });
}

function buildDoors(
  context: AppContext,
  {
    delivery,
    inbound,
    certificateWatch,
    ...parts
  }: {
    accept: AcceptDeps;
    accountWindows: RateWindows;
    inbound: Inbound;
    delivery: DeliveryEngine;
    notices: AccountNotices;
    webhooks: Webhooks;
    certificateWatch: CertificateWatch;
    certificate: Certificate | null;
  },
): Doors {
  const { config, db, clock, log, nodes, owners, usedUp } = context;
  const { mta, holds } = delivery;
  const { mailPorts, mailDraft } = inbound;
  const laneFacts = createLaneFacts({ db, clock, nodes, owners, mta });
  const metrics = buildMetrics(
    context,
    { mta, laneFacts, limits: delivery.limits },
    { listeners: mailPorts, certificate: () => certificateWatch.state() },
  );
  const bodyMemory = new BodyMemory(bodyLimits.heldBytes, usedUp);
  const newcomers = new Newcomers(config.http.trustedProxies, { usedUp });
  const web = { ...parts, mta, holds, laneFacts, metrics, mailPorts, mailDraft, bodyMemory, newcomers };
  const { api, deps, inside: ofAccounts } = buildApi(context, web);
  const operator = buildOperator(
    context,
    { ...parts, delivery, inside: ofAccounts, laneFacts },
    { inbound, certificate: certificateWatch },
  );
  hearWatches(operator);
  const figures = new FigureWriter({ db, clock, log, nodes }, operator, nodeFigures);
  const routes = [...api.routes, ...serverRoutes(operator)];
  const inside = createInside({ clock, commit: db.commit }, routes);
  const dashboard = buildDashboard(context, { mta, inside, routes, bodyMemory, newcomers });
  if (!hasOwnPort(config)) api.share(dashboard);
  return { api, operator, served: { api: deps, routes, inside }, dashboard, metrics, figures, newcomers };
}
