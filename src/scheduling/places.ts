/**
 * Counts places (workers, groups in memory) by class and share, so that no account has all of them: class 1 of one share leaves a tenth, a
 * share a twentieth, and class 1 of all shares together a twentieth. The last few places go to classes and shares that have none: where
 * two accounts hold all the others, a third one gets its first place at once. Pure.
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
/**
 * The places that only a class and share without a place may have: a twentieth of all places, within these bounds; none where there are fewer
 * than `LEAST_TO_KEEP` places. Where the others are taken, at most so many classes and shares have a place, so that a line (place-line.ts)
 * passes over few of them.
 */
const FIRST_PLACES = { least: 4, most: 10 };
const LEAST_TO_KEEP = 20;

const keptForFirst = (most: number): number =>
  most < LEAST_TO_KEEP ? 0 : Math.min(Math.max(Math.floor(most * LEAVES), FIRST_PLACES.least), FIRST_PLACES.most);

export class Places {
  private readonly most: () => number;
  private readonly hasReserve: boolean;
  private readonly byTurn = new Map<string, number>();
  private readonly byShare = new Map<string, number>();
  private readonly byClass: [number, number] = [0, 0];

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

  /** Says whether this class may have one place more, whatever its share, or may have that of `instead`. */
  mayClassHave(order: PlaceClass, instead?: string): boolean {
    const most = this.most();
    if (this.taken - (instead === undefined ? 0 : 1) >= most) return false;
    if (!this.hasReserve || order === 0) return true;
    const isSameClass = instead !== undefined && classOf(instead) === 1;
    return this.byClass[1] - (isSameClass ? 1 : 0) < most - Math.floor(most * LEAVES);
  }

  /** Says whether this class and share may have one place more, or may have it when the place of `instead` is given up. */
  mayHave(turn: string, instead?: string): boolean {
    const order = classOf(turn);
    if (!this.mayClassHave(order, instead)) return false;
    if (!this.hasReserve) return true;
    const most = this.most();
    const isSameShare = instead !== undefined && shareOfTurn(instead) === shareOfTurn(turn);
    const ofShare = (this.byShare.get(shareOfTurn(turn)) ?? 0) - (isSameShare ? 1 : 0);
    if (ofShare >= most - Math.floor(most * LEAVES)) return false;
    const count = this.countOf(turn) - (instead === turn ? 1 : 0);
    if (count > 0 && this.furtherThanFirst(instead) >= most - keptForFirst(most)) return false;
    return order === 0 || count < most - Math.floor(most * SECOND_CLASS_LEAVES);
  }

  add(turn: string): void {
    this.count(turn, 1);
  }

  remove(turn: string): void {
    this.count(turn, -1);
  }

  private countOf(turn: string): number {
    return this.byTurn.get(turn) ?? 0;
  }

  /** Counts the places beyond the first of each class and share, without that of `instead`. */
  private furtherThanFirst(instead?: string): number {
    const givenUp = instead !== undefined && this.countOf(instead) > 1 ? 1 : 0;
    return this.taken - this.byTurn.size - givenUp;
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
  }
}
