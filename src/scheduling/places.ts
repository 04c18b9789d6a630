/**
 * Places (workers, groups in memory) that are counted by class and share, and what waits for them, so that no account has all of them: class 1
 * of one share leaves a tenth, a share a twentieth, and class 1 of all shares together a twentieth. The last few places are for turns (a class and
 * a share) that have none: however many others there are and whatever they hold, one more gets its first place at once.
 *
 * Of what waits the classes take turns, and in a class the shares do, those that have no place first. Only few shares may be at a bound of their
 * own, since each bound is nearly all places; so each call takes the same time however many shares wait. Pure.
 */

export const turnOf = ({ class: order, share }: { readonly class: number; readonly share: string }): string =>
  `${order === 0 ? '0' : '1'} ${share}`;

/** Class 0, or any that goes after it. */
export type PlaceClass = 0 | 1;

const classOf = (turn: string): PlaceClass => (turn.startsWith('0') ? 0 : 1);
const shareOfTurn = (turn: string): string => turn.slice(2);

/** The part of all places that a share, and class 1 of all shares together, leaves to others. */
const LEAVES = 0.05;
/** The part that class 1 of one share leaves. */
const SECOND_CLASS_LEAVES = 0.1;
/** The part that only turns without a place may have, of all places and of those of class 1; at least one of 20 places or more. */
const LEAVES_TO_FIRST = 0.02;
/** How many shares that have a place are compared to find one whose place another should have. */
const MOST_COMPARED = 20;
export const CLASSES: readonly PlaceClass[] = [0, 1];
export const SECOND_FIRST: readonly PlaceClass[] = [1, 0];

export class Places<Item> {
  private readonly most: () => number;
  private readonly hasReserve: boolean;
  private readonly byTurn = new Map<string, number>();
  private readonly byShare = new Map<string, number>();
  private readonly byClass: [number, number] = [0, 0];
  /** The waiting items by class: those of turns without a place, and the others. */
  private readonly first = [new WaitingLine<Item>(), new WaitingLine<Item>()] as const;
  private readonly further = [new WaitingLine<Item>(), new WaitingLine<Item>()] as const;
  private last: PlaceClass = 1;

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

  /** Counts what waits; an item that waits in several turns counts in each. */
  get waiting(): number {
    return this.first[0].all + this.first[1].all + this.further[0].all + this.further[1].all;
  }

  take(turn: string): void {
    this.count(turn, 1);
  }

  giveBack(turn: string): void {
    this.count(turn, -1);
  }

  wait(turn: string, item: Item): void {
    this.lineOf(turn).add(turn, item);
  }

