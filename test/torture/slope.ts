/** Does a figure grow? Least squares over samples of a long run. Pure. */

export interface Sample {
  /** Milliseconds since the beginning. */
  at: number;
  value: number;
}

export interface Slope {
  perHour: number;
  /** Standard error of `perHour`: a slope below twice this cannot be told from none. */
  error: number;
  samples: number;
}

const HOUR_MS = 3_600_000;

/** Fits a straight line by least squares. Fewer than three samples have no slope (NaN). */
export function slopeOf(samples: readonly Sample[]): Slope {
  const n = samples.length;
  if (n < 3) return { perHour: NaN, error: NaN, samples: n };
  const meanAt = samples.reduce((sum, { at }) => sum + at, 0) / n;
  const mean = samples.reduce((sum, { value }) => sum + value, 0) / n;
  const spread = samples.reduce((sum, { at }) => sum + (at - meanAt) ** 2, 0);
  const slope = samples.reduce((sum, { at, value }) => sum + (at - meanAt) * (value - mean), 0) / spread;
  const left = samples.reduce((sum, { at, value }) => sum + (value - mean - slope * (at - meanAt)) ** 2, 0);
  return { perHour: slope * HOUR_MS, error: Math.sqrt(left / (n - 2) / spread) * HOUR_MS, samples: n };
}

/** Returns the least sample of each window: memory between two collections of garbage says nothing, its floor does. */
export function floorOf(samples: readonly Sample[], windowMs: number): Sample[] {
  const least = new Map<number, Sample>();
  for (const sample of samples) {
    const window = Math.floor(sample.at / windowMs);
    const before = least.get(window);
    if (before === undefined || sample.value < before.value) least.set(window, sample);
  }
  return [...least.values()];
}
