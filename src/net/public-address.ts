/**
 * Decides to which addresses a request on behalf of a customer may go: global unicast only (RFC 6890 and the IANA special-purpose
 * registries), never this machine itself, and those that the operator has allowed. Pure.
 */
import { addressList, isListed, isPublicAddress, plainAddress } from './ip.ts';

/** Returns whether an address may be called. Text that is not an address may not. */
export type AddressRule = (ip: string) => boolean;

export interface AddressRuleOptions {
  /** Addresses and CIDR ranges that are open although they are private: the operator's choice. */
  allowCidrs: readonly string[];
  /** Returns the machine's own addresses. It is asked each time, as they come and go. */
  ownAddresses: () => readonly string[];
}

/** NAT64 and 6to4. Mail counts them as the IPv4 address in them; here they are closed: it is not known whose network they cross. */
const translated = addressList(['64::/16', '2002::/16']);

export function createAddressRule({ allowCidrs, ownAddresses }: AddressRuleOptions): AddressRule {
  const allowed = addressList(allowCidrs);
  return (text) => {
    const ip = plainAddress(text);
    if (ip === null) return false;
    if (isListed(allowed, ip)) return true;
    return isPublicAddress(ip) && !isListed(translated, ip) && !ownAddresses().some((own) => plainAddress(own) === ip);
  };
}
