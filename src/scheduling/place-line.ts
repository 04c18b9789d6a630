/**
 * A line for places (places.ts): the classes take turns, and in a class the shares do, those that have no place first. Of the shares in a
 * line only few may be at a bound of their own, since each bound is nearly all places; if class 1 as a whole is at its bound, or the last
 * places are kept for shares that have none, the lines of the others are not looked at. So each call takes the same time however many
 * shares wait. Pure.
 */
import { classOf, type PlaceClass, type Places } from './places.ts';
import { WaitingLine } from './waiting-line.ts';

/** How many shares that have a place are compared to find one whose place another should have. */
const MOST_COMPARED = 20;

export class PlaceLine<Item> {
  private readonly places: Places;
  /** The items of shares without a place, by class. */
  private readonly first = [new WaitingLine<Item>(), new WaitingLine<Item>()] as const;
  /** Those of shares that have a place. */
  private readonly further = [new WaitingLine<Item>(), new WaitingLine<Item>()] as const;
  private last: PlaceClass = 1;

  /** The only line for these places. */
  constructor(places: Places) {
    this.places = places;
    places.listen((turn) => {
      const order = classOf(turn);
      const [from, to] = places.of(turn) > 0 ? [this.first, this.further] : [this.further, this.first];
      from[order].moveTo(to[order], turn);
    });
  }

  /** Counts the items in all lines; one that waits in several shares counts in each. */
  get all(): number {
    return this.first[0].all + this.first[1].all + this.further[0].all + this.further[1].all;
  }

  add(turn: string, item: Item): void {
    this.lineOf(turn).add(turn, item);
  }

  delete(turn: string, item: Item): void {
    this.lineOf(turn).delete(turn, item);
  }

  /**
   * Returns whether an item waits that may have a place, or for which that of `instead` should be given up. If the last places are kept, and
   * some of them are taken, that is so for shares with fewer places, though the place is then kept first.
   */
  some(instead?: string): boolean {
    // The lines are nearly always empty, and this is asked several times for each mail.
    if (this.all === 0) return false;
    return CLASSES.some((order) => this.places.mayClassHave(order, instead) && this.someOf(order, instead));
  }

  /** Takes the next item that may have a place. Undefined if there is none. */
  next(): { turn: string; item: Item } | undefined {
    const { places } = this;
    const mayHave = (turn: string): boolean => places.mayHave(turn);
    for (const order of this.last === 0 ? SECOND_FIRST : CLASSES) {
      if (!places.mayClassHave(order)) continue;
      const next =
        this.first[order].next(mayHave) ?? (places.hasFurther(order) ? this.further[order].next(mayHave) : undefined);
      if (next === undefined) continue;
      this.last = order;
      return { turn: next.share, item: next.item };
    }
    return undefined;
  }

  private someOf(order: PlaceClass, instead?: string): boolean {
    const { places } = this;
    const mayHave = (turn: string): boolean => places.mayHave(turn, instead);
    if (this.first[order].some(mayHave)) return true;
    if (places.hasFurther(order, instead)) return this.further[order].some(mayHave);
    if (instead === undefined) return false;
    const hasFewer = (turn: string): boolean => turn === instead || places.of(turn) + 1 < places.of(instead);
    return this.further[order].some((turn) => hasFewer(turn) && mayHave(turn), MOST_COMPARED);
  }

  private lineOf(turn: string): WaitingLine<Item> {
    return (this.places.of(turn) > 0 ? this.further : this.first)[classOf(turn)];
  }
}

const CLASSES: readonly PlaceClass[] = [0, 1];
const SECOND_FIRST: readonly PlaceClass[] = [1, 0];
