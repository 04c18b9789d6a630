/**
 * The TLS result of one connection, in the terms of RFC 8460: the policy of the recipient domain that applied, and the result. There is
 * none where TLS was not tried (no connection, a smarthost, the operator's own rule), for mail that waives the policies (our
 * reports, which would otherwise cause reports for ever), and for faults of our own DNS. Pure.
 */
import type { TlsFailure, TlsPolicyType } from '../../mail/tls-report.ts';
import { stsNames } from '../../mail/sts-policy.ts';
import type { OpenResult } from '../connection/open-session.ts';
import { tlsaText, usableTlsa, type TlsNeed } from '../connection/tls-policy.ts';
import type { Host, Site } from '../sites/sites.ts';

export interface TlsSeen {
  site: Site;
  host: Host;
  /** The need of the connection, and its result; both null for a host that a policy forbids. */
  need: TlsNeed | null;
  opened: OpenResult | null;
}

export interface TlsFinding {
  /** The recipient domain, which gets the report. */
  domain: string;
  policy: TlsPolicyType;
  /** The base domain of the TLSA records, without `_25._tcp` (RFC 7672 section 2.2.3); empty where they are not the policy. */
  base: string;
  /** The lines of the policy that was applied, and the hosts that it names. */
  strings: readonly string[];
  mxHosts: readonly string[];
  /** Null for success. */
  failure: { result: TlsFailure; reason: string } | null;
  mx: string;
  ip: string;
  localIp: string;
}

/** Returns a finding for each policy that applied to the connection; none where there is nothing to report. */
export function tlsFindings(seen: TlsSeen): readonly TlsFinding[] {
  const { site, host, need, opened } = seen;
  const { domain } = site;
  if (domain === undefined || site.relay !== null || need?.policy === 'operator' || need?.mode === 'none') return [];
  if (need?.isWaived === true || (host.dane?.kind === 'trouble' && !host.dane.isBogus)) return [];
  if (opened?.kind === 'failed' && !opened.tlsBroken && !opened.tlsUnsatisfied) return [];
  const place = { mx: host.name, ip: opened?.ip ?? '', localIp: opened?.localIp ?? '' };
  return policiesOf(seen).map((policy) => {
    const base = policy === 'tlsa' ? baseOf(host) : '';
    return { domain, policy, base, ...linesOf(site, host, policy), failure: failureOf(seen, policy), ...place };
  });
}

/** Returns the policies that applied. Unusable records leave an enforced MTA-STS policy in force: then both did. */
function policiesOf({ site, host, need }: TlsSeen): readonly TlsPolicyType[] {
  if (host.dane != null || site.tls === 'dane') return need?.policy === 'mta-sts' ? ['tlsa', 'sts'] : ['tlsa'];
  return hasPolicy(site) ? ['sts'] : ['no-policy-found'];
}

const hasPolicy = ({ sts, stsFault }: Site): boolean => sts != null || (stsFault != null && stsFault !== 'not-known');

const baseOf = ({ name, dane }: Host): string => (dane?.kind === 'records' ? (dane.names[0] ?? name) : name);

function linesOf({ sts }: Site, { name, dane }: Host, policy: TlsPolicyType): Pick<TlsFinding, 'strings' | 'mxHosts'> {
  if (policy === 'tlsa')
    return { strings: dane?.kind === 'records' ? dane.records.map(tlsaText) : [], mxHosts: [name] };
  if (policy === 'no-policy-found' || sts == null) return { strings: [], mxHosts: [] };
  const lines = [
    'version: STSv1',
    `mode: ${sts.mode}`,
    ...sts.mx.map((mx) => `mx: ${mx}`),
    `max_age: ${String(sts.maxAge)}`,
  ];
  return { strings: lines, mxHosts: sts.mx };
}

function failureOf({ site, host, opened }: TlsSeen, policy: TlsPolicyType): TlsFinding['failure'] {
  if (site.tls === 'dane' && host.dane == null) return { result: 'dane-required', reason: '' };
  if (host.dane?.kind === 'trouble') return { result: 'dnssec-invalid', reason: host.dane.text };
  if (policy === 'sts' && site.sts == null && site.stsFault != null && site.stsFault !== 'not-known')
    return { result: site.stsFault, reason: '' };
  if (policy === 'sts' && site.sts != null && !stsNames(site.sts, host.name))
    return { result: 'validation-failure', reason: 'the policy does not name this host' };
  const faulty = opened === null ? null : brokenOrMissing(opened);
  if (faulty !== null) return faulty;
  if (policy === 'tlsa' && host.dane != null && usableTlsa(host.dane.records).length === 0)
    return { result: 'tlsa-invalid', reason: 'none of the records can be used' };
  const tls = opened?.kind === 'open' ? opened.session.tls : (opened?.tls ?? null);
  // Without a policy any certificate will do (RFC 7435).
  const fault = tls?.fault ?? null;
  if (policy === 'no-policy-found' || fault === null) return null;
  return { result: certificateFailure(fault, policy), reason: fault };
}

/** Returns the failure where there was no TLS, whatever the certificate. */
function brokenOrMissing(opened: OpenResult): TlsFinding['failure'] {
  if (opened.kind === 'failed')
    return opened.tlsBroken
      ? { result: 'validation-failure', reason: opened.text }
      : opened.tls === null
        ? { result: 'starttls-not-supported', reason: '' }
        : null;
  const { tls, extensions } = opened.session;
  if (tls !== null) return null;
  return extensions.startTls
    ? { result: 'validation-failure', reason: 'the handshake failed: the mail went in plaintext' }
    : { result: 'starttls-not-supported', reason: '' };
}

/** Returns the failure for Node's code or message about a certificate, or for those of DANE (connection/dane.ts), which asks no public CA. */
export function certificateFailure(fault: string, policy: TlsPolicyType): TlsFailure {
  if (/HAS_EXPIRED|NOT_YET_VALID/.test(fault)) return 'certificate-expired';
  if (/ALTNAME|altnames/.test(fault)) return 'certificate-host-mismatch';
  return policy === 'tlsa' ? 'validation-failure' : 'certificate-not-trusted';
}
