/**
 * The outbound engine. A notifier or a timer brings due deliveries into windows; each goes to the lane of its destination; a
 * lane's workers try them and record what happened. start() also takes back what an earlier run left in the middle, stop()
 * lets attempts in flight finish.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Log } from '../base/log.ts';
import { createLanes, type Lanes, type LaneView } from '../scheduling/lanes.ts';
import type { Database } from '../storage/database.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Judge } from '../messages/delivery/classify.ts';
import type { Outcome } from '../messages/delivery/delivery.ts';
import { freeHeld, type Holds } from '../messages/delivery/holds.ts';
import type { LaneLimits } from '../messages/delivery/hold-book.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { RetryRule } from '../messages/delivery/retry.ts';
import type { LaneFactsOf, LaneWait } from '../messages/delivery/why.ts';
import { createAttempts } from './attempt/attempt.ts';
import { createAside } from './lanes/aside.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import { createPool, type PoolLimits } from './connection/pool.ts';
import { createTlsClient } from './connection/tls.ts';
import { hostKey, needOf } from './attempt/deliver.ts';
import { createHostTls } from './tls/host-tls.ts';
import { createLaneControl } from './lanes/lane-control.ts';
import type { LaneChange } from './lanes/lane-state.ts';
import type { LaneLimitsReport } from './lanes/lane-waits.ts';
import { createPlacing } from './placing.ts';
import { createPrepare, type PrepareDeps, type Prepared } from './prepare/prepare.ts';
import { compileRules } from './lanes/shaping.ts';
import type { Part } from './lanes/rests.ts';
import type { Destination, Site, Sites, Unresolved } from './sites/sites.ts';
import { DEFAULT_POOL, laneName, type Source, type Sources } from './sources/sources.ts';
import { createSweeper } from './sweeper.ts';
import type { TlsSeen } from './tls/tls-seen.ts';
import type { ThrottleLimits } from './lanes/throttle.ts';
import { createTranscripts, type Transcripts } from './attempt/transcripts.ts';
import { createDueQueue, type Job } from './due-queue.ts';
import { workLane, type WorkerDeps } from './worker.ts';

export interface MtaDeps extends Omit<PrepareDeps, 'db' | 'holdOf'> {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  recorder: Recorder;
  /** `holds` rings when the operator has set or ended a hold or limit. */
  notifiers: { deliveries: Notifier<readonly DueHint[]>; holds: Notifier };
  holds: Holds;
  /** What the operator allows a lane. */
  limitsOf: (lane: string) => LaneLimits | null;
  sites: Sites;
  sources: Sources;
  /** The pool that a stream of an account names. */
  poolOf(accountId: string, stream: string): Promise<string>;
  random: () => number;
  /** Reads refusals, by the operator's rules too. */
  judge: Judge;
  /** Hears how TLS went with each connection. */
  tlsSeen?: (seen: TlsSeen) => void;
  /** Hears of every attempt that was made. */
  attempted?(outcome: Outcome): void;
}

export interface MtaOptions {
  epoch: number;
  hostname: string;
  timeouts: PhaseTimeouts;
  pool: PoolLimits;
  lane: ThrottleLimits;
  shaping: Parameters<typeof compileRules>[0];
  maxConnections: number;
  /** The addresses of this machine that a source's connections come from, and the families it may dial. */
  localOf: (source: Source) => { addresses: readonly string[]; families: readonly number[] };
  retry: Pick<RetryRule, 'schedule'>;
  simulatorDomain: string;
  /** PEM certificates that mail hosts' certificates may chain to, beside the system's; for private networks. */
  ca?: string;
}

export type LaneReport = LaneView & LaneLimitsReport;

export interface Mta {
  start(): Promise<void>;
  /**
   * Takes no new work and lets attempts in flight end: for 30 s whatever they do, then only those behind their final dot, up
   * to 60 s in all, since closing there makes duplicates. What became of them is written.
   */
  stop(): Promise<void>;
  /** Other routes from now on. */
  reroute(routes: Parameters<Sites['reroute']>[0]): void;
  lanes(): LaneReport[];
  /** One lane, busy or not, with the changes of its limits, oldest first; null where it is not known. */
  lane(name: string): { now: LaneReport; changes: LaneChange[] } | null;
  /** What a delivery puts on the wire, whether or not it may go now. */
  wireBytes(deliveryId: string): Promise<Prepared>;
  /** What holds mail on the way to a domain, and what it waits for: as far as is known, without asking anybody. */
  laneFacts: LaneFactsOf;
  /** Somebody wants to know now: what keeps mail for this domain (null: any) from being tried ends, and one mail tries first. */
  tryNow(domain: string | null): Promise<void>;
  /** The way of a domain's mail, asked for now. */
  resolve(domain: string): Promise<Resolved>;
  /** The sources that mail leaves from. */
  sources: Pick<Sources, 'list' | 'unblock'>;
  /** What is said on the wire, for who wants to watch. */
  transcripts: Pick<Transcripts, 'watch' | 'read' | 'end'>;
  /** A recipient has complained of this delivery. */
  complained(deliveryId: string): void;
  /** The lane that mail for this domain is in, as it was last known; a name with `~` where it has none. */
  laneOf(domain: string): string;
  sizes(): { groups: number; jobs: number; connections: number };
}

