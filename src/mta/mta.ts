/**
 * The outbound engine. A notifier or a timer brings due deliveries into the due queue; each goes to the lane of its destination, whose workers try it
 * and record the outcomes. start() also takes back what an earlier run left unfinished, stop() lets attempts in flight end.
 */
import { createRunningSince } from '../base/clock-jumps.ts';
import type { Timer } from '../base/clock.ts';
import { MINUTE_MS } from '../base/time.ts';
import { freeHeld } from '../messages/delivery/holds.ts';
import type { Occurrence } from '../messages/delivery/record.ts';
import { extraTimeOf } from '../messages/delivery/retry.ts';
import { Attempts } from './attempt/attempt.ts';
import { createTranscripts, type Transcripts } from './attempt/transcripts.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import { Pool } from './connection/pool.ts';
import { createTlsClient } from './connection/tls.ts';
import { type Job, DueQueue, readFullestDomains } from './due-queue.ts';
import type { Engine, EngineDeps, EngineOptions } from './engine.ts';
import { LaneReports } from './lane-reports.ts';
import { createAside } from './lanes/aside.ts';
import { LaneControl } from './lanes/lane-control.ts';
import { NodeParts } from './lanes/node-parts.ts';
import { hostKey } from './names.ts';
import { Placing } from './placing.ts';
import { createPrepare, type Prepared } from './prepare/prepare.ts';
import type { Sites } from './sites/sites.ts';
import type { Sources } from './sources/sources.ts';
import { Sweeper } from './sweeper.ts';
import { createHostTls, HOSTS_REREAD } from './connection/dial.ts';
import { createWorker } from './worker.ts';
import { Lanes } from '../scheduling/lanes.ts';
import { isSystemSource } from '../storage/tables.ts';

const LEASE_MARGIN_MS = 5 * MINUTE_MS;
/** Returns a time longer than the longest attempt with the wait behind its final dot, so that a claim never ends under a living worker. */
const leaseOf = ({ attempt, dot }: PhaseTimeouts): number => attempt + dot + LEASE_MARGIN_MS;

/** Domains with waiting mail that are looked up at the start: as many as the lists of operators have. */
const MOST_MET = 1_000;

const LONG_WAIT_MS = 10_000;
const LOOK_AGAIN_MS = 2_000;

const STOP_GIVE_UP_MS = 30_000;
const STOP_LONGEST_MS = 60_000;
/** Time for writing the last outcomes, in ms. */
const STOP_WRITE_MS = 2_000;

export class Mta {
  readonly sources: Sources;
  readonly reports: LaneReports;
  readonly transcripts: Transcripts;
  private readonly engine: Engine;
  private readonly sweeper: Sweeper;
  private readonly late: Occurrence[] = [];
  private stopListening: (() => void)[] = [];
  /** The run that frees held mail, if one is under way. */
  private freeing: Promise<void> | null = null;
  private starving: Timer | null = null;

  constructor(deps: EngineDeps, options: EngineOptions) {
    const { clock } = deps;
    const runsSince = createRunningSince(clock);
    // The parts are made below, and ask each other only when all are there.
    const given: Partial<Engine> = {
      ...deps,
      recorder: deps.limits.with(deps.recorder),
      options,
      isStopping: false,
      failed: this.logStorageFailure,
      unwritten: (occurrences) => this.late.push(...occurrences),
      leaseMs: leaseOf(options.timeouts),
      extraTime: () => extraTimeOf(runsSince(), options.retry),
      freeHeldMail: () => this.freeHeldMail(),
    };
    const engine = given as Engine;
    this.engine = engine;
    this.sources = deps.sources;
    engine.transcripts = this.transcripts = createTranscripts({ clock });
    engine.hostTls = createHostTls(deps);
    engine.tls = createTlsClient(options.ca === undefined ? {} : { ca: options.ca });
    engine.prepare = createPrepare({ ...deps, holdOf: deps.holds.of, ownName: options.hostname });
    engine.pool = new Pool(
      {
        clock,
        random: deps.random,
        lanesWaiting: (host) => [...engine.control.lanesWanting(host), ...engine.aside.lanesWaiting(host)],
        wake(lane, host, room) {
          engine.aside.wake(lane, host, room);
          engine.control.wake(lane);
        },
        mostOf: (lane) => engine.control.mostConnections(lane),
        hasOthers: (lane) => engine.parts.of(lane).nodes > 1,
      },
      options.pool,
    );
    engine.aside = createAside(engine, (lane, jobs) => {
      for (const job of jobs) engine.lanes.offer(lane, job);
    });
    engine.dueQueue = new DueQueue(engine);
    engine.lanes = new Lanes<Job>({
      work: createWorker(engine),
      slots: (lane) => engine.placing.slotsOf(lane),
      maxSlots: () => options.maxConnections,
      takesSlot: (lane) => engine.control.needsConnection(lane),
      hasReserve: true,
      failed: (lane, error) =>
        deps.log.error({ event: 'lane_failed', lane, err: error }, 'a lane worker ended with an error'),
      empty: (lane) => engine.control.noteEmpty(lane),
      starves: () => this.watchStarving(),
    });
    engine.parts = new NodeParts(engine);
    engine.control = new LaneControl(engine);
    engine.placing = new Placing(engine);
    engine.attempts = new Attempts(engine);
    engine.reports = this.reports = new LaneReports(engine);
    this.sweeper = new Sweeper(engine);
  }

