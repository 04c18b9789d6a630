/**
 * The address of the client: that of the connection, or, behind proxies that the operator trusts, the one that they name.
 * Allow-lists of addresses depend on it.
 */
import type { BlockList } from 'node:net';
import { isListed, isPublicAddress, plainAddress } from '../net/ip.ts';

/**
 * Returns the client's address in canonical form. `X-Forwarded-For` is read from its end, where trusted proxies write, and only
 * as long as the writer is trusted, so that entries of the client itself never count.
 */
export function clientAddress(
  remote: string | undefined,
  forwardedFor: string | undefined,
  trusted: BlockList,
): string {
  let address = plainAddress(remote ?? '') ?? '0.0.0.0';
  if (forwardedFor === undefined || !isListed(trusted, address)) return address;
  const hops = forwardedFor.split(',');
  while (hops.length > 0 && isListed(trusted, address)) {
    const named = plainAddress(withoutPort(hops.pop()?.trim() ?? ''));
    if (named === null) break;
    address = named;
  }
  return address;
}

/**
 * Keeps the first ten addresses that send `X-Forwarded-For` and are not trusted; returns whether this one is new. Not public ones: every client
 * in the Internet can write the header, and a proxy is usually on this machine or in its network.
 */
export function isNewProxy(known: Set<string>, remote: string | undefined, trusted: BlockList): boolean {
  const ip = plainAddress(remote ?? '');
  if (ip === null || known.has(ip) || known.size >= 10 || isPublicAddress(ip) || isListed(trusted, ip)) return false;
  known.add(ip);
  return true;
}

/** Some proxies write `1.2.3.4:5678` or `[2001:db8::1]:5678`. */
function withoutPort(hop: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop)?.[1];
  return bracketed ?? hop.replace(/^([0-9.]+):\d{1,5}$/, '$1');
}
