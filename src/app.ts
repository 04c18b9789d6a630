/**
 * The only place that builds things; each part has its file in `app/`. Everything gets what it may touch handed in; everything
 * that is opened is closed in the opposite order.
 */
import { RateWindows } from './scheduling/rate-windows.ts';
import { certificateFiles, presentCertificate, type Certificate } from './config/certificate.ts';
import { systemClock } from './base/clock.ts';
import { watchCertificate } from './config/certificate-watch.ts';
import type { Changes } from './config/changes.ts';
import type { Config } from './config/schema.ts';
import type { Database } from './storage/database.ts';
import { databaseFile } from './storage/database.ts';
import { lockFolder, type FolderLock } from './storage/folder-lock.ts';
import { BodyMemory } from './api/body-memory.ts';
import { Newcomers } from './api/newcomers.ts';
import { bodyLimits } from './api/body.ts';
import type { InboundPorts } from './inbound/inbound.ts';
import type { Mta } from './mta/mta.ts';
import { Webhooks } from './webhooks/dispatcher.ts';
import type { Api } from './api/server.ts';
import { listenApart } from './dashboard/listen.ts';
import { firstSetUpLink, type SetUpLinkRecord } from './operator/admin.ts';
import { refuseSecondServer, serveControl } from './operator/control-server.ts';
import { authorityOf, listenOn } from './net/listening.ts';
import { closeToOthers, makeDataFolder } from './operator/data-folder.ts';
import { serveMetrics, type MetricsHandler } from './operator/metrics.ts';
import { createLaneFacts } from './operator/lane-facts.ts';
import { NodeQuestions } from './operator/node-questions.ts';
import type { OperatorDeps } from './operator/operation.ts';
import { answerQuestion } from './operator/questions.ts';
import { Unavailable } from './operator/unavailable.ts';
import { buildAccept } from './app/accepting.ts';
import { accountNotices } from './app/account-notice.ts';
import { buildHousekeeping } from './app/housekeeping.ts';
import { buildDeliveryEngine } from './app/delivery-engine.ts';
import { openAppContext, type AppContext } from './app/context.ts';
import { buildDashboard } from './app/dashboard.ts';
import { buildInbound } from './app/inbound.ts';
import { buildOperator } from './app/operator.ts';
import type { Overrides } from './app/core.ts';
import { reload } from './app/reload.ts';
import { version } from './version.ts';
import { noteServerAct } from './app/server-acts.ts';
import { shareState } from './app/shared-state.ts';
import { stopAll, type Running } from './app/stop.ts';
import { buildApi, buildMetrics } from './app/web.ts';
import { disabledNotice } from './app/webhook-notice.ts';

export type { Overrides } from './app/core.ts';

export interface App {
  /** The URL of the API, such as `http://127.0.0.1:8025`. */
  url: string;
  /** The migrations that this start has run. */
  migrated: readonly string[];
  db: Database;
  mta: Mta;
  /** The ports that accept mail now. */
  readonly ports: InboundPorts;
  /** Applies the settings that can change while running; returns the changes. Throws ConfigError for a bad certificate, and then changes nothing. */
  reload(config: Config): Changes;
  /** Returns the link that makes the first administrator, or null where there is one already. */
  setUpLink(): Promise<{ url: string; expires_at: string } | null>;
  /** Resolves with the reason if it cannot go on: it must be stopped then. */
  readonly failed: Promise<Error>;
  /** Stops taking work, lets work in flight end, writes what is not written, closes. May be called twice. */
  stop(): Promise<void>;
}

