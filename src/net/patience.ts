/** The time limit of slow data: it begins at `idleMs`, time uses it up, and bytes give it back at `leastPace`, never beyond `idleMs`. */
import type { Clock, Timer } from '../base/clock.ts';

export interface Pace {
  /** The time by which it may fall behind `leastPace`, in ms; also the longest pause. */
  idleMs: number;
  /** Bytes a second. */
  leastPace: number;
}

/** The number of checks of the pace within `idleMs`. */
const LOOKS = 6;

/** Calls `tooSlow` once if the limit is passed. Time in which this process was too busy to look is not counted. `bytes`: those that have come. */
export function watchPace(clock: Clock, { idleMs, leastPace }: Pace, bytes: () => number, tooSlow: () => void): Timer {
  const step = idleMs / LOOKS;
  let [left, seen] = [idleMs, bytes()];
  const look = (): void => {
    const now = bytes();
    left = Math.min(idleMs, left - step + ((now - seen) / leastPace) * 1000);
    seen = now;
    if (left <= 0) tooSlow();
    else timer = clock.after(step, look, { background: true });
  };
  let timer = clock.after(step, look, { background: true });
  return { cancel: () => timer.cancel() };
}
