/**
 * DANE for SMTP (RFC 7672): finds the mail hosts of a domain that publish TLSA records which can be trusted. Asks only if the whole way
 * to the host was validated by the resolver (`delivery.dnssecResolver`); otherwise the records may be forged.
 */
import type { DnsAnswer, Resolver, TlsaRecord } from '../../net/resolver.ts';
import type { HostDane } from '../connection/tls-policy.ts';
import type { MailHost, MailRoute } from './mx.ts';

export type DaneResolver = Pick<Resolver, 'tlsa' | 'cname'>;

/** Mail hosts offer SMTP at this port, wherever a test dials them. */
const SERVICE = '_25._tcp';
/** After trouble the records are asked for again at the next attempt. */
const TROUBLE_TTL_S = 5;

/** Adds the TLSA records of each host to the route. DNS faults are values; it never throws for them. */
export async function withDane(deps: { resolver: DaneResolver }, domain: string, route: MailRoute): Promise<MailRoute> {
  if (route.kind !== 'hosts') return route;
  const found = await Promise.all(route.hosts.map((host) => daneOf(deps.resolver, domain, host)));
  return {
    ...route,
    hosts: route.hosts.map((host, at) => ({ ...host, dane: found[at]?.dane ?? null, isValidated: host.secure })),
    ttl: Math.min(route.ttl, ...found.map(({ ttl }) => ttl)),
  };
}

type Trouble = Extract<DnsAnswer<unknown>, { kind: 'trouble' }>;

interface Found {
  dane: HostDane | null;
  ttl: number;
}

const none: Found = { dane: null, ttl: Infinity };

async function daneOf(resolver: DaneResolver, domain: string, host: MailHost): Promise<Found> {
  const bases = await baseDomains(resolver, host);
  if ('text' in bases) return trouble(host.name, bases);
  for (const base of bases) {
    const answer = await resolver.tlsa(`${SERVICE}.${base}`);
    if (answer.kind === 'trouble') return trouble(host.name, answer);
    if (answer.kind === 'found' && answer.secure) return usable(answer, [base, host.name, domain]);
  }
  return none;
}

/**
 * TLSA base domains to ask for, best first (RFC 7672 section 2.2.3): where aliases lead if all of that is secure, then the host's
 * own name. If the target of an alias is not secure, the alias itself may be.
 */
async function baseDomains(resolver: DaneResolver, host: MailHost): Promise<string[] | Trouble> {
  const { name, canonical, secure, isNamedSecurely } = host;
  if (secure) return canonical === name ? [name] : [canonical, name];
  if (!isNamedSecurely || canonical === name) return [];
  const alias = await resolver.cname(name);
  if (alias.kind === 'trouble') return alias;
  return alias.kind === 'found' && alias.secure ? [name] : [];
}

/** Names as in RFC 7672 section 3.2.2. */
const usable = (answer: Extract<DnsAnswer<TlsaRecord>, { kind: 'found' }>, names: readonly string[]): Found => ({
  dane: { kind: 'records', records: answer.records, names: [...new Set(names)] },
  ttl: answer.ttl,
});

/** Section 2.1.1: a look-up that fails may have been made to fail, so the host is passed over as if it could not be reached. */
const trouble = (name: string, { text }: Trouble): Found => ({
  dane: { kind: 'trouble', text: `the TLSA records of ${name} cannot be had: ${text}` },
  ttl: TROUBLE_TTL_S,
});
