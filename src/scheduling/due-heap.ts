/** A heap of items by the time at which they fall due: the next one is found at once, however many wait. */

interface Entry<Item> {
  at: number;
  item: Item;
}

export class DueHeap<Item> {
  private readonly entries: Entry<Item>[] = [];

  get size(): number {
    return this.entries.length;
  }

  /** Returns when the first item falls due, or null. */
  nextAt(): number | null {
    return this.entries[0]?.at ?? null;
  }

  add(at: number, item: Item): void {
    const { entries } = this;
    entries.push({ at, item });
    let place = entries.length - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.swapIfBefore(place, parent)) break;
      place = parent;
    }
  }

  /** Takes out the first item that is due at `now`, or undefined. */
  takeDue(now: number): Item | undefined {
    const { entries } = this;
    const first = entries[0];
    if (first === undefined || first.at > now) return undefined;
    const last = entries.pop();
    if (last !== undefined && entries.length > 0) {
      entries[0] = last;
      this.sink(0);
    }
    return first.item;
  }

  private sink(start: number): void {
    let place = start;
    for (;;) {
      const left = 2 * place + 1;
      const right = left + 1;
      const smaller = (this.entries[right]?.at ?? Infinity) < (this.entries[left]?.at ?? Infinity) ? right : left;
      if (smaller >= this.entries.length || !this.swapIfBefore(smaller, place)) return;
      place = smaller;
    }
  }

  /** Swaps the two places if the entry at `a` is due before the one at `b`. */
  private swapIfBefore(a: number, b: number): boolean {
    const one = this.entries[a];
    const other = this.entries[b];
    if (one === undefined || other === undefined || one.at >= other.at) return false;
    this.entries[a] = other;
    this.entries[b] = one;
    return true;
  }
}
