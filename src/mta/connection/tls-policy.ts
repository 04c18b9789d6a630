/**
 * Decides how a connection to one mail host must be protected, and whether it is. The strongest rule comes first: the operator's setting,
 * DANE (RFC 7672), MTA-STS (RFC 8461), and otherwise opportunistic STARTTLS (RFC 7435). Pure.
 */
import { createHash } from 'node:crypto';
import type { TlsaRecord } from '../../net/resolver.ts';

export type PolicyName = 'none' | 'opportunistic' | 'operator' | 'mta-sts' | 'dane' | 'requiretls';

export interface TlsNeed {
  /** `implicit`: TLS from the first byte (port 465). The other modes begin in plaintext and use STARTTLS. */
  mode: 'none' | 'opportunistic' | 'required' | 'implicit';
  /** `name`: a trusted chain and the host's name in the certificate. `dane`: a match with one of `tlsa`. */
  verify: 'no' | 'name' | 'dane';
  tlsa: readonly TlsaRecord[];
  /** The names that a certificate under a DANE trust anchor may have; the first is asked for (SNI). If not given, the host's. */
  names?: readonly string[];
  policy: PolicyName;
}

/** The TLSA records of one host (mta/dns/dane.ts). */
export type HostDane =
  /** At least one record, all validated. */
  | { kind: 'records'; records: readonly TlsaRecord[]; names: readonly string[] }
  /** The look-up failed. An attacker may have caused that, so the host must not have the mail. */
  | { kind: 'trouble'; text: string };

export interface TlsResult {
  protocol: string;
  cipher: string;
  /** The certificate passed: trusted chain and right name, or DANE. Recorded even if no policy demands it. */
  verified: boolean;
  policy: PolicyName;
  /** Why it was not verified. */
  fault: string | null;
}

export interface TlsFacts {
  /** The operator's setting for this domain or route, or null. `verified` asks for the name, too; `dane` for TLSA records. */
  override: 'none' | 'opportunistic' | 'required' | 'verified' | 'dane' | 'implicit' | null;
  /** Null if the domain has no DANE, or DNS answers are not validated. */
  dane: HostDane | null;
  sts: 'none' | 'testing' | 'enforce';
  /** Why an MTA-STS policy that may exist could not be had, or null. */
  stsFault?: string | null;
  stsMatches: boolean;
  request: TlsRequest | null;
  /** DNSSEC, MTA-STS or the operator vouch that this host is where the domain's mail goes. */
  isVouched: boolean;
}

/** RFC 8689. `require`: the message may only be handed on over TLS. `waive`: its delivery matters more than the domain's policies. */
export type TlsRequest = 'require' | 'waive';

export type Asked =
  | { kind: 'need'; need: TlsNeed }
  /** The host must not have the mail (RFC 8461 section 5): the next is tried, or it waits. `isFinal`: the domain cannot meet the request at all. */
  | { kind: 'refused'; text: string; policy: PolicyName; isFinal?: true };

/** Returns what a connection to the host needs, or why it must not have the mail. */
export function tlsNeed(facts: TlsFacts): Asked {
  if (facts.request === 'require') return strictNeed(facts);
  if (facts.override !== null) return overrideNeed(facts, facts.override);
  if (facts.request === 'waive') return need(opportunistic('opportunistic'));
  return policyNeed(facts);
}

/** RFC 8689 section 4.2.1: REQUIRETLS demands TLS with a verified certificate, to a host that is vouched for. */
function strictNeed(facts: TlsFacts): Asked {
  if (!facts.isVouched) return unvouched(facts);
  const asked = facts.override === null ? policyNeed(facts) : overrideNeed(facts, facts.override);
  if (asked.kind === 'refused' || asked.need.verify !== 'no') return asked;
  const mode = asked.need.mode === 'implicit' ? 'implicit' : 'required';
  return need({ mode, verify: 'name', tlsa: [], policy: 'requiretls' });
}

/** The refusal is final only if there is certainly no policy: one that could not be fetched may vouch for the host later. */
function unvouched({ dane, sts, stsFault = null }: TlsFacts): Asked {
  if (dane?.kind === 'trouble') return refusedBy('requiretls', `REQUIRETLS: ${dane.text}`);
  if (sts !== 'none')
    return refusedBy('requiretls', 'REQUIRETLS: the MTA-STS policy of the domain does not name this host');
  if (stsFault !== null)
    return refusedBy('requiretls', `REQUIRETLS: the MTA-STS policy of the domain cannot be had (${stsFault})`);
  const text = 'REQUIRETLS: neither DNSSEC nor MTA-STS vouches for this mail host';
  return { ...refusedBy('requiretls', text), isFinal: true };
}

