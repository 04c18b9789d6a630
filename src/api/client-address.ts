/**
 * The address of the client: that of the connection, or, behind proxies that the operator trusts, the one that they name.
 * Allow-lists of addresses depend on it.
 */
import { BlockList, SocketAddress, isIP, isIPv4 } from 'node:net';
import { expandIPv6 } from '../net/ip.ts';

/** Returns the set of the addresses and CIDR ranges. Throws for other text: settings and keys are checked before. */
export function networks(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    list.addSubnet(address, bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits), family);
  }
  return list;
}

/** True if the address, in the form `clientAddress` gives, lies in one of the networks. */
export function isWithin(list: BlockList, address: string): boolean {
  return list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

/**
 * Returns the client's address in canonical form. `X-Forwarded-For` is read from its end, where trusted proxies write, and only
 * as long as the writer is trusted, so that entries of the client itself never count.
 */
export function clientAddress(
  remote: string | undefined,
  forwardedFor: string | undefined,
  trusted: BlockList,
): string {
  let address = canonical(remote ?? '') ?? '0.0.0.0';
  if (forwardedFor === undefined || !isWithin(trusted, address)) return address;
  const hops = forwardedFor.split(',');
  while (hops.length > 0 && isWithin(trusted, address)) {
    const named = canonical(withoutPort(hops.pop()?.trim() ?? ''));
    if (named === null) break;
    address = named;
  }
  return address;
}

/** Null for text that is no address. IPv4 in IPv6 clothes (`::ffff:1.2.3.4`) is IPv4; a zone (`%eth0`) is left out. */
function canonical(text: string): string | null {
  if (isIPv4(text)) return text;
  const mapped = /^::ffff:([0-9.]+)$/i.exec(text)?.[1];
  if (mapped !== undefined && isIPv4(mapped)) return mapped;
  const bare = text.split('%', 1)[0] ?? '';
  if (isIP(bare) !== 6) return null;
  const groups = expandIPv6(bare);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join('.');
  }
  return new SocketAddress({ address: bare, family: 'ipv6' }).address;
}

/** Some proxies write `1.2.3.4:5678` or `[2001:db8::1]:5678`. */
function withoutPort(hop: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop)?.[1];
  return bracketed ?? hop.replace(/^([0-9.]+):\d{1,5}$/, '$1');
}
