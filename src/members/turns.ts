/**
 * Decides whose password is checked next: one at a time, the shares (addresses, devices) in turn, and within a share in order
 * of arrival. Known devices come before strangers. So no client can make others wait by asking often. Pure.
 */
import { budgets, type UsedUp } from '../base/budgets.ts';
import { Problem } from '../base/problem.ts';
import { WaitingLine } from '../scheduling/waiting-line.ts';

/** The share that a turn belongs to. */
export interface Share {
  name: string;
  /** True for a device that has signed in before, and for a session. */
  isKnown: boolean;
}

export class Turns {
  private readonly usedUp: UsedUp;
  private readonly known = new WaitingLine<() => void>();
  private readonly strangers = new WaitingLine<() => void>();
  private isBusy = false;

  constructor(usedUp: UsedUp = () => undefined) {
    this.usedUp = usedUp;
  }

  /** Runs the work when its turn has come. Throws `service_unavailable` if too many wait already. */
  async take<T>(share: Share, work: () => Promise<T>): Promise<T> {
    if (this.isBusy) await this.wait(share);
    this.isBusy = true;
    try {
      return await work();
    } finally {
      const next = this.known.next() ?? this.strangers.next();
      if (next === undefined) this.isBusy = false;
      else next.item();
    }
  }

  private wait({ name, isKnown }: Share): Promise<void> {
    const line = isKnown ? this.known : this.strangers;
    const isShareFull = line.of(name) >= budgets.sign_in_waiting_network.most;
    if (isShareFull || line.all >= budgets.sign_in_waiting.most) {
      if (!isKnown) this.usedUp(isShareFull ? 'sign_in_waiting_network' : 'sign_in_waiting');
      throw new Problem('service_unavailable', 'Many people are signing in at this moment. Try again soon.');
    }
    return new Promise((resolve) => {
      line.add(name, resolve);
    });
  }
}
