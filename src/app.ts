/** Starts and stops the program. Only the files in `app/` build things: each gets what it may touch, and all are closed in the opposite order. */
import {
  certificateFiles,
  presentCertificate,
  readCertificate,
  type Certificate,
  type CertificateWatch,
} from './config/certificate.ts';
import { systemClock, type Clock } from './base/clock.ts';
import { confinementBy } from './base/confined/process.ts';
import { changesBetween, type Changes } from './config/settings-state.ts';
import { passedDescriptors } from './config/surroundings.ts';
import type { Config } from './config/schema.ts';
import { databaseFile, type Database, openDatabase, type StoreAddress } from './storage/database.ts';
import { lockFolder, type FolderLock } from './storage/folder-lock.ts';
import type { InboundPorts } from './inbound/inbound.ts';
import type { Mta } from './mta/mta.ts';
import type { Api } from './api/server.ts';
import { listenApart } from './dashboard/dashboard.ts';
import { firstSetUpLink } from './operator/team/team.ts';
import { refuseSecondServer, serveControl } from './operator/door/control.ts';
import { authorityOf, listenOn, takeSockets } from './net/listening.ts';
import { closeToOthers, makeDataFolder } from './operator/door/data-folder.ts';
import { serveMetrics } from './operator/metrics/metrics.ts';
import { Unavailable } from './base/unavailable.ts';
import { openAppContext, type AppContext, type Overrides, nodeSelf } from './app/core.ts';
import { buildRunning, hasOwnPort, type Running } from './app/running.ts';
import { version } from './version.ts';
import { readBounceRules } from './config/data-file.ts';
import { readLimitRules, withOwn } from './config/limit-rules.ts';
import { createJudge } from './messages/delivery/classify.ts';
import { isStorageTrouble } from './storage/commit.ts';
import type { Log } from './base/log.ts';
import { createRecorder, recordWork, type Occurrence } from './messages/delivery/record.ts';
import { beginAct, type Acting } from './operations/act.ts';
import type { ActWords } from './operations/audit-row.ts';
import { commandActs } from './operator/door/command-acts.ts';

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

/** Throws ConfigError for a bad certificate or bad rules, and then changes nothing. */
export function reload(
  { live, log, nodes, keyring }: AppContext,
  { mta, certificateWatch }: { mta: Mta; certificateWatch: CertificateWatch },
  next: Config,
): Changes {
  const files = certificateFiles(next);
  if (files !== null) readCertificate(files);
  const rules = readBounceRules(next.delivery.bounceRules);
  const limitRules = readLimitRules();
  const changes = changesBetween(live.config, next);
  live.rules = rules;
  live.judge = createJudge(rules);
  if ('level' in log) log.level = next.log.level;
  const { routes, bounceRules, shaping, limits } = next.delivery;
  mta.reroute(routes);
  if (changes.applied.some((path) => path === 'delivery.shaping' || path === 'delivery.limits'))
    mta.reshape(withOwn(limitRules.rules, shaping), withOwn(limitRules.limits, limits));
  // Settings that need a restart stay as they are, and are reported again by each reload until then.
  live.config = {
    ...live.config,
    plans: next.plans,
    log: { ...live.config.log, level: next.log.level },
    delivery: { ...live.config.delivery, routes, bounceRules, shaping, limits },
    tls: next.tls,
  };
  nodes.describe(nodeSelf(live.config, keyring).facts);
  certificateWatch.look();
  log.info(
    { event: 'reloaded', ...changes },
    changes.needRestart.length === 0
      ? 'the settings were read again'
      : 'the settings were read again; some need a restart',
  );
  return changes;
}

export async function stopAll(context: AppContext, running: Running): Promise<void> {
  running.isStopping = true;
  const { nodes, report } = context;
  // The others take over at once what this one has not begun. If they cannot be told, they find its row gone.
  if (nodes.hasOthers) void nodes.setDraining(nodes.epoch, true).catch(report);
  running.certificateWatch.stop();
  running.shared.stop();
  context.disk.stop();
  running.dashboard.stop();
  context.meters?.stop();
  try {
    await stopWork(context, running);
  } finally {
    // Until here its figures are written: what it still has on the wire is part of the lists of other nodes.
    running.figures.stop();
    // Whatever failed before: a close leaves all that was committed in one file for the next start.
    await context.db.close();
    const { config, clock, log, fatal } = context;
    if (fatal.error !== null) await writeLateOutcomes({ storage: config.storage, clock, log }, running.mta.unwritten);
  }
}

