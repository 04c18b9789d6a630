/**
 * Finds the hosts that take mail for a domain, and their order (RFC 5321 section 5.1, null MX RFC 7505):
 * `findMailHosts` asks (MX, else the domain's own addresses), `withoutOurselves` cuts what would loop back to us,
 * `byPreference` orders, `siteOf` names the lane. Only the first touches the resolver it is handed.
 */
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import type { HostDane } from '../connection/tls-policy.ts';
import { isPublicAddress } from '../../net/ip.ts';
import type { DnsAnswer, LookupOptions, MxRecord, Resolver } from '../../net/resolver.ts';

export interface MailHost {
  /** The name in the MX record, for SNI and certificate checks. */
  name: string;
  preference: number;
  /** IPv6 first if both are asked for. */
  addresses: readonly HostAddress[];
  port: number;
  /** MX and address answers were both validated (AD bit), as DANE requires (RFC 7672 section 2.2). */
  secure: boolean;
  /** The MX answer was validated (for a domain without MX: the answer that it has none), whether or not the addresses were. */
  isNamedSecurely: boolean;
  /** The name that has the addresses: another one if the host's name is an alias. */
  canonical: string;
  /** Filled in by `withDane` (dane.ts). */
  dane?: HostDane | null;
  /** `secure`, from a resolver that is trusted to validate. Filled in by `withDane`. */
  isValidated?: boolean;
}

export interface HostAddress {
  ip: string;
  family: 4 | 6;
}

export type MailRoute =
  /** `ttl` in seconds; `hosts` in the order to try, at least one. `fromMx` is false for a domain that is its own mail host. */
  | {
      kind: 'hosts';
      site: string;
      hosts: readonly MailHost[];
      ttl: number;
      fromMx: boolean;
      /** Every MX host the domain names, usable or not; none for a domain that is its own mail host. */
      mxNames?: readonly string[];
    }
  /** Mail for this domain cannot be delivered, and trying again would not help. */
  | { kind: 'refused'; enhanced: '5.1.10' | '5.4.4' | '5.4.6'; reason: RefusalReason; text: string }
  /** One look-up found no such domain; the mail bounces only after three fresh ones, spread over 20 minutes. */
  | { kind: 'no_domain'; fresh: boolean }
  | { kind: 'trouble'; text: string };

export type RefusalReason = 'null_mx' | 'routing_loop' | 'private_address' | 'no_address';

export interface MailHostOptions extends LookupOptions {
  /** `smtp.hostname`: an MX of this name is ourselves. */
  ownHostname: string;
  /** Returns whether we listen for SMTP at this address and `remotePort`. */
  isOwn: (ip: string) => boolean;
  /** 25 except in tests. */
  remotePort: number;
  /** Permit hosts that are not globally reachable. */
  allowPrivate: boolean;
  /** Look for addresses of these families; at least one. */
  ipv4: boolean;
  ipv6: boolean;
  /** Returns a number in [0, 1), which shuffles hosts of one preference. */
  random: () => number;
}

/** MX records that are looked at; a hostile domain may list hundreds. */
const MAX_HOSTS = 20;
/** Hosts whose addresses are looked up at once, and usable hosts after which no more are looked for. */
const HOSTS_AT_ONCE = 5;

/** Finds the mail hosts of a domain (A-labels). DNS faults are values; it never throws for them. */
export async function findMailHosts(
  deps: { resolver: Resolver },
  domain: string,
  options: MailHostOptions,
): Promise<MailRoute> {
  const mx = await deps.resolver.mx(domain, options);
  switch (mx.kind) {
    case 'trouble':
      return { kind: 'trouble', text: `MX of ${domain}: ${mx.text}` };
    case 'no_domain':
      return mx;
    case 'no_data':
      return findImplicitHost(deps, domain, mx.secure === true, options);
    case 'found':
      return findMxHosts(deps, domain, mx, options);
  }
}

