/** Builds the delivery engine with its holds, sources, sites, policies and signing keys. */
import { createAccountPauses, OWN_ACCOUNT } from '../accounts/account-store.ts';
import { signingKey, type AppContext } from './context.ts';
import { readOperators } from '../config/data-file.ts';
import { readLimitRules, rulesWith } from '../config/limit-rules.ts';
import { createHolds, type Holds } from '../messages/delivery/holds.ts';
import { LimitBook } from '../messages/limits/book.ts';
import { withDane } from '../mta/dns/dane.ts';
import { findMailHosts, findRelay } from '../mta/dns/mx.ts';
import { createStsFetch, createStsPolicies } from '../mta/dns/sts.ts';
import { Mta } from '../mta/mta.ts';
import { Sites } from '../mta/sites/sites.ts';
import { createLocalAddresses, type LocalAddresses } from '../mta/sources/local-addresses.ts';
import { isUsable, Sources, type SourcesDeps, WarmUp } from '../mta/sources/sources.ts';
import { isOpenAt, type OpenPort } from '../net/own-addresses.ts';
import { absentSources } from '../operator/setup-warnings.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';

/** The delivery engine, and the holds and limits of the operator. */
export interface DeliveryEngine {
  mta: Mta;
  holds: Holds;
  limits: LimitBook;
}

/** `mailPorts` returns the ports on which this server listens for mail. */
export async function buildDeliveryEngine(
  context: AppContext,
  mailPorts: () => readonly OpenPort[],
): Promise<DeliveryEngine> {
  const { clock, db, streams, directory, notifiers } = context;
  const limits = new LimitBook(
    {
      db,
      clock,
      log: context.log,
      announce: () => notifiers.limits.notify(),
      changed: () => notifiers.holds.notify(),
    },
    { node: db.engine === 'postgres' ? context.config.node.name : null },
  );
  await limits.load();
  const absent = await watchSources(context);
  const sources = buildSources(context, { limits, absent });
  const pauses = createAccountPauses({ db, clock });
  const holds = createHolds({ clock, book: limits, pauses, streams, directory, poolHold: (by) => sources.holdOf(by) });
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
  const {
    config,
    overrides,
    clock,
    log,
    db,
    recorder,
    notifiers,
    directory,
    signingKeys,
    streams,
    meters,
    live,
    random,
  } = context;
  const { delivery, smtp } = config;
  const localAddresses = buildLocalAddresses(context);
  const { connection } = delivery;
  const rules = readLimitRules();
  return new Mta(
    {
      db,
      clock,
      log,
      recorder,
      notifiers,
      sources,
      limits,
      random,
      holds,
      nodes: context.nodes,
      owners: context.owners,
      sites: buildSites(context, localAddresses, mailPorts),
      fresh: context.fresh,
      trackingKey: context.trackKeys[0],
      keyring: context.keyring,
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
      shaping: rulesWith(rules, delivery.shaping),
      maxConnections: delivery.maxConnections,
      localOf: (source) => localAddresses.of(source),
      retry: { schedule: delivery.retry.schedule, maxAge: delivery.maxAge },
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
  { config: { delivery, smtp, node }, db, clock, log }: AppContext,
  { limits, absent }: Pick<SourcesDeps, 'absent'> & { limits: LimitBook },
): Sources {
  const warming = new Map(
    delivery.sources.flatMap(({ name, warmUp }) => (warmUp === null ? [] : [[name, warmUp] as const])),
  );
  const warmUp = new WarmUp({ db, clock, log }, warming);
  const settings = delivery.sources.map((one) => ({ ...one, ehlo: one.ehlo ?? smtp.hostname }));
  return new Sources(
    { clock, log, limits, warmUp, absent },
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
