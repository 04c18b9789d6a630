/**
 * The addresses that a key may be used from: IPv4 and IPv6, single or as CIDR ranges, each in one canonical spelling (RFC 4632,
 * RFC 5952), so that lists can be compared and shown.
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import { expandIPv6 } from '../net/ip.ts';
import { Problem } from '../base/problem.ts';

const MOST_ENTRIES = 100;
/** Characters of the longest entry: an IPv6 address that ends in an IPv4 one, with `/128`. */
const LONGEST_ENTRY = 49;
const MAPPED_BITS = 96;

/**
 * Returns the list in canonical spelling, without doubles. Throws a Problem with the field `allowed_ips[n]` for the first
 * invalid entry.
 */
export function canonicalIpList(entries: readonly string[]): string[] {
  if (entries.length > MOST_ENTRIES) {
    throw new Problem('too_many_items', `A key can have at most ${String(MOST_ENTRIES)} addresses and ranges.`, {
      field: 'allowed_ips',
    });
  }
  return [...new Set(entries.map((entry, index) => canonicalEntry(entry, `allowed_ips[${String(index)}]`)))];
}

/** Returns true if `ip` is in the list, or the list is empty. */
export function isIpAllowed(list: readonly string[], ip: string): boolean {
  if (list.length === 0) return true;
  if (isIPv4(ip)) return blockListOf(list).check(ip, 'ipv4');
  return isIPv6(ip) && blockListOf(list).check(ip.replace(/%.*$/, ''), 'ipv6');
}

/** Building a list costs more than asking it; a caller's list keeps its identity while it is unchanged. */
const built = new WeakMap<readonly string[], BlockList>();

function blockListOf(list: readonly string[]): BlockList {
  const existing = built.get(list);
  if (existing !== undefined) return existing;
  const made = new BlockList();
  for (const entry of list) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    made.addSubnet(address, bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits), family);
  }
  built.set(list, made);
  return made;
}

function canonicalEntry(entry: string, field: string): string {
  const slash = entry.length > LONGEST_ENTRY ? -1 : entry.indexOf('/');
  const address = slash < 0 ? entry : entry.slice(0, slash);
  const bits = slash < 0 ? null : entry.slice(slash + 1);
  const canonical =
    entry.length > LONGEST_ENTRY ? null : isIPv4(address) ? range4(address, bits) : range6(address, bits);
  if (canonical === null)
    throw new Problem('invalid_field', 'Expected an IPv4 or IPv6 address or a CIDR range.', { field });
  if (canonical.endsWith('/0')) {
    throw new Problem('invalid_field', 'A range of all addresses is no restriction; leave the list empty.', { field });
  }
  return canonical;
}

function range4(address: string, bits: string | null): string | null {
  const length = prefixLength(bits, 32);
  if (length === null) return null;
  const number = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  const masked = length === 0 ? 0 : number - (number % 2 ** (32 - length));
  const dotted = [24, 16, 8, 0].map((shift) => Math.floor(masked / 2 ** shift) % 256).join('.');
  return length === 32 ? dotted : `${dotted}/${String(length)}`;
}

function range6(address: string, bits: string | null): string | null {
  const length = prefixLength(bits, 128);
  // A zone (`fe80::1%eth0`) has a meaning on one machine only.
  if (length === null || !isIPv6(address) || address.includes('%')) return null;
  const groups = expandIPv6(address).map((group, index) => group & maskOf(length - 16 * index));
  // A dual-stack socket shows IPv4 callers as mapped addresses; here they become plain IPv4.
  if (length >= MAPPED_BITS && groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const [high = 0, low = 0] = groups.slice(6);
    return range4([high >> 8, high & 255, low >> 8, low & 255].join('.'), String(length - MAPPED_BITS));
  }
  const text = writeIPv6(groups);
  return length === 128 ? text : `${text}/${String(length)}`;
}

/** Returns the mask of a 16-bit group for which `left` bits of the prefix are left. */
function maskOf(left: number): number {
  if (left <= 0) return 0;
  return left >= 16 ? 0xffff : (0xffff << (16 - left)) & 0xffff;
}

function prefixLength(bits: string | null, most: number): number | null {
  if (bits === null) return most;
  return /^(?:0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= most ? Number(bits) : null;
}

/**
 * Writes an address by RFC 5952 section 4: lower case, no leading zeros, the longest run of two or more zero groups as `::`,
 * the first of equals.
 */
function writeIPv6(groups: readonly number[]): string {
  let best = { at: -1, length: 1 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === 0) length++;
    if (length > best.length) best = { at, length };
  }
  const write = (part: readonly number[]): string => part.map((group) => group.toString(16)).join(':');
  if (best.at < 0) return write(groups);
  return `${write(groups.slice(0, best.at))}::${write(groups.slice(best.at + best.length))}`;
}

/** Returns true if all of `entry` is in `range`; both in canonical spelling. */
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