/** No MX: the domain is its own mail host with preference 0 (RFC 5321 section 5.1). */
async function findImplicitHost(
  deps: { resolver: Resolver },
  domain: string,
  hasSurelyNoMx: boolean,
  options: MailHostOptions,
): Promise<MailRoute> {
  const host = { exchange: domain, preference: 0 };
  const found = await lookUpHost(deps, host, hasSurelyNoMx, options);
  if (found.kind === 'no_domain') return { kind: 'no_domain', fresh: found.fresh };
  const canonical = found.kind === 'usable' ? found.host.canonical : domain;
  const of = { site: siteOf([canonical]), ttl: Infinity, fromMx: false };
  return concluded(domain, withoutOurselves([host], options), [found], of, options);
}

async function findMxHosts(
  deps: { resolver: Resolver },
  domain: string,
  mx: Extract<DnsAnswer<MxRecord>, { kind: 'found' }>,
  options: MailHostOptions,
): Promise<MailRoute> {
  const named = mx.records.filter((record) => record.exchange !== '.');
  if (named.length === 0) return refused('5.1.10', 'null_mx', `${domain} does not accept mail (null MX)`);
  const candidates = withoutOurselves(named, options);
  const ordered = byPreference(candidates, options.random).slice(0, MAX_HOSTS);
  const lookedUp: HostLookup[] = [];
  for (let at = 0; at < ordered.length; at += HOSTS_AT_ONCE) {
    const batch = ordered.slice(at, at + HOSTS_AT_ONCE);
    lookedUp.push(...(await Promise.all(batch.map((record) => lookUpHost(deps, record, mx.secure, options)))));
    if (lookedUp.filter((host) => host.kind === 'usable').length >= HOSTS_AT_ONCE) break;
    if (lookedUp.some((host) => host.kind === 'own')) break;
  }
  const mxNames = named.map((record) => record.exchange);
  const of = { site: siteOf(mxNames), ttl: mx.ttl, fromMx: true, mxNames };
  return concluded(domain, candidates, lookedUp, of, options);
}

type HostLookup =
  | { kind: 'usable'; host: MailHost; ttl: number }
  /** Resolves to where we listen. */
  | { kind: 'own'; preference: number }
  | { kind: 'private' | 'no_data' }
  /** The MX record names an IP address, or what else cannot be a host. */
  | { kind: 'no_name'; name: string }
  | { kind: 'no_domain'; fresh: boolean }
  | { kind: 'trouble'; text: string };

async function lookUpHost(
  deps: { resolver: Resolver },
  record: MxRecord,
  mxSecure: boolean,
  options: MailHostOptions,
): Promise<HostLookup> {
  const name = record.exchange;
  if (!isHostName(name)) return { kind: 'no_name', name };
  const [six, four] = await Promise.all([
    options.ipv6 ? deps.resolver.aaaa(name, options) : notAsked,
    options.ipv4 ? deps.resolver.a(name, options) : notAsked,
  ]);
  const addresses = [...addressesOf(six, 6), ...addressesOf(four, 4)];
  if (addresses.some(({ ip }) => options.isOwn(ip))) return { kind: 'own', preference: record.preference };
  const allowed = options.allowPrivate ? addresses : addresses.filter(({ ip }) => isPublicAddress(ip));
  if (allowed.length > 0) {
    const found = [six, four].filter((answer) => answer.kind === 'found');
    const secure = mxSecure && found.every((answer) => answer.secure);
    return {
      kind: 'usable',
      host: {
        name,
        preference: record.preference,
        addresses: allowed,
        port: options.remotePort,
        secure,
        isNamedSecurely: mxSecure,
        canonical: found[0]?.name ?? name,
      },
      ttl: Math.min(...found.map((answer) => answer.ttl)),
    };
  }
  if (addresses.length > 0) return { kind: 'private' };
  for (const answer of [six, four]) {
    if (answer.kind === 'trouble') return { kind: 'trouble', text: `addresses of ${name}: ${answer.text}` };
  }
  return [six, four].find((answer) => answer.kind === 'no_domain') ?? { kind: 'no_data' };
}

export const notAsked: DnsAnswer<string> = { kind: 'no_data' };

export function addressesOf(answer: DnsAnswer<string>, family: 4 | 6): HostAddress[] {
  return answer.kind === 'found' ? answer.records.map((ip) => ({ ip, family })) : [];
}

