/**
 * Mails that wait to be read, in the order in which they get their turn: those with a token of ours before those that anyone can
 * send, and among each kind the networks in turn, so that no network waits behind another's flood. Each kind has its own room. Pure.
 */
import { budgets, type BudgetName } from '../base/budgets.ts';
import { Tally } from './tally.ts';
import type { Stranger } from './mx-budgets.ts';

interface Waiting extends Stranger {
  readonly id: string;
}

/** Mails of one kind. Networks in turn: the one whose mail was taken goes to the end. */
class Turns<Item extends Waiting> {
  private readonly byNetwork = new Map<string, Item[]>();
  private readonly counts = new Tally();
  private count = 0;

  add(item: Item): void {
    const waiting = this.byNetwork.get(item.network);
    if (waiting === undefined) this.byNetwork.set(item.network, [item]);
    else waiting.push(item);
    this.note(item, 1);
  }

  take(): Item | null {
    for (const [network, waiting] of this.byNetwork) {
      const item = waiting.shift();
      this.byNetwork.delete(network);
      if (waiting.length > 0) this.byNetwork.set(network, waiting);
      if (item === undefined) continue;
      this.note(item, -1);
      return item;
    }
    return null;
  }

  full(network: string): BudgetName | null {
    if (this.count >= budgets.unread_mails.most) return 'unread_mails';
    return this.counts.of(network) >= budgets.unread_mails_network.most ? 'unread_mails_network' : null;
  }

  private note({ network }: Item, amount: 1 | -1): void {
    this.count += amount;
    this.counts.add(network, amount);
  }
}

export class Unread<Item extends Waiting> {
  private readonly withToken = new Turns<Item>();
  private readonly loose = new Turns<Item>();

  add(item: Item): void {
    this.turnsOf(item).add(item);
  }

  /** Takes the next one, or null. `withTokenOnly`: mail without a token waits. */
  take({ withTokenOnly }: { withTokenOnly: boolean }): Item | null {
    return this.withToken.take() ?? (withTokenOnly ? null : this.loose.take());
  }

  /** The budget that one more mail of this sender would break, or null. */
  full(stranger: Stranger): BudgetName | null {
    return this.turnsOf(stranger).full(stranger.network);
  }

  private turnsOf({ deliveryId }: Stranger): Turns<Item> {
    return deliveryId === null ? this.loose : this.withToken;
  }
}
