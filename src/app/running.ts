/** Builds the parts that run, each from existing ones: acceptance, mail ports, delivery engine, webhooks, then their doors. app.ts starts them. */
import type { Timer } from '../base/clock.ts';
import { RateWindows, type CountedElsewhere } from '../scheduling/rate-windows.ts';
import { createIntake } from '../messages/accept/intake.ts';
import { certificateFiles, watchCertificate, type WatchDeps } from '../config/certificate.ts';
import type { Config } from '../config/schema.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import { createTrackingRule } from '../messages/request/tracking-rule.ts';
import { findSuppressed } from '../suppressions/suppression-store.ts';
import { trackingBase, trackingTargetOf } from '../tracking/host.ts';
import { createKnownDevices } from '../members/sign-in.ts';
import { createPasswords } from '../members/password.ts';
import { createClockTrust, whenTrusted } from '../housekeeping/clock-trust.ts';
import { domainChecks, domainNotices } from '../housekeeping/domain-checks.ts';
import { createHousekeeping, type Housekeeping } from '../housekeeping/housekeeping.ts';
import { oldRowRules } from '../housekeeping/old-rows.ts';
import { retentionRules } from '../housekeeping/retention.ts';
import { Webhooks } from '../webhooks/dispatcher.ts';
import { BodyMemory, bodyLimits } from '../api/body.ts';
import { createInside } from '../api/inside.ts';
import { Newcomers } from '../api/newcomers.ts';
import { createApi } from '../api/server.ts';
import type { DashboardDeps } from '../dashboard/context.ts';
import { createDashboard, type Dashboard, type OwnPort } from '../dashboard/dashboard.ts';
import type { Control } from '../operator/door/control.ts';
import { createLaneFacts } from '../operator/lanes.ts';
import { listingRule } from '../operator/listings.ts';
import { createHistory } from '../operator/metrics/meters.ts';
import { metricsHandler, type MetricsServer } from '../operator/metrics/metrics.ts';
import { FigureWriter } from '../operator/node-figures.ts';
import { nodeFigures, serverRoutes } from '../operator/routes.ts';
import { hearWatches } from '../operator/watch.ts';
import { version } from '../version.ts';
import { type AppContext, signingKey } from './core.ts';
import { accountNotices, disabledNotice, domainNotice } from './notices.ts';
import { apiDeps, buildInbound, buildOperator, buildRoutes } from './web.ts';
import { createAccountPauses, OWN_ACCOUNT } from '../accounts/account-store.ts';
import { readOperators } from '../config/data-file.ts';
import { readLimitRules, withOwn } from '../config/limit-rules.ts';
import { createHolds, type Hold, type Holds } from '../messages/delivery/holds.ts';
import { LimitBook } from '../messages/limits/book.ts';
import { withDane } from '../mta/dns/dane.ts';
import { findMailHosts, findRelay } from '../mta/dns/mx.ts';
import { createStsFetch, createStsPolicies } from '../mta/dns/sts.ts';
import { Mta } from '../mta/mta.ts';
import { Sites } from '../mta/sites/sites.ts';
import { createLocalAddresses, type LocalAddresses } from '../mta/sources/local-addresses.ts';
import { isUsable, Sources, type SourcesDeps } from '../mta/sources/sources.ts';
import { isOpenAt, type OpenPort } from '../net/own-addresses.ts';
import { absentSources } from '../operator/setup-warnings.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';

/** True if the dashboard does not share the port of the API. */
export const hasOwnPort = ({ dashboard, http }: Pick<Config, 'dashboard' | 'http'>): boolean =>
  dashboard.port !== http.port;

/** The parts that work, which the doors are built from. */
export type Parts = Awaited<ReturnType<typeof buildParts>>;
/** All parts that run. */
export type Running = Awaited<ReturnType<typeof buildRunning>>;

async function buildParts(context: AppContext, present: WatchDeps['present']) {
  const { config, db, clock, log, live, nodes, owners, usedUp } = context;
  const accept = buildAccept(context);
  /** Requests of each account, counted for HTTP and submission together. */
  const accountWindows = new RateWindows({ isShared: () => nodes.hasOthers });
  const intake = createIntake({ clock });
  const inbound = await buildInbound(context, { accept, accountWindows, intake }, present.certificate);
  const delivery = await buildDeliveryEngine(context, inbound.mailPorts);
  const notices = accountNotices(context);
  return {
    ...delivery,
    accept,
    accountWindows,
    intake,
    inbound,
    notices,
    webhooks: new Webhooks({
      ...context,
      hasOthers: () => nodes.hasOthers,
      notice: disabledNotice(notices, config),
    }),
    certificateWatch: watchCertificate({ clock, log, present, files: () => certificateFiles(live.config) }),
    /** The certificate that the HTTP ports begin with; null if they speak plain HTTP. */
    certificate: config.http.tls ? present.certificate : null,
    laneFacts: createLaneFacts({ db, clock, nodes, owners, mta: delivery.mta }),
    /** These two are shared by API and dashboard. */
    bodyMemory: new BodyMemory(bodyLimits.heldBytes, usedUp),
    newcomers: new Newcomers(config.http.trustedProxies, { usedUp }),
  };
}

