/**
 * The outbound engine. A notifier or a timer brings due deliveries into the due queue; each goes to the lane of its destination; a
 * lane's workers attempt them and record the outcomes. start() also takes back what an earlier run left unfinished, stop() lets
 * attempts in flight end.
 */
import type { AnswerRules } from '../config/limit-rules.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import { freeHeld } from '../messages/delivery/holds.ts';
import type { Occurrence } from '../messages/delivery/record.ts';
import type { LaneFacts, MailOfLane } from '../messages/delivery/why.ts';
import { Lanes } from '../scheduling/lanes.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import { isSystemSource } from '../storage/tables.ts';
import type { Owners } from '../storage/owners.ts';
import type { LaneChange, LaneReport } from '../messages/delivery/lane-report.ts';
import { Attempts, type AttemptDeps, type AttemptOptions } from './attempt/attempt.ts';
import { Passages, type PassageDeps, type PassageOptions } from './attempt/passages.ts';
import { createTranscripts } from './attempt/transcripts.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import { type PoolLimits, Pool } from './connection/pool.ts';
import { createTlsClient } from './connection/tls.ts';
import { type Job, DueQueue } from './due-queue.ts';
import { readFullestDomains } from './due-rows.ts';
import { createAside, type Aside } from './lanes/aside.ts';
import { LaneControl } from './lanes/lane-control.ts';
import { NodeParts, type NodePartsDeps } from './lanes/node-parts.ts';
import type { LimitBook } from '../messages/limits/book.ts';
import type { ConnectionLimits } from './limits/connections.ts';
import { compileRules } from './limits/shaping.ts';
import { INNER_SLOTS, LaneReports, type Resolved } from './lane-reports.ts';
import { hostKey } from './names.ts';
import { Placing, type PlacingDeps } from './placing.ts';
import { createPrepare, type Prepare, type PrepareDeps, type Prepared } from './prepare/prepare.ts';
import type { Sites } from './sites/sites.ts';
import type { Sources } from './sources/sources.ts';
import { StarvationWatch } from './starvation-watch.ts';
import { Sweeper, type SweeperDeps } from './sweeper.ts';
import { createHostTls, HOSTS_REREAD, type HostTls } from './tls/host-tls.ts';
import { createRoom } from './room.ts';
import { createWorker } from './worker.ts';
import { createRunningSince } from '../base/clock-jumps.ts';
import { extraTimeOf, type ExtraTime, type RetryRule } from '../messages/delivery/retry.ts';
import { MINUTE_MS } from '../base/time.ts';

export type { Resolved } from './lane-reports.ts';

export interface MtaDeps
  extends
    Omit<PrepareDeps, 'db' | 'holdOf'>,
    Pick<AttemptDeps, 'log' | 'random' | 'judge' | 'attempted'>,
    Pick<PassageDeps, 'maySend'>,
    Pick<PlacingDeps, 'poolOf'>,
    Pick<SweeperDeps, 'recorder' | 'holds'> {
  db: Pick<Database, 'prepared' | 'maintenance' | 'commit'>;
  /** `holds` notifies when the operator has set or ended a hold or limit, `limits` when what receivers teach was written. */
  notifiers: {
    deliveries: Notifier<readonly DueHint[]>;
    holds: Notifier;
    limits: Notifier;
    /** Mail for these domains, or all (`*`), is to be tried now. */
    tries: Notifier<readonly string[]>;
  };
  sites: Sites;
  sources: Sources;
  limits: LimitBook;
  nodes: SweeperDeps['nodes'] & NodePartsDeps['nodes'] & Pick<Nodes, 'listen'>;
  /** Tells which domains this node delivers. */
  owners: Pick<Owners, 'isOurs' | 'onChange'>;
}

export interface MtaOptions extends Omit<AttemptOptions, 'retry'>, PassageOptions {
  retry: RetryRule;
  epoch: number;
  hostname: string;
  pool: PoolLimits;
  lane: ConnectionLimits;
  answers: AnswerRules;
  shaping: Parameters<typeof compileRules>[0];
  maxConnections: number;
  /** PEM certificates that mail hosts' certificates may chain to in addition to the system's; for private networks. */
  ca?: string;
}

/**
 * Groups of mail (a domain, a class and an account) that have jobs in memory, for each connection that may be open: a connection that becomes
 * free finds its next mail there.
 */