  leave(turn: string, item: Item): void {
    this.lineOf(turn).delete(turn, item);
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

  /** Returns whether this class may have one place more, whatever its share, or may have that of `instead`. */
  mayClassHave(order: PlaceClass, instead?: string): boolean {
    return this.isBelow(order, 0, instead);
  }

  /**
   * Returns whether something waits that may have a place, or for which that of `instead` should be given up. If the last places are kept, and
   * some of them are taken, that is so for shares with fewer places, though the place is then kept first.
   */
  someWaits(instead?: string): boolean {
    // The lines are nearly always empty, and this is asked several times for each mail.
    if (this.waiting === 0) return false;
    return CLASSES.some((order) => this.mayClassHave(order, instead) && this.someOf(order, instead));
  }

  /** Takes the next item that may have a place out of its line. Undefined if there is none. */
  next(): { turn: string; item: Item } | undefined {
    const mayHave = (turn: string): boolean => this.mayHave(turn);
    for (const order of this.last === 0 ? SECOND_FIRST : CLASSES) {
      if (!this.mayClassHave(order)) continue;
      const next =
        this.first[order].next(mayHave) ?? (this.hasFurther(order) ? this.further[order].next(mayHave) : undefined);
      if (next === undefined) continue;
      this.last = order;
      return { turn: next.share, item: next.item };
    }
    return undefined;
  }

  private of(turn: string): number {
    return this.byTurn.get(turn) ?? 0;
  }

  private lineOf(turn: string): WaitingLine<Item> {
    return (this.of(turn) > 0 ? this.further : this.first)[classOf(turn)];
  }

  private someOf(order: PlaceClass, instead?: string): boolean {
    const mayHave = (turn: string): boolean => this.mayHave(turn, instead);
    if (this.first[order].some(mayHave)) return true;
    if (this.hasFurther(order, instead)) return this.further[order].some(mayHave);
    if (instead === undefined) return false;
    const hasFewer = (turn: string): boolean => turn === instead || this.of(turn) + 1 < this.of(instead);
    return this.further[order].some((turn) => hasFewer(turn) && mayHave(turn), MOST_COMPARED);
  }

  /** Returns whether a turn of this class that has a place may have another, or may have that of `instead` once it is given up. */
  private hasFurther(order: PlaceClass, instead?: string): boolean {
    const left = Math.min(Math.ceil(this.most() * LEAVES_TO_FIRST), this.reserveOf(LEAVES));
    return this.isBelow(order, left, instead);
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
    const order = classOf(turn);
    this.byClass[order] += by;
    for (const [counts, key] of [
      [this.byTurn, turn],
      [this.byShare, shareOfTurn(turn)],
    ] as const) {
      const count = (counts.get(key) ?? 0) + by;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
    const { first, further } = this;
    if (by === 1 && this.of(turn) === 1) first[order].moveTo(further[order], turn);
    if (by === -1 && this.of(turn) === 0) further[order].moveTo(first[order], turn);
  }
}

/** A line in which shares (accounts, addresses) take turns, the oldest item first; one may wait in several, once in each. Pure, at constant cost. */
export class WaitingLine<Item> {
  private readonly shares = new Map<string, { items: Set<Item>; first: Iterator<Item> }>();
  private count = 0;

  of(share: string): number {
    return this.shares.get(share)?.items.size ?? 0;
  }

  get all(): number {
    return this.count;
  }

  add(share: string, item: Item): void {
    let line = this.shares.get(share);
    if (line === undefined) {
      const items = new Set<Item>();
      line = { items, first: items.values() };
      this.shares.set(share, line);
    }
    if (line.items.has(item)) return;
    line.items.add(item);
    this.count++;
  }

  delete(share: string, item: Item): void {
    const line = this.shares.get(share);
    if (line?.items.delete(item) !== true) return;
    this.count--;
    if (line.items.size === 0) this.shares.delete(share);
  }

  /** Moves the items of a share to the end of another line, in which the share has none. */
  moveTo(other: WaitingLine<Item>, share: string): void {
    const line = this.shares.get(share);
    if (line === undefined) return;
    this.shares.delete(share);
    other.shares.set(share, line);
    this.count -= line.items.size;
    other.count += line.items.size;
  }

  /** Returns whether one of the first `most` shares with waiting items `mayGo`. */
  some(mayGo: (share: string) => boolean, most = Infinity): boolean {
    let left = most;
    for (const share of this.shares.keys()) {
      if (left-- <= 0) return false;
      if (mayGo(share)) return true;
    }
    return false;
  }

  /** Takes the next of the first share that `mayGo`; the share moves to the end. Undefined if there is none. */
  next(mayGo: (share: string) => boolean = () => true): { share: string; item: Item } | undefined {
    for (const [share, line] of this.shares) {
      if (!mayGo(share)) continue;
      // The iterator is past the items that were taken; a new one would pass over each of them again.
      const next = line.first.next();
      if (next.done === true) throw new Error('the line of a share that is empty is not kept');
      line.items.delete(next.value);
      this.count--;
      this.shares.delete(share);
      if (line.items.size > 0) this.shares.set(share, line);
      return { share, item: next.value };
    }
    return undefined;
  }
}
