/**
 * The only place that builds things; each part has its file in `app/`. Everything gets what it may touch handed in; everything
 * that is opened is closed in the opposite order.
 */
import type { AddressInfo } from 'node:net';
import { RateWindows } from './scheduling/rate-windows.ts';
import { readCertificate } from './config/certificate.ts';
import { watchCertificate } from './config/certificate-watch.ts';
import type { Changes } from './config/changes.ts';
import type { Config } from './config/schema.ts';
import type { Database } from './storage/database.ts';
import { sqliteFile } from './storage/database.ts';
import { lockFolder, type FolderLock } from './storage/folder-lock.ts';
import { HeldMemory } from './api/held-memory.ts';
import { Newcomers } from './api/newcomers.ts';
import { bodyLimits } from './api/body.ts';
import { createKnownDevices } from './members/known-device.ts';
import { createPasswords } from './members/password.ts';
import type { InboundPorts } from './inbound/inbound.ts';
import type { Mta } from './mta/mta.ts';
import { createWebhooks } from './webhooks/dispatcher.ts';
import type { Api } from './api/server.ts';
import { createDashboard } from './dashboard/dashboard.ts';
import { listenApart } from './dashboard/listen.ts';
import { firstSetUpLink, type SetUpLinkRecord } from './operator/admin.ts';
import { refuseSecondServer, serveControl } from './operator/control-server.ts';
import { closeToOthers, makeDataFolder } from './operator/data-folder.ts';
import { createHistory } from './operator/history.ts';
import { serveMetrics } from './operator/metrics.ts';
import { Unavailable } from './operator/unavailable.ts';
import { buildAccept } from './app/accepting.ts';
import { accountNotices } from './app/account-notice.ts';
import { buildHousekeeping } from './app/chores.ts';
import { buildDeliveryEngine } from './app/delivery-engine.ts';
import { openAppContext } from './app/context.ts';
import { buildInbound } from './app/listener.ts';
import { buildOperator } from './app/operator.ts';
import type { Overrides } from './app/overrides.ts';
import { reload } from './app/reload.ts';
import { noteServerAct } from './app/server-acts.ts';
import { stopAll, type Running } from './app/stop.ts';
import { buildApi, buildMetrics } from './app/web.ts';
import { disabledNotice } from './app/webhook-notice.ts';
import { version } from './version.ts';

export type { Overrides } from './app/overrides.ts';

export interface App {
  /** Where the API listens: `http://127.0.0.1:8025`. */
  url: string;
  /** What the database needed to be brought up to date. */
  migrated: readonly string[];
  db: Database;
  mta: Mta;
  /** Where mail is taken. */
  ports: InboundPorts;
  /** Takes over what can change while running, and says what changed. Throws ConfigError for a bad certificate: nothing is changed then. */
  reload(config: Config): Changes;
  /** The link that makes the first administrator, or null where there is one. */
  setUpLink(): Promise<{ url: string; expires_at: string } | null>;
  /** Stops taking work, finishes what is in flight, writes what is not written, closes. Safe to call twice. */
  stop(): Promise<void>;
}

