/** Finds an IPv6 address of this machine that receivers trust: one with a name (PTR) that leads back to it. */
import { isIPv6 } from 'node:net';
import { isPublicAddress, plainAddress } from './ip.ts';
import type { Resolver } from './resolver.ts';

/** Addresses or names that are looked up at most. */
const MOST_ASKED = 8;

export interface NamedIpv6 {
  /** The first of this machine's addresses whose PTR has an AAAA that leads back, or null. */
  address: string | null;
  /** False if there may be one, since DNS did not answer. */
  isSure: boolean;
}

export async function namedIpv6Address(
  deps: { resolver: Pick<Resolver, 'ptr' | 'aaaa'> },
  own: readonly string[],
): Promise<NamedIpv6> {
  const candidates = own.filter((ip) => isIPv6(ip) && isPublicAddress(ip)).slice(0, MOST_ASKED);
  let isSure = true;
  for (const ip of candidates) {
    const does = await leadsBack(deps, ip);
    if (does === true) return { address: ip, isSure: true };
    if (does === null) isSure = false;
  }
  return { address: null, isSure };
}

/** Returns null if DNS did not answer. */
async function leadsBack(
  { resolver }: { resolver: Pick<Resolver, 'ptr' | 'aaaa'> },
  ip: string,
): Promise<boolean | null> {
  const names = await resolver.ptr(ip);
  if (names.kind !== 'found') return names.kind === 'trouble' ? null : false;
  const answers = await Promise.all(names.records.slice(0, MOST_ASKED).map((name) => resolver.aaaa(name)));
  if (answers.some((answer) => answer.kind === 'found' && answer.records.some((back) => isSame(back, ip)))) return true;
  return answers.some(({ kind }) => kind === 'trouble') ? null : false;
}

const isSame = (a: string, b: string): boolean => plainAddress(a) === plainAddress(b);