/** Applies the operator's setting. `dane`: no mail without usable records (RFC 7672 section 6; `dane-required` in RFC 8460). */
function overrideNeed(facts: TlsFacts, override: NonNullable<TlsFacts['override']>): Asked {
  if (override !== 'dane') return need(overridden(override));
  if (facts.dane?.kind === 'trouble') return refusedBy('dane', facts.dane.text);
  if (facts.dane === null || usableTlsa(facts.dane.records).length === 0)
    return refusedBy('dane', 'delivery.tls asks for DANE, and the host has no TLSA records that can be used');
  return need(daneNeed(facts.dane));
}

function policyNeed(facts: TlsFacts): Asked {
  const { dane } = facts;
  // RFC 7672 section 2.2: DANE takes precedence over MTA-STS, but records that authenticate nothing cannot replace a policy.
  if (dane?.kind === 'trouble') return refusedBy('dane', dane.text);
  if (dane !== null && (facts.sts !== 'enforce' || usableTlsa(dane.records).length > 0)) return need(daneNeed(dane));
  if (facts.sts === 'enforce') {
    if (!facts.stsMatches) return refusedBy('mta-sts', 'the MTA-STS policy of the domain does not name this host');
    return need({ mode: 'required', verify: 'name', tlsa: [], policy: 'mta-sts' });
  }
  return need(opportunistic(facts.sts === 'testing' ? 'mta-sts' : 'opportunistic'));
}

const opportunistic = (policy: PolicyName): TlsNeed => ({ mode: 'opportunistic', verify: 'no', tlsa: [], policy });

/** Records that cannot be used still demand TLS (RFC 7672 section 2.2). */
function daneNeed({ records, names }: Extract<HostDane, { kind: 'records' }>): TlsNeed {
  const tlsa = usableTlsa(records);
  return { mode: 'required', verify: tlsa.length > 0 ? 'dane' : 'no', tlsa, names, policy: 'dane' };
}

const refusedBy = (policy: PolicyName, text: string): Extract<Asked, { kind: 'refused' }> => ({
  kind: 'refused',
  text,
  policy,
});

function need(of: TlsNeed): Asked {
  return { kind: 'need', need: of };
}

function overridden(override: Exclude<TlsFacts['override'], 'dane' | null>): TlsNeed {
  switch (override) {
    case 'none':
      return { mode: 'none', verify: 'no', tlsa: [], policy: 'operator' };
    case 'opportunistic':
      return { mode: 'opportunistic', verify: 'no', tlsa: [], policy: 'operator' };
    case 'required':
      return { mode: 'required', verify: 'no', tlsa: [], policy: 'operator' };
    case 'verified':
      return { mode: 'required', verify: 'name', tlsa: [], policy: 'operator' };
    case 'implicit':
      return { mode: 'implicit', verify: 'name', tlsa: [], policy: 'operator' };
  }
}

/** Octets of a digest by its matching type. */
const DIGEST_BYTES: Readonly<Record<number, number>> = { 1: 32, 2: 64 };

/**
 * RFC 7672 section 3.1.3: PKIX-TA(0) and PKIX-EE(1) are not used with SMTP; unknown parameters and digests of a wrong length are
 * passed over. Of the digests of one usage and selector only the strongest counts (RFC 7671 section 9).
 */
export function usableTlsa(records: readonly TlsaRecord[]): TlsaRecord[] {
  const known = records.filter(
    ({ usage, selector, matchingType, certificate: { length } }) =>
      (usage === 2 || usage === 3) &&
      selector <= 1 &&
      (matchingType === 0 ? length > 0 : length === DIGEST_BYTES[matchingType]),
  );
  return known.filter(
    ({ usage, selector, matchingType }) =>
      matchingType !== 1 ||
      !known.some((other) => other.matchingType === 2 && other.usage === usage && other.selector === selector),
  );
}

/** Returns the part of a connection's pool key that is equal for needs which the same connection meets. */
export function needKey(of: TlsNeed): string {
  const key = [of.mode, of.verify, of.policy, ...(of.names ?? [])].join(':');
  if (of.tlsa.length === 0) return key;
  // Records may be whole certificates, which begin alike.
  return `${key}:${createHash('sha256').update(of.tlsa.map(tlsaText).sort().join()).digest('base64')}`;
}

/** Writes a record as in a zone file: `3 1 1 0a1b...`. */
export const tlsaText = ({ usage, selector, matchingType, certificate }: TlsaRecord): string =>
  `${[usage, selector, matchingType].map(String).join(' ')} ${certificate.toString('hex')}`;
