/** IP addresses as numbers and ranges: which of them are reachable by anyone, and which only from inside. Pure. */
import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** The IANA special-purpose registries (RFC 6890 and updates): what is not globally reachable unicast. */
const special4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
];
/** Inside 2000::/3 (global unicast); everything outside of it is special anyway. */
const special6 = ['2001::/23', '2001:db8::/32', '3fff::/20'];

const blocked = new BlockList();
for (const range of special4) addRange(range, 'ipv4');
for (const range of special6) addRange(range, 'ipv6');

function addRange(range: string, family: 'ipv4' | 'ipv6'): void {
  const [network = '', bits = ''] = range.split('/');
  blocked.addSubnet(network, Number(bits), family);
}

/**
 * True for a global unicast address. IPv6 forms that carry an IPv4 address (mapped, 6to4, NAT64) count as that address:
 * otherwise `::ffff:127.0.0.1` would be a way in. Text that is no address is not public.
 */
export function isPublicAddress(ip: string): boolean {
  if (isIPv4(ip)) return !blocked.check(ip, 'ipv4');
  if (!isIPv6(ip)) return false;
  const groups = expandIPv6(ip);
  const inner = embeddedIPv4(groups);
  if (inner !== null) return isPublicAddress(inner);
  const isGlobalUnicast = ((groups[0] ?? 0) & 0xe000) === 0x2000;
  return isGlobalUnicast && !blocked.check(ip.replace(/%.*$/, ''), 'ipv6');
}

/** The eight 16-bit groups of a valid IPv6 address; a zone (`%eth0`) is left out. */
export function expandIPv6(ip: string): number[] {
  const [head = '', tail] = ip.replace(/%.*$/, '').split('::');
  const front = groupsOf(head);
  if (tail === undefined) return front;
  const back = groupsOf(tail);
  return [...front, ...Array.from({ length: 8 - front.length - back.length }, () => 0), ...back];
}

function groupsOf(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((part) => {
    if (!part.includes('.')) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}

function embeddedIPv4(groups: readonly number[]): string | null {
  const [first, second] = groups;
  const zeros = (to: number): boolean => groups.slice(0, to).every((group) => group === 0);
  if (zeros(5) && (groups[5] === 0xffff || groups[5] === 0)) return dotted(groups[6], groups[7]);
  if (first === 0x64 && second === 0xff9b && groups.slice(2, 6).every((group) => group === 0))
    return dotted(groups[6], groups[7]);
  if (first === 0x2002) return dotted(groups[1], groups[2]);
  return null;
}

function dotted(high = 0, low = 0): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** What shares one rate-limit bucket: an IPv4 address, or the /64 that one IPv6 customer commonly has to himself. */
export function addressBucket(address: string): string {
  if (isIPv4(address)) return address;
  return expandIPv6(address)
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':');
}

/** The network that a stranger is counted with: the /24 of an IPv4 address (also where IPv6 carries it), the /64 of any other. */
export function networkOf(address: string): string {
  const inner = isIPv6(address) ? embeddedIPv4(expandIPv6(address)) : null;
  const ip = inner ?? address;
  return isIPv4(ip) ? `${ip.slice(0, ip.lastIndexOf('.'))}.0/24` : `${addressBucket(ip)}::/64`;
}

/** What one customer of a provider usually has: the /24 of an IPv4 address, the /48 of any other, which is 65,536 networks of `networkOf`. */
export function siteOf(address: string): string {
  const network = networkOf(address);
  return network.endsWith('::/64') ? `${network.split(':').slice(0, 3).join(':')}::/48` : network;
}
