/** A waiting line in which shares (accounts, addresses) take turns, and within a share those who came first. Pure. */
export class WaitingLine<Item> {
  private readonly shares = new Map<string, Item[]>();
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
    const line = this.shares.get(share);
    if (line === undefined) this.shares.set(share, [item]);
    else line.push(item);
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
