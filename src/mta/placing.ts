/**
 * Where a delivery waits to be sent: the lane of its destination and of the source that it leaves from. What may keep it from
 * being tried there (a hold, a source that sends nothing more today) is asked again when its turn comes.
 */
import { createBatchLoader } from '../base/batch-loader.ts';
import type { Clock } from '../base/clock.ts';
import type { Lanes } from '../base/lanes.ts';
import type { Log } from '../base/log.ts';
import type { Holds } from '../messages/holds.ts';
import type { Database } from '../storage/database.ts';
import { UNTRIED_MS } from './attempt.ts';
import type { LaneControl } from './lane-control.ts';
import type { Held } from './prepare.ts';
import type { Destination, Sites } from './sites.ts';
import { DEFAULT_POOL, laneName, type Sources, type Wish } from './sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import { loadWishes } from './wishes.ts';
import type { Job, Windows } from './windows.ts';
import type { Elsewhere } from './worker.ts';

export interface PlacingDeps {
  db: Pick<Database, 'fast'>;
  clock: Clock;
  log: Log;
  sites: Pick<Sites, 'known' | 'find'>;
  sources: Sources;
  poolOf(accountId: string, stream: string): Promise<string>;
  holds: Pick<Holds, 'ofLane'>;
  control: Pick<LaneControl, 'meet' | 'wayOf' | 'slots'>;
  windows: Pick<Windows, 'done' | 'rest'>;
  lanes: Pick<Lanes<Job>, 'offer' | 'load'>;
  /** A job came into a lane. */
  offered(): void;
  /** No job is placed any more. */
  isStopping(): boolean;
}

export interface Placing {
  /** Brings a job into the lane of its destination, once that is known. */
  place(job: Job): void;
  /** The lane of a destination, for this job or for mail without wishes. */
  laneFor(destination: Exclude<Destination, { kind: 'hold' }>, job: Job | null): string;
  /** What keeps the job from being tried in its lane: a hold of all lanes of its site, or its source may not send there now. */
  stopsHere(job: Job): Held | Elsewhere | null;
  /** A job that is not sent after all leaves its place among the day's mails of its source to another. */
  giveUpPlace(job: Job): void;
  /** Workers a lane may have. */
  slotsOf(lane: string): number;
}

const SIMULATOR_LANE = '~simulator';
const DISCARD_LANE = '~discard';
const NOWHERE_LANE = '~nowhere';

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
    else {
      lanes.offer(laneFor(destination, job), job);
      deps.offered();
    }
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

  function giveUpPlace(job: Job): void {
    if (job.placeAt === undefined) return;
    sources.putBack(job.source ?? null, job.placeAt);
    delete job.placeAt;
  }

  return { place, laneFor, stopsHere, giveUpPlace, slotsOf };
}