/** Opens everything and starts. Throws where the data folder, the database or a port cannot be opened. */
export async function startApp(config: Config, overrides: Overrides = {}): Promise<App> {
  makeDataFolder(config.dataDir);
  await refuseSecondServer(config.dataDir);
  const lock = await lockFolder(config.dataDir);
  if (lock === null)
    throw new Unavailable(
      'already_running',
      `another server is running on ${config.dataDir}, or a command has it for itself`,
    );
  try {
    return await startLocked(config, overrides, lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function startLocked(config: Config, overrides: Overrides, lock: FolderLock): Promise<App> {
  const present = presentCertificate(config, (overrides.clock ?? systemClock).now());
  const certificate = config.http.tls ? present.certificate : null;
  const file = databaseFile(config.storage.url);
  const closed = file === null ? [] : closeToOthers(file);
  const context = await openAppContext(config, overrides);
  const { clock, log, db, keyring, notifiers, fetch, random, live, usedUp, nodes } = context;
  if (closed.length > 0)
    log.warn(
      { event: 'files_closed', files: closed },
      'other users of this machine could read the database: they no longer can',
    );
  const accept = buildAccept(context);
  const delivery = await buildDeliveryEngine(context, () => inbound.mailPorts());
  const { mta, holds, tlsTally } = delivery;
  const notices = accountNotices(context);
  const webhooks = new Webhooks({
    db,
    clock,
    keyring,
    log,
    fetch,
    notifiers,
    owners: context.owners,
    hasOthers: () => nodes.hasOthers,
    random,
    notice: disabledNotice(notices, config),
  });
  const accountWindows = new RateWindows({ isShared: () => nodes.hasOthers });
  const bodyMemory = new BodyMemory(bodyLimits.heldBytes, usedUp);
  const newcomers = new Newcomers(config.http.trustedProxies, { usedUp });
  const questions = new NodeQuestions({ db, clock, log, nodes, answer: (asked) => answerQuestion(operator, asked) });
  const fleet = { nodes, owners: context.owners, askNode: questions.ask };
  const laneFacts = createLaneFacts({ ...fleet, mta });
  const metrics = buildMetrics(
    context,
    { mta, laneFacts, askNode: questions.ask },
    { listeners: () => inbound.mailPorts(), certificate: () => certificateWatch.state() },
  );
  const api = buildApi(context, {
    accept,
    laneFacts,
    mta,
    holds,
    webhooks,
    metrics,
    accountWindows,
    bodyMemory,
    newcomers,
    certificate,
    mailPorts: () => inbound.mailPorts(),
  });
  const inbound = await buildInbound(context, accept, accountWindows, present.certificate);
  const certificateWatch = watchCertificate({
    clock,
    log,
    present,
    files: () => certificateFiles(live.config),
    changed: (renewed) => {
      if (config.http.tls) {
        api.setCertificate(renewed);
        running.apart?.setCertificate(renewed);
      }
      inbound.setCertificate(renewed);
      void noteServerAct(context, 'server.certificate');
    },
  });
  const operator = buildOperator(
    context,
    { delivery, accept, routes: api.routes, notices, askNode: questions.ask, laneFacts },
    { inbound, certificate: certificateWatch },
  );
  const dashboard = buildDashboard(context, { mta, operator, routes: api.routes, bodyMemory, newcomers });
  const isApart = config.dashboard.port !== config.http.port;
  if (!isApart) api.share(dashboard);
  const housekeeping = await buildHousekeeping(context, accept, tlsTally, notices, operator.inside, questions.ask);

  const running: Running = {
    api,
    dashboard,
    apart: null,
    control: null,
    metrics: null,
    mta,
    tlsTally,
    inbound,
    webhooks,
    housekeeping,
    certificateWatch,
    questions,
    shared: shareState(context, { book: delivery.book, mta, accountWindows, inbound }),
    isStopping: false,
  };
  let stopped: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    log.info({ event: 'stopping' }, 'stopping: finishing what is in flight');
    await Promise.all([noteServerAct(context, 'server.stop'), stopAll(context, running)]);
    await lock.release();
    log.info({ event: 'stopped', commits: db.commit.stats }, 'stopped');
  };
  try {
    const url = await startAll(context, running, {
      operator,
      metrics,
      newcomers,
      certificate,
      isApart,
    });
    return {
      url,
      migrated: db.migrated,
      db,
      mta,
      get ports() {
        return inbound.ports();
      },
      reload(next) {
        const changes = reload(context, running, next);
        void noteServerAct(context, 'server.reload', changes);
        return changes;
      },
      failed: context.fatal.occurred,
      setUpLink: (): Promise<SetUpLinkRecord | null> => firstSetUpLink(operator),
      stop: () => (stopped ??= stop()),
    };
  } catch (error) {
    // A port may be taken, for example: parts that are open already must be closed.
    await stopAll(context, running);
    throw error;
  }
}

interface StartParts {
  operator: OperatorDeps;
  metrics: MetricsHandler | null;
  newcomers: Newcomers;
  certificate: Certificate | null;
  /** The dashboard has its own port. */
  isApart: boolean;
}

/** Opens the ports and starts all that works by itself. */
async function startAll(
  context: AppContext,
  running: Running,
  { operator, metrics, newcomers, certificate, isApart }: StartParts,
): Promise<string> {
  const { config, clock, log, db, epoch, nodes, owners, fatal } = context;
  const url = await listen(running.api, config.http);
  if (isApart)
    running.apart = await listenApart({ clock, log, newcomers }, running.dashboard, {
      host: config.http.host,
      port: config.dashboard.port,
      tls: certificate,
    });
  running.control = await serveControl(operator, config.dataDir);
  if (metrics !== null && config.metrics.port !== null) {
    running.metrics = await serveMetrics({ clock, log }, metrics, config.metrics.host, config.metrics.port);
    log.info({ event: 'metrics', url: running.metrics.url }, 'metrics can be read');
  }
  // SQLite has no other nodes that could ask.
  if (db.nodes !== null) running.questions.start();
  await running.mta.start();
  await running.webhooks.start();
  await running.inbound.start();
  owners.onChange(() =>
    log.info({ event: 'domains_moved', nodes: owners.names() }, 'the domains were divided among the nodes again'),
  );
  const leading = startLeading(context, running);
  if (nodes.isLeader) await leading;
  else leading.catch(fatal.report);
  if (db.migrated.length > 0) await noteServerAct(context, 'server.migrate', { migrations: db.migrated });
  await noteServerAct(context, 'server.start', { version, epoch });
  log.info({ event: 'started', url, ...running.inbound.ports(), epoch, migrated: db.migrated }, 'Posthorn is running');
  return url;
}

/** Starts what only one node does, when this one leads: the chores, and reading what a node that ended has left unread. */
async function startLeading({ nodes, log }: AppContext, running: Running): Promise<void> {
  const isFirst = nodes.isLeader;
  await nodes.leads;
  if (running.isStopping) return;
  if (!isFirst) log.warn({ event: 'leading', node: nodes.name }, 'this node leads from now on');
  running.housekeeping.start();
  running.inbound.takeLeft();
}

async function listen(api: Api, { host, port, tls }: Config['http']): Promise<string> {
  await listenOn(api.server, { host, port });
  return `${tls ? 'https' : 'http'}://${authorityOf(api.server)}`;
}