export async function buildRunning(context: AppContext, present: WatchDeps['present']) {
  const parts = await buildParts(context, present);
  return {
    ...parts,
    ...buildDoors(context, parts),
    housekeeping: await buildHousekeeping(context, parts),
    shared: shareState(context, parts),
    /** The dashboard's own port; null until it is opened, and if the dashboard shares that of the API. */
    apart: null as OwnPort | null,
    /** The server of the control socket; null until it listens. */
    control: null as Control | null,
    /** The metrics' own port; null until it is opened, and if they have none. */
    metricsServer: null as MetricsServer | null,
    /** Set when the stop has begun: nothing more is started. */
    isStopping: false,
  };
}

/** Builds the doors by which people, programs and other nodes reach the operations. */
function buildDoors(context: AppContext, parts: Parts) {
  const { config, db, clock, log, nodes, meters } = context;
  const ofApi = buildRoutes(context, parts);
  const ofAccounts = createInside({ clock, commit: db.commit }, ofApi);
  const operator = buildOperator(context, parts, ofAccounts);
  const metrics = meters === null ? null : metricsHandler(operator, meters);
  const deps = apiDeps(context, parts, { inside: ofAccounts, metrics });
  const api = createApi(deps, ofApi);
  hearWatches(operator);
  const routes = [...api.routes, ...serverRoutes(operator)];
  const inside = createInside({ clock, commit: db.commit }, routes);
  const dashboard = buildDashboard(context, parts, { inside, routes });
  if (!hasOwnPort(config)) api.share(dashboard);
  return {
    api,
    operator,
    served: { api: deps, routes, inside },
    dashboard,
    metrics,
    figures: new FigureWriter({ db, clock, log, nodes }, operator, nodeFigures),
  };
}

/** The quota of a plan that was removed: it allows no requests, so nothing is counted. */
const NO_QUOTA = { mailsPerDay: null, mailsPerMonth: null };

function buildAccept(context: AppContext): AcceptDeps {
  const { config, db, clock, streams, directory, disk, quotas, planOf } = context;
  return {
    ...context,
    commit: db.commit,
    findStream: (accountId, slug) => streams.find(accountId, slug),
    trackingRule: createTrackingRule({ accounts: context.accountTracking, directory, baseOf: trackingBase(config) }),
    isVerified: (accountId, domain) => directory.isVerified(accountId, domain),
    whyRefused: (accountId, domain) => directory.whyRefused(accountId, domain),
    findSuppressed: (questions) => findSuppressed(db.prepared, clock.now(), questions),
    hasRoom: () => disk.hasRoom(),
    takeQuota: (accountId, plan, mails) => quotas.take(accountId, planOf(plan) ?? NO_QUOTA, mails),
    simulatorDomain: config.simulator.domain,
  };
}

function buildDashboard(context: AppContext, parts: Parts, doors: Pick<DashboardDeps, 'inside' | 'routes'>): Dashboard {
  const { db, clock, log, keyring, live, usedUp, meters } = context;
  const history = createHistory({
    db,
    clock,
    mta: parts.mta,
    accepted: meters === null ? null : () => meters.accepted(),
    failed: (err) => log.warn({ event: 'history_failed', err }, 'the depth of the queue could not be noted'),
  });
  return createDashboard({
    ...context,
    ...parts,
    ...doors,
    // Those in force: a reload replaces some of them.
    get config() {
      return live.config;
    },
    version,
    history,
    passwords: createPasswords(usedUp),
    devices: createKnownDevices(keyring.derive('known devices')),
  });
}

async function buildHousekeeping(context: AppContext, { notices }: Parts): Promise<Housekeeping> {
  const { config, db, clock, log, nodes } = context;
  const trust = await createClockTrust({ db, clock, log });
  context.idempotency.expireWhile(() => trust.isTrusted());
  const { commit } = db;
  const leads = (): boolean => nodes.isLeader;
  return createHousekeeping({ clock, log, commit, isBusy: () => commit.waiting > 0, leads }, [
    domainChecks({
      ...context,
      hostname: config.smtp.hostname,
      trackingTarget: trackingTargetOf(config),
      graceMs: config.domains.grace,
      changed: context.changes.domainChanged,
    }),
    domainNotices({ ...context, notice: domainNotice(notices, config) }),
    listingRule(context),
    ...oldRowRules({ db, clock, trust, retention: config.retention, usedUp: context.usedUp }),
    ...retentionRules({ db, clock, retention: config.retention }).map((rule) => whenTrusted(trust, rule)),
  ]);
}

