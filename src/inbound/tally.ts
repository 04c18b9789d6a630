/** Amounts by name; what falls to nothing is forgotten. */
export class Tally {
  private readonly amounts = new Map<string, number>();

  of(name: string): number {
    return this.amounts.get(name) ?? 0;
  }

  add(name: string, amount: number): void {
    const sum = this.of(name) + amount;
    if (sum > 0) this.amounts.set(name, sum);
    else this.amounts.delete(name);
  }
}
