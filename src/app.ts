/**
 * The only place that builds things. Everything gets what it may touch handed in here; everything that is opened here is
 * closed here, in the opposite order: intake first, then deliveries in flight, then what has to be written, then the database.
 */
import { mkdirSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import type { AddressInfo } from 'node:net';
import { createBell, type Bell } from './base/bell.ts';
import { systemClock, type Clock } from './base/clock.ts';
import { createGate } from './base/gate.ts';
import { createLog, type Log, type RootLog } from './base/log.ts';
import { openKeyring, type Keyring } from './base/keyring.ts';
import { createResolver, type Resolver } from './base/resolver.ts';
import { secondsLeft, Windows } from './base/windows.ts';
import { readBounceRules } from './config/bounce-rules.ts';
import { createSafeFetch } from './base/safe-fetch.ts';
import { readCertificate } from './config/certificate.ts';
import { watchCertificate, type CertificateWatch } from './config/certificate-watch.ts';
import { ownCertificate } from './config/own-certificate.ts';
import { readScanners, shippedScanners } from './config/scanners.ts';
import { changesBetween, type Changes } from './config/changes.ts';
import { readOperators } from './config/operators.ts';
import type { Config } from './config/schema.ts';
import { openDatabase, sqliteFile, type Database } from './storage/database.ts';
import { createDiskGuard, type DiskGuard } from './storage/disk-guard.ts';
import { beginEpoch } from './storage/epoch.ts';
import { lockFolder, type FolderLock } from './storage/folder-lock.ts';
import { createIdempotencyStore } from './storage/idempotency-store.ts';
import { createAccountPauses, ensureDefaultAccount } from './accounts/account-store.ts';
import { createAuditLog } from './accounts/audit-log.ts';
import { createOwnAccount, OWN_ACCOUNT } from './accounts/own-account.ts';
import { createQuotas } from './accounts/quota.ts';
import { createAccountTracking } from './accounts/settings-store.ts';
import { createStreams } from './accounts/stream-store.ts';
import { createCallers } from './keys/callers.ts';
import { createDomainDirectory } from './domains/domain-directory.ts';
import { createDkimSigners } from './domains/dkim-signer.ts';
import { createDashboard, type Dashboard } from './dashboard/dashboard.ts';
import { listenApart, type OwnPort } from './dashboard/listen.ts';
import { createHousekeeping } from './housekeeping/housekeeping.ts';
import { endedSuppressions } from './housekeeping/ended-suppressions.ts';
import { domainChecks } from './housekeeping/domain-checks.ts';
import { expiredIdempotency } from './housekeeping/idempotency.ts';
import { oldSessions } from './housekeeping/old-sessions.ts';
import { oldAggregates } from './housekeeping/old-aggregates.ts';
import { oldStats } from './housekeeping/old-stats.ts';
import { retentionRules } from './housekeeping/retention.ts';
import { retiredKeys } from './housekeeping/retired-keys.ts';
import { spaceRules } from './housekeeping/space.ts';
import { webhookLogRules } from './housekeeping/webhook-log.ts';
import { createPasswords } from './members/password.ts';
import { createRenderer } from './templates/renderer.ts';
import { createSuppressionLookUp } from './suppressions/suppression-store.ts';
import type { AcceptDeps, DueHint } from './messages/accept.ts';
import { createJudge, type Judge } from './messages/classify.ts';
import { createHolds, type Holds } from './messages/holds.ts';
import { createHoldBook, type HoldBook } from './messages/hold-book.ts';
import { createRecorder, HAPPEN } from './messages/record.ts';
import { returnPathKeys, type ReturnPathKey } from './messages/return-path.ts';
import { createTrackingRule } from './messages/tracking-rule.ts';
import { createBotOf } from './tracking/bots.ts';
import { createHits } from './tracking/hit.ts';
import { trackingBase, trackingTargetOf } from './tracking/host.ts';
import { trackingKeys, type TrackingKey } from './tracking/token.ts';
import { createInbound, type Inbound, type InboundPorts } from './inbound/inbound.ts';
import { withDane } from './mta/dns/dane.ts';
import { selfTest } from './inbound/self-test.ts';
import { findMailHosts } from './mta/dns/mx.ts';
import { findRelay } from './mta/dns/relay.ts';
import { createStsPolicies } from './mta/dns/sts.ts';
import { createStsFetch } from './mta/dns/sts-fetch.ts';
import { createMta, type Mta, type MtaDeps } from './mta/mta.ts';
import { createLocalAddresses, type LocalAddresses } from './mta/local-addresses.ts';
import { createSources, DEFAULT_POOL, type Sources } from './mta/sources.ts';
import { createWarmUp } from './mta/warm-up.ts';
import { createSites } from './mta/sites.ts';
import { createTlsReports } from './mta/tls-reports.ts';
import { createTlsTally, type TlsTally } from './mta/tls-tally.ts';
import { createWebhooks } from './webhooks/dispatcher.ts';
import { createApi, type Api } from './api/server.ts';
import type { WireBytes } from './api/erase.ts';
import { apiRoutes } from './api/routes.ts';
import { copyBeforeMigration } from './operator/before-migration.ts';
import { firstSetUpLink, type SetUpLinkRecord } from './operator/admin.ts';
import { refuseSecondServer, serveControl, type Control } from './operator/control-server.ts';
import { createHistory } from './operator/history.ts';
import { createMeters, type Meters } from './operator/meters.ts';
import { listingRule } from './operator/listings.ts';
import { metricsHandler, serveMetrics, type MetricsServer } from './operator/metrics.ts';
import type { OperatorDeps } from './operator/operation.ts';
import { Unavailable } from './operator/unavailable.ts';
import { version } from './version.ts';

/** What a test replaces. */
export interface Overrides {
  clock?: Clock;
  log?: Log | RootLog;
  resolver?: Resolver;
  random?: () => number;
  /** PEM certificates that mail hosts may chain to. */
  ca?: string;
  /** Port of the web servers that MTA-STS policies are fetched from. */
  stsPort?: number;
}

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
  mkdirSync(config.dataDir, { recursive: true, mode: 0o750 });
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
  const clock = overrides.clock ?? systemClock;
  const certificate = config.http.tls && config.tls !== null ? readCertificate(config.tls) : null;
  let judge = createJudge(readBounceRules(config.delivery.bounceRules));
  const log = overrides.log ?? createLog(config.log);
  const botOf = createBotOf(readScanners(config.tracking.scannersFile ?? shippedScanners()));
  const keyring = openKeyring(config.dataDir, { database: sqliteFile(config.storage.url) });
  const db = await openDatabase({
    url: config.storage.url,
    workOrder: [HAPPEN],
    beforeMigration: () =>
      copyBeforeMigration(config, (folder) => {
        log.info({ event: 'backup_before_migration', folder }, 'the database was copied; now it is migrated');
      }),
  });
  const resolver = overrides.resolver ?? createResolver({ clock }, { servers: config.delivery.dnsServers });
  const report = (error: unknown): void => {
    log.error({ event: 'background_write_failed', err: error }, 'a background write failed');
  };

  await ensureDefaultAccount({ db, clock });
  const epoch = await beginEpoch(db.commit);
  let current = config;
  const bells = {
    deliveries: createBell<readonly DueHint[]>(),
    events: createBell(),
    keys: createBell(),
    webhooks: createBell<string>(),
    reports: createBell(),
    holds: createBell(),
  };
  const callers = createCallers({ db, clock, report });
  const streams = createStreams({ db, clock });
  const quotas = createQuotas({ db, clock });
  const planOf = (plan: string): Config['plans'][string] | null => current.plans[plan] ?? null;
  const forgetKey = (publicId: string): void => {
    callers.forget(publicId);
    bells.keys.ring();
  };
  const forgetDomain = (name: string): void => {
    directory.forget(name);
    signers.forget(name);
  };
  const directory = createDomainDirectory({ db, clock });
  const signers = createDkimSigners({ db, keyring, clock });
  const auditLog = createAuditLog({ db, clock, report });
  const idempotency = createIdempotencyStore({ db, clock });
  const wantsMetrics = config.metrics.port !== null || config.metrics.token !== null;
  const meters = wantsMetrics ? createMeters({ clock: systemClock }) : null;
  const ownAccount = createOwnAccount({ db, clock });
  const notices = { hostname: config.smtp.hostname, retry: { maxAge: config.delivery.maxAge } };
  const recorder = createRecorder({
    commit: db.commit,
    clock,
    complained: (deliveryId) => {
      mta.complained(deliveryId);
    },
    written: (recorded) => {
      for (const { bounced } of recorded) if (bounced !== undefined) meters?.bounced(bounced);
      const due = recorded.flatMap(({ noticeTo: domain }) => (domain === undefined ? [] : [{ domain, class: 0, accountId: OWN_ACCOUNT, dueAt: clock.now() }])); // prettier-ignore
      if (due.length > 0) bells.deliveries.ring(due);
      bells.events.ring();
    },
    notices,
  });

  const accountTracking = createAccountTracking({ db, clock });
  const trackKeys = trackingKeys(keyring);
  const hits = createHits({
    clock,
    recorder,
    botOf,
    privacy: config.tracking,
    failed: (err) => {
      log.error({ event: 'hit_lost', err }, 'an open or a click could not be written');
    },
  });

  const renderer = createRenderer({ clock });
  const disk = createDiskGuard({ clock, log }, { dir: config.dataDir, minFreeBytes: config.storage.minFreeBytes });
  await disk.look();
  const accept: AcceptDeps = {
    commit: db.commit,
    clock,
    bells,
    findStream: (accountId, slug) => streams.find(accountId, slug),
    trackingRule: createTrackingRule({
      accounts: accountTracking,
      directory,
      baseOf: trackingBase(config),
    }),
    isVerified: (accountId, domain) => directory.isVerified(accountId, domain),
    findSuppressed: createSuppressionLookUp({ db, clock }),
    hasRoom: () => disk.hasRoom(),
    intake: createGate({ most: MOST_ACCEPTED_AT_ONCE, waiting: MOST_WAITING_TO_BE_ACCEPTED }),
    takeQuota: (accountId, plan, mails) => quotas.take(accountId, planOf(plan) ?? NO_QUOTA, mails),
    retry: { maxAge: config.delivery.maxAge },
    simulatorDomain: config.simulator.domain,
    notices,
  };

  const book = createHoldBook({
    db,
    clock,
    changed: () => {
      bells.holds.ring();
    },
  });
  await book.load();
  const sources = buildSources({ config, db, clock, log, book });
  const holds = createHolds({ clock, book, pauses: createAccountPauses({ db, clock }), streams, directory, poolHold: (by) => sources.holdOf(by) }); // prettier-ignore
  const tlsTally = config.delivery.tlsReports ? createTlsTally({ db, clock, log }) : null;
  const mta = buildMta({
    tlsTally,
    config,
    overrides,
    clock,
    log,
    db,
    keyring,
    resolver,
    recorder,
    bells,
    directory,
    signers,
    holds,
    book,
    sources,
    poolOf: async (accountId, slug) => (await streams.find(accountId, slug))?.pool ?? DEFAULT_POOL,
    trackingKey: trackKeys[0],
    epoch,
    judge: (refusal) => judge(refusal),
    meters,
  });
  const metrics =
    meters === null
      ? null
      : metricsHandler(
          {
            db,
            clock,
            log,
            mta,
            meters,
            version,
            url: config.storage.url,
            dataDir: config.dataDir,
            backupDir: config.backup.dir,
          },
          config.metrics.token,
        );
  /** The ports for mail, once they are there. */
  let listening: InboundPorts | null = null;
  const accountWindows = new Windows();
  const fetch = createSafeFetch(
    { resolver, clock },
    { ...config.webhooks, ownAddresses, ...(overrides.ca === undefined ? {} : { ca: overrides.ca }) },
  );
  const random = overrides.random ?? Math.random;
  const webhookChanged = (id: string): void => {
    bells.webhooks.ring(id);
  };
  const webhooks = createWebhooks({ db, clock, keyring, log, fetch, bells, random });
  const api = createApi(
    {
      accountWindows,
      clock,
      log,
      authenticate: callers.authenticate,
      keyChanges: bells.keys,
      noteUse: (keyId, ip, endpoint) => {
        callers.noteUse(keyId, ip, endpoint);
      },
      planLimit: (plan) => planOf(plan)?.requestsPerMinute ?? 0,
      audit: auditLog,
      idempotency: { store: idempotency, onMismatch: config.idempotency.onMismatch },
      ready: () => readiness(db, disk, listening !== null),
      ...(meters === null
        ? {}
        : {
            answered: (request) => {
              meters.answered(request);
            },
          }),
      ...(metrics === null || config.metrics.port !== null ? {} : { beside: metrics }),
      settings: {
        publicUrl: config.http.publicUrl,
        version,
        trustedProxies: config.http.trustedProxies,
        ...(certificate === null ? {} : { tls: certificate }),
        body: { bodyBytes: config.limits.bodyBytes, singleBodyBytes: config.limits.singleBodyBytes },
      },
    },
    apiRoutes({
      renderer,
      holdOf: holds.of,
      change: { db, clock, recorder, bells, retry: accept.retry },
      laneFacts: (domain, mark) => mta.laneFacts(domain, mark),
      wireBytes: (deliveryId) => wireBytes(mta, deliveryId),
      db,
      clock,
      bells,
      keyring,
      accept,
      limits: config.limits,
      smtputf8: config.delivery.smtputf8,
      hostname: config.smtp.hostname,
      trackingTarget: trackingTargetOf(config),
      resolver,
      retention: config.retention,
      planOf,
      usedBy: quotas.used,
      forgetSettings: accountTracking.forget,
      track: {
        db,
        clock,
        recorder,
        keys: trackKeys,
        hits,
        publicHost: new URL(config.http.publicUrl).hostname,
        findDomain: (name) => directory.find(name),
        findStream: (accountId, slug) => streams.find(accountId, slug),
      },
      forgetDomain,
      forgetKey,
      forgetStream: streams.forget,
      vetUrl: fetch.vet,
      webhookChanged,
      testWebhook: webhooks.test,
    }),
  );
  const smtpCertificate =
    config.tls === null
      ? ownCertificate(config.dataDir, config.smtp.hostname, clock.now())
      : readCertificate(config.tls);
  const { submission } = config.smtp;
  const inbound = createInbound(
    {
      clock,
      log,
      db,
      bells,
      recorder,
      keys: returnPathKeys(keyring),
      isOurHost: async (host) => host === config.smtp.hostname || (await directory.isReturnPath(host)),
      hasRoom: () => disk.hasRoom(),
      accept,
      authenticate: callers.authenticate,
      keyChanges: bells.keys,
      trustedCaller: () =>
        submission.trustedKey === null ? Promise.resolve(null) : callers.byId(submission.trustedKey),
      noteUse: (keyId, ip, endpoint) => {
        callers.noteUse(keyId, ip, endpoint);
      },
      takeRequest(accountId, plan) {
        const now = clock.now();
        const rate = accountWindows.take(accountId, planOf(plan)?.requestsPerMinute ?? 0, now);
        return rate.over ? secondsLeft(rate, now) : null;
      },
      isVerified: (accountId, domain) => accept.isVerified(accountId, domain),
      failed: report,
      ownAccount,
      forward: { operatorAddress: config.smtp.operatorAddress, ...notices },
      audit: auditLog,
      idempotency: { store: idempotency, onMismatch: config.idempotency.onMismatch },
      submitted: (code) => meters?.submitted(code),
    },
    {
      certificate: smtpCertificate,
      mx: { host: config.smtp.mx.host, place: { port: config.smtp.mx.port, isChosen: config.smtp.mx.isPortChosen } },
      submission: {
        host: submission.host,
        start: { port: submission.port, isChosen: submission.isPortChosen },
        tls: { port: submission.tlsPort, isChosen: submission.isTlsPortChosen },
        hostname: config.smtp.hostname,
        trustedNetworks: submission.trustedNetworks,
        smtputf8: config.delivery.smtputf8,
        recipients: config.limits.recipients,
        size: config.limits.messageBytes,
        notify: submission.notify,
        operatorAddress: config.smtp.operatorAddress,
      },
    },
  );
  const operator: OperatorDeps = {
    db, clock, log, keyring, resolver, accept, recorder, bells, config, mta, holds, book,
    forgetKey, forgetDomain, webhookChanged,
    listening: () => listening ?? NOT_LISTENING,
    selfTest: () => selfTest({ clock, db, bells, ownAccount, returnPathKey: signingKey(keyring) }, {
      mx: listening?.mx == null ? null : { host: nearBy(config.smtp.mx.host), port: listening.mx },
      hostname: config.smtp.hostname, simulatorDomain: config.simulator.domain,
    }),
  }; // prettier-ignore
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
    db, clock, log, keyring, operator, config, version, history,
    routes: api.routes, passwords: createPasswords(), audit: auditLog,
  }); // prettier-ignore
  const isApart = config.dashboard.port !== config.http.port;
  if (!isApart) api.share(dashboard);

  const verifiedIn = async (name: string): Promise<string | null> => {
    const domain = await directory.find(name);
    return domain?.status === 'verified' ? domain.account_id : null;
  };
  const housekeeping = createHousekeeping({ clock, log, isBusy: () => db.commit.waiting > 0 }, [
    expiredIdempotency({ store: idempotency, clock }),
    retiredKeys({ db, clock }),
    domainChecks({ db, clock, log, resolver, hostname: config.smtp.hostname, trackingTarget: trackingTargetOf(config), changed: forgetDomain }), // prettier-ignore
    listingRule({ db, clock, log, resolver, config }),
    endedSuppressions({ db, clock }),
    oldStats({ db, clock }),
    oldAggregates({ db, clock }),
    oldSessions({ db, clock, keptMs: config.retention.audit }),
    ...(config.smtp.operatorAddress === null || tlsTally === null ? [] : [createTlsReports({ db, clock, log, resolver, accept, fetch, random, accountOf: verifiedIn }, { from: config.smtp.operatorAddress, submitter: config.smtp.hostname })]), // prettier-ignore
    ...retentionRules({ db, clock, retention: config.retention }),
    ...webhookLogRules({ db, clock }),
    ...spaceRules({ db, clock }),
  ]);

  const running: Running = {
    tlsTally,
    api,
    dashboard,
    apart: null,
    control: null,
    mta,
    inbound,
    webhooks,
    housekeeping,
    disk,
    callers,
    hits,
    auditLog,
    db,
    renderer,
    resolver,
    ownResolver: overrides.resolver === undefined,
    meters,
    metrics: null,
    certificateWatch: watchCertificate({
      clock,
      log,
      files: () => current.tls,
      changed: (renewed) => {
        if (config.http.tls) api.setCertificate(renewed);
        inbound.setCertificate(renewed);
      },
    }),
  };
  const reload = (next: Config): Changes => {
    const renewed = config.http.tls && next.tls !== null ? readCertificate(next.tls) : null;
    const rules = readBounceRules(next.delivery.bounceRules);
    const changes = changesBetween(current, next);
    judge = createJudge(rules);
    if (renewed !== null) api.setCertificate(renewed);
    if (next.tls !== null) inbound.setCertificate(renewed ?? readCertificate(next.tls));
    if ('level' in log) log.level = next.log.level;
    mta.reroute(next.delivery.routes);
    // What needs a restart stays as it is, and is told again until then.
    current = {
      ...current,
      plans: next.plans,
      log: { ...current.log, level: next.log.level },
      delivery: { ...current.delivery, routes: next.delivery.routes, bounceRules: next.delivery.bounceRules },
      tls: next.tls,
    };
    log.info(
      { event: 'reloaded', ...changes },
      changes.needRestart.length === 0
        ? 'the settings were read again'
        : 'the settings were read again; some need a restart',
    );
    return changes;
  };

  let stopped: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    log.info({ event: 'stopping' }, 'stopping: finishing what is in flight');
    await stopAll(running);
    await lock.release();
    log.info({ event: 'stopped', commits: db.commit.stats }, 'stopped');
  };
  try {
    const url = await listen(api, config.http);
    if (isApart) {
      const { port } = config.dashboard;
      running.apart = await listenApart({ clock, log }, dashboard, { host: config.http.host, port, tls: certificate });
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
    log.info({ event: 'started', url, ...ports, epoch, migrated: db.migrated }, 'Posthorn is running');
    const setUpLink = (): Promise<SetUpLinkRecord | null> => firstSetUpLink(operator);
    return { url, migrated: db.migrated, db, mta, ports, reload, setUpLink, stop: () => (stopped ??= stop()) };
  } catch (error) {
    // A port that is taken, say: what is open already must not outlive the attempt.
    await stopAll(running);
    throw error;
  }
}

