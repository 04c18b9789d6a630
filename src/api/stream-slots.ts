/** Counts the open streams of each key and each account: each holds a connection. Pure. */
import { Problem } from '../base/problem.ts';

const MOST_OF_KEY = 20;
const MOST_OF_ACCOUNT = 100;

export class StreamSlots {
  private readonly open = new Map<string, number>();

  /** Takes a slot; the returned function gives it back. Throws `too_many_streams`. */
  take({ keyId, accountId }: { keyId: string; accountId: string }): () => void {
    this.check(`key ${keyId}`, MOST_OF_KEY, 'this key');
    this.check(`account ${accountId}`, MOST_OF_ACCOUNT, 'this account');
    const names = [`key ${keyId}`, `account ${accountId}`];
    for (const name of names) this.add(name, 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      for (const name of names) this.add(name, -1);
    };
  }

  private check(name: string, most: number, whose: string): void {
    if ((this.open.get(name) ?? 0) < most) return;
    throw new Problem('too_many_streams', `There are ${String(most)} open streams of ${whose}. Close one first.`);
  }

  private add(name: string, more: number): void {
    const count = (this.open.get(name) ?? 0) + more;
    if (count > 0) this.open.set(name, count);
    else this.open.delete(name);
  }
}