const GROUPS_A_CONNECTION = 2;
/** The least number of groups. With 1,000 or 2,000 two accounts with mail to hosts that never answer keep a third one waiting for a place. */
const LEAST_GROUPS = 4_000;
const LEASE_MARGIN_MS = 5 * MINUTE_MS;
/** Returns a time longer than the longest attempt with the wait behind its final dot, so that a claim never ends under a living worker. */
const leaseOf = ({ attempt, dot }: PhaseTimeouts): number => attempt + dot + LEASE_MARGIN_MS;

/** Domains with waiting mail that are looked up at the start: as many as the lists of operators have. */
const MOST_MET = 1_000;

const STOP_GIVE_UP_MS = 30_000;
const STOP_LONGEST_MS = 60_000;
/** Time for writing the last outcomes, in ms. */
const STOP_WRITE_MS = 2_000;

export class Mta {
  readonly sources: Sources;
  /** The dialogues with mail hosts, for operators who watch them. */
  readonly transcripts: ReturnType<typeof createTranscripts>;
  private readonly deps: MtaDeps;
  private readonly options: MtaOptions;
  private readonly hostTls: HostTls;
  private readonly prepare: Prepare;
  private readonly pool: Pool;
  private readonly aside: Aside;
  private readonly dueQueue: DueQueue;
  private readonly lanesOfJobs: Lanes<Job>;
  private readonly parts: NodeParts;
  private readonly control: LaneControl;
  private readonly starvation: StarvationWatch;
  private readonly placing: Placing;
  private readonly makeRoom: ReturnType<typeof createRoom>;
  private readonly passages: Passages;
  private readonly attempts: Attempts;
  private readonly reports: LaneReports;
  private readonly sweeper: Sweeper;
  private readonly extraTime: () => ExtraTime;
  private readonly late: Occurrence[] = [];
  private stopListening: (() => void)[] = [];
  /** The run that frees held mail, if one is under way. */
  private freeing: Promise<void> | null = null;
  private isStopping = false;

  /** The parts know each other through functions only, which are called after all of them are made. */
  constructor(deps: MtaDeps, options: MtaOptions) {
    const { clock } = deps;
    this.deps = deps;
    this.options = options;
    this.sources = deps.sources;
    const runsSince = createRunningSince(clock);
    this.extraTime = () => extraTimeOf(runsSince(), options.retry);
    this.transcripts = createTranscripts({ clock });
    this.hostTls = createHostTls(deps);
    this.prepare = createPrepare({ ...deps, holdOf: deps.holds.of, ownName: options.hostname });
    this.pool = this.makePool();
    this.aside = createAside({ clock }, (lane, jobs) => {
      for (const job of jobs) this.lanesOfJobs.offer(lane, job);
    });
    this.dueQueue = new DueQueue({
      db: deps.db,
      clock,
      mostGroups: Math.max(LEAST_GROUPS, GROUPS_A_CONNECTION * options.maxConnections),
      isOurs: (domain) => deps.owners.isOurs(domain),
      tell: (hints) => deps.notifiers.deliveries.notify(hints),
      offer: (job) => this.placing.place(job),
      makeRoom: () => this.makeRoom(),
      failed: this.logStorageFailure,
    });
    this.lanesOfJobs = this.makeLanes();
    this.parts = this.makeParts();
    this.control = this.makeControl();
    this.starvation = new StarvationWatch({ ...deps, pool: this.pool, lanes: this.lanesOfJobs }, options);
    this.placing = this.makePlacing();
    const { control, aside, placing, pool, hostTls, transcripts, dueQueue } = this;
    this.makeRoom = createRoom({
      clock,
      control,
      pool,
      aside,
      placing,
      dueQueue,
      lanes: this.lanesOfJobs,
      isStopping: () => this.isStopping,
    });
    const tls = createTlsClient(options.ca === undefined ? {} : { ca: options.ca });
    const hasOpenSource: AttemptDeps['hasOpenSource'] = (site, job) => placing.hasOpenSource(site, job);
    this.passages = new Passages({ ...deps, control, hasOpenSource, pool, tls, hostTls, transcripts }, options);
    this.attempts = new Attempts({ ...deps, control, hostTls, hasOpenSource, passages: this.passages }, options);
    this.reports = new LaneReports({ ...deps, control, aside, dueQueue, placing, lanes: this.lanesOfJobs });
    this.sweeper = this.makeSweeper();
  }

