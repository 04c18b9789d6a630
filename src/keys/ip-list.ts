/** The addresses that a key may be used from: IPv4, IPv6 and CIDR ranges (RFC 4632), spelt canonically (RFC 5952) to be compared and shown. */
import { isIP, isIPv4, type BlockList } from 'node:net';
import ipaddr from 'ipaddr.js';
import { addressList, isListed, plainAddress } from '../net/ip.ts';
import { Problem, invalid } from '../base/problem.ts';

const MOST_ENTRIES = 100;
/** Characters of the longest entry: an IPv6 address that ends in an IPv4 one, with `/128`. */
const LONGEST_ENTRY = 49;
const MAPPED_BITS = 96;

/** Returns the list in canonical spelling, without doubles. Throws a Problem with the field `allowed_ips[n]` for the first invalid entry. */
export function canonicalIpList(entries: readonly string[]): string[] {
  if (entries.length > MOST_ENTRIES) {
    throw new Problem('too_many_items', `A key can have at most ${String(MOST_ENTRIES)} addresses and ranges.`, {
      field: 'allowed_ips',
    });
  }
  return [...new Set(entries.map((entry, index) => canonicalEntry(entry, `allowed_ips[${String(index)}]`)))];
}

/** Returns whether `ip` is in the list, or the list is empty. */
export function isIpAllowed(list: readonly string[], ip: string): boolean {
  if (list.length === 0) return true;
  const plain = plainAddress(ip);
  return plain !== null && isListed(blockListOf(list), plain);
}

/** Building a list costs more than asking it; a caller's list keeps its identity while it is unchanged. */
const built = new WeakMap<readonly string[], BlockList>();

function blockListOf(list: readonly string[]): BlockList {
  const existing = built.get(list);
  if (existing !== undefined) return existing;
  const made = addressList(list);
  built.set(list, made);
  return made;
}

function canonicalEntry(entry: string, field: string): string {
  const slash = entry.length > LONGEST_ENTRY ? -1 : entry.indexOf('/');
  const address = slash < 0 ? entry : entry.slice(0, slash);
  const bits = slash < 0 ? null : entry.slice(slash + 1);
  const canonical = entry.length > LONGEST_ENTRY ? null : canonicalRange(address, bits);
  if (canonical === null) throw invalid(field, `${entry.slice(0, LONGEST_ENTRY)} is not an IP address or range.`);
  if (canonical.endsWith('/0')) {
    throw invalid(field, 'A range of all addresses does not restrict anything; leave the list empty.');
  }
  return canonical;
}

function canonicalRange(text: string, bits: string | null): string | null {
  // A zone (`fe80::1%eth0`) has a meaning on one machine only.
  if (isIP(text) === 0 || text.includes('%')) return null;
  const address = ipaddr.parse(text);
  const length = prefixLength(bits, longestPrefix(address));
  if (length === null) return null;
  // A dual-stack socket shows IPv4 callers as mapped addresses; here they become plain IPv4.
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && length >= MAPPED_BITS
    ? writeRange(address.toIPv4Address(), length - MAPPED_BITS)
    : writeRange(address, length);
}

const longestPrefix = (address: ipaddr.IPv4 | ipaddr.IPv6): number => (address instanceof ipaddr.IPv4 ? 32 : 128);

function writeRange(address: ipaddr.IPv4 | ipaddr.IPv6, length: number): string {
  if (length === longestPrefix(address)) return address.toString();
  const family = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  const range = `/${String(length)}`;
  return `${family.networkAddressFromCIDR(`${address.toString()}${range}`).toString()}${range}`;
}

function prefixLength(bits: string | null, most: number): number | null {
  if (bits === null) return most;
  return /^(?:0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= most ? Number(bits) : null;
}

/** Returns whether all of `entry` is in `range`; both in canonical spelling. */
export function isWithin(range: string, entry: string): boolean {
  const [address = '', bits] = entry.split('/');
  const [outer = '', outerBits] = range.split('/');
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  if ((isIPv4(outer) ? 'ipv4' : 'ipv6') !== family) return false;
  const longest = family === 'ipv4' ? 32 : 128;
  const outerLength = outerBits === undefined ? longest : Number(outerBits);
  // A shorter prefix is a larger range.
  if ((bits === undefined ? longest : Number(bits)) < outerLength) return false;
  return isIpAllowed([range], address);
}