/** Ends all parts, also if one fails: the database is closed after this, and mail on the wire needs it until its outcome is written. */
async function stopWork(context: AppContext, running: Running): Promise<void> {
  const failures: unknown[] = [];
  async function end(...parts: readonly (Promise<unknown> | undefined)[]): Promise<void> {
    const ends = await Promise.allSettled(parts.filter((part) => part !== undefined));
    for (const one of ends) if (one.status === 'rejected') failures.push(one.reason);
  }
  await end(
    running.metricsServer?.close(),
    running.api.close(),
    running.apart?.close(),
    running.inbound.stop(),
    running.control?.close(),
    running.housekeeping.stop(),
    running.mta.stop(),
    running.webhooks.stop(),
  );
  const { callers, hits, renderer, mailViewer } = context;
  await end(callers.close(), hits.close(), closeAuditLog(context));
  await end(renderer.close(), mailViewer.close());
  if (context.overrides.resolver === undefined) await end(context.resolver.close());
  if (failures.length > 1) throw new AggregateError(failures, 'several parts did not end as they should');
  if (failures.length > 0) throw failures[0];
}

/** A node that was removed can write nothing, which is why it stops: lines of reads and of 503 that still wait then are lost. */
async function closeAuditLog({ auditLog, fatal }: AppContext): Promise<void> {
  await auditLog.close().catch((error: unknown) => {
    if (fatal.error === null || !isStorageTrouble(error)) throw error;
  });
}

interface LateDeps {
  storage: StoreAddress;
  clock: Clock;
  log: Pick<Log, 'warn' | 'error'>;
}

/** Writes what mail hosts answered to a removed node, say paused after a final dot, as a command does, so accepted mail is not sent again. */
export async function writeLateOutcomes(deps: LateDeps, outcomes: readonly Occurrence[]): Promise<void> {
  if (outcomes.length === 0) return;
  try {
    const counted = await writeAs(deps, outcomes);
    deps.log.warn(
      { event: 'late_outcomes', count: outcomes.length, counted },
      'answers that came after this node was removed are written: mail that was accepted is not tried again',
    );
  } catch (err) {
    deps.log.error(
      { event: 'late_outcomes_lost', count: outcomes.length, err },
      'answers that came after this node was removed could not be written: their mail is tried once more',
    );
  }
}

/** Returns how many of them changed their delivery. */
async function writeAs({ storage, clock }: LateDeps, outcomes: readonly Occurrence[]): Promise<number> {
  const db = await openDatabase({ ...storage, usualWork: [recordWork] });
  try {
    const recorder = createRecorder({ commit: db.commit, clock, written: () => undefined });
    const recorded = await recorder.record(outcomes);
    return recorded.filter(({ applied }) => applied).length;
  } finally {
    await db.close();
  }
}

const server: Acting = { actor: 'server', ip: null, method: 'SYSTEM', user_agent: null };

const acts = {
  'server.migrate': commandActs['server.migrate'],
  'server.start': { says: 'started the server, version {version}', type: 'server', keeps: ['version', 'epoch'] },
  'server.stop': { says: 'stopped the server', type: 'server' },
  'server.reload': { says: 'read the settings again', type: 'settings', keeps: ['applied', 'needRestart'] },
  'server.certificate': { says: 'took a new certificate into use', type: 'certificate' },
} as const satisfies Readonly<Record<string, ActWords>>;

/** Writes the row. One that cannot be written is logged: the act itself is done. */
async function noteServerAct(
  { db, clock, log }: Pick<AppContext, 'db' | 'clock' | 'log'>,
  name: keyof typeof acts,
  after: object = {},
): Promise<void> {
  const act = beginAct({ commit: db.commit, clock }, { name, words: acts[name] }, server);
  act.on({ after });
  await act.done().catch((err: unknown) => {
    log.error({ err, operation: name }, 'an act of the server could not be written to the audit');
  });
}
