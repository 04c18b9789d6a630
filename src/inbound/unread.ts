/**
 * Mails that wait to be read, in the order in which they get their turn: those with a token of ours before those that anyone can
 * send, and among each kind the networks in turn, so that no network waits behind another's flood. Pure.
 */
import { budgets, type BudgetName } from '../base/budgets.ts';
import { Tally } from './tally.ts';
import type { Stranger } from './mx-budgets.ts';

interface Waiting extends Stranger {
  readonly id: string;
}

/** Networks in turn: the one whose mail was taken goes to the end. */
class Turns<Item extends Waiting> {
  private readonly byNetwork = new Map<string, Item[]>();

  add(item: Item): void {
    const waiting = this.byNetwork.get(item.network);
    if (waiting === undefined) this.byNetwork.set(item.network, [item]);
    else waiting.push(item);
  }

  take(): Item | null {
    for (const [network, waiting] of this.byNetwork) {
      const item = waiting.shift();
      this.byNetwork.delete(network);
      if (waiting.length > 0) this.byNetwork.set(network, waiting);
      if (item !== undefined) return item;
    }
    return null;
  }
}

export class Unread<Item extends Waiting> {
  private readonly withToken = new Turns<Item>();
  private readonly loose = new Turns<Item>();
  private readonly counts = new Tally();
  private count = 0;

  add(item: Item): void {
    (item.deliveryId === null ? this.loose : this.withToken).add(item);
    this.count += 1;
    this.counts.add(item.network, 1);
  }

  /** Takes the next one, or null. `withTokenOnly`: mail without a token waits. */
  take({ withTokenOnly }: { withTokenOnly: boolean }): Item | null {
    const item = this.withToken.take() ?? (withTokenOnly ? null : this.loose.take());
    if (item === null) return null;
    this.count -= 1;
    this.counts.add(item.network, -1);
    return item;
  }

  /** The budget that one more mail of this network would break, or null. */
  full(network: string): BudgetName | null {
    if (this.count >= budgets.unread_mails.most) return 'unread_mails';
    return this.counts.of(network) >= budgets.unread_mails_network.most ? 'unread_mails_network' : null;
  }
}
