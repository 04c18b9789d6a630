/** Clients without authentication, by network. If there is no room, the network with most gives way: a flood ends only its own connections. */
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
