/** Places deliveries in lanes of destination and source. What keeps mail back there (a hold, a source done for today) is checked at its turn. */
import { createBatchLoader, type BatchLoader } from '../base/batch-loader.ts';
import { mapInSlices } from '../base/slices.ts';
import { mailKeyOf, UNTRIED_MS, type NoPassage } from './attempt/attempt.ts';
import { isDown } from './connection/pooled-host.ts';
import type { Job } from './due-queue.ts';
import type { Engine } from './engine.ts';
import { LOOK_MS } from '../messages/limits/counts.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { Allowance } from './limits/allowance.ts';
import { hostKey, laneName } from './names.ts';
import type { Held, Preparing } from './prepare/prepare.ts';
import type { Destination, Site } from './sites/sites.ts';
import type { SourcePreference } from './sources/sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import type { Begun, OtherSource } from './worker.ts';
import type { LaneView } from '../scheduling/lanes.ts';
import { createGate } from '../scheduling/gate.ts';
import { turnOf } from '../scheduling/places.ts';
import { statement } from '../storage/sql.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';

/** Names of the lanes of mail that needs no connection. */
const innerLanes = { simulator: '~simulator', discard: '~discard', nowhere: '~nowhere' } as const;

/** Domains whose destinations are looked up at once: each takes a few KB, and after a start tens of thousands may wait. */
const MOST_LOOK_UPS = 500;
/** Domains in line beyond which none is looked up for reports: the line is for mail that is due. */
const MOST_BEFORE_REPORTS = 1_000;
/** The share of look-ups for reports, which takes turns with those of due mail. */
const OF_REPORTS = '~reports';
/** A look-up that takes longer, in ms, does not keep others waiting: DNS tells silent names from the rest (net/resolver.ts). */
const SLOW_LOOK_UP_MS = 2_000;

/** Mail that may go sooner than this, in ms, keeps its place: to read it again costs more than its memory is worth. */
const LEAST_REST_MS = 5_000;
/** Afterwards it is looked at again: another source may take it, or the reason may be gone. */
const MOST_REST_MS = 30_000;
/** Jobs that a lane keeps for each of its workers. */
const KEPT = 20;

/** A domain whose destination is not known yet. */
interface Unplaced {
  jobs: Job[];
  /** In whose lines it waits. */
  shares: Set<string>;
  isAsked: boolean;
}

function laneOf(destination: Destination, source: string | null): string | null {
  if (destination.kind === 'hold' || destination.kind === 'unresolved') return null;
  return destination.kind === 'site' ? laneName(destination.name, source) : innerLanes[destination.kind];
}

export class Placing {
  private readonly engine: Engine;
  private readonly preferences: BatchLoader<SourcePreference>;
  /** By domain. */
  private readonly unplaced = new Map<string, Unplaced>();
  /** Domains take turns to be looked up by accounts, and by the classes of an account: a broadcast does not hold up single mails. */
  private readonly lookUps = createGate({ most: MOST_LOOK_UPS, waiting: Infinity });

  constructor(engine: Engine) {
    this.engine = engine;
    this.preferences = createBatchLoader<SourcePreference>((ids) => loadSourcePreferences(engine, ids));
  }

  /** Brings a job into the lane of its destination, once that is known. */
  place(job: Job): void {
    const known = this.engine.sites.known(job.domain);
    if (known !== null) this.placeAt(job, known);
    else this.awaitLookUp(job.domain, turnOf(job)).jobs.push(job);
  }

  isLookingUp(domain: string): boolean {
    return this.unplaced.has(domain);
  }

  /** Looks up where mail goes that is not due, as after a start: reports need its lane. Does nothing if many wait; the next report asks again. */
  lookUpForReports(domain: string): void {
    if (!this.unplaced.has(domain) && this.unplaced.size < MOST_BEFORE_REPORTS) this.awaitLookUp(domain, OF_REPORTS);
  }