/** Opens everything and starts. Throws where the data folder, the database or the port cannot be had. */
export async function startApp(config: Config, overrides: Overrides = {}): Promise<App> {
  makeDataFolder(config.dataDir);
  await refuseSecondServer(config.dataDir);
  const lock = await lockFolder(config.dataDir);
  if (lock === null) throw new Unavailable('already_running', `another server is running on ${config.dataDir}`);
  try {
    return await startLocked(config, overrides, lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function startLocked(config: Config, overrides: Overrides, lock: FolderLock): Promise<App> {
  const certificate = config.http.tls && config.tls !== null ? readCertificate(config.tls) : null;
  const closed = closeToOthers(sqliteFile(config.storage.url));
  const ground = await openAppContext(config, overrides, (deliveryId) => {
    delivery.mta.complained(deliveryId);
  });
  const { clock, log, db, keyring, notifiers, fetch, random, meters, live, usedUp } = ground;
  if (closed.length > 0)
    log.warn(
      { event: 'files_closed', files: closed },
      'other users of this machine could read the database: they no longer can',
    );
  /** The ports for mail, once they are there. */
  let listening: InboundPorts | null = null;

  const accept = buildAccept(ground);
  const delivery = await buildDeliveryEngine(ground);
  const { mta, holds, tlsTally } = delivery;
  const notices = accountNotices(ground);
  const webhooks = createWebhooks({
    db,
    clock,
    keyring,
    log,
    fetch,
    notifiers,
    random,
    notice: disabledNotice(notices, config),
  });
  const metrics = buildMetrics(ground, mta);
  const accountWindows = new RateWindows();
  const held = new HeldMemory(bodyLimits.heldBytes, usedUp);
  const newcomers = new Newcomers(config.http.trustedProxies, { usedUp });
  const isListening = (): boolean => listening !== null;
  const api = buildApi(ground, {
    accept,
    mta,
    holds,
    webhooks,
    metrics,
    accountWindows,
    held,
    newcomers,
    certificate,
    isListening,
  });
  const inbound = await buildInbound(ground, accept, accountWindows);
  const operator = buildOperator(ground, { delivery, accept, routes: api.routes }, () => listening);
  const history = createHistory({
    db,
    clock,
    mta,
    families: meters === null ? null : () => meters.families(),
    failed: (err) => {
      log.warn({ event: 'history_failed', err }, 'the depth of the queue could not be noted');
    },
  });
  const dashboard = createDashboard({
    db,
    clock,
    log,
    keyring,
    operator,
    config,
    version,
    history,
    routes: api.routes,
    passwords: createPasswords(usedUp),
    held,
    newcomers,
    usedUp,
    devices: createKnownDevices(keyring.derive('known devices')),
  });
  const isApart = config.dashboard.port !== config.http.port;
  if (!isApart) api.share(dashboard);
  const housekeeping = buildHousekeeping(ground, accept, tlsTally, notices);

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
    certificateWatch: watchCertificate({
      clock,
      log,
      files: () => live.config.tls,
      changed: (renewed) => {
        if (config.http.tls) api.setCertificate(renewed);
        inbound.setCertificate(renewed);
        void noteServerAct(ground, 'server.certificate');
      },
    }),
  };
  let stopped: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    log.info({ event: 'stopping' }, 'stopping: finishing what is in flight');
    await noteServerAct(ground, 'server.stop');
    await stopAll(ground, running);
    await lock.release();
    log.info({ event: 'stopped', commits: db.commit.stats }, 'stopped');
  };
  try {
    const url = await listen(api, config.http);
    if (isApart) {
      const { port } = config.dashboard;
      running.apart = await listenApart({ clock, log, newcomers }, dashboard, {
        host: config.http.host,
        port,
        tls: certificate,
      });
    }
    running.control = await serveControl(operator, config.dataDir);
    if (metrics !== null && config.metrics.port !== null) {
      running.metrics = await serveMetrics({ clock, log }, metrics, config.metrics.host, config.metrics.port);
      log.info({ event: 'metrics', url: running.metrics.url }, 'metrics can be read');
    }
    await mta.start();
    const ports = await inbound.start();
    listening = ports;
    await webhooks.start();
    housekeeping.start();
    const { epoch } = ground;
    if (db.migrated.length > 0) await noteServerAct(ground, 'server.migrate', { migrations: db.migrated });
    await noteServerAct(ground, 'server.start', { version, epoch });
    log.info({ event: 'started', url, ...ports, epoch, migrated: db.migrated }, 'Posthorn is running');
    return {
      url,
      migrated: db.migrated,
      db,
      mta,
      ports,
      reload(next) {
        const changes = reload(ground, running, next);
        void noteServerAct(ground, 'server.reload', changes);
        return changes;
      },
      setUpLink: (): Promise<SetUpLinkRecord | null> => firstSetUpLink(operator),
      stop: () => (stopped ??= stop()),
    };
  } catch (error) {
    // A port that is taken, say: what is open already must not outlive the attempt.
    await stopAll(ground, running);
    throw error;
  }
}

async function listen(api: Api, { host, port, tls }: Config['http']): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    api.server.once('error', reject);
    api.server.listen(port, host, () => {
      api.server.off('error', reject);
      resolve();
    });
  });
  const { address, port: bound, family } = api.server.address() as AddressInfo;
  return `${tls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${String(bound)}`;
}
