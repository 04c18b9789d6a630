/**
 * Ends connections that wait too long while other lanes have none. Lanes that their host keeps waiting for over 10 s may have half
 * of all connections: so dead and tar-pitting hosts, however many, leave room for the others.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

export interface StarvationWatchDeps {
  clock: Clock;
  log: Log;
  pool: { dropWaiting(waitMs: number, most: number): number };
  lanes: { starving(): number };
}

/** A phase that takes longer than this is waiting, in ms; a healthy host answers in far less. */
const LONG_WAIT_MS = 10_000;
const LOOK_AGAIN_MS = 2_000;

export class StarvationWatch {
  private readonly deps: StarvationWatchDeps;
  private readonly mostWaiting: number;
  private timer: Timer | null = null;
  private isStopped = false;

  constructor(deps: StarvationWatchDeps, { maxConnections }: { maxConnections: number }) {
    this.deps = deps;
    this.mostWaiting = Math.floor(maxConnections / 2);
  }

  /** Begins to watch if lanes starve; watches until none does. */
  look(): void {
    const { clock, lanes } = this.deps;
    if (this.isStopped || lanes.starving() === 0) return;
    this.timer ??= clock.after(LOOK_AGAIN_MS, () => {
      this.timer = null;
      this.dropLongest();
      this.look();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.cancel();
  }

  private dropLongest(): void {
    const { log, pool, lanes } = this.deps;
    if (this.isStopped || lanes.starving() === 0) return;
    const count = pool.dropWaiting(LONG_WAIT_MS, this.mostWaiting);
    if (count > 0)
      log.warn(
        { event: 'connections_given_up', count },
        'hosts that keep us waiting hold over half of all connections',
      );
  }
}
