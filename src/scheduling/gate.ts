/** A gate that lets a number of callers in at a time. Shares (accounts) take turns, each in its order; more than may wait are refused. Pure. */
import { WaitingLine } from './places.ts';

export interface GateLimits {
  /** Callers inside at a time. One that weighs more than 1 counts as so many, and enters while there is any room. */
  most: number;
  /** Callers of one share inside at a time; `most` if left out. */
  mostOfShare?: number;
  /** Callers of one share that wait. */
  waiting: number;
}

export type Gate = ReturnType<typeof createGate>;

export function createGate({ most, mostOfShare = most, waiting: mostWaiting }: GateLimits) {
  let inside = 0;
  const insideOfShare = new Map<string, number>();
  const line = new WaitingLine<{ weight: number; resolve: (leave: () => void) => void }>();

  const hasRoomFor = (share: string): boolean => (insideOfShare.get(share) ?? 0) < mostOfShare;

  function add(share: string, callers: number): void {
    inside += callers;
    const ofShare = (insideOfShare.get(share) ?? 0) + callers;
    if (ofShare === 0) insideOfShare.delete(share);
    else insideOfShare.set(share, ofShare);
  }

  function admit(share: string, weight: number): () => void {
    add(share, weight);
    let out = false;
    return () => {
      if (out) throw new Error('left a gate twice');
      out = true;
      add(share, -weight);
      letIn();
    };
  }

  function letIn(): void {
    while (inside < most) {
      const next = line.next(hasRoomFor);
      if (next === undefined) return;
      next.item.resolve(admit(next.share, next.item.weight));
    }
  }

  function enter(share = '', weight = 1): Promise<(() => void) | null> | (() => void) {
    if (inside < most && hasRoomFor(share)) return admit(share, weight);
    if (line.of(share) >= mostWaiting) return Promise.resolve(null);
    return new Promise((resolve) => {
      line.add(share, { weight, resolve });
    });
  }

  return {
    /** Resolves when the caller is inside, with the function to call when leaving; null if too many of its share wait already. */
    enter,
    /** Does the work inside. `tooMany` makes the error if too many of the share wait already. */
    async run<T>(share: string, work: () => Promise<T> | T, tooMany = () => new Error('too many wait')): Promise<T> {
      const leave = await enter(share);
      if (leave === null) throw tooMany();
      try {
        return await work();
      } finally {
        leave();
      }
    },
    sizes: () => ({ inside, waiting: line.all }),
  };
}
