/**
 * Whether mail leaves over IPv6 (`delivery.ipv6`). Large receivers refuse IPv6 senders whose address has no name, or one that
 * does not lead back, so `auto` takes an address only where both directions agree.
 */
import { isIPv6 } from 'node:net';
import { expandIPv6, isPublicAddress } from '../../net/ip.ts';
import type { Resolver } from '../../net/resolver.ts';

/** More addresses or names than that are not asked for. */
const MOST_ASKED = 8;

/** The first of this machine's addresses whose PTR has an AAAA that leads back, or null. */
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

const isSame = (a: string, b: string): boolean => isIPv6(a) && expandIPv6(a).join() === expandIPv6(b).join();
