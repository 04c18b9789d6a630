/** Runs acts that have the same name one after the other: the second then finds what the first has written. */
export class InTurn {
  /** The last act of each name, until it is settled. */
  private readonly last = new Map<string, Promise<unknown>>();

  async run<Result>(name: string, act: () => Promise<Result>): Promise<Result> {
    const before = this.last.get(name);
    const result = before === undefined ? act() : before.then(act);
    const settled = Promise.allSettled([result]);
    this.last.set(name, settled);
    try {
      return await result;
    } finally {
      if (this.last.get(name) === settled) this.last.delete(name);
    }
  }
}