  /** Returns the lane of a destination, for this job or for mail without a preference. */
  laneFor(destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }>, job: Job | null): string {
    if (destination.kind !== 'site') return innerLanes[destination.kind];
    const { name: site } = destination;
    const preference = job?.preference ?? { pool: DEFAULT_POOL, last: null };
    const mail = job === null ? null : mailKeyOf(job);
    const { name: source } = this.engine.sources.choose(preference, site, (name) => {
      const { waiting, slots } = this.engine.lanes.view(laneName(site, name));
      return { ...this.engine.control.sourceState(destination, name, mail), load: waiting + slots };
    });
    const lane = laneName(site, source);
    if (job !== null) job.source = source;
    this.engine.control.register(lane, destination, source);
    return lane;
  }

  /**
   * Returns whether the job may be tried in this lane now. If its domain has moved to another node it is forgotten; if its route has changed, its
   * stream has to be known by now, or another source may send it, it is placed again; if a limit covers it, it waits on disk, or aside if it is
   * only to go slower, or is held if other mail of its group may go; if, in an operator's lane, the hosts of its domain cannot be had, it is put aside.
   */
  mayGo(lane: string, job: Job): boolean | Held {
    if (!this.engine.owners.isOurs(job.domain)) {
      this.done(job, null);
      return false;
    }
    const known = this.engine.sites.known(job.domain);
    const source = job.source ?? null;
    if (known === null || laneOf(known, source) !== lane || this.needsPreferenceOf(job, known)) {
      this.placeAgain(job);
      return false;
    }
    if (known.kind !== 'site') return true;
    const { control, clock } = this.engine;
    const allowed = control.allowanceOf(lane, mailKeyOf(job));
    if (allowed.kind === 'wait') {
      this.releaseQuota(job);
      if (this.hasOpenSource(known, job)) this.place(job);
      else if (allowed.limit.kind === 'rate') {
        const until = allowed.until - clock.now() + clock.monotonic();
        this.engine.aside.add(lane, [`rate ${job.domain}`], job, until);
      } else {
        const hold = this.streamHold(allowed);
        if (hold !== null) return { kind: 'held', hold };
        this.engine.dueQueue.rest(job, allowed.until);
      }
      return false;
    }
    if (known.operator != null && !this.hasHost(lane, known, source, job)) return false;
    control.take(lane, mailKeyOf(job));
    job.pacedLane = lane;
    return true;
  }

  /** Returns whether a source of the job's pool, other than the one that it waits for, may send it now. */
  hasOpenSource(site: Site, job: Job): boolean {
    const { sources, control } = this.engine;
    if (!sources.named) return false;
    const others = sources
      .namesOf(job.preference?.pool ?? DEFAULT_POOL)
      .filter((name) => name !== (job.source ?? null));
    return others.some(
      (name) => sources.isFree(name, site.name) && control.sourceState(site, name, mailKeyOf(job)).closedUntil === null,
    );
  }

  /** Places the mail that waits in a lane again: its source was closed, and another may send it. */
  moveOn(lane: string): void {
    if (!this.engine.sources.named) return;
    const canMove = (job: Job): boolean => {
      const known = this.engine.sites.known(job.domain);
      return known?.kind === 'site' && this.hasOpenSource(known, job);
    };
    for (const job of this.engine.lanes.withdraw(lane, 0, canMove)) this.placeAgain(job);
  }

  /** Prepares a mail that a worker has taken, unless something keeps it back. */
  async begin(job: Job): Promise<Begun> {
    return this.heldAtSite(job) ?? (await this.engine.prepare.begin(job.id));
  }

  /** Returns what keeps back a mail that was made ready a while ago, such as a hold that was set since; null if it may be tried. */
  async keptBack(job: Job, { heldNow }: Preparing): Promise<Held | OtherSource | null> {
    const kept = this.heldAtSite(job);
    const hold = kept === null ? await heldNow() : null;
    return hold === null ? kept : { kind: 'held', hold };
  }

  placeAgain(job: Job): void {
    this.releaseQuota(job);
    this.place(job);
  }

  /** Lets go of a job that a worker had in hand; `dueAt` is when it falls due again, or null. */
  done(job: Job, dueAt: number | null): void {
    this.releaseQuota(job);
    this.engine.dueQueue.done(job, dueAt);
  }

  /** Puts a job without a connection aside: others may have one. Returns false if it goes back to the lane: the worker ends until that is woken. */
  putAside(lane: string, job: Job, found: NoPassage): boolean {
    this.releaseQuota(job);
    const known = this.engine.sites.known(job.domain);
    const site = known?.kind === 'site' ? known : null;
    if (found.kind === 'exhausted') this.engine.dueQueue.rest(job, this.engine.clock.now() + UNTRIED_MS);
    else if (found.kind === 'wait' && site?.operator != null) this.setAside(lane, job, site, found.waits);
    else if (site !== null && this.hasOpenSource(site, job)) {
      this.place(job);
      this.moveOn(lane);
    } else {
      this.engine.control.foundNone(lane);
      return false;
    }
    return true;
  }

  slotsOf(lane: string): number {
    const route = this.engine.control.routeOf(lane);
    // A worker takes held mail out of the lane: it marks it or finds it another lane.
    if (
      route !== null &&
      (this.engine.holds.ofLane(route.site) !== null || !this.engine.sources.isFree(route.source, route.site))
    )
      return 1;
    return this.engine.control.slots(lane);
  }

  /** Takes back what a job that is not sent was counted against; another may try after a rest. */
  releaseQuota(job: Job): void {
    if (job.pacedLane !== undefined) this.engine.control.putBack(job.pacedLane, mailKeyOf(job));
    delete job.pacedLane;
    // It is made again at its turn.
    delete job.ahead;
  }

  /** Makes room: if more domains have due mail than may have jobs in memory, jobs that do not go soon rest on disk. None waits for others' hosts. */
  readonly makeRoom = async (): Promise<void> => {
    const { aside, pool, lanes } = this.engine;
    for (const { jobs, wait } of aside.takeOut(LEAST_REST_MS, this.isInTheWay)) this.restAll(jobs, wait);
    const late = pool.waitingLong(LEAST_REST_MS);
    const waiting = lanes.views().filter((view) => view.waiting > 0);
    await mapInSlices(waiting, (view) => {
      if (!this.engine.isStopping) this.restSome(view, late.get(view.name) ?? 0);
    });
  };

  /** Returns what keeps the job from being tried: a hold of its site, or what of ours closes its source. */
  private heldAtSite({ domain, source = null, preference }: Job): Held | OtherSource | null {
    const known = this.engine.sites.known(domain);
    if (known?.kind !== 'site') return null;
    const hold = this.engine.holds.ofLane(known.name);
    if (hold !== null) return { kind: 'held', hold };
    if (this.engine.sources.isFree(source, known.name)) return null;
    const none = this.engine.sources.heldBy(preference?.pool ?? DEFAULT_POOL, known.name);
    return none === null ? { kind: 'other_source' } : { kind: 'held', hold: none };
  }

  /** Returns the hold of a limit on streams that lasts: other mail of the same group of the due queue goes on. */
  private streamHold({ limit, until }: Extract<Allowance, { kind: 'wait' }>): Hold | null {
    const isOfStream = limit.stream !== null || limit.quota?.each.includes('stream') === true;
    const lasts = until > this.engine.clock.now() + LOOK_MS;
    return isOfStream && lasts ? this.engine.limits.counts.holdBy(limit, until) : null;
  }

  private readonly isInTheWay = (job: Job): boolean => this.engine.dueQueue.needsPlaceOf(job);

  private restAll(jobs: readonly Job[], ms: number): void {
    const until = this.engine.clock.now() + Math.min(Math.max(ms, LEAST_REST_MS), MOST_REST_MS);
    for (const job of jobs) {
      this.releaseQuota(job);
      this.engine.dueQueue.rest(job, until);
    }
  }

  /** Takes jobs of a lane out of memory: all of them if every worker waits for its host or none may start, otherwise those at the end. */
  private restSome({ name, slots }: LaneView, late: number): void {
    const closedMs = slots > 0 ? null : this.engine.control.closedFor(name, LEAST_REST_MS);
    const isStuck = closedMs !== null || (slots > 0 && late >= slots);
    const most = isStuck ? 0 : KEPT * Math.max(1, slots);
    this.restAll(this.engine.lanes.withdraw(name, most, this.isInTheWay), closedMs ?? LEAST_REST_MS);
  }

  /** A domain waits once for each share: the one whose turn is first has it looked up. */
  private awaitLookUp(domain: string, share: string): Unplaced {
    const unplaced = this.unplaced.get(domain) ?? { jobs: [], shares: new Set<string>(), isAsked: false };
    this.unplaced.set(domain, unplaced);
    if (unplaced.isAsked || unplaced.shares.has(share)) return unplaced;
    unplaced.shares.add(share);
    const entered = this.lookUps.enter(share);
    if (typeof entered === 'function') void this.lookUp(domain, unplaced, entered);
    else void entered.then((leave) => (leave === null ? undefined : this.lookUp(domain, unplaced, leave)));
    return unplaced;
  }

  private async lookUp(domain: string, unplaced: Unplaced, leave: () => void): Promise<void> {
    let isIn = true;
    const leaveOnce = (): void => {
      if (isIn) leave();
      isIn = false;
    };
    if (unplaced.isAsked || this.engine.isStopping) {
      leaveOnce();
      return;
    }
    unplaced.isAsked = true;
    const timer = this.engine.clock.after(SLOW_LOOK_UP_MS, leaveOnce);
    const place = await this.engine.sites.find(domain).then(
      (found) => {
        if (unplaced.jobs.length === 0 && found.kind === 'site') this.laneFor(found, null);
        return (job: Job) => this.placeAt(job, found);
      },
      (error: unknown) => (job: Job) => this.notFound(job, error),
    );
    this.unplaced.delete(domain);
    timer.cancel();
    leaveOnce();
    for (const job of unplaced.jobs) place(job);
  }

  private placeAt(job: Job, destination: Destination): void {
    if (!this.needsPreferenceOf(job, destination)) this.offer(job, destination);
    else
      this.preferences.load(job.id).then(
        (preference) => {
          job.preference = preference ?? { pool: DEFAULT_POOL, last: null };
          this.offer(job, destination);
        },
        (error: unknown) => this.notFound(job, error),
      );
  }

  private needsPreferenceOf({ preference }: Job, { kind }: Destination): boolean {
    const isNeeded = this.engine.sources.named || this.engine.limits.counts.needStreams;
    return isNeeded && kind === 'site' && preference === undefined;
  }

  private notFound(job: Job, error: unknown): void {
    this.engine.log.error({ event: 'route_failed', domain: job.domain, err: error }, 'looking for a route failed');
    this.engine.dueQueue.done(job, this.engine.clock.now() + UNTRIED_MS);
  }

  private offer(job: Job, destination: Destination): void {
    const { sources, control, dueQueue, lanes, clock, isStopping } = this.engine;
    if (isStopping) return;
    // Held mail stays in the queue and is looked at again by the sweeper.
    if (destination.kind === 'hold') dueQueue.rest(job, clock.now() + SWEEP_MS);
    // DNS trouble is about the domain: its mail waits, and no attempt is spent.
    else if (destination.kind === 'unresolved') dueQueue.rest(job, Math.max(destination.until, clock.now() + 1));
    else {
      const lane = this.laneFor(destination, job);
      // Mail of a pool of several sources, all of which are closed, waits on disk: the one that opens first may be another by then.
      const isOneOfSeveral = sources.named && sources.namesOf(job.preference?.pool ?? DEFAULT_POOL).length > 1;
      const until =
        destination.kind === 'site' && isOneOfSeveral
          ? control.sourceState(destination, job.source ?? null, mailKeyOf(job)).closedUntil
          : null;
      if (until === null) lanes.offer(lane, job);
      else dueQueue.rest(job, until);
    }
  }

  /** Returns whether a host of the job's own domain can be had; puts the job aside if none can. For operators' lanes. */
  private hasHost(lane: string, site: Site, source: string | null, job: Job): boolean {
    const { pool } = this.engine;
    const waits = site.hosts.flatMap((host) => pool.waitOf(hostKey(host, source), site.operator?.maxConnections) ?? []);
    if (waits.length < site.hosts.length) return true;
    this.releaseQuota(job);
    this.setAside(lane, job, site, waits);
    return false;
  }

  /** Mail that its source cannot send now goes by another source that can. */
  private setAside(lane: string, job: Job, site: Site, waits: readonly { why: string; until: number | null }[]): void {
    if (waits.every(isDown) && this.hasOpenSource(site, job)) {
      this.place(job);
      return;
    }
    const ends = waits.flatMap(({ until }) => until ?? []);
    const keys = site.hosts.map((host) => hostKey(host, job.source ?? null));
    this.engine.aside.add(lane, keys, job, ends.length === 0 ? null : Math.min(...ends));
  }
}

const sourcePreferences = statement(
  ({ listed }) => `SELECT d.id, m.account_id, m.stream, CASE WHEN d.attempt_count = 0 THEN NULL ELSE
       (SELECT a.source FROM attempts a WHERE a.message_id = d.message_id AND a.delivery_id = d.id ORDER BY a.id DESC LIMIT 1) END AS last
     FROM ${listed('w', 'text')} JOIN deliveries d ON d.id = w.value JOIN messages m ON m.id = d.message_id`,
);

/** Loads source preferences of deliveries that exist, by id: the stream's pool, and the last attempt's source, which greylisting expects again. */
async function loadSourcePreferences(
  { db, poolOf }: Pick<Engine, 'db' | 'poolOf'>,
  ids: readonly string[],
): Promise<Map<string, SourcePreference>> {
  const rows = await db.prepared.all<{ id: string; account_id: string; stream: string; last: string | null }>(
    sourcePreferences,
    [JSON.stringify(ids)],
  );
  const preferences = rows.map(
    async ({ id, account_id: account, stream, last }): Promise<[string, SourcePreference]> => [
      id,
      { pool: await poolOf(account, stream), last, stream },
    ],
  );
  return new Map(await Promise.all(preferences));
}
