/**
 * Starts and stops the program. The files in `app/` are the only place that builds things: everything gets what it may touch handed in, and
 * everything that is opened is closed in the opposite order.
 */
import { presentCertificate, type Certificate } from './config/certificate.ts';
import { systemClock } from './base/clock.ts';
import { confinementBy } from './base/confined/process.ts';
import type { Changes } from './config/settings-state.ts';
import { passedDescriptors } from './config/surroundings.ts';
import type { Config } from './config/schema.ts';
import { databaseFile, type Database } from './storage/database.ts';
import { lockFolder, type FolderLock } from './storage/folder-lock.ts';
import type { InboundPorts } from './inbound/inbound.ts';
import type { Mta } from './mta/mta.ts';
import type { Api } from './api/server.ts';
import { listenApart } from './dashboard/dashboard.ts';
import { firstSetUpLink } from './operator/team/admin.ts';
import { refuseSecondServer, serveControl } from './operator/door/control.ts';
import { authorityOf, listenOn, takeSockets } from './net/listening.ts';
import { closeToOthers, makeDataFolder } from './operator/door/data-folder.ts';
import { serveMetrics } from './operator/metrics/metrics.ts';
import { Unavailable } from './base/unavailable.ts';
import { openAppContext, type AppContext } from './app/context.ts';
import type { Overrides } from './app/core.ts';
import { reload } from './app/reload.ts';
import { buildRunning, hasOwnPort, type Running } from './app/running.ts';
import { version } from './version.ts';
import { noteServerAct } from './app/server-acts.ts';
import { stopAll } from './app/stop.ts';

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
  /** Returns the link that makes the first administrator, or null if there is one already. */
  setUpLink(): Promise<{ url: string; expires_at: string } | null>;
  /** Resolves with the reason if it cannot go on: it must be stopped then. */
  readonly failed: Promise<Error>;
  /** Stops taking work, lets work in flight end, writes what is not written, closes. May be called twice. */
  stop(): Promise<void>;
}

/** Opens everything and starts. Throws if the data folder, the database or a port cannot be opened. */
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
  const file = databaseFile(config.storage.url);
  const closed = file === null ? [] : closeToOthers(file);
  const context = await openAppContext(config, overrides);
  const { log, db } = context;
  if (closed.length > 0)
    log.warn(
      { event: 'files_closed', files: closed },
      'other users of this machine could read the database: they no longer can',
    );
  if (present.broken !== null)
    log.warn(
      { event: 'certificate_made_again', reason: present.broken },
      'the self-signed certificate could not be used and was made again',
    );
  const { permissions, network } = confinementBy(overrides.nodeFlags ?? process.allowedNodeEnvironmentFlags);
  if (!permissions || !network)
    log[permissions ? 'info' : 'warn'](
      { event: 'reader_rights', permissions, network },
      'Node.js itself does not take every right from the processes that read foreign mail',
    );
  takeSockets(passedDescriptors());
  const running = await buildRunning(context, present);
  let stopped: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    log.info({ event: 'stopping' }, 'stopping: finishing what is in flight');
    await Promise.all([noteServerAct(context, 'server.stop'), stopAll(context, running)]);
    await lock.release();
    log.info({ event: 'stopped', commits: db.commit.stats }, 'stopped');
  };
  try {
    const url = await startAll(context, running);
    return {
      url,
      migrated: db.migrated,
      db,
      mta: running.mta,
      get ports() {
        return running.inbound.ports();
      },
      reload(next) {
        const changes = reload(context, running, next);
        void noteServerAct(context, 'server.reload', changes);
        return changes;
      },
      failed: context.fatal.occurred,
      setUpLink: () => firstSetUpLink(running.operator),
      stop: () => (stopped ??= stop()),
    };
  } catch (error) {
    // A port may be taken, for example: parts that are open already must be closed.
    await stopAll(context, running);
    throw error;
  }
}

/** Opens the ports and starts all that works by itself. */
async function startAll(context: AppContext, running: Running): Promise<string> {
  const { config, log, db, epoch, nodes, owners, fatal } = context;
  running.certificateWatch.start((renewed) => takeCertificate(context, running, renewed));
  const url = await listen(running.api, config.http);
  await openOtherPorts(context, running);
  // SQLite has no other nodes that could ask.
  if (db.nodes !== null) running.figures.start();
  await running.mta.start();
  await running.webhooks.start();
  await running.inbound.start();
  running.housekeeping.start();
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

/** Opens the ports of the dashboard and of the metrics, if they have their own, and the control socket. */
async function openOtherPorts({ config, clock, log }: AppContext, running: Running): Promise<void> {
  const { dashboard, newcomers, operator, served, metrics } = running;
  if (hasOwnPort(config))
    running.apart = await listenApart({ clock, log, newcomers }, dashboard, {
      host: config.http.host,
      port: config.dashboard.port,
      tls: running.certificate,
    });
  running.control = await serveControl(operator, served);
  if (metrics === null || config.metrics.port === null) return;
  running.metricsServer = await serveMetrics({ clock, log }, metrics, config.metrics.host, config.metrics.port);
  log.info({ event: 'metrics', url: running.metricsServer.url }, 'metrics can be read');
}

/** Uses a renewed certificate for new connections. */
function takeCertificate(context: AppContext, running: Running, renewed: Certificate): void {
  if (context.config.http.tls) {
    running.api.setCertificate(renewed);
    running.apart?.setCertificate(renewed);
  }
  running.inbound.setCertificate(renewed);
  void noteServerAct(context, 'server.certificate');
}

/** Reads the mails that ended nodes have left unread, once this node leads. */
async function startLeading({ nodes, log }: AppContext, running: Running): Promise<void> {
  const isFirst = nodes.isLeader;
  await nodes.leads;
  if (running.isStopping) return;
  if (!isFirst) log.warn({ event: 'leading', node: nodes.name }, 'this node leads from now on');
  running.inbound.takeLeft();
}

async function listen(api: Api, { host, port, tls }: Config['http']): Promise<string> {
  await listenOn(api.server, { host, port });
  return `${tls ? 'https' : 'http'}://${authorityOf(api.server)}`;
}
