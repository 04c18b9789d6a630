/**
 * The memory for bodies of requests under way, forms and uploads included, and for large answers that are not taken yet. No
 * account can take it all: one may hold at most as much as is left for the others. So one account alone gets half, two get a third
 * each, and there is always room for a mail of another account. Strangers, who have shown neither key nor session, share a small
 * part, of which a network may hold at most as much as is left for other networks. Pure.
 */
import { budgets, type UsedUp } from '../base/budgets.ts';
import { networkOf } from '../net/ip.ts';
import { Problem } from '../base/problem.ts';

/** The part of the memory that one request has. */
export interface BodyShare {
  /** Takes this many more bytes. Throws `service_unavailable` if there is no room. */
  readonly take: (bytes: number) => void;
  /** Gives everything back. */
  readonly release: () => void;
}

export class BodyMemory {
  private readonly most: number;
  private taken = 0;
  /** The part of it that strangers have. */
  private open = 0;
  private readonly owners = new Map<string, number>();

  private readonly usedUp: UsedUp;

  constructor(most: number, usedUp: UsedUp = () => undefined) {
    this.most = most;
    this.usedUp = usedUp;
  }

  /** `owner`: an account; null for a stranger, who is counted with the network of `ip`. */
  begin(owner: string | null, ip: string): BodyShare {
    const name = owner ?? `stranger ${networkOf(ip)}`;
    const add = (bytes: number): number => {
      if (owner === null) this.open += bytes;
      return this.add(name, bytes);
    };
    let mine = 0;
    return {
      take: (bytes) => {
        mine += bytes;
        const share = add(bytes);
        const leftOpen = Math.min(budgets.open_form_memory.most, this.most / 2) - this.open;
        if (share <= (owner === null ? leftOpen : this.most - this.taken) && this.taken <= this.most) return;
        if (owner === null) this.usedUp(leftOpen < 0 ? 'open_form_memory' : 'open_form_memory_network');
        throw new Problem('service_unavailable', 'Too many large bodies and answers at once.', { retryAfter: 1 });
      },
      release: () => {
        add(-mine);
        mine = 0;
      },
    };
  }

  /** Bytes of all requests. */
  get bytes(): number {
    return this.taken;
  }

  private add(name: string, bytes: number): number {
    const share = (this.owners.get(name) ?? 0) + bytes;
    if (share === 0) this.owners.delete(name);
    else this.owners.set(name, share);
    this.taken += bytes;
    return share;
  }
}
