/**
 * Places deliveries in lanes: the lane of the destination and of the source that the mail leaves from. Reasons that keep a mail from
 * being tried there (a hold, a source that sends nothing more today) are checked again when its turn comes.
 */
import { createBatchLoader } from '../base/batch-loader.ts';
import type { Clock } from '../base/clock.ts';
import type { Lanes } from '../scheduling/lanes.ts';
import type { Log } from '../base/log.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { Database } from '../storage/database.ts';
import { partOf, UNTRIED_MS } from './attempt/attempt.ts';
import type { NoPassage } from './attempt/passages.ts';
import type { Aside } from './lanes/aside.ts';
import type { Pool } from './connection/pool.ts';
import { hostKey, laneName } from './names.ts';
import type { LaneControl } from './lanes/lane-state.ts';
import type { Held } from './prepare/prepare.ts';
import type { Destination, Site, Sites } from './sites/sites.ts';
import { DEFAULT_POOL, type Sources, type SourcePreference } from './sources/sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import { loadSourcePreferences } from './sources/source-preferences.ts';
import type { Job, DueQueue } from './due-queue.ts';
import type { OtherSource } from './worker.ts';

export interface PlacingDeps {
  db: Pick<Database, 'prepared'>;
  clock: Clock;
  log: Log;
  sites: Pick<Sites, 'known' | 'find'>;
  sources: Sources;
  poolOf(accountId: string, stream: string): Promise<string>;
  holds: Pick<Holds, 'ofLane'>;
  control: Pick<LaneControl, 'register' | 'routeOf' | 'slots' | 'restUntil' | 'foundNone' | 'take' | 'putBack'>;
  pool: Pick<Pool, 'waitOf'>;
  aside: Pick<Aside, 'add'>;
  dueQueue: Pick<DueQueue, 'done' | 'rest'>;
  lanes: Pick<Lanes<Job>, 'offer' | 'view'>;
  /** Is called when a job came into a lane. */
  offered(): void;
  /** Tells whether jobs are placed no more. */
  isStopping(): boolean;
}

export interface Placing {
  /** Brings a job into the lane of its destination, once that is known. */
  place(job: Job): void;
  /** Returns the lane of a destination, for this job or for mail without a preference. */
  laneFor(destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }>, job: Job | null): string;
  /**
   * Tells whether the job may be tried in this lane now. Where its route has changed it goes to another lane; where its part of the
   * lane rests it waits on disk; where, in an operator's lane, the hosts of its own domain cannot be had it is put aside.
   */
  mayGo(lane: string, job: Job): boolean;
  /** See `WorkerDeps.putAside`. */
  putAside(lane: string, job: Job, found: NoPassage): boolean;
  /** Counts the job against what its source may send today. Returns what keeps it from being tried: a hold of its site, or its source. */
  reserveQuota(job: Job): Held | OtherSource | null;
  /** Takes back what a job that is not sent was counted against: the minute of its lane and the day of its source. */
  releaseQuota(job: Job): void;
  /** Returns how many workers a lane may have. */
  slotsOf(lane: string): number;
}

/** Names of the lanes of mail that needs no connection. */
const innerLanes = { simulator: '~simulator', discard: '~discard', nowhere: '~nowhere' } as const;

/** Returns the lane of a destination and source, or null where there is none. */
function laneOf(destination: Destination, source: string | null): string | null {
  if (destination.kind === 'hold' || destination.kind === 'unresolved') return null;
  return destination.kind === 'site' ? laneName(destination.name, source) : innerLanes[destination.kind];
}

