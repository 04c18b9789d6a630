/** The time limit of slow data: it begins at `idleMs`, time uses it up, and bytes give it back at `leastPace`, never beyond `idleMs`. */
export interface Pace {
  /** The time by which it may fall behind `leastPace`, in ms; also the longest pause. */
  idleMs: number;
  /** Bytes a second. */
  leastPace: number;
}

/** The number of checks of the pace within `idleMs`. */
export const LOOKS = 6;

export class Patience {
  private readonly pace: Pace;
  private left: number;
  private seen: number;

  /** `bytes`: the number that has come before it begins. */
  constructor(pace: Pace, bytes = 0) {
    this.pace = pace;
    this.left = pace.idleMs;
    this.seen = bytes;
  }

  /** Notes the time since the last call and the bytes since the beginning; returns true if the limit is passed. */
  isOver(ms: number, bytes: number): boolean {
    const { idleMs, leastPace } = this.pace;
    this.left = Math.min(idleMs, this.left - ms + ((bytes - this.seen) / leastPace) * 1000);
    this.seen = bytes;
    return this.left <= 0;
  }
}
