/** Finds an IPv6 address of this machine that receivers trust: one with a name (PTR) that leads back to it. */
import { isIPv6 } from 'node:net';
import { isPublicAddress, plainAddress } from './ip.ts';
import type { Resolver } from './resolver.ts';

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
