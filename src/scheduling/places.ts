/**
 * Counts places (workers, groups in memory) by class and share, so that no account has all of them: class 1 of one share leaves a tenth, a
 * share a twentieth, and class 1 of all shares together a twentieth. The last few places are for turns (a class and a share) that have
 * none: however many others there are and whatever they hold, one more gets its first place at once. Pure.
 */

/** A class (0 goes before 1) and a share (an account) as one text. */
export const turnOf = ({ class: order, share }: { readonly class: number; readonly share: string }): string =>
  `${order === 0 ? '0' : '1'} ${share}`;

/** Class 0, or any that goes after it. */
export type PlaceClass = 0 | 1;

/** The class of a class and share. */
export const classOf = (turn: string): PlaceClass => (turn.startsWith('0') ? 0 : 1);

const shareOfTurn = (turn: string): string => turn.slice(2);

/** The part of all places that a share, and class 1 of all shares together, leaves to others. */
const LEAVES = 0.05;
/** The part that class 1 of one share leaves. */
const SECOND_CLASS_LEAVES = 0.1;
/** The part that only turns without a place may have, of all places and of those of class 1; at least one of 20 places or more. */
const LEAVES_TO_FIRST = 0.02;

export class Places {
  private readonly most: () => number;
  private readonly hasReserve: boolean;
  private readonly byTurn = new Map<string, number>();
  private readonly byShare = new Map<string, number>();
  private readonly byClass: [number, number] = [0, 0];
  private changed: ((turn: string) => void) | null = null;

  /** `most`: the number of places now. Without a reserve any share may have all. */
  constructor(most: () => number, { hasReserve }: { hasReserve: boolean }) {
    this.most = most;
    this.hasReserve = hasReserve;
  }

  get taken(): number {
    return this.byClass[0] + this.byClass[1];
  }

  get isFull(): boolean {
    return this.taken >= this.most();
  }

  /** Counts the places of a turn. */
  of(turn: string): number {
    return this.byTurn.get(turn) ?? 0;
  }

  /** Tells `changed` of each turn that has its first place, or no place any more, from now on. */
  listen(changed: (turn: string) => void): void {
    this.changed = changed;
  }

  /** Returns whether this class may have one place more, whatever its share, or may have that of `instead`. */
  mayClassHave(order: PlaceClass, instead?: string): boolean {
    return this.isBelow(order, 0, instead);
  }

  /** Returns whether a turn of this class that has a place may have another, or may have that of `instead` once it is given up. */
  hasFurther(order: PlaceClass, instead?: string): boolean {
    const left = Math.min(Math.ceil(this.most() * LEAVES_TO_FIRST), this.reserveOf(LEAVES));
    return this.isBelow(order, left, instead);
  }

  /** Returns whether this class and share may have one place more, or may go on with that of `instead`. */
  mayHave(turn: string, instead?: string): boolean {
    const order = classOf(turn);
    if (!this.mayClassHave(order, instead)) return false;
    if (!this.hasReserve) return true;
    const most = this.most();
    const isSameShare = instead !== undefined && shareOfTurn(instead) === shareOfTurn(turn);
    const ofShare = (this.byShare.get(shareOfTurn(turn)) ?? 0) - (isSameShare ? 1 : 0);
    if (ofShare >= most - this.reserveOf(LEAVES)) return false;
    const count = this.of(turn) - (instead === turn ? 1 : 0);
    if (order === 1 && count >= most - this.reserveOf(SECOND_CLASS_LEAVES)) return false;
    return count === 0 || instead !== undefined || this.hasFurther(order);
  }

  add(turn: string): void {
    this.count(turn, 1);
  }

  remove(turn: string): void {
    this.count(turn, -1);
  }

  /** Returns whether more than `kept` places are free, for class 1 also within the bound of its class. */
  private isBelow(order: PlaceClass, kept: number, instead?: string): boolean {
    const most = this.most() - kept;
    if (this.taken - (instead === undefined ? 0 : 1) >= most) return false;
    if (order === 0) return true;
    const isSameClass = instead !== undefined && classOf(instead) === 1;
    return this.byClass[1] - (isSameClass ? 1 : 0) < most - this.reserveOf(LEAVES);
  }

  private reserveOf(part: number): number {
    return this.hasReserve ? Math.floor(this.most() * part) : 0;
  }

  private count(turn: string, by: 1 | -1): void {
    this.byClass[classOf(turn)] += by;
    for (const [counts, key] of [
      [this.byTurn, turn],
      [this.byShare, shareOfTurn(turn)],
    ] as const) {
      const count = (counts.get(key) ?? 0) + by;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
    if (this.of(turn) === (by === 1 ? 1 : 0)) this.changed?.(turn);
  }
}