async function wireBytes(mta: Mta, deliveryId: string): Promise<WireBytes> {
  const mail = await mta.wireBytes(deliveryId);
  if (mail.kind === 'ready') return { kind: 'bytes', data: mail.data };
  return { kind: 'none', why: mail.kind === 'gone' ? 'it is gone' : mail.why };
}

/** What listens everywhere is dialled on the loopback. */
const nearBy = (host: string): string => (host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host);

/** The key that return paths are made with now. */
const signingKey = (keyring: Keyring): ReturnPathKey => ({
  id: keyring.keyIds.length % 32,
  secret: keyring.derive('return path'),
});

/** Acceptances written at once: enough to fill a group of commits, few beside the deliveries that wait for the same writer. */
const MOST_ACCEPTED_AT_ONCE = 128;
/** Beyond that a client is better off trying again in a second. */
const MOST_WAITING_TO_BE_ACCEPTED = 1024;

/** Of a plan that is no more: it allows no requests, so there is nothing to count. */
const NO_QUOTA = { mailsPerDay: null, mailsPerMonth: null };

interface Parts {
  tlsTally: TlsTally | null;
  config: Config;
  overrides: Overrides;
  clock: Clock;
  log: Log;
  db: Database;
  keyring: Keyring;
  resolver: Resolver;
  recorder: ReturnType<typeof createRecorder>;
  bells: { deliveries: ReturnType<typeof createBell<readonly DueHint[]>>; holds: Bell };
  directory: ReturnType<typeof createDomainDirectory>;
  signers: ReturnType<typeof createDkimSigners>;
  holds: Holds;
  book: HoldBook;
  sources: Sources;
  poolOf: MtaDeps['poolOf'];
  trackingKey: TrackingKey;
  epoch: number;
  judge: Judge;
  meters: Meters | null;
}

