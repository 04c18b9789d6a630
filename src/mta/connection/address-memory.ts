/**
 * Remembers which addresses of mail hosts took no connection in time, or took one and gave no session, so that the next connection to their
 * host begins with the others. There is one memory for each of our sources, since the way to an address may be broken from one alone.
 */
import { createLru } from '../../base/lru.ts';

/** How long an address is tried behind the others, in ms: much longer than a burst of connections, and short enough for a repair. */
const FAILED_MS = 5 * 60_000;
const MOST_ADDRESSES = 10_000;

export class AddressMemory {
  private readonly untilOf = createLru<string, number>(MOST_ADDRESSES);

  /** Notes that the address has failed. `now` is on the monotonic clock, in ms, here and below. */
  failed(ip: string, now: number): void {
    this.untilOf.set(ip, now + FAILED_MS);
  }

  /** Returns the addresses in their order, but those that failed in the last 5 minutes behind the others. */
  inOrder(ips: readonly string[], now: number): string[] {
    const hasFailed = (ip: string): boolean => (this.untilOf.peek(ip) ?? -Infinity) > now;
    return [...ips.filter((ip) => !hasFailed(ip)), ...ips.filter(hasFailed)];
  }
}
