/**
 * A waiting line in which shares (accounts, addresses) take turns, and within a share the oldest item goes first. An item may
 * wait in several shares, in each of them once. Pure; each call takes the same time however many items wait.
 */
export class WaitingLine<Item> {
  private readonly shares = new Map<string, { items: Set<Item>; first: Iterator<Item> }>();
  private count = 0;

  /** Counts the items that wait in a share. */
  of(share: string): number {
    return this.shares.get(share)?.items.size ?? 0;
  }

  /** Counts the items that wait in all shares. */
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
