/** Notices that the clock was set, or that the machine was suspended: the wall clock moves and the monotonic clock does not. */
import type { Clock } from './clock.ts';

/** A step of the clock that counts as a jump, in ms; the steps of a synchronized clock are far smaller. */
export const JUMP_MS = 60_000;

/** Returns a function that says by how many ms the clock has jumped since its last call (back: negative), or 0. */
export function createJumpMeter(clock: Pick<Clock, 'now' | 'monotonic'>): () => number {
  let before = clock.now() - clock.monotonic();
  return () => {
    const ahead = clock.now() - clock.monotonic();
    const moved = ahead - before;
    before = ahead;
    return Math.abs(moved) < JUMP_MS ? 0 : moved;
  };
}

/** Returns a function that looks for forward jumps of the clock, and returns since when the program has run without one (ms since the epoch). */
export function createRunningSince(clock: Pick<Clock, 'now' | 'monotonic'>): () => number {
  const jumped = createJumpMeter(clock);
  let since = clock.now();
  return () => {
    const ms = jumped();
    if (ms > 0) since = clock.now();
    // The same moment by the corrected clock.
    else since += ms;
    return since;
  };
}