function buildMta(parts: Parts): Mta {
  const {
    config,
    overrides,
    clock,
    log,
    db,
    keyring,
    resolver,
    recorder,
    bells,
    directory,
    signers,
    holds,
    book,
    sources,
    poolOf,
    trackingKey,
    epoch,
    judge,
  } = parts;
  const { delivery, smtp } = config;
  const random = overrides.random ?? Math.random;
  const six = localAddresses({ log, resolver }, config);
  const dial = {
    ownHostname: smtp.hostname,
    ownAddresses: [],
    remotePort: delivery.remotePort,
    allowPrivate: delivery.allowPrivate,
    ipv4: true,
    random,
  };
  const fetch = createStsFetch(
    { clock, resolver },
    {
      allowPrivate: delivery.allowPrivate,
      ...(overrides.stsPort === undefined ? {} : { port: overrides.stsPort }),
      ...(overrides.ca === undefined ? {} : { ca: overrides.ca }),
    },
  );
  const policies = createStsPolicies({ db, clock, log, resolver, fetch });
  const sites = createSites({
    clock,
    routes: delivery.routes,
    operators: readOperators(delivery.operatorsFile),
    tls: delivery.tls,
    ...(delivery.mtaSts ? { findPolicy: (domain) => policies.find(domain) } : {}),
    findHosts: async (domain, { fresh }) => {
      const found = await findMailHosts({ resolver }, domain, { ...dial, ipv6: six.isUsed(), fresh });
      return delivery.dnssecResolver ? withDane({ resolver }, domain, found) : found;
    },
    findRelay: (host, port) => findRelay({ resolver }, host, { port, ipv6: six.isUsed() }),
  });
  const { connection } = delivery;
  return createMta(
    {
      db, clock, log, recorder, bells, sites, sources, poolOf, random, holds, trackingKey, judge,
      limitsOf: (lane) => book.limitsOf(lane),
      ...(parts.tlsTally === null ? {} : { tlsSeen: parts.tlsTally.note }),
      ...(parts.meters === null ? {} : { attempted: (outcome) => parts.meters?.attempted(outcome) }),
      signersFor: (domain, order) => signers.signersFor(domain, order === 0 ? 0 : 1),
      returnPathDomain: async (domain) => (await directory.find(domain))?.return_path ?? `rp.${domain}`,
      returnPathKey: signingKey(keyring),
    },
    {
      epoch,
      hostname: smtp.hostname,
      timeouts: delivery.timeouts,
      pool: { idleMs: connection.idle, maxMessages: connection.maxMessages, maxAgeMs: connection.maxAge, maxPerHost: Math.max(20, delivery.lane.maxConcurrency) },
      lane: { initial: delivery.lane.initialConcurrency, max: delivery.lane.maxConcurrency },
      shaping: delivery.shaping,
      maxConnections: delivery.maxConnections,
      localOf: (source) => six.of(source),
      retry: { schedule: delivery.retry.schedule },
      simulatorDomain: config.simulator.domain,
      ...(overrides.ca === undefined ? {} : { ca: overrides.ca }),
    },
  ); // prettier-ignore
}

