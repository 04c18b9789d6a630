/**
 * The memory for bodies of requests under way, forms and uploads included, and for large answers that are not taken yet. No
 * account can take it all: one may hold at most as much as is left for the others. So one account alone gets half, two get a third
 * each, and there is always room for a mail of another account. Strangers, who have shown neither key nor session, share a small
 * part. Pure.
 */
import { budgets, type UsedUp } from '../base/budgets.ts';
import { Problem } from '../base/problem.ts';

/** The part of the memory that one request has. */
export interface BodyShare {
  /** Takes so much more. Throws `service_unavailable` where there is no room. */
  readonly take: (bytes: number) => void;
  /** Gives everything back. */
  readonly release: () => void;
}

export class BodyMemory {
  private readonly most: number;
  private taken = 0;
  private readonly owners = new Map<string, number>();

  private readonly usedUp: UsedUp;

  constructor(most: number, usedUp: UsedUp = () => undefined) {
    this.most = most;
    this.usedUp = usedUp;
  }

  /** `owner`: an account; null for a stranger. */
  begin(owner: string | null): BodyShare {
    const name = owner ?? '';
    let mine = 0;
    return {
      take: (bytes) => {
        mine += bytes;
        const share = this.add(name, bytes);
        const forStrangers = Math.min(budgets.open_form_memory.most, this.most / 2);
        const limit = owner === null ? forStrangers : this.most - this.taken;
        if (share <= limit && this.taken <= this.most) return;
        if (owner === null) this.usedUp('open_form_memory');
        throw new Problem('service_unavailable', 'Too many large bodies and answers at once.', { retryAfter: 1 });
      },
      release: () => {
        this.add(name, -mine);
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
