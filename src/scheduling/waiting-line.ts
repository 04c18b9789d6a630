/** A waiting line in which shares (accounts, addresses) take turns, and within a share those who came first. Pure. */
export class WaitingLine<Item> {
  private readonly shares = new Map<string, Fifo<Item>>();
  private count = 0;

  /** Counts those who wait in a share. */
  of(share: string): number {
    return this.shares.get(share)?.length ?? 0;
  }

  /** Counts all who wait. */
  get all(): number {
    return this.count;
  }

  add(share: string, item: Item): void {
    let line = this.shares.get(share);
    if (line === undefined) {
      line = new Fifo();
      this.shares.set(share, line);
    }
    line.push(item);
    this.count++;
  }

  /** Takes the next of the first share that `mayGo`; the share moves to the end. Undefined where there is none. */
  next(mayGo: (share: string) => boolean = () => true): { share: string; item: Item } | undefined {
    for (const [share, line] of this.shares) {
      if (!mayGo(share)) continue;
      const item = line.shift();
      this.shares.delete(share);
      if (line.length > 0) this.shares.set(share, line);
      if (item === undefined) continue;
      this.count--;
      return { share, item };
    }
    return undefined;
  }
}

/** `Array.shift` moves the whole array where that has more than some ten thousand entries. */
class Fifo<Item> {
  private items: Item[] = [];
  private head = 0;

  get length(): number {
    return this.items.length - this.head;
  }

  push(item: Item): void {
    this.items.push(item);
  }

  shift(): Item | undefined {
    const item = this.items[this.head];
    if (this.head < this.items.length) this.head++;
    if (this.head * 2 >= this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
    return item;
  }
}