  async start(): Promise<void> {
    const { notifiers, owners, nodes } = this.deps;
    await this.sweeper.takeBack();
    await this.hostTls.load();
    await this.sources.load();
    await this.deps.limits.load();
    this.parts.start();
    this.stopListening = [
      notifiers.deliveries.listen((hints) => this.dueQueue.hint(hints)),
      notifiers.holds.listen(() => this.holdsChanged()),
      notifiers.limits.listen(() => void this.reread().catch(this.logStorageFailure)),
      notifiers.tries.listen((domains) => void this.tryAll(domains).catch(this.logStorageFailure)),
      owners.onChange(() => this.domainsMoved()),
    ];
    nodes.listen((message) => {
      // Hints of other nodes may have been lost.
      if (message === null && !this.isStopping) void this.dueQueue.scan().catch(this.logStorageFailure);
    });
    await this.sweeper.start();
    void this.meetLanes().catch(this.logStorageFailure);
  }

  /**
   * Takes no new work and lets attempts in flight end: for 30 s whatever they do, then only those behind their final dot, up
   * to 60 s in all, since closing there makes duplicates. Their outcomes are written.
   */
  async stop(): Promise<void> {
    const { clock } = this.deps;
    this.isStopping = true;
    for (const end of this.stopListening) end();
    for (const part of [
      this.dueQueue,
      this.sweeper,
      this.starvation,
      this.parts,
      this.control,
      this.aside,
      this.transcripts,
    ])
      part.stop();
    const timers = [
      clock.after(STOP_GIVE_UP_MS, () => this.pool.abandon()),
      clock.after(STOP_LONGEST_MS, () => this.pool.abandon(true)),
    ];
    const tooLong = new Promise<void>((resolve) => timers.push(clock.after(STOP_LONGEST_MS + STOP_WRITE_MS, resolve)));
    await Promise.race([this.lanesOfJobs.stop().then(() => this.pool.drain()), tooLong]);
    for (const timer of timers) timer.cancel();
    await Promise.all([this.prepare.close(), this.sources.close(), this.freeing?.catch(this.logStorageFailure)]);
  }

  /** The outcomes that could not be written any more, because another node had removed this one. */
  get unwritten(): readonly Occurrence[] {
    return this.late;
  }

  /** Replaces the routes. */
  reroute(routes: Parameters<Sites['reroute']>[0]): void {
    this.deps.sites.reroute(routes);
    // Mail of held lanes is looked at now, not by the next sweep.
    void this.dueQueue.scan().catch(this.logStorageFailure);
  }

  /** Replaces the shaping rules. Rests and limits that others have set stay. */
  reshape(rules: MtaOptions['shaping']): void {
    this.control.reshape(compileRules(rules));
  }

  /** Returns at most `most` of the lanes that have work or a limit: those with the most jobs in memory, or the most workers, first. */
  lanes(most: number, first: 'fullest' | 'busiest'): Promise<LaneReport[]> {
    return this.reports.list(most, first);
  }

  /** Returns the lanes of a site, busy or not: one for each source that mail has left from. */
  lanesOfSite(site: string): LaneReport[] {
    return this.reports.ofSite(site);
  }

  /** Returns one lane, busy or not, with the changes of its limits, oldest first; null if it is not known. */
  lane(name: string): { now: LaneReport; changes: LaneChange[] } | null {
    return this.reports.one(name);
  }

  /** Returns the lane that mail for this domain is in, as it was last known; a name with `~` if it has none, or is being looked up. */
  laneOf(domain: string): string {
    return this.reports.laneOf(domain);
  }

  /** Returns what holds mail on the way to a domain, and what it waits for, without asking DNS or a host. */
  readonly laneFacts = (mail: MailOfLane): Promise<LaneFacts> => this.reports.factsOf(mail);

  /** Returns where a domain's mail goes; asks DNS if needed. */
  resolve(domain: string): Promise<Resolved> {
    return this.reports.resolve(domain);
  }

  /** Returns what a delivery puts on the wire, whether or not it may go now. */
  wireBytes(deliveryId: string): Promise<Prepared> {
    return this.prepare.look(deliveryId);
  }

  /** Ends what keeps mail for this domain (null: any) from being tried, on an operator's request; one mail tries first. */
  async tryNow(domain: string | null): Promise<void> {
    // Another node has the domain by now.
    if (this.isStopping) return;
    const { control, pool } = this;
    const { sites } = this.deps;
    sites.retry(domain);
    if (domain === null) pool.tryNow(null);
    const site = domain === null ? null : sites.lastKnown(domain);
    for (const lane of control.names()) {
      const route = control.routeOf(lane);
      if (route === null || (domain !== null && !(site?.kind === 'site' && site.name === route.site))) continue;
      if (site?.kind === 'site') pool.tryNow(site.hosts.map((host) => hostKey(host, route.source)));
      control.tryNow(lane, domain);
      this.aside.wakeLane(lane);
    }
    await this.deps.limits.write();
    this.dueQueue.wake();
    await this.freeHeldMail();
  }