  async start(): Promise<void> {
    const { notifiers, owners, nodes } = this.engine;
    await this.sweeper.takeBack();
    await this.engine.hostTls.load();
    await this.engine.limits.load();
    this.engine.parts.start();
    this.stopListening = [
      notifiers.deliveries.listen((hints) => this.engine.dueQueue.hint(hints)),
      notifiers.holds.listen(() => this.holdsChanged()),
      notifiers.limits.listen(() => void this.reread().catch(this.logStorageFailure)),
      notifiers.tries.listen((domains) => void this.tryAll(domains).catch(this.logStorageFailure)),
      owners.onChange(() => this.domainsMoved()),
    ];
    nodes.listen((message) => {
      // Hints of other nodes may have been lost.
      if (message === null && !this.engine.isStopping) void this.engine.dueQueue.scan().catch(this.logStorageFailure);
    });
    await this.sweeper.start();
    await nodes.setDraining(nodes.epoch, false);
    void this.meetLanes().catch(this.logStorageFailure);
  }

  /** Takes no new work. Attempts end within 30 s; those behind the final dot have 60 s, as closing makes duplicates. Their outcomes are written. */
  async stop(): Promise<void> {
    const { clock } = this.engine;
    this.engine.isStopping = true;
    for (const end of this.stopListening) end();
    const { dueQueue, parts, control, aside, pool } = this.engine;
    for (const part of [dueQueue, this.sweeper, parts, control, aside, this.transcripts]) part.stop();
    this.starving?.cancel();
    const timers = [
      clock.after(STOP_GIVE_UP_MS, () => pool.abandon()),
      clock.after(STOP_LONGEST_MS, () => pool.abandon(true)),
    ];
    const tooLong = new Promise<void>((resolve) => timers.push(clock.after(STOP_LONGEST_MS + STOP_WRITE_MS, resolve)));
    await Promise.race([this.engine.lanes.stop().then(() => pool.drain()), tooLong]);
    for (const timer of timers) timer.cancel();
    await Promise.all([
      this.engine.prepare.close(),
      this.engine.limits.write(),
      this.freeing?.catch(this.logStorageFailure),
    ]);
  }

  /** The outcomes that could not be written any more, because another node had removed this one. */
  get unwritten(): readonly Occurrence[] {
    return this.late;
  }

  reroute(routes: Parameters<Sites['reroute']>[0]): void {
    this.engine.sites.reroute(routes);
    // Mail of held lanes is looked at now, not by the next sweep.
    void this.engine.dueQueue.scan().catch(this.logStorageFailure);
  }

  /** Replaces the shaping rules and the rules for mail. Rests and limits that others have set stay. */
  reshape(rules: EngineOptions['shaping'], ofMail: EngineOptions['retry']['rules']): void {
    this.engine.control.reshape(rules);
    this.engine.options.retry.rules = ofMail;
    this.engine.limits.counts.setRules(ofMail);
    this.holdsChanged();
  }

  /** Returns what a delivery puts on the wire, whether or not it may go now. */
  wireBytes(deliveryId: string): Promise<Prepared> {
    return this.engine.prepare.look(deliveryId);
  }

  /** Ends what keeps mail for this domain (null: any) from being tried, on an operator's request; one mail tries first. */
  async tryNow(domain: string | null): Promise<void> {
    // Another node has the domain by now.
    if (this.engine.isStopping) return;
    const { control, pool, sites, aside } = this.engine;
    sites.retry(domain);
    if (domain === null) pool.tryNow(null);
    const site = domain === null ? null : sites.lastKnown(domain);
    for (const lane of control.names()) {
      const route = control.routeOf(lane);
      if (route === null || (domain !== null && !(site?.kind === 'site' && site.name === route.site))) continue;
      if (site?.kind === 'site') pool.tryNow(site.hosts.map((host) => hostKey(host, route.source)));
      control.tryNow(lane, domain);
      aside.wakeLane(lane);
    }
    await this.engine.limits.write();
    this.engine.dueQueue.wake();
    await this.freeHeldMail();
  }

