/** Finds the addresses of a smarthost of `delivery.routes`: without MX records, and its network may be private. */
import { isIP } from 'node:net';
import type { DnsAnswer, Resolver } from '../../net/resolver.ts';
import { addressesOf, notAsked, type HostAddress, type MailRoute } from './mx.ts';

const LITERAL_TTL_S = 3600;

/** Finds the addresses of a host given by name or as an address. DNS faults are values; it never throws for them. */
export async function findRelay(
  { resolver }: { resolver: Pick<Resolver, 'a' | 'aaaa'> },
  host: string,
  { port, ipv6 }: { port: number; ipv6: boolean },
): Promise<MailRoute> {
  const family = isIP(host);
  if (family === 4 || family === 6) return routeTo(host, port, [{ ip: host, family }], LITERAL_TTL_S);
  const answers = await Promise.all([ipv6 ? resolver.aaaa(host) : notAsked, resolver.a(host)]);
  const addresses = answers.flatMap((answer, at) => addressesOf(answer, at === 0 ? 6 : 4));
  if (addresses.length > 0) return routeTo(host, port, addresses, Math.min(...answers.map(ttlOf)));
  const trouble = answers.find((answer) => answer.kind === 'trouble');
  return {
    kind: 'trouble',
    text: trouble === undefined ? `the smarthost ${host} has no address` : `the smarthost ${host}: ${trouble.text}`,
  };
}

const ttlOf = (answer: DnsAnswer<string>): number => (answer.kind === 'found' ? answer.ttl : Infinity);

const routeTo = (name: string, port: number, addresses: readonly HostAddress[], ttl: number): MailRoute => ({
  kind: 'hosts',
  site: name,
  hosts: [{ name, preference: 0, port, secure: false, isNamedSecurely: false, canonical: name, addresses }],
  ttl,
  fromMx: false,
});
