/**
 * A line for places (places.ts): the classes take turns, and in a class the shares do. Of the shares in a line only few may be at a bound
 * of their own, since each bound is nearly all places; where the last places are kept for shares that have none, only few have one; and
 * where class 1 as a whole is at its bound, its line is not looked at. So each call takes the same time however many shares wait. Pure.
 */
import { classOf, type PlaceClass, type Places } from './places.ts';
import { WaitingLine } from './waiting-line.ts';

export class PlaceLine<Item> {
  private readonly places: Places;
  private readonly lines = [new WaitingLine<Item>(), new WaitingLine<Item>()] as const;
  private last: PlaceClass = 1;

  constructor(places: Places) {
    this.places = places;
  }

  /** Counts the items in all lines; one that waits in several shares counts in each. */
  get all(): number {
    return this.lines[0].all + this.lines[1].all;
  }

  add(turn: string, item: Item): void {
    this.lineOf(turn).add(turn, item);
  }

  delete(turn: string, item: Item): void {
    this.lineOf(turn).delete(turn, item);
  }

  /** Says whether an item waits that may have a place, or may have that of `instead`. */
  some(instead?: string): boolean {
    const { places } = this;
    return CLASSES.some(
      (order) => places.mayClassHave(order, instead) && this.lines[order].some((turn) => places.mayHave(turn, instead)),
    );
  }

  /** Takes the next item that may have a place. Undefined where there is none. */
  next(): { turn: string; item: Item } | undefined {
    const { places } = this;
    for (const order of this.last === 0 ? SECOND_FIRST : CLASSES) {
      if (!places.mayClassHave(order)) continue;
      const next = this.lines[order].next((turn) => places.mayHave(turn));
      if (next === undefined) continue;
      this.last = order;
      return { turn: next.share, item: next.item };
    }
    return undefined;
  }

  private lineOf(turn: string): WaitingLine<Item> {
    return this.lines[classOf(turn)];
  }
}

const CLASSES: readonly PlaceClass[] = [0, 1];
const SECOND_FIRST: readonly PlaceClass[] = [1, 0];
