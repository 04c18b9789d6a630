/**
 * How a connection to one mail host has to be protected, and whether it is. Weighs, strongest first: the operator's word,
 * DANE (RFC 7672), MTA-STS (RFC 8461), and otherwise opportunistic STARTTLS (RFC 7435). Pure.
 */
import { createHash } from 'node:crypto';
import type { TlsaRecord } from '../../base/resolver.ts';

export type PolicyName = 'none' | 'opportunistic' | 'operator' | 'mta-sts' | 'dane' | 'requiretls';

export interface TlsNeed {
  /** `implicit`: TLS from the first byte (port 465). The other modes begin in plaintext and use STARTTLS. */
  mode: 'none' | 'opportunistic' | 'required' | 'implicit';
  /** `name`: a trusted chain and the host's name in the certificate. `dane`: a match with one of `tlsa`. */
  verify: 'no' | 'name' | 'dane';
  tlsa: readonly TlsaRecord[];
  /** The names that a certificate under a DANE trust anchor may have; the first is asked for (SNI). Where not given, the host's. */
  names?: readonly string[];
  policy: PolicyName;
}

/** What DNS says of one host's certificate (mta/dns/dane.ts). */
export type HostDane =
  /** At least one record, all validated. */
  | { kind: 'records'; records: readonly TlsaRecord[]; names: readonly string[] }
  /** Nobody knows whether there are any: somebody may be in the way, so the host must not have the mail. */
  | { kind: 'trouble'; text: string };

/** What became of it, for the attempt's record. */
export interface TlsResult {
  protocol: string;
  cipher: string;
  /** The certificate passed: trusted chain and right name, or DANE. Recorded even where nobody asks for it. */
  verified: boolean;
  policy: PolicyName;
  /** Why it was not verified. */
  fault: string | null;
}

export interface TlsFacts {
  /** The operator's setting for this domain or route, or null. `verified` asks for the name, too; `dane` for TLSA records. */
  override: 'none' | 'opportunistic' | 'required' | 'verified' | 'dane' | 'implicit' | null;
  /** Null where the domain has no DANE, or DNS answers are not validated. */
  dane: HostDane | null;
  sts: 'none' | 'testing' | 'enforce';
  /** Whether the host matches a pattern of the MTA-STS policy. */
  stsMatches: boolean;
  /** What the message asks for. */
  wish: TlsWish | null;
  /** DNSSEC, MTA-STS or the operator vouch that this host is where the domain's mail goes. */
  isVouched: boolean;
}

/** RFC 8689. `require`: handed on over TLS all the way or not at all. `waive`: rather arrive than obey the domain's policies. */
export type TlsWish = 'require' | 'waive';

/** The need, or `refused` where MTA-STS forbids this host (RFC 8461 section 5): try the next one. */
export function tlsNeed(facts: TlsFacts): { kind: 'need'; need: TlsNeed } | { kind: 'refused'; text: string } {
  if (facts.wish === 'require') return strictNeed(facts);
  if (facts.override !== null) return overrideNeed(facts, facts.override);
  if (facts.wish === 'waive') return need(opportunistic('opportunistic'));
  return policyNeed(facts);
}

/** REQUIRETLS, RFC 8689 section 4.2.1: whatever else holds, TLS with a certificate that is verified, on a way that is vouched for. */
function strictNeed(facts: TlsFacts): ReturnType<typeof tlsNeed> {
  if (!facts.isVouched)
    return { kind: 'refused', text: 'REQUIRETLS: neither DNSSEC nor MTA-STS vouches for this host' };
  const asked = facts.override === null ? policyNeed(facts) : overrideNeed(facts, facts.override);
  if (asked.kind === 'refused' || asked.need.verify !== 'no') return asked;
  const mode = asked.need.mode === 'implicit' ? 'implicit' : 'required';
  return need({ mode, verify: 'name', tlsa: [], policy: 'requiretls' });
}

/** The operator's word. `dane`: no mail without records that can be used (RFC 7672 section 6), of which RFC 8460 has a name. */
function overrideNeed(facts: TlsFacts, override: NonNullable<TlsFacts['override']>): ReturnType<typeof tlsNeed> {
  if (override !== 'dane') return need(overridden(override));
  if (facts.dane?.kind === 'trouble') return { kind: 'refused', text: facts.dane.text };
  if (facts.dane === null || usableTlsa(facts.dane.records).length === 0)
    return { kind: 'refused', text: 'delivery.tls asks for DANE, and the host has no TLSA records that can be used' };
  return need(daneNeed(facts.dane));
}

/** What the domain's policies ask for. */
function policyNeed(facts: TlsFacts): ReturnType<typeof tlsNeed> {
  // RFC 7672 section 2.2: DANE takes precedence over MTA-STS.
  if (facts.dane?.kind === 'trouble') return { kind: 'refused', text: facts.dane.text };
  if (facts.dane !== null) return need(daneNeed(facts.dane));
  if (facts.sts === 'enforce') {
    if (!facts.stsMatches) return { kind: 'refused', text: 'the MTA-STS policy of the domain does not name this host' };
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

function need(of: TlsNeed): { kind: 'need'; need: TlsNeed } {
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

/** RFC 7672 section 3.1.3: PKIX-TA(0) and PKIX-EE(1) are not used with SMTP; unknown parameters are passed over. */
function usableTlsa(records: readonly TlsaRecord[]): TlsaRecord[] {
  return records.filter(
    ({ usage, selector, matchingType, certificate }) =>
      (usage === 2 || usage === 3) && selector <= 1 && matchingType <= 2 && certificate.length > 0,
  );
}

/** Whether an open connection may carry mail with this need. Plaintext satisfies only those who do not insist. */
export function satisfies(result: TlsResult | null, of: TlsNeed): boolean {
  if (of.mode === 'none' || of.mode === 'opportunistic') return true;
  if (result === null) return false;
  if (of.verify === 'no') return true;
  return result.verified && (of.verify === 'dane') === (result.policy === 'dane');
}

/** Part of a connection's pool key: equal for needs that the same connection meets by design. */
export function needKey(of: TlsNeed): string {
  const key = [of.mode, of.verify, of.policy, ...(of.names ?? [])].join(':');
  if (of.tlsa.length === 0) return key;
  // Records may be whole certificates, which begin alike.
  return `${key}:${createHash('sha256').update(of.tlsa.map(tlsaText).sort().join()).digest('base64')}`;
}

/** As in a zone file: `3 1 1 0a1b...`. */
export const tlsaText = ({ usage, selector, matchingType, certificate }: TlsaRecord): string =>
  `${[usage, selector, matchingType].map(String).join(' ')} ${certificate.toString('hex')}`;
