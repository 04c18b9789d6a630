/** Numbers that look random and come out the same for the same seed (mulberry32), so that two runs tell the same story. */

export interface Chance {
  /** 0 up to and without 1. */
  next(): number;
  /** A whole number, 0 up to and without `n`. */
  below(n: number): number;
  /** True in this share of cases. */
  odds(share: number): boolean;
  /** Times between things that happen by themselves: exponential with this mean. */
  wait(mean: number): number;
  pick<T>(list: readonly [T, ...T[]]): T;
  /** One of the names, each as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name;
}

export function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number): number => Math.floor(next() * n);
  return {
    next,
    below,
    odds: (share) => next() < share,
    wait: (mean) => -Math.log(1 - next()) * mean,
    pick: (list) => list[below(list.length)] ?? list[0],
    weighted(weights) {
      const entries = Object.entries(weights) as [keyof typeof weights, number][];
      let rest = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [name, weight] of entries) if ((rest -= weight) < 0) return name;
      return entries.at(-1)?.[0] ?? never();
    },
  };
}

function never(): never {
  throw new Error('there is nothing to choose from');
}
