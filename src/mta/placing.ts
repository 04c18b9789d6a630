/**
 * Where a delivery waits to be sent: the lane of its destination and of the source that it leaves from. What may keep it from
 * being tried there (a hold, a source that sends nothing more today) is asked again when its turn comes.
 */
import { createBatchLoader } from '../base/batch-loader.ts';
import type { Clock } from '../base/clock.ts';
import type { Lanes } from '../scheduling/lanes.ts';
import type { Log } from '../base/log.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { Database } from '../storage/database.ts';
import { partOf, UNTRIED_MS, type NoPassage } from './attempt/attempt.ts';
import type { Aside } from './lanes/aside.ts';
import type { Pool } from './connection/pool.ts';
import { hostKey } from './attempt/deliver.ts';
import type { LaneControl } from './lanes/lane-state.ts';
import type { Held } from './prepare/prepare.ts';
import type { Destination, Site, Sites } from './sites/sites.ts';
import { DEFAULT_POOL, laneName, type Sources, type Wish } from './sources/sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import { loadWishes } from './sources/wishes.ts';
import type { Job, DueQueue } from './due-queue.ts';
import type { Elsewhere } from './worker.ts';

export interface PlacingDeps {
  db: Pick<Database, 'prepared'>;
  clock: Clock;
  log: Log;
  sites: Pick<Sites, 'known' | 'find'>;
  sources: Sources;
  poolOf(accountId: string, stream: string): Promise<string>;
  holds: Pick<Holds, 'ofLane'>;
  control: Pick<LaneControl, 'meet' | 'wayOf' | 'slots' | 'restUntil' | 'foundNone' | 'take' | 'putBack'>;
  pool: Pick<Pool, 'waitOf'>;
  aside: Pick<Aside, 'add'>;
  windows: Pick<DueQueue, 'done' | 'rest'>;
  lanes: Pick<Lanes<Job>, 'offer' | 'view'>;
  /** A job came into a lane. */
  offered(): void;
  /** No job is placed any more. */
  isStopping(): boolean;
}

export interface Placing {
  /** Brings a job into the lane of its destination, once that is known. */
  place(job: Job): void;
  /** The lane of a destination, for this job or for mail without wishes. */
  laneFor(destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }>, job: Job | null): string;
  /**
   * Whether the job may be tried in this lane now. Where its way has changed it goes to another lane; where its part of the lane
   * rests it waits on disk; where the hosts of its own domain, in an operator's lane, cannot be had it is put aside.
   */
  mayGo(lane: string, job: Job): boolean;
  /** No connection can be had for the job: see `WorkerDeps.putAside`. */
  putAside(lane: string, job: Job, found: NoPassage): boolean;
  /** What keeps the job from being tried in its lane: a hold of all lanes of its site, or its source may not send there now. */
  stopsHere(job: Job): Held | Elsewhere | null;
  /** A job that is not sent after all leaves its place among the minute's mails of its lane, and the day's of its source, to another. */
  giveUpPlace(job: Job): void;
  /** Workers a lane may have. */
  slotsOf(lane: string): number;
}

/** Lanes of mail that needs no connection. */
const innerLanes = { simulator: '~simulator', discard: '~discard', nowhere: '~nowhere' } as const;

/** The lane of a destination that is known, by this source; null where there is none. */
function laneOf(destination: Destination, source: string | null): string | null {
  if (destination.kind === 'hold' || destination.kind === 'unresolved') return null;
  return destination.kind === 'site' ? laneName(destination.name, source) : innerLanes[destination.kind];
}

export function createPlacing(deps: PlacingDeps): Placing {
  const { clock, log, sources, control, windows, lanes } = deps;
  const wishes = createBatchLoader<Wish>((ids) => loadWishes(deps, ids));

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
    if (deps.isStopping()) return;
    // Held mail stays in the queue and is looked at again by the sweeper.
    if (destination.kind === 'hold') windows.rest(job, clock.now() + SWEEP_MS);
    // What DNS does not say is about the domain: its mail waits, and no attempt is spent.
    else if (destination.kind === 'unresolved') windows.rest(job, Math.max(destination.until, clock.now() + 1));
    else {
      lanes.offer(laneFor(destination, job), job);
      deps.offered();
    }
  }

  function laneFor(destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }>, job: Job | null): string {
    if (destination.kind !== 'site') return innerLanes[destination.kind];
    const site = destination.name;
    const wish = job?.wish ?? { pool: DEFAULT_POOL, last: null };
    const { name: source } = sources.choose(wish, site, ({ name }) => {
      const { waiting, slots } = lanes.view(laneName(site, name));
      return waiting + slots;
    });
    const lane = laneName(site, source);
    if (job !== null) job.source = source;
    control.meet(lane, destination, source);
    return lane;
  }

  function mayGo(lane: string, job: Job): boolean {
    const known = deps.sites.known(job.domain);
    const source = job.source ?? null;
    if (known === null || laneOf(known, source) !== lane) {
      giveUpPlace(job);
      place(job);
      return false;
    }
    if (known.kind !== 'site') return true;
    const rest = control.restUntil(lane, partOf(job));
    if (rest !== null) {
      windows.rest(job, rest);
      return false;
    }
    if (known.operator != null && !hasHost(lane, known, source, job)) return false;
    control.take(lane);
    job.turnIn = lane;
    return true;
  }

  /** Of an operator's lane: whether some host of the job's own domain may be had; else it is put aside. */
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
    giveUpPlace(job);
    const known = deps.sites.known(job.domain);
    if (found.kind === 'wait' && known?.kind === 'site' && known.operator != null) {
      setAside(lane, job, found.hosts, found.waits);
      return true;
    }
    if (found.kind === 'exhausted') {
      windows.rest(job, clock.now() + UNTRIED_MS);
      return true;
    }
    control.foundNone(lane);
    return false;
  }

  function slotsOf(lane: string): number {
    const way = control.wayOf(lane);
    // Held mail leaves the lane by its workers, which mark it or find it another lane.
    if (way !== null && (deps.holds.ofLane(way.site) !== null || !sources.isFree(way.source, way.site))) return 1;
    return control.slots(lane);
  }

  function stopsHere(job: Job): Held | Elsewhere | null {
    const { domain, source = null, wish } = job;
    if (job.placeAt !== undefined) sources.putBack(source, job.placeAt);
    delete job.placeAt;
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

  function giveUpPlace(job: Job): void {
    if (job.turnIn !== undefined) control.putBack(job.turnIn);
    delete job.turnIn;
    if (job.placeAt === undefined) return;
    sources.putBack(job.source ?? null, job.placeAt);
    delete job.placeAt;
  }

  return { place, laneFor, mayGo, putAside, stopsHere, giveUpPlace, slotsOf };
}
