/**
 * Connected clients that are not authenticated, by network. If there is no room for one more, the network with most of them gives way: a
 * flood ends its own connections and never those of a client that comes alone.
 */
import { addTo, takeFrom } from '../base/sets.ts';

export class Crowds<Member> {
  private readonly networks = new Map<string, Set<Member>>();

  add(network: string, member: Member): void {
    addTo(this.networks, network, member);
  }

  remove(network: string, member: Member): void {
    takeFrom(this.networks, network, member);
  }

  /** Returns the members of the network that has most, the oldest first. */
  largest(): readonly Member[] {
    let largest: ReadonlySet<Member> = new Set();
    for (const members of this.networks.values()) if (members.size > largest.size) largest = members;
    return [...largest];
  }
}