/** Returns the route that all look-ups together give. `candidates` are the records without our own names. */
function concluded(
  domain: string,
  candidates: readonly MxRecord[],
  lookedUp: readonly HostLookup[],
  of: { site: string; ttl: number; fromMx: boolean; mxNames?: readonly string[] },
  { ipv6 }: Pick<MailHostOptions, 'ipv6'>,
): MailRoute {
  let own = Infinity;
  for (const each of lookedUp) if (each.kind === 'own') own = Math.min(own, each.preference);
  if (!candidates.some((record) => record.preference < own))
    return refused('5.4.6', 'routing_loop', `mail for ${domain} would come back to this server`);
  const usable = lookedUp.filter((each) => each.kind === 'usable').filter((each) => each.host.preference < own);
  if (usable.length > 0) {
    const ttl = usable.reduce((least, each) => Math.min(least, each.ttl), of.ttl);
    return { ...of, kind: 'hosts', hosts: usable.map((each) => each.host), ttl };
  }
  const trouble = lookedUp.find((each) => each.kind === 'trouble');
  if (trouble !== undefined) return trouble;
  if (lookedUp.some((each) => each.kind === 'private'))
    return refused('5.4.4', 'private_address', `the mail hosts of ${domain} have no public address`);
  const misnamed = lookedUp.find((each) => each.kind === 'no_name');
  if (misnamed !== undefined) return refused('5.4.4', 'no_address', misnamedText(domain, misnamed.name));
  const families = ipv6 ? 'no address' : 'no IPv4 address, and this server does not send over IPv6 (delivery.ipv6)';
  return refused('5.4.4', 'no_address', `the mail hosts of ${domain} have ${families}`);
}

/** RFC 5321 section 5.1: an MX record names a host, never an address. */
function misnamedText(domain: string, name: string): string {
  const shown = JSON.stringify(name.slice(0, LONGEST_SITE));
  const what =
    isIP(name) === 0 ? 'which cannot be the name of a host' : 'an IP address, where DNS demands the name of a host';
  return `the MX record of ${domain} has ${shown}, ${what}: the owner of the domain has to correct it`;
}

function refused(enhanced: '5.1.10' | '5.4.4' | '5.4.6', reason: RefusalReason, text: string): MailRoute {
  return { kind: 'refused', enhanced, reason, text };
}

/** RFC 5321 section 5.1: if we are in the list, we and all hosts of an equal or worse preference are left out. */
export function withoutOurselves(records: readonly MxRecord[], options: { ownHostname: string }): readonly MxRecord[] {
  const ownName = options.ownHostname.toLowerCase();
  let own = Infinity;
  for (const { exchange, preference } of records) if (exchange === ownName) own = Math.min(own, preference);
  return own === Infinity ? records : records.filter(({ preference }) => preference < own);
}

/** Lowest preference first, shuffled inside one (RFC 5321 section 5.1). Does not change `records`. */
export function byPreference(records: readonly MxRecord[], random: () => number): MxRecord[] {
  return records
    .map((record) => ({ record, lot: random() }))
    .sort((a, b) => a.record.preference - b.record.preference || a.lot - b.lot)
    .map(({ record }) => record);
}

/** Above this a site is shown by its first host and a digest of all. */
const LONGEST_SITE = 120;

/** Names a set of mail hosts, equal for equal sets whatever their order, case or preference, so that the domains of one farm share a lane. */
export function siteOf(hosts: readonly string[]): string {
  const sorted = [...new Set(hosts.map((host) => host.toLowerCase()))].sort();
  const joined = sorted.join(',');
  if (joined.length <= LONGEST_SITE) return joined;
  const digest = createHash('sha256').update(joined).digest('hex').slice(0, 16);
  return `${sorted[0] ?? ''}+${String(sorted.length - 1)}~${digest}`;
}

/** Names that may appear in SNI, logs and reports: letters, digits, hyphens and (seen in the wild) underscores. An IP address is none. */
function isHostName(name: string): boolean {
  return isIP(name) === 0 && /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name);
}

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