function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address));
}

function localAddresses({ log, resolver }: Pick<Parts, 'log' | 'resolver'>, { delivery }: Config): LocalAddresses {
  return createLocalAddresses(
    { log, resolver },
    { ipv6: delivery.ipv6, sources: delivery.sources, own: ownAddresses() },
  );
}

function buildSources({
  config,
  db,
  clock,
  log,
  book,
}: Pick<Parts, 'config' | 'db' | 'clock' | 'log' | 'book'>): Sources {
  const { delivery, smtp } = config;
  const warming = new Map(
    delivery.sources.flatMap(({ name, warmUp }) => (warmUp === null ? [] : [[name, warmUp] as const])),
  );
  const warmUp = createWarmUp({ db, clock, log }, warming);
  const sources = delivery.sources.map((one) => ({ ...one, ehlo: one.ehlo ?? smtp.hostname }));
  return createSources({ db, clock, log, book, warmUp }, smtp.hostname, sources);
}

const NOT_LISTENING: InboundPorts = { mx: null, submission: null, submissions: null };

async function readiness(
  db: Database,
  disk: DiskGuard,
  listeners: boolean,
): Promise<{ ok: boolean; checks: Record<string, boolean> }> {
  const database = await db.fast.all('SELECT 1').then(
    () => true,
    () => false,
  );
  const checks = { database, disk: disk.hasRoom(), listeners };
  return { ok: Object.values(checks).every(Boolean), checks };
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

interface Running {
  tlsTally: TlsTally | null;
  api: Api;
  inbound: Inbound;
  dashboard: Dashboard;
  apart: OwnPort | null;
  control: Control | null;
  mta: Mta;
  webhooks: { stop(): Promise<void> };
  housekeeping: { stop(): Promise<void> };
  disk: DiskGuard;
  callers: { close(): Promise<void> };
  hits: { close(): Promise<void> };
  auditLog: { close(): Promise<void> };
  db: Database;
  renderer: { close(): Promise<void> };
  resolver: Resolver;
  ownResolver: boolean;
  meters: Meters | null;
  metrics: MetricsServer | null;
  certificateWatch: CertificateWatch;
}

async function stopAll({
  tlsTally,
  api,
  inbound,
  dashboard,
  apart,
  control,
  mta,
  webhooks,
  housekeeping,
  disk,
  callers,
  hits,
  auditLog,
  db,
  renderer,
  resolver,
  ownResolver,
  meters,
  metrics,
  certificateWatch,
}: Running): Promise<void> {
  certificateWatch.stop();
  disk.stop();
  dashboard.stop();
  meters?.stop();
  await Promise.all([
    metrics?.close(),
    api.close(),
    apart?.close(),
    inbound.stop(),
    control?.close(),
    housekeeping.stop(),
    mta.stop(),
    webhooks.stop(),
  ]);
  await Promise.all([tlsTally?.stop(), callers.close(), hits.close(), auditLog.close(), renderer.close()]);
  if (ownResolver) await resolver.close();
  await db.close();
}