  private async tryAll(domains: readonly string[]): Promise<void> {
    for (const domain of domains) await this.tryNow(domain === '*' ? null : domain);
  }

  /** Ends the block lists of a source at all sites; null is the system's address, of every node. */
  async unblock(source: string | null): Promise<void> {
    const { limits } = this.deps;
    const over = limits
      .ofKind('block_list')
      .filter((limit) => source === (isSystemSource(limit.source) ? null : limit.source));
    limits.end(over);
    await limits.write();
    this.control.limitsChanged(over);
  }

  /** Reads again what other nodes have learnt and counted. */
  async reread(): Promise<void> {
    if (!this.deps.nodes.hasOthers || this.isStopping) return;
    const changed = await this.deps.limits.reread();
    this.control.limitsChanged(changed);
    if (changed.some(({ by }) => by === 'operator')) this.holdsChanged();
    await this.sources.reread();
  }

  /** Counts a recipient's complaint against the source that the delivery left from. */
  complained(deliveryId: string): void {
    void this.noteComplaint(deliveryId).catch(this.logStorageFailure);
  }

  /** Counts what is in memory. Connections include those that are idle. */
  sizes(): { groups: number; jobs: number; connections: number; workers: number } {
    return { ...this.dueQueue.sizes(), connections: this.pool.count(), workers: this.lanesOfJobs.workers() };
  }

  private async noteComplaint(deliveryId: string): Promise<void> {
    const { db, sites } = this.deps;
    if (!this.sources.named) return;
    const [row] = await db.prepared.all<{ source: string | null; domain: string }>(
      `SELECT a.source, d.domain FROM deliveries d JOIN attempts a ON a.message_id = d.message_id AND a.delivery_id = d.id
       WHERE d.id = ? AND a.outcome = 'accepted' ORDER BY a.id DESC LIMIT 1`,
      [deliveryId],
    );
    if (row?.source == null) return;
    const destination = await sites.find(row.domain);
    if (destination.kind === 'site') this.sources.complained(row.source, destination.name);
  }

  private makePool(): Pool {
    const { clock, random } = this.deps;
    return new Pool(
      {
        clock,
        random,
        lanesWaiting: (host) => {
          const withAside = this.aside.lanesWaiting(host);
          const wanting = this.control.lanesWanting(host);
          return withAside.length === 0 ? wanting : [...wanting, ...withAside];
        },
        wake: (lane, host, room) => {
          this.aside.wake(lane, host, room);
          this.control.wake(lane);
        },
        mostOf: (lane) => this.control.mostConnections(lane),
        hasOthers: (lane) => this.control.hasOthers(lane),
      },
      this.options.pool,
    );
  }

  private makeLanes(): Lanes<Job> {
    const { log } = this.deps;
    let work: ReturnType<typeof createWorker> | null = null;
    return new Lanes<Job>({
      work: (lane) => (work ??= this.createWorker())(lane),
      slots: (lane) => this.placing.slotsOf(lane),
      maxSlots: () => this.options.maxConnections,
      takesSlot: (lane) => this.control.needsConnection(lane),
      hasReserve: true,
      failed: (lane, error) =>
        log.error({ event: 'lane_failed', lane, err: error }, 'a lane worker ended with an error'),
      empty: (lane) => this.control.noteEmpty(lane),
      starves: () => this.starvation.look(),
    });
  }

  private createWorker(): ReturnType<typeof createWorker> {
    const { passages, attempts, placing, dueQueue, prepare } = this;
    return createWorker({
      passages,
      attempts,
      clock: this.deps.clock,
      recorder: this.deps.limits.with(this.deps.recorder),
      dueQueue: {
        done(job, dueAt) {
          placing.releaseQuota(job);
          dueQueue.done(job, dueAt);
        },
      },
      epoch: this.options.epoch,
      leaseMs: leaseOf(this.options.timeouts),
      extraTime: this.extraTime,
      prepare: async (job) => placing.reserveQuota(job) ?? (await prepare.begin(job.id)),
      async keptBack(job, { heldNow }) {
        const kept = placing.reserveQuota(job);
        const hold = kept === null ? await heldNow() : null;
        return hold === null ? kept : { kind: 'held', hold };
      },
      requeue(job) {
        placing.releaseQuota(job);
        placing.place(job);
      },
      mayGo: (lane, job) => placing.mayGo(lane, job),
      putAside: (lane, job, found) => placing.putAside(lane, job, found),
      failed: this.logStorageFailure,
      unwritten: (occurrences) => this.late.push(...occurrences),
    });
  }

