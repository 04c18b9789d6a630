/**
 * Remembers which addresses of mail hosts took no connection in time, or took one and gave no session, so that the next connection to their
 * host begins with the others; and which ones lose commands that come in one piece, so that they get them one by one. There is one memory for
 * each of our sources, since the way to an address may be broken from one alone.
 */
import { createLru } from '../../base/lru.ts';
import { DAY_MS } from '../../base/time.ts';

/** How long an address is tried behind the others, in ms: much longer than a burst of connections, and short enough for a repair. */
const FAILED_MS = 5 * 60_000;
/** How long a host gets its commands one by one, in ms: each needs a round trip more, and a mail that meets the fault again waits for minutes. */
const ONE_BY_ONE_MS = DAY_MS;
const MOST_ADDRESSES = 10_000;

export class AddressMemory {
  private readonly untilOf = createLru<string, number>(MOST_ADDRESSES);
  private readonly oneByOneUntil = createLru<string, number>(MOST_ADDRESSES);

  /** Notes that the address has failed. `now` is on the monotonic clock, in ms, here and below. */
  failed(ip: string, now: number): void {
    this.untilOf.set(ip, now + FAILED_MS);
  }

  /** Notes that the host at this address answered the first of several commands and not the next, although it offers PIPELINING (RFC 2920). */
  lostCommands(ip: string, now: number): void {
    this.oneByOneUntil.set(ip, now + ONE_BY_ONE_MS);
  }

  /** Returns whether that happened in the last day. */
  losesCommands(ip: string, now: number): boolean {
    return (this.oneByOneUntil.peek(ip) ?? -Infinity) > now;
  }

  /** Returns the addresses in their order, but those that failed in the last 5 minutes behind the others. */
  inOrder(ips: readonly string[], now: number): string[] {
    const hasFailed = (ip: string): boolean => (this.untilOf.peek(ip) ?? -Infinity) > now;
    return [...ips.filter((ip) => !hasFailed(ip)), ...ips.filter(hasFailed)];
  }
}
