/**
 * How long something that arrives may be slow. It begins with a patience of `idleMs`, which time uses up and bytes give back, at
 * `leastPace` and never beyond `idleMs`. So something short has all of that time, a link that is slow but as fast as the least
 * pace may go on, and bytes that came quickly at the start buy no time for a trickle at the end.
 */
export interface Pace {
  /** How long it may fall behind `leastPace`, in milliseconds; also the longest pause. */
  idleMs: number;
  /** Bytes a second. */
  leastPace: number;
}

/** How often the pace is looked at within `idleMs`. */
export const LOOKS = 6;

export class Patience {
  private readonly pace: Pace;
  private left: number;
  private seen: number;

  /** `bytes`: how many have come before it begins. */
  constructor(pace: Pace, bytes = 0) {
    this.pace = pace;
    this.left = pace.idleMs;
    this.seen = bytes;
  }

  /** Notes that so much time went by and so many bytes have come since the beginning of all; whether the patience is over. */
  isOver(ms: number, bytes: number): boolean {
    const { idleMs, leastPace } = this.pace;
    this.left = Math.min(idleMs, this.left - ms + ((bytes - this.seen) / leastPace) * 1000);
    this.seen = bytes;
    return this.left <= 0;
  }
}