  private makeParts(): NodeParts {
    return new NodeParts({
      ...this.deps,
      lanes: {
        mails: (lane) => this.control.mails(lane),
        open: (lane) => this.pool.openOf(lane),
        withSeveral: () => this.pool.lanesWithSeveral(),
        changed: (lane) => {
          this.pool.shrink(lane);
          this.lanesOfJobs.pump(lane);
        },
      },
    });
  }

  private makeControl(): LaneControl {
    const { clock, log, limits } = this.deps;
    return new LaneControl(
      {
        clock,
        log,
        limits,
        pool: this.pool,
        partOf: (lane) => this.parts.of(lane),
        viewOf: (lane) => this.lanesOfJobs.view(lane),
        whyNoSlot: (lane) => this.lanesOfJobs.whyNoSlot(lane),
        hasAside: (lane) => this.aside.has(lane),
        pump: (lane) => this.lanesOfJobs.pump(lane),
        wake: () => this.dueQueue.wake(),
        closed: (lane) => this.placing.moveOn(lane),
      },
      {
        lane: this.options.lane,
        answers: this.options.answers,
        rules: compileRules(this.options.shaping),
        innerSlots: INNER_SLOTS,
      },
    );
  }

  private makePlacing(): Placing {
    const { control, pool, aside, dueQueue } = this;
    return new Placing({
      ...this.deps,
      control,
      pool,
      aside,
      dueQueue,
      lanes: this.lanesOfJobs,
      isStopping: () => this.isStopping,
    });
  }

  private makeSweeper(): Sweeper {
    const { sites } = this.deps;
    const { retry, timeouts } = this.options;
    return new Sweeper(
      {
        ...this.deps,
        control: this.control,
        extraTime: this.extraTime,
        scan: () => this.dueQueue.scan(),
        freeHeldMail: () => this.freeHeldMail(),
        someWaits: () => this.dueQueue.sizes().groups > 0,
        lanes: () => this.lanesOfJobs.views(),
        factsOf: this.laneFacts,
        shift: (ms) => {
          for (const part of [sites, this.control]) part.shift(ms);
        },
        failed: this.logStorageFailure,
      },
      { retry, stalledMs: leaseOf(timeouts) },
    );
  }

  /** A node joined, ended or drains: other domains are ours now, and what an ended node had begun is taken back. */
  private domainsMoved(): void {
    const { owners } = this.deps;
    for (const job of this.lanesOfJobs.removeWaiting(({ domain }) => !owners.isOurs(domain))) {
      this.placing.releaseQuota(job);
      this.dueQueue.leave(job);
    }
    const learnt = this.hostTls.load(HOSTS_REREAD);
    void Promise.all([learnt, this.sweeper.takeBack(), this.dueQueue.domainsMoved()]).catch(this.logStorageFailure);
  }

  /** The operator has set or ended a hold or limit: held mail may go, and lanes have other limits. */
  private holdsChanged(): void {
    for (const { name } of this.lanesOfJobs.views()) this.lanesOfJobs.pump(name);
    void this.freeHeldMail().catch(this.logStorageFailure);
  }

  /** Has the domains looked up that reports list, as mail that an earlier run deferred or held has no lane until it is due. */
  private async meetLanes(): Promise<void> {
    const domains = await readFullestDomains(this.deps.db.maintenance, MOST_MET);
    for (const domain of domains) if (this.deps.owners.isOurs(domain)) this.laneOf(domain);
  }

  /** Frees mail whose hold has ended. One run at a time: a change during a run is seen by the next one. */
  private async freeHeldMail(): Promise<void> {
    await this.freeing?.catch(() => undefined);
    this.freeing ??= freeHeld(this.deps)
      .then((freed) => {
        if (freed > 0) this.deps.log.info({ event: 'held_mail_freed', count: freed }, 'mail that was held goes on');
      })
      .finally(() => {
        this.freeing = null;
      });
    await this.freeing;
  }

  private readonly logStorageFailure = (error: unknown): void =>
    this.deps.log.error({ event: 'storage_failed', err: error }, 'the database failed; trying again');
}
