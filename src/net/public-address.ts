/**
 * Which addresses a request on behalf of a customer may go to: global unicast alone (RFC 6890 and the IANA special-purpose
 * registries), never this machine itself, and what the operator has allowed besides. Pure.
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import { expandIPv6, isPublicAddress } from './ip.ts';

/** Says whether an address may be called. Text that is no address may not. */
export type AddressRule = (ip: string) => boolean;

export interface AddressRuleOptions {
  /** Addresses and CIDR ranges that are open although they are private: the operator's choice. */
  allowCidrs: readonly string[];
  /** The machine's own addresses, asked anew each time: they come and go. */
  ownAddresses: () => readonly string[];
}

export function createAddressRule({ allowCidrs, ownAddresses }: AddressRuleOptions): AddressRule {
  const allowed = new BlockList();
  for (const range of allowCidrs) addRange(allowed, range);
  return (text) => {
    const ip = plainAddress(text);
    if (ip === null) return false;
    if (allowed.check(ip, isIPv4(ip) ? 'ipv4' : 'ipv6')) return true;
    return isGlobal(ip) && !ownAddresses().some((own) => plainAddress(own) === ip);
  };
}

/**
 * An address in the form that is compared and dialled: IPv4-mapped IPv6 (`::ffff:10.0.0.1`) is the IPv4 address it reaches,
 * zones (`fe80::1%eth0`) fall away. Null for what is no address.
 */
export function plainAddress(text: string): string | null {
  if (isIPv4(text)) return text;
  if (!isIPv6(text)) return null;
  const groups = expandIPv6(text);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (!isMapped) return groups.map((group) => group.toString(16)).join(':');
  const [high = 0, low = 0] = groups.slice(6);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** For mail, NAT64 and 6to4 count as the IPv4 address in them; here they are closed, as whose network they cross is not known. */
function isGlobal(ip: string): boolean {
  if (isIPv4(ip)) return isPublicAddress(ip);
  const [first] = expandIPv6(ip);
  return first !== 0x0064 && first !== 0x2002 && isPublicAddress(ip);
}

function addRange(list: BlockList, range: string): void {
  const [address = '', bits] = range.split('/');
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  if (bits === undefined) list.addAddress(address, family);
  else list.addSubnet(address, Number(bits), family);
}
