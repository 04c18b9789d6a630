/**
 * The outbound engine. A bell or a timer brings due deliveries into windows; each goes to the lane of its destination; a
 * lane's workers try them and record what happened. start() also takes back what an earlier run left in the middle, stop()
 * lets attempts in flight finish.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Bell } from '../base/bell.ts';
import type { Log } from '../base/log.ts';
import { createLanes, type Lanes, type LaneView } from '../base/lanes.ts';
import type { Database } from '../storage/database.ts';
import type { DueHint } from '../messages/due-hint.ts';
import type { Judge } from '../messages/classify.ts';
import type { Outcome } from '../messages/delivery.ts';
import { freeHeld, type Hold, type Holds } from '../messages/holds.ts';
import type { LaneLimits } from '../messages/hold-book.ts';
import type { Recorder } from '../messages/record.ts';
import { nextTryAt, type RetryRule } from '../messages/retry.ts';
import { createBatchLoader } from '../base/batch-loader.ts';
import { createBreaker } from './breaker.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import { createPool, type PoolLimits } from './connection/pool.ts';
import { createTlsClient } from './connection/tls.ts';
import { deliver, needOf, type DeliverDeps } from './deliver.ts';
import { createHostTls } from './host-tls.ts';
import { createLaneControl, type LaneChange, type LaneLimitsReport } from './lane-control.ts';
import { cannotBuild, discarded, outcomeOfRoute, waitForUs, type AttemptFrame } from './outcome.ts';
import { createPrepare, type Held, type PrepareDeps, type Prepared, type Ready } from './prepare.ts';
import { createSetUpWarnings } from './set-up-warnings.ts';
import { simulate, simulatedEnd } from './simulator.ts';
import { compileRules } from './shaping.ts';
import type { Destination, Sites } from './sites.ts';
import { DEFAULT_POOL, laneName, type Source, type Sources, type Wish } from './sources.ts';
import { createSweeper, SWEEP_MS } from './sweeper.ts';
import type { TlsSeen } from './tls-seen.ts';
import type { ThrottleLimits } from './throttle.ts';
import { createTranscripts, type Transcripts } from './transcripts.ts';
import { createWindows, type Job } from './windows.ts';
import { loadWishes } from './wishes.ts';
import { workLane, type Attempted, type Elsewhere, type WorkerDeps } from './worker.ts';

export interface MtaDeps extends Omit<PrepareDeps, 'db' | 'holdOf'> {
  db: Pick<Database, 'fast' | 'commit'>;
  clock: Clock;
  log: Log;
  recorder: Recorder;
  /** `holds` rings when the operator has set or ended a hold or limit. */
  bells: { deliveries: Bell<readonly DueHint[]>; holds: Bell };
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
  /** Of the lanes of this domain, as far as they are known: until when every mail host is left alone, and what holds them; `mark` is
   * what its mail was marked with as held. */
  laneFacts(domain: string, mark?: string | null): { parkedUntil: number | null; held: Hold | null };
  /** The way of a domain's mail, asked for now. */
  resolve(domain: string): Promise<Resolved>;
  /** The sources that mail leaves from. */
  sources: Pick<Sources, 'list' | 'unblock'>;
  /** What is said on the wire, for who wants to watch. */
  transcripts: Pick<Transcripts, 'watch' | 'read' | 'end'>;
  /** A recipient has complained of this delivery. */
  complained(deliveryId: string): void;
  /** The lane that mail for this domain is in now; a name with `~` where it has none. */
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
const SIMULATOR_LANE = '~simulator';
const DISCARD_LANE = '~discard';
const NOWHERE_LANE = '~nowhere';
const UNTRIED_MS = 2_000;
/** So long in one phase is waiting; a healthy host answers in far less. */
const LONG_WAIT_MS = 10_000;
const WAITING_LOOK_MS = 2_000;
const EXHAUSTED_QUIET_MS = 60_000;