/** Time between two looks, in milliseconds. */
const LOOK_MS = 2000;
const RATES = 'rates';

/**
 * Keeps the memory of this node in step with the other nodes, beside events and due mail: limits, request rates, keys, complaints, and received
 * mail that a node left unread. Messages between nodes may be lost, so what has no age of its own is read again every two seconds. On SQLite
 * there are none, and only the listeners of this node are joined.
 */
function shareState({ clock, log, nodes, notifiers, db }: AppContext, { mta, accountWindows, inbound }: Parts) {
  let timer: Timer | null = null;
  let isStopped = false;
  let isFailing = false;
  let servers = new Set<number>();

  const reported = (work: Promise<void>): void =>
    void work.then(
      () => {
        isFailing = false;
      },
      (err: unknown) => {
        // While the database is away every look fails: one line says so.
        if (!isFailing)
          log.error({ event: 'look_failed', err }, 'what other nodes have changed could not be read: tried again');
        isFailing = true;
      },
    );

  notifiers.complaints.listen((deliveryId) => mta.complained(deliveryId));
  nodes.listen((message) => {
    if (message?.about !== RATES || !Array.isArray(message.hint)) return;
    for (const counted of message.hint as CountedElsewhere[]) accountWindows.add(counted, clock.now());
  });

  /** Mails that a node received and had not read when it ended are read by the one that leads. */
  function noteEnded(): void {
    const now = new Set(nodes.list().flatMap(({ epoch, isCommand }) => (isCommand ? [] : [epoch])));
    const hasEnded = [...servers].some((epoch) => !now.has(epoch));
    servers = now;
    if (hasEnded && nodes.isLeader) inbound.takeLeft();
  }

  async function look(): Promise<void> {
    noteEnded();
    if (!nodes.hasOthers) return;
    const told = accountWindows.untold(clock.now());
    if (told.length > 0) nodes.tell({ about: RATES, hint: told });
    // Open answers of keys look whether these are still good.
    notifiers.keys.arrive();
    await mta.reread();
  }

  function plan(): void {
    if (isStopped) return;
    timer = clock.after(LOOK_MS, () => reported(look().finally(plan)), { background: true });
  }
  if (db.engine === 'postgres') plan();

  return {
    stop(): void {
      isStopped = true;
      timer?.cancel();
    },
  };
}

/** The delivery engine, and the holds and limits of the operator. */
interface DeliveryEngine {
  mta: Mta;
  holds: Holds;
  limits: LimitBook;
}

/** `mailPorts` returns the ports on which this server listens for mail. */
async function buildDeliveryEngine(context: AppContext, mailPorts: () => readonly OpenPort[]): Promise<DeliveryEngine> {
  const { clock, db, streams, directory, notifiers, nodes, retry, config } = context;
  const { delivery } = config;
  const limits = new LimitBook(
    {
      db,
      clock,
      log: context.log,
      announce: () => notifiers.limits.notify(),
      changed: () => notifiers.holds.notify(),
    },
    {
      node: db.engine === 'postgres' ? config.node.name : null,
      nodes: () => Math.max(1, nodes.list().filter((one) => one.isDelivering && !one.isCommand).length),
      rules: {
        rules: retry.rules,
        warming: new Map(delivery.sources.flatMap(({ name, warmUp }) => (warmUp === null ? [] : [[name, warmUp]]))),
      },
    },
  );
  await limits.load();
  const absent = await watchSources(context);
  const sources = buildSources(context, { limits, absent });
  const pauses = createAccountPauses({ db, clock });
  const engineHold = (by: string): Hold | null => sources.holdOf(by) ?? limits.counts.holdOf(by);
  const holds = createHolds({ clock, book: limits, pauses, streams, directory, engineHold });
  return { mta: buildMta(context, { limits, sources, holds, mailPorts }), holds, limits };
}

