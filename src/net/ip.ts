/** Reads IP addresses into one spelling, and tells their ranges and which are public. Pure. */
import { BlockList, isIP, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { LRUCache } from 'lru-cache';
import { createLru } from '../base/lru.ts';

/** Reads an address, or returns null; IPv4-mapped IPv6 becomes the IPv4 address it reaches, and a zone (`%eth0`) is left out. */
export function readAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  // Node's check comes first: the library also takes octal, hexadecimal and short forms of IPv4.
  return isIP(text) === 0 ? null : ipaddr.process(text.replace(/%.*$/, ''));
}

/** Returns the one spelling of an address that is compared, shown and dialled (RFC 5952), or null for other text. */
export function plainAddress(text: string): string | null {
  return isIPv4(text) ? text : (readAddress(text)?.toString() ?? null);
}

/** All of IPv6 that is assigned for public use. The library has no range for what is outside of it. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');
/** IPv4-compatible (RFC 4291), NAT64 (RFC 6052) and 6to4 (RFC 3056) addresses, and at which byte their IPv4 address begins. */
const carriers = [
  { range: ipaddr.IPv6.parseCIDR('::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 },
  { range: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 },
] as const;

/** Returns the IPv4 address that an IPv6 address carries, or the address itself. */
function innerAddress(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  if (address instanceof ipaddr.IPv4) return address;
  const carrier = carriers.find(({ range }) => address.match(range));
  return carrier === undefined ? address : new ipaddr.IPv4(address.toByteArray().slice(carrier.at, carrier.at + 4));
}

/** Returns whether it is global unicast (RFC 6890). IPv6 that carries IPv4 counts as that: `::ffff:127.0.0.1` would be a way in. */
export function isPublicAddress(text: string): boolean {
  const address = readAddress(text);
  if (address === null) return false;
  const inner = innerAddress(address);
  return inner.range() === 'unicast' && (inner instanceof ipaddr.IPv4 || inner.match(GLOBAL_UNICAST));
}

/** Returns whether a host name has more than one label and none of the endings that only a private network has. */
export const isPublicName = (host: string): boolean =>
  /^[^.]+\.[^.]/.test(host) && !/\.(?:localdomain|local|internal|lan)$/.test(host);

/** Builds the set of addresses that bare addresses and CIDR ranges describe. Throws on anything else. */
export function addressList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** The last answers of each list: Node makes an object for each question, and most are about the same few addresses. */
const answers = new WeakMap<BlockList, LRUCache<string, boolean>>();
const MOST_ANSWERS = 1000;

/** Returns whether the address, in its plain form, is in the list, which does not change any more. */
export function isListed(list: BlockList, address: string): boolean {
  const answer = answers.get(list)?.get(address);
  if (answer !== undefined) return answer;
  const known = answers.get(list) ?? createLru<string, boolean>(MOST_ANSWERS);
  const checked = list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  answers.set(list, known.set(address, checked));
  return checked;
}

/** Returns the first `groups` 16-bit groups of an IPv6 address, without a mark of their end. */
export const prefixOf = (ip: string, groups: number): string =>
  ipaddr.IPv6.parse(ip)
    .parts.slice(0, groups)
    .map((group) => group.toString(16))
    .join(':');

/** Returns the name of an address's rate-limit bucket: the IPv4 address, or the /64 that one IPv6 customer commonly has alone. */
export function addressBucket(text: string): string {
  const ip = plainAddress(text);
  return ip === null || isIPv4(ip) ? (ip ?? text) : prefixOf(ip, 4);
}

/** Returns the network that a stranger is counted with: the /24 of an IPv4 address (also if IPv6 carries it), or a /64. */
export const networkOf = (text: string): string => rangeOf(text, 4);

/** Returns the range that one customer of a provider usually has: the /24 of an IPv4 address, or a /48, which is 65,536 networks. */
export const siteOf = (text: string): string => rangeOf(text, 3);

function rangeOf(text: string, groups: number): string {
  const address = readAddress(text);
  if (address === null) return text;
  const inner = innerAddress(address);
  return inner instanceof ipaddr.IPv6
    ? `${prefixOf(inner.toString(), groups)}::/${String(16 * groups)}`
    : `${inner.octets.slice(0, 3).join('.')}.0/24`;
}
