/**
 * Finds an IPv6 address that mail may leave from (`delivery.ipv6`). Large receivers refuse IPv6 senders whose address has no name, or
 * one that does not lead back, so `auto` uses an address only where both directions agree.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress, plainAddress } from '../../net/ip.ts';
import type { Resolver } from '../../net/resolver.ts';

/** Addresses or names that are looked up at most. */
const MOST_ASKED = 8;

/** Returns the first of this machine's addresses whose PTR has an AAAA that leads back, or null. */
export async function namedIpv6Address(
  deps: { resolver: Pick<Resolver, 'ptr' | 'aaaa'> },
  own: readonly string[],
): Promise<string | null> {
  const candidates = own.filter((ip) => isIPv6(ip) && isPublicAddress(ip)).slice(0, MOST_ASKED);
  for (const ip of candidates) if (await leadsBack(deps, ip)) return ip;
  return null;
}

async function leadsBack({ resolver }: { resolver: Pick<Resolver, 'ptr' | 'aaaa'> }, ip: string): Promise<boolean> {
  const names = await resolver.ptr(ip);
  if (names.kind !== 'found') return false;
  const answers = await Promise.all(names.records.slice(0, MOST_ASKED).map((name) => resolver.aaaa(name)));
  return answers.some((answer) => answer.kind === 'found' && answer.records.some((back) => isSame(back, ip)));
}

const isSame = (a: string, b: string): boolean => plainAddress(a) === plainAddress(b);