  private async tryAll(domains: readonly string[]): Promise<void> {
    for (const domain of domains) await this.tryNow(domain === '*' ? null : domain);
  }

  /** Ends the block lists of a source at all sites; null is the system's address, of every node. */
  async unblock(source: string | null): Promise<void> {
    const { limits } = this.engine;
    const over = limits
      .ofKind('block_list')
      .filter((limit) => source === (isSystemSource(limit.source) ? null : limit.source));
    limits.end(over);
    await limits.write();
    this.engine.control.limitsChanged(over);
  }

  async reread(): Promise<void> {
    if (!this.engine.nodes.hasOthers || this.engine.isStopping) return;
    const changed = await this.engine.limits.reread();
    this.engine.control.limitsChanged(changed);
    if (changed.some(({ by }) => by === 'operator')) this.holdsChanged();
  }

  /** Counts a recipient's complaint against the source that the delivery left from. */
  complained(deliveryId: string): void {
    void this.noteComplaint(deliveryId).catch(this.logStorageFailure);
  }

  /** Counts what is in memory. Connections include those that are idle. */
  sizes(): { groups: number; jobs: number; connections: number; workers: number } {
    return {
      ...this.engine.dueQueue.sizes(),
      connections: this.engine.pool.count(),
      workers: this.engine.lanes.workers(),
    };
  }

  private async noteComplaint(deliveryId: string): Promise<void> {
    const { db, sites } = this.engine;
    if (!this.sources.named) return;
    const [row] = await db.prepared.all<{ source: string | null; domain: string }>(
      `SELECT a.source, d.domain FROM deliveries d JOIN attempts a ON a.message_id = d.message_id AND a.delivery_id = d.id
       WHERE d.id = ? AND a.outcome = 'accepted' ORDER BY a.id DESC LIMIT 1`,
      [deliveryId],
    );
    if (row?.source == null) return;
    const destination = await sites.find(row.domain);
    if (destination.kind !== 'site') return;
    this.engine.limits.counts.complained(row.source, destination.name);
    await this.engine.limits.write();
  }

  /** Ends connections that wait too long while lanes have none: dead and tar-pitting hosts, however many, may have half of all and leave room. */
  private watchStarving(): void {
    const { clock, log, pool, lanes, options } = this.engine;
    if (this.engine.isStopping || lanes.starving() === 0) return;
    this.starving ??= clock.after(LOOK_AGAIN_MS, () => {
      this.starving = null;
      const most = Math.floor(options.maxConnections / 2);
      const count = lanes.starving() === 0 ? 0 : pool.dropWaiting(LONG_WAIT_MS, most);
      if (count > 0)
        log.warn(
          { event: 'connections_given_up', count },
          'hosts that keep us waiting hold over half of all connections',
        );
      this.watchStarving();
    });
  }

  /** A node joined, ended or drains: other domains are ours now, and what an ended node had begun is taken back. */
  private domainsMoved(): void {
    const { owners } = this.engine;
    for (const job of this.engine.lanes.removeWaiting(({ domain }) => !owners.isOurs(domain)))
      this.engine.placing.done(job, null);
    const learnt = this.engine.hostTls.load(HOSTS_REREAD);
    void Promise.all([learnt, this.sweeper.takeBack(), this.engine.dueQueue.domainsMoved()]).catch(
      this.logStorageFailure,
    );
  }

  /** The operator has set or ended a hold or limit: held mail may go, and lanes have other limits. */
  private holdsChanged(): void {
    for (const { name } of this.engine.lanes.views()) this.engine.lanes.pump(name);
    this.engine.dueQueue.wake();
    void this.freeHeldMail().catch(this.logStorageFailure);
  }

  /** Has the domains looked up that reports list, as mail that an earlier run deferred or held has no lane until it is due. */
  private async meetLanes(): Promise<void> {
    const domains = await readFullestDomains(this.engine.db.maintenance, MOST_MET);
    for (const domain of domains) if (this.engine.owners.isOurs(domain)) this.reports.laneOf(domain);
  }

  /** Frees mail whose hold has ended. One run at a time: a change during a run is seen by the next one. */
  private async freeHeldMail(): Promise<void> {
    await this.freeing?.catch(() => undefined);
    this.freeing ??= freeHeld(this.engine)
      .then((freed) => {
        if (freed > 0) this.engine.log.info({ event: 'held_mail_freed', count: freed }, 'mail that was held goes on');
      })
      .finally(() => {
        this.freeing = null;
      });
    await this.freeing;
  }

  private readonly logStorageFailure = (error: unknown): void =>
    this.engine.log.error({ event: 'storage_failed', err: error }, 'the database failed; trying again');
}