export function createMta(deps: MtaDeps, options: MtaOptions): Mta {
  const { clock, log } = deps;
  const breaker = createBreaker();
  const hostTls = createHostTls(deps);
  const pool = createPool({ clock }, options.pool);
  const tls = createTlsClient(options.ca === undefined ? {} : { ca: options.ca });
  const transcripts = createTranscripts({ clock });
  const { sources } = deps;
  const deliverDeps = {
    clock,
    pool,
    tls,
    memory: hostTls.memory,
    breaker,
    transcripts,
    timeouts: options.timeouts,
    ...(deps.tlsSeen === undefined ? {} : { tlsSeen: deps.tlsSeen }),
  };
  /** What a delivery by each source may touch. */
  const bySource = new Map<string | null, DeliverDeps>();
  const wishes = createBatchLoader<Wish>((ids) => loadWishes(deps, ids));
  const warnings = createSetUpWarnings({ clock, log });
  const windows = createWindows({ db: deps.db, clock, offer: place, failed: storageFailed });
  const prepare = createPrepare({ ...deps, holdOf: deps.holds.of, ownName: options.hostname });
  const worker: WorkerDeps = {
    clock,
    recorder: deps.recorder,
    windows: {
      ...windows,
      done(job, dueAt) {
        giveUpPlace(job);
        windows.done(job, dueAt);
      },
    },
    epoch: options.epoch,
    leaseMs: options.timeouts.attempt + LEASE_MARGIN_MS,
    prepare: async (job) => stopsHere(job) ?? (await prepare.begin(job.id)),
    elsewhere: place,
    attempt,
    failed: storageFailed,
  };
  const lanes: Lanes<Job> = createLanes<Job>({
    work: (lane) => workLane(worker, lane),
    slots: slotsOf,
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
      breaker,
      limitsOf: (lane) =>
        deps.limitsOf(lane) ?? (lane.includes('/') ? deps.limitsOf(lane.slice(0, lane.lastIndexOf('/'))) : null),
      pump: (lane) => {
        lanes.pump(lane);
      },
    },
    { lane: options.lane, rules: compileRules(options.shaping), innerSlots: INNER_SLOTS },
  );
  const sweeper = createSweeper(
    {
      ...deps,
      control,
      scan: () => windows.scan(),
      letGo,
      routesHold: () => deps.sites.holds,
      lanes: () => lanes.views(),
      heldBy: (domain) => laneFacts(domain).held,
      shift(ms) {
        for (const part of [breaker, deps.sites, sources, control]) part.shift(ms);
      },
      failed: storageFailed,
    },
    { epoch: options.epoch, retry: options.retry, stalledMs: options.timeouts.attempt + LEASE_MARGIN_MS },
  );
  let unlisten: (() => void)[] = [];
  let freeing: Promise<void> | null = null;
  let watch: Timer | null = null;
  let stopping = false;
  let toldExhaustedAt = -Infinity;

  /** What keeps the job from being tried in its lane: a hold of all lanes of its site, or its source may not send there now. */
  function stopsHere(job: Job): Held | Elsewhere | null {
    const { domain, source = null, wish } = job;
    giveUpPlace(job);
    const known = deps.sites.known(domain);
    if (known?.kind !== 'site') return null;
    const hold = deps.holds.ofLane(known.name);
    if (hold !== null) return { kind: 'held', hold };
    if (sources.take(source, known.name)) {
      if (source !== null) job.placeAt = known.name;
      return null;
    }
    const none = sources.heldBy(wish?.pool ?? DEFAULT_POOL, known.name);
    return none === null ? { kind: 'elsewhere' } : { kind: 'held', hold: none };
  }

  /** A job that is not sent after all leaves its place among the day's mails of its source to another. */
  function giveUpPlace(job: Job): void {
    if (job.placeAt === undefined) return;
    sources.putBack(job.source ?? null, job.placeAt);
    delete job.placeAt;
  }

  function deliverDepsOf(name: string | null): DeliverDeps {
    let known = bySource.get(name);
    if (known === undefined) {
      const source = sources.find(name);
      known = { ...deliverDeps, hostname: source.ehlo, source: name, local: () => options.localOf(source) };
      bySource.set(name, known);
    }
    return known;
  }

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

  /** Brings a job into the lane of its destination, once that is known. */
  function place(job: Job): void {
    const known = deps.sites.known(job.domain);
    if (known !== null && !(known.kind === 'site' && sources.named && job.wish === undefined)) offer(job, known);
    else
      findPlace(job).then(
        (found) => {
          offer(job, found);
        },
        (error: unknown) => {
          log.error({ event: 'route_failed', domain: job.domain, err: error }, 'looking for a route failed');
          windows.done(job, clock.now() + UNTRIED_MS);
        },
      );
  }

  async function findPlace(job: Job): Promise<Destination> {
    const found = await deps.sites.find(job.domain);
    if (found.kind === 'site' && sources.named)
      job.wish ??= (await wishes.load(job.id)) ?? { pool: DEFAULT_POOL, last: null };
    return found;
  }

  function offer(job: Job, destination: Destination): void {
    if (stopping) return;
    // Held mail stays in the queue and is looked at again by the sweeper.
    if (destination.kind === 'hold') windows.rest(job, clock.now() + SWEEP_MS);
    else {
      lanes.offer(laneFor(destination, job), job);
      if (lanes.starving() > 0) watchWaiting();
    }
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

  function laneFor(destination: Exclude<Destination, { kind: 'hold' }>, job: Job | null): string {
    switch (destination.kind) {
      case 'simulator':
        return SIMULATOR_LANE;
      case 'discard':
        return DISCARD_LANE;
      case 'nowhere':
        return NOWHERE_LANE;
      case 'site': {
        const site = destination.name;
        const wish = job?.wish ?? { pool: DEFAULT_POOL, last: null };
        const { name: source } = sources.choose(wish, site, ({ name }) => lanes.load(laneName(site, name)));
        const lane = laneName(site, source);
        if (job !== null) job.source = source;
        control.meet(lane, destination, source);
        return lane;
      }
    }
  }

  function slotsOf(lane: string): number {
    const way = control.wayOf(lane);
    // Held mail leaves the lane by its workers, which mark it or find it another lane.
    if (way !== null && (deps.holds.ofLane(way.site) !== null || !sources.isFree(way.source, way.site))) return 1;
    return control.slots(lane);
  }

  async function attempt(job: Job, mail: Prepared, number: number, connected: () => void): Promise<Attempted> {
    const startedAt = clock.now();
    const lot = deps.random();
    // The wait begins when the attempt has ended: a host that lets us wait is not asked again at once.
    const frame = (endedAt: number, viaRelay = false): AttemptFrame => ({
      startedAt,
      endedAt,
      retryAt: nextTryAt(options.retry, number, endedAt, lot),
      viaRelay,
      judge: deps.judge,
      retryWith: (hint) => nextTryAt(options.retry, number, endedAt, lot, hint),
    });
    const done = (outcome: Outcome): Attempted => ({ kind: 'done', outcome, followUps: [] });
    if (mail.kind !== 'ready') return done(notReady(frame(clock.now()), job, mail));
    const destination = await deps.sites.find(job.domain);
    const attempted = await toDestination(job, destination, mail, number, frame, connected);
    if (attempted.kind === 'done') note(job, mail, destination, number, attempted.outcome);
    return attempted;
  }

  async function toDestination(
    job: Job,
    destination: Destination,
    mail: Ready,
    number: number,
    frame: (endedAt: number, viaRelay?: boolean) => AttemptFrame,
    connected: () => void,
  ): Promise<Attempted> {
    const now = clock.now();
    switch (destination.kind) {
      case 'simulator':
        return {
          kind: 'done',
          ...simulate(simulatedEnd(mail.testOutcome, mail.recipient, options.simulatorDomain), number, now),
        };
      case 'discard':
        return { kind: 'done', outcome: discarded(frame(now)), followUps: [] };
      case 'hold':
        return { kind: 'untried', dueAt: now + SWEEP_MS };
      case 'nowhere':
        return { kind: 'done', outcome: outcomeOfRoute(frame(now), destination.route), followUps: [] };
      case 'site': {
        const relayed = destination.relay !== null;
        const { source = null } = job;
        const lane = laneName(destination.name, source);
        control.begin(lane);
        const tried = await deliver(
          deliverDepsOf(source),
          destination,
          mail,
          (endedAt) => frame(endedAt, relayed),
          connected,
          number === 1,
        );
        if (tried.kind === 'untried') {
          if (tried.exhausted !== undefined) tellExhausted(tried.exhausted);
          if (tried.refusal !== null) control.refused(lane, tried.refusal);
          return { kind: 'untried', dueAt: clock.now() + UNTRIED_MS };
        }
        // Its place is used up.
        delete job.placeAt;
        return { kind: 'done', outcome: tried.outcome, followUps: [] };
      }
    }
  }

  function notReady(frame: AttemptFrame, job: Job, mail: Exclude<Prepared, Ready>): Outcome {
    if (mail.kind === 'unsigned') {
      log.error(
        { event: 'signing_unavailable', delivery_id: job.id, reason: mail.why },
        'a mail waits because it cannot be signed',
      );
      return waitForUs(frame, mail.why);
    }
    if (mail.kind === 'unready') {
      log.error(
        { event: 'composing_failed', delivery_id: job.id, reason: mail.why },
        'a mail waits because it could not be composed',
      );
      return waitForUs(frame, mail.why);
    }
    return cannotBuild(frame, mail.kind === 'gone' ? 'its rows are gone' : mail.why);
  }

  function note(job: Job, mail: Ready, destination: Destination, number: number, outcome: Outcome): void {
    const { facts } = outcome;
    const { source = null } = job;
    const lane = destination.kind === 'site' ? laneName(destination.name, source) : destination.kind;
    deps.attempted?.(outcome);
    log.info(
      {
        event: 'attempt',
        message_id: mail.messageId,
        delivery_id: job.id,
        domain: job.domain,
        attempt: number,
        outcome: outcome.kind,
        host: facts.mx,
        ip: facts.ip,
        source: facts.source,
        code: facts.smtpCode,
        enhanced: facts.enhancedCode,
        text: facts.smtpReply,
        rule: 'grounds' in outcome ? outcome.grounds.rule : null,
        tls: facts.tls?.protocol ?? null,
        tls_policy: facts.tls?.policy ?? null,
        tls_verified: facts.tls?.verified ?? null,
        ms: facts.endedAt - facts.startedAt,
        timings: facts.timings,
        lane,
      },
      'delivery attempt',
    );
    if (destination.kind !== 'site') return;
    warnings.note(lane, outcome);
    control.note(lane, outcome);
    const block = sources.note(source, destination.name, outcome);
    if (block !== null) {
      control.told(lane, `sends nothing until ${new Date(block.until).toISOString()}`, block.reply);
      lanes.pump(lane);
    }
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }

  function laneFacts(domain: string, mark: string | null = null): { parkedUntil: number | null; held: Hold | null } {
    const known = deps.sites.known(domain);
    if (known?.kind !== 'site') return { parkedUntil: null, held: null };
    const held = deps.holds.ofLane(known.name) ?? (mark === null ? null : sources.holdOf(mark));
    return { parkedUntil: parkedUntil(known.name), held };
  }

  /** Until when the site gets nothing: while one of its lanes may go on, it does. */
  function parkedUntil(site: string): number | null {
    if (!sources.named) return control.parkedUntil(site);
    const lanesOfSite = sources.list().map(({ name }) => laneName(site, name));
    const times = lanesOfSite.filter((lane) => control.wayOf(lane) !== null).map((lane) => control.parkedUntil(lane));
    const parked = times.filter((time) => time !== null);
    return parked.length === times.length && parked.length > 0 ? Math.min(...parked) : null;
  }

  function oneLane(name: string): { now: LaneReport; changes: LaneChange[] } | null {
    const report = control.report(name);
    if (report === null) return null;
    const view = lanes.views().find((one) => one.name === name) ?? { name, waiting: 0, slots: 0 };
    return { now: { ...view, ...report }, changes: control.history(name) };
  }

  /** Once a minute: every mail that falls due meets it. */
  function tellExhausted(text: string): void {
    if (clock.now() - toldExhaustedAt < EXHAUSTED_QUIET_MS && clock.now() >= toldExhaustedAt) return;
    toldExhaustedAt = clock.now();
    log.error(
      { event: 'no_descriptors', reason: text },
      'no connection can be opened: mail waits without attempts (see LimitNOFILE and delivery.maxConnections)',
    );
  }

  /** A complaint counts against the source that the mail left from. */
  async function noteComplaint(deliveryId: string): Promise<void> {
    if (!sources.named) return;
    const [row] = await deps.db.fast.all<{ source: string | null; domain: string }>(
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
        deps.bells.deliveries.listen((hints) => {
          windows.hint(hints);
        }),
        deps.bells.holds.listen(holdsChanged),
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
      const name = laneFor(destination, null);
      const lane = oneLane(name);
      return {
        destination,
        needs: destination.hosts.map((host) => needOf(destination, host)),
        lane: lane?.now ?? null,
      };
    },
    wireBytes: (deliveryId) => prepare.look(deliveryId),
    laneFacts,
    sources,
    transcripts,
    complained(deliveryId) {
      void noteComplaint(deliveryId).catch(storageFailed);
    },
    lanes: () => lanes.views().map((view) => ({ ...view, ...(control.report(view.name) ?? noNetwork) })),
    lane: oneLane,
    laneOf(domain) {
      const known = deps.sites.known(domain);
      if (known === null) return '~unresolved';
      return known.kind === 'hold' ? '~hold' : known.kind === 'site' ? known.name : laneFor(known, null);
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
  parkedUntil: null,
  lastReply: null,
  lastProgressAt: 0,
};