export function createPlacing(deps: PlacingDeps): Placing {
  const { clock, log, sources, control, dueQueue, lanes } = deps;
  const preferences = createBatchLoader<SourcePreference>((ids) => loadSourcePreferences(deps, ids));

  function place(job: Job): void {
    const known = deps.sites.known(job.domain);
    if (known !== null && !(known.kind === 'site' && sources.named && job.preference === undefined)) offer(job, known);
    else
      findPlace(job).then(
        (found) => {
          offer(job, found);
        },
        (error: unknown) => {
          log.error({ event: 'route_failed', domain: job.domain, err: error }, 'looking for a route failed');
          dueQueue.done(job, clock.now() + UNTRIED_MS);
        },
      );
  }

  async function findPlace(job: Job): Promise<Destination> {
    const found = await deps.sites.find(job.domain);
    if (found.kind === 'site' && sources.named)
      job.preference ??= (await preferences.load(job.id)) ?? { pool: DEFAULT_POOL, last: null };
    return found;
  }

  function offer(job: Job, destination: Destination): void {
    if (deps.isStopping()) return;
    // Held mail stays in the queue and is looked at again by the sweeper.
    if (destination.kind === 'hold') dueQueue.rest(job, clock.now() + SWEEP_MS);
    // DNS trouble is about the domain: its mail waits, and no attempt is spent.
    else if (destination.kind === 'unresolved') dueQueue.rest(job, Math.max(destination.until, clock.now() + 1));
    else {
      lanes.offer(laneFor(destination, job), job);
      deps.offered();
    }
  }

  function laneFor(destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }>, job: Job | null): string {
    if (destination.kind !== 'site') return innerLanes[destination.kind];
    const site = destination.name;
    const preference = job?.preference ?? { pool: DEFAULT_POOL, last: null };
    const { name: source } = sources.choose(preference, site, ({ name }) => {
      const { waiting, slots } = lanes.view(laneName(site, name));
      return waiting + slots;
    });
    const lane = laneName(site, source);
    if (job !== null) job.source = source;
    control.register(lane, destination, source);
    return lane;
  }

  function mayGo(lane: string, job: Job): boolean {
    const known = deps.sites.known(job.domain);
    const source = job.source ?? null;
    if (known === null || laneOf(known, source) !== lane) {
      releaseQuota(job);
      place(job);
      return false;
    }
    if (known.kind !== 'site') return true;
    const rest = control.restUntil(lane, partOf(job));
    if (rest !== null) {
      dueQueue.rest(job, rest);
      return false;
    }
    if (known.operator != null && !hasHost(lane, known, source, job)) return false;
    control.take(lane);
    job.pacedLane = lane;
    return true;
  }

  /** Tells whether a host of the job's own domain can be had; puts the job aside where none can. For operators' lanes. */
  function hasHost(lane: string, { hosts, operator }: Site, source: string | null, job: Job): boolean {
    const waits = [];
    for (const host of hosts) {
      const wait = deps.pool.waitOf(hostKey(host, source), operator?.maxConnections);
      if (wait === null) return true;
      waits.push(wait);
    }
    setAside(lane, job, hosts, waits);
    return false;
  }

  function setAside(lane: string, job: Job, hosts: Site['hosts'], waits: readonly { until: number | null }[]): void {
    const ends = waits.flatMap(({ until }) => until ?? []);
    const keys = hosts.map((host) => hostKey(host, job.source ?? null));
    deps.aside.add(lane, keys, job, ends.length === 0 ? null : Math.min(...ends));
  }

  function putAside(lane: string, job: Job, found: NoPassage): boolean {
    releaseQuota(job);
    const known = deps.sites.known(job.domain);
    if (found.kind === 'wait' && known?.kind === 'site' && known.operator != null) {
      setAside(lane, job, found.hosts, found.waits);
      return true;
    }
    if (found.kind === 'exhausted') {
      dueQueue.rest(job, clock.now() + UNTRIED_MS);
      return true;
    }
    control.foundNone(lane);
    return false;
  }

  function slotsOf(lane: string): number {
    const route = control.routeOf(lane);
    // A worker takes held mail out of the lane: it marks it or finds it another lane.
    if (route !== null && (deps.holds.ofLane(route.site) !== null || !sources.isFree(route.source, route.site)))
      return 1;
    return control.slots(lane);
  }

  function reserveQuota(job: Job): Held | OtherSource | null {
    const { domain, source = null, preference } = job;
    if (job.quotaSite !== undefined) sources.putBack(source, job.quotaSite);
    delete job.quotaSite;
    const known = deps.sites.known(domain);
    if (known?.kind !== 'site') return null;
    const hold = deps.holds.ofLane(known.name);
    if (hold !== null) return { kind: 'held', hold };
    if (sources.take(source, known.name)) {
      if (source !== null) job.quotaSite = known.name;
      return null;
    }
    const none = sources.heldBy(preference?.pool ?? DEFAULT_POOL, known.name);
    return none === null ? { kind: 'other_source' } : { kind: 'held', hold: none };
  }

  function releaseQuota(job: Job): void {
    if (job.pacedLane !== undefined) control.putBack(job.pacedLane);
    delete job.pacedLane;
    if (job.quotaSite === undefined) return;
    sources.putBack(job.source ?? null, job.quotaSite);
    delete job.quotaSite;
  }

  return { place, laneFor, mayGo, putAside, reserveQuota, releaseQuota, slotsOf };
}