function buildMta(
  context: AppContext,
  {
    limits,
    sources,
    holds,
    mailPorts,
  }: Omit<DeliveryEngine, 'mta'> & { sources: Sources; mailPorts: () => readonly OpenPort[] },
): Mta {
  const { config, overrides, directory, signingKeys, streams, meters, live } = context;
  const { delivery, smtp } = config;
  const localAddresses = buildLocalAddresses(context);
  const { connection } = delivery;
  const rules = readLimitRules();
  return new Mta(
    {
      ...context,
      sources,
      limits,
      holds,
      sites: buildSites(context, localAddresses, mailPorts),
      trackingKey: context.trackKeys[0],
      judge: (refusal) => live.judge(refusal),
      poolOf: async (accountId, slug) => (await streams.find(accountId, slug))?.pool ?? DEFAULT_POOL,
      maySend: () => context.nodes.holdsLease,
      ...(meters === null ? {} : { attempted: (outcome, destination) => meters.attempted(outcome, destination) }),
      keysFor: (accountId, domain) => signingKeys.keysFor(accountId === OWN_ACCOUNT ? null : accountId, domain),
      returnPathDomain: async (accountId, domain) => {
        const found = accountId === OWN_ACCOUNT ? directory.find(domain) : directory.findOf(accountId, domain);
        return (await found)?.return_path ?? `rp.${domain}`;
      },
      returnPathKey: signingKey(context.keyring),
    },
    {
      epoch: context.epoch,
      hostname: smtp.hostname,
      timeouts: delivery.timeouts,
      pool: {
        idleMs: connection.idle,
        maxMessages: connection.maxMessages,
        maxAgeMs: connection.maxAge,
        maxPerHost: Math.max(20, delivery.lane.maxConcurrency),
        maxOpen: delivery.maxConnections,
      },
      lane: { initial: delivery.lane.initialConcurrency, max: delivery.lane.maxConcurrency },
      answers: rules.answers,
      shaping: withOwn(rules.rules, delivery.shaping),
      maxConnections: delivery.maxConnections,
      localOf: (source) => localAddresses.of(source),
      retry: context.retry,
      simulatorDomain: config.simulator.domain,
      ...(overrides.ca === undefined ? {} : { ca: overrides.ca }),
    },
  );
}

function buildSites(
  { config, overrides, clock, db, log, resolver, random, ownAddresses }: AppContext,
  localAddresses: LocalAddresses,
  mailPorts: () => readonly OpenPort[],
): Sites {
  const { delivery, smtp } = config;
  const dial = {
    ownHostname: smtp.hostname,
    isOwn: (ip: string) => isOpenAt(mailPorts(), ownAddresses, { ip, port: delivery.remotePort }),
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
  const policies = createStsPolicies({
    db,
    clock,
    log,
    resolver,
    fetch,
    changed: (domain) => sites.forget(domain),
  });
  const sites = new Sites({
    clock,
    routes: delivery.routes,
    operators: readOperators(delivery.operatorsFile),
    tls: delivery.tls,
    ...(delivery.mtaSts ? { findPolicy: (domain) => policies.find(domain) } : {}),
    findHosts: async (domain, { fresh }) => {
      const found = await findMailHosts({ resolver }, domain, { ...dial, ipv6: localAddresses.isUsed(), fresh });
      if (found.kind === 'refused' && found.reason === 'no_address' && !localAddresses.isSure())
        return { kind: 'trouble', text: 'DNS has not told yet whether this server may send over IPv6 (delivery.ipv6)' };
      return delivery.dnssecResolver ? withDane({ resolver }, domain, found) : found;
    },
    findRelay: (host, port) => findRelay({ resolver }, host, { port, ipv6: localAddresses.isUsed() }),
  });
  return sites;
}

function buildLocalAddresses({
  clock,
  log,
  resolver,
  ownAddresses,
  config: { delivery, node },
}: AppContext): LocalAddresses {
  return createLocalAddresses(
    { clock, log, resolver },
    {
      ipv6: delivery.ipv6,
      sources: delivery.sources.filter((source) => isUsable(source, node.name)),
      own: ownAddresses(),
    },
  );
}

/** Returns the addresses of sources that this machine lacks, with the time since when. They are looked for every half minute. */
async function watchSources({ config, clock, log, notifiers }: AppContext): Promise<ReadonlyMap<string, number>> {
  const absent = new Map<string, number>();
  async function look(): Promise<void> {
    const before = new Map(absent);
    absent.clear();
    for (const { address } of await absentSources(config)) absent.set(address, before.get(address) ?? clock.now());
    const addresses = [...absent.keys()];
    if (addresses.join() !== [...before.keys()].join()) {
      log.warn({ event: 'sources_absent', addresses }, 'addresses of delivery.sources came to or left this machine');
      notifiers.holds.notify();
    }
    clock.after(30_000, () => void look(), { background: true });
  }
  if (config.delivery.sources.length > 0) await look();
  return absent;
}

function buildSources(
  { config: { delivery, smtp, node }, clock, log }: AppContext,
  { limits, absent }: Pick<SourcesDeps, 'absent'> & { limits: LimitBook },
): Sources {
  const settings = delivery.sources.map((one) => ({ ...one, ehlo: one.ehlo ?? smtp.hostname }));
  return new Sources(
    { clock, log, limits, absent },
    {
      hostname: smtp.hostname,
      settings,
      node: {
        name: node.name,
        isDelivering: node.roles.includes('delivery'),
      },
    },
  );
}