/** Where a domain's mail goes, and under which conditions. */
export interface Resolved {
  destination: Destination;
  /** What each host needs to have the mail, in the order they are tried. */
  needs: readonly ReturnType<typeof needOf>[];
  lane: LaneReport | null;
}

/** Longer than the longest attempt, so that a claim never ends under a living worker. */
const LEASE_MARGIN_MS = 5 * 60_000;
const STOP_GIVE_UP_MS = 30_000;
const STOP_LONGEST_MS = 60_000;
/** For writing the last outcomes. */
const STOP_WRITE_MS = 2_000;
/** Workers for mail that needs no network: each waits for the grouped commit only, so that few of them would make small groups. */
const INNER_SLOTS = 64;
/** So long in one phase is waiting; a healthy host answers in far less. */
const LONG_WAIT_MS = 10_000;
const WAITING_LOOK_MS = 2_000;

export function createMta(deps: MtaDeps, options: MtaOptions): Mta {
  const { clock, log } = deps;
  const hostTls = createHostTls(deps);
  const pool = createPool(
    {
      clock,
      random: deps.random,
      lanesWaiting: (host) => {
        const asideOnes = aside.lanesWaiting(host);
        return asideOnes.length === 0 ? control.lanesWanting(host) : [...control.lanesWanting(host), ...asideOnes];
      },
      wake(lane, host, room) {
        aside.wake(lane, host, room);
        control.called(lane);
      },
    },
    options.pool,
  );
  const aside = createAside({ clock }, (lane, jobs) => {
    for (const job of jobs) lanes.offer(lane, job);
  });
  const transcripts = createTranscripts({ clock });
  const { sources } = deps;
  const windows = createDueQueue({
    db: deps.db,
    clock,
    offer: (job) => {
      placing.place(job);
    },
    failed: storageFailed,
  });
  const prepare = createPrepare({ ...deps, holdOf: deps.holds.of, ownName: options.hostname });
  const worker: WorkerDeps = {
    clock,
    recorder: deps.recorder,
    windows: {
      ...windows,
      done(job, dueAt) {
        placing.giveUpPlace(job);
        windows.done(job, dueAt);
      },
    },
    epoch: options.epoch,
    leaseMs: options.timeouts.attempt + LEASE_MARGIN_MS,
    prepare: async (job) => placing.stopsHere(job) ?? (await prepare.begin(job.id)),
    elsewhere: (job) => {
      placing.giveUpPlace(job);
      placing.place(job);
    },
    mayGo: (lane, job) => placing.mayGo(lane, job),
    putAside: (lane, job, found) => placing.putAside(lane, job, found),
    passageNow: (job, wanted) => attempts.passageNow(job, wanted),
    passage: (job, wanted) => attempts.passage(job, wanted),
    leave: (passage) => {
      attempts.leave(passage);
    },
    attempt: (job, mail, number, passage) => attempts.attempt(job, mail, number, passage),
    failed: storageFailed,
  };
  const lanes: Lanes<Job> = createLanes<Job>({
    work: (lane) => workLane(worker, lane),
    slots: (lane) => placing.slotsOf(lane),
    maxSlots: () => options.maxConnections,
    failed: (lane, error) => {
      log.error({ event: 'lane_failed', lane, err: error }, 'a lane worker ended with an error');
    },
    empty: () => {
      control.forgetOld();
    },
  });
  const control = createLaneControl(
    {
      clock,
      log,
      pool,
      limitsOf: (lane) =>
        deps.limitsOf(lane) ?? (lane.includes('/') ? deps.limitsOf(lane.slice(0, lane.lastIndexOf('/'))) : null),
      viewOf: (lane) => lanes.view(lane),
      pump: (lane) => {
        lanes.pump(lane);
      },
      wake: () => {
        windows.wake();
      },
    },
    { lane: options.lane, rules: compileRules(options.shaping), innerSlots: INNER_SLOTS },
  );
  const placing = createPlacing({
    ...deps,
    control,
    pool,
    aside,
    windows,
    lanes,
    offered() {
      if (lanes.starving() > 0) watchWaiting();
    },
    isStopping: () => stopping,
  });
  const sweeper = createSweeper(
    {
      ...deps,
      control,
      scan: () => windows.scan(),
      letGo,
      someWaits: () => deps.sites.holds || deps.sites.someUnresolved || control.someWait(),
      lanes: () => lanes.views(),
      factsOf: laneFacts,
      shift(ms) {
        for (const part of [deps.sites, sources, control]) part.shift(ms);
      },
      failed: storageFailed,
    },
    { epoch: options.epoch, retry: options.retry, stalledMs: options.timeouts.attempt + LEASE_MARGIN_MS },
  );
  const attempts = createAttempts(
    {
      ...deps,
      control,
      pool,
      tls: createTlsClient(options.ca === undefined ? {} : { ca: options.ca }),
      hostTls,
      transcripts,
      pump: (lane) => {
        lanes.pump(lane);
      },
    },
    options,
  );
  let unlisten: (() => void)[] = [];
  let freeing: Promise<void> | null = null;
  let watch: Timer | null = null;
  let stopping = false;

  /** The operator has set or ended something: what was held may go, and lanes have other limits. */
  function holdsChanged(): void {
    for (const { name } of lanes.views()) lanes.pump(name);
    void letGo().catch(storageFailed);
  }

  /** One at a time; what changes meanwhile is looked at by the next. */
  async function letGo(): Promise<void> {
    await freeing?.catch(() => undefined);
    freeing ??= freeHeld(deps)
      .then((freed) => {
        if (freed > 0) log.info({ event: 'held_mail_freed', count: freed }, 'mail that was held goes on');
      })
      .finally(() => {
        freeing = null;
      });
    await freeing;
  }

  function storageFailed(error: unknown): void {
    log.error({ event: 'storage_failed', err: error }, 'the database failed; trying again');
  }

  /**
   * While lanes have no connection, those that are kept waiting over 10 s by their host may be half of all: so that dead and
   * tar-pitting hosts, however many, leave room for the others.
   */
  function watchWaiting(): void {
    watch ??= clock.after(WAITING_LOOK_MS, () => {
      watch = null;
      if (stopping || lanes.starving() === 0) return;
      const dropped = pool.dropWaiting(LONG_WAIT_MS, Math.floor(options.maxConnections / 2));
      if (dropped > 0)
        log.warn(
          { event: 'connections_given_up', count: dropped },
          'hosts that keep us waiting hold over half of all connections',
        );
      watchWaiting();
    });
  }

  function laneFacts({ domain, account, mark = null }: Parameters<LaneFactsOf>[0]): ReturnType<LaneFactsOf> {
    const marked = mark === null ? null : sources.holdOf(mark);
    const known = deps.sites.lastKnown(domain);
    if (known === null || known.kind === 'unresolved')
      return { held: marked, waits: dnsWaits(domain, known, deps.sites.isAsking(domain)) };
    if (known.kind === 'hold') return { held: marked, waits: [routeWait(domain)] };
    if (known.kind !== 'site') return { held: marked, waits: [] };
    const held =
      deps.holds.ofLane(known.name) ?? marked ?? (sources.named ? null : sources.heldBy(DEFAULT_POOL, known.name));
    return { held, waits: siteWaits(known, { account, domain }) };
  }

  /** What the site's lanes wait for; while one of them may go on, it is that one's. */
  function siteWaits(site: Site, part: Part): readonly LaneWait[] {
    const names = sources.named ? sources.list().map(({ name }) => laneName(site.name, name)) : [site.name];
    const known = names.filter((lane) => control.wayOf(lane) !== null);
    const waits = known.map((lane) => control.waits(lane, part, site));
    return waits.find((one) => !one.some(({ stops }) => stops)) ?? waits[0] ?? [];
  }

  async function tryNow(domain: string | null): Promise<void> {
    deps.sites.retry(domain);
    if (domain === null) pool.tryNow(null);
    const site = domain === null ? null : deps.sites.lastKnown(domain);
    const names = control.names().filter((lane) => {
      const way = control.wayOf(lane);
      return way !== null && (domain === null || (site?.kind === 'site' && site.name === way.site));
    });
    for (const lane of names) {
      const way = control.wayOf(lane);
      if (way !== null) await sources.unblockSite(way.site);
      if (way !== null && site?.kind === 'site') pool.tryNow(site.hosts.map((host) => hostKey(host, way.source)));
      control.tryNow(lane, domain);
      aside.wakeLane(lane);
    }
    windows.wake();
    await letGo();
  }

  /** What is put aside waits in the lane, too. */
  function viewOf(name: string): LaneView {
    const view = lanes.view(name);
    return { ...view, waiting: view.waiting + aside.count(name) };
  }

  function oneLane(name: string): { now: LaneReport; changes: LaneChange[] } | null {
    const report = control.report(name);
    if (report === null) return null;
    return { now: { ...viewOf(name), ...report }, changes: control.history(name) };
  }

  /** A complaint counts against the source that the mail left from. */
  async function noteComplaint(deliveryId: string): Promise<void> {
    if (!sources.named) return;
    const [row] = await deps.db.prepared.all<{ source: string | null; domain: string }>(
      `SELECT a.source, d.domain FROM deliveries d JOIN attempts a ON a.message_id = d.message_id AND a.delivery_id = d.id
       WHERE d.id = ? AND a.outcome = 'accepted' ORDER BY a.id DESC LIMIT 1`,
      [deliveryId],
    );
    if (row?.source == null) return;
    const destination = await deps.sites.find(row.domain);
    if (destination.kind === 'site') sources.complained(row.source, destination.name);
  }

  return {
    async start() {
      await sweeper.takeBack();
      await hostTls.load();
      await sources.load();
      unlisten = [
        deps.notifiers.deliveries.listen((hints) => {
          windows.hint(hints);
        }),
        deps.notifiers.holds.listen(holdsChanged),
      ];
      await sweeper.start();
    },
    async stop() {
      stopping = true;
      for (const end of unlisten) end();
      windows.stop();
      sweeper.stop();
      watch?.cancel();
      control.stop();
      aside.stop();
      transcripts.stop();
      const timers = [
        clock.after(STOP_GIVE_UP_MS, () => {
          pool.abandon();
        }),
        clock.after(STOP_LONGEST_MS, () => {
          pool.abandon(true);
        }),
      ];
      const tooLong = new Promise<void>((resolve) =>
        timers.push(clock.after(STOP_LONGEST_MS + STOP_WRITE_MS, resolve)),
      );
      await Promise.race([lanes.stop().then(() => pool.drain()), tooLong]);
      for (const timer of timers) timer.cancel();
      await Promise.all([prepare.close(), sources.close(), freeing?.catch(storageFailed)]);
    },
    reroute(routes) {
      deps.sites.reroute(routes);
      // Mail of held lanes is looked at now, not by the next sweep.
      void windows.scan().catch(storageFailed);
    },
    async resolve(domain) {
      const destination = await deps.sites.find(domain);
      if (destination.kind !== 'site') return { destination, needs: [], lane: null };
      const name = placing.laneFor(destination, null);
      const lane = oneLane(name);
      return {
        destination,
        needs: destination.hosts.map((host) => needOf(destination, host)),
        lane: lane?.now ?? null,
      };
    },
    wireBytes: (deliveryId) => prepare.look(deliveryId),
    laneFacts,
    tryNow,
    sources,
    transcripts,
    complained(deliveryId) {
      void noteComplaint(deliveryId).catch(storageFailed);
    },
    lanes() {
      const names = new Set([...lanes.views().map(({ name }) => name), ...control.limited()]);
      return [...names].map((name) => ({ ...viewOf(name), ...(control.report(name) ?? noNetwork) }));
    },
    lane: oneLane,
    laneOf(domain) {
      const known = deps.sites.lastKnown(domain);
      if (known === null || known.kind === 'unresolved') return '~unresolved';
      return known.kind === 'hold' ? '~hold' : known.kind === 'site' ? known.name : placing.laneFor(known, null);
    },
    sizes: () => ({ ...windows.sizes(), connections: pool.count() }),
  };
}

/** Of lanes whose mail needs no connection. */
const noNetwork: LaneLimitsReport = {
  source: null,
  limit: INNER_SLOTS,
  cause: 'no network',
  causeAt: null,
  perMinute: null,
  limits: [],
  parkedUntil: null,
  waits: [],
  lastReply: null,
  lastProgressAt: 0,
};

function dnsWaits(domain: string, known: Unresolved | null, isAsking: boolean): LaneWait[] {
  if (known !== null)
    return [
      {
        reason: 'dns_trouble',
        message: `DNS does not tell where mail for ${domain} goes: ${known.route.text}. It is asked again, and no attempt is spent.`,
        since: known.since,
        until: known.until,
        by: 'dns',
        stops: true,
      },
    ];
  const message = `The mail hosts of ${domain} are being looked up.`;
  return isAsking ? [{ reason: 'resolving', message, since: null, until: null, by: 'us', stops: true }] : [];
}

const routeWait = (domain: string): LaneWait => ({
  reason: 'held',
  message: `The route of ${domain} in delivery.routes holds its mail, whose time runs on. It goes when the route is another.`,
  since: null,
  until: null,
  by: 'operator',
  stops: true,
});
