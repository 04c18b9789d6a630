/**
 * The lines of the request log for keys that this server does not know. They show an administrator a program that was set up with a
 * wrong key. Strangers could fill the disk with them, so that they have a budget; what goes beyond it is only counted.
 */
import { budgets, type UsedUp } from '../base/budgets.ts';
import { networkOf } from '../net/ip.ts';
import { Allowance } from '../scheduling/allowance.ts';

export class StrangerLines {
  /** Requests that were counted and not kept, since the start of the server. */
  notKept = 0;
  private readonly ofNetwork = new Allowance({ most: budgets.unknown_key_lines_network.most, within: 'hour' });
  private readonly ofAll = new Allowance({ most: budgets.unknown_key_lines.most, within: 'hour' });
  private readonly usedUp: UsedUp;

  constructor(usedUp: UsedUp = () => undefined) {
    this.usedUp = usedUp;
  }

  /** Returns whether one more line may be kept: of an address that is over its rate of requests none, which are counted all the same. */
  take(ip: string, now: number, isOver: boolean): boolean {
    if (isOver) {
      this.notKept++;
      return false;
    }
    const network = networkOf(ip);
    const fits = this.ofNetwork.has(network, 1, now);
    if (fits && this.ofAll.has('', 1, now)) {
      this.ofNetwork.spend(network, 1, now);
      this.ofAll.spend('', 1, now);
      return true;
    }
    this.notKept++;
    this.usedUp(fits ? 'unknown_key_lines' : 'unknown_key_lines_network');
    return false;
  }
}
