import assert from 'node:assert/strict';
import type { OpenResult } from '../../../src/mta/connection/open-session.ts';
import type { HostDane, TlsNeed } from '../../../src/mta/connection/tls-policy.ts';
import { noTimings } from '../../../src/mta/connection/phases.ts';
import type { Host, Site } from '../../../src/mta/sites/sites.ts';
import { tlsFindings, type TlsSeen } from '../../../src/mta/tls/tls-seen.ts';

const need = (
  policy: TlsNeed['policy'],
  verify: TlsNeed['verify'] = 'no',
  mode: TlsNeed['mode'] = 'opportunistic',
): TlsNeed => ({ mode, verify, tlsa: [], policy });
const host: Host = { name: 'mx.dest.test', port: 25, addresses: [{ ip: '192.0.2.25', family: 4 }] };
const site: Site = { kind: 'site', name: 'mx.dest.test', hosts: [host], relay: null, domain: 'dest.test' };
const sts = (mode: 'enforce' | 'testing', mx = 'mx.dest.test'): Partial<Site> => ({
  sts: { mode, mx: [mx], maxAge: 60 },
});
const dane = (of: HostDane): Partial<Host> => ({ dane: of });
const records: HostDane = {
  kind: 'records',
  records: [{ usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 1) }],
  names: ['base.test', 'mx.dest.test'],
};
const unusable: HostDane = {
  kind: 'records',
  records: [{ usage: 1, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 1) }],
  names: ['mx.dest.test'],
};

const tls = (fault: string | null) => ({
  protocol: 'TLSv1.3',
  cipher: 'x',
  verified: fault === null,
  policy: 'opportunistic' as const,
  fault,
});
/** Only these parts of a session are looked at. */
const open = (of: ReturnType<typeof tls> | null, startTls = true): OpenResult =>
  ({
    kind: 'open',
    ip: '192.0.2.25',
    localIp: '192.0.2.1',
    session: { tls: of, extensions: { startTls } },
  }) as unknown as OpenResult;
const failed = (how: 'broken' | 'unsatisfied' | 'neither', of: ReturnType<typeof tls> | null = null): OpenResult => ({
  kind: 'failed',
  ip: '192.0.2.25',
  phase: 'tls',
  reply: null,
  text: 'it broke',
  tls: of,
  timings: noTimings(),
  tlsBroken: how === 'broken',
  tlsUnsatisfied: how === 'unsatisfied',
});

const rows: [
  reason: string,
  seen: { site?: Partial<Site>; host?: Partial<Host>; need?: TlsNeed | null; opened: OpenResult | null },
  expected: string,
][] = [
  ['no policy, TLS', { opened: open(tls(null)) }, 'no-policy-found success'],
  ['no policy: any certificate will do', { opened: open(tls('CERT_HAS_EXPIRED')) }, 'no-policy-found success'],
  ['no policy, no STARTTLS', { opened: open(null, false) }, 'no-policy-found starttls-not-supported'],
  ['no policy, a broken handshake and then plaintext', { opened: open(null) }, 'no-policy-found validation-failure'],
  ['no connection: TLS was not the question', { opened: failed('neither') }, 'nothing'],
  ['a smarthost', { site: { relay: { tls: 'required', auth: null } }, opened: open(tls(null)) }, 'nothing'],
  ["the operator's rule", { need: need('operator'), opened: open(tls(null)) }, 'nothing'],
  [
    'MTA-STS',
    { site: sts('enforce'), need: need('mta-sts', 'name', 'required'), opened: open(tls(null)) },
    'sts success',
  ],
  [
    'MTA-STS, expired',
    {
      site: sts('enforce'),
      need: need('mta-sts', 'name', 'required'),
      opened: failed('unsatisfied', tls('CERT_HAS_EXPIRED')),
    },
    'sts certificate-expired',
  ],
  [
    'MTA-STS, another name',
    {
      site: sts('enforce'),
      need: need('mta-sts', 'name', 'required'),
      opened: failed('unsatisfied', tls('ERR_TLS_CERT_ALTNAME_INVALID')),
    },
    'sts certificate-host-mismatch',
  ],
  [
    'MTA-STS, an unknown authority',
    {
      site: sts('enforce'),
      need: need('mta-sts', 'name', 'required'),
      opened: failed('unsatisfied', tls('SELF_SIGNED_CERT_IN_CHAIN')),
    },
    'sts certificate-not-trusted',
  ],
  [
    'MTA-STS, no STARTTLS',
    { site: sts('enforce'), need: need('mta-sts', 'name', 'required'), opened: failed('unsatisfied') },
    'sts starttls-not-supported',
  ],
  [
    'MTA-STS, a broken handshake',
    { site: sts('enforce'), need: need('mta-sts', 'name', 'required'), opened: failed('broken') },
    'sts validation-failure',
  ],
  [
    'MTA-STS, a host that is not named',
    { site: sts('enforce', 'other.test'), need: null, opened: null },
    'sts validation-failure',
  ],
  [
    'MTA-STS that tests: told all the same',
    { site: sts('testing'), need: need('mta-sts'), opened: open(tls('DEPTH_ZERO_SELF_SIGNED_CERT')) },
    'sts certificate-not-trusted',
  ],
  [
    'MTA-STS that tests, plaintext',
    { site: sts('testing'), need: need('mta-sts'), opened: open(null, false) },
    'sts starttls-not-supported',
  ],
  [
    'a policy that cannot be fetched',
    { site: { stsFault: 'sts-webpki-invalid' }, need: need('opportunistic'), opened: open(tls(null)) },
    'sts sts-webpki-invalid',
  ],
  ['DANE', { host: dane(records), need: need('dane', 'dane', 'required'), opened: open(tls(null)) }, 'tlsa success'],
  [
    'DANE that does not match',
    {
      host: dane(records),
      need: need('dane', 'dane', 'required'),
      opened: failed('unsatisfied', tls('the certificate matches no TLSA record')),
    },
    'tlsa validation-failure',
  ],
  [
    'DANE, a chain under the trust anchor that has expired',
    {
      host: dane(records),
      need: need('dane', 'dane', 'required'),
      opened: failed('unsatisfied', tls('CERT_HAS_EXPIRED')),
    },
    'tlsa certificate-expired',
  ],
  [
    'DANE that cannot be used',
    { host: dane(unusable), need: need('dane', 'no', 'required'), opened: open(tls('CERT_HAS_EXPIRED')) },
    'tlsa tlsa-invalid',
  ],
  [
    'DANE in trouble',
    { host: dane({ kind: 'trouble', text: 'SERVFAIL', isBogus: true }), need: null, opened: null },
    'tlsa dnssec-invalid',
  ],
  [
    'DANE that the operator asks for, and there is none',
    { site: { tls: 'dane' }, need: null, opened: null },
    'tlsa dane-required',
  ],
  [
    'DANE that the operator asks for, and cannot be used',
    { site: { tls: 'dane' }, host: dane(unusable), need: null, opened: null },
    'tlsa tlsa-invalid',
  ],
  [
    'DANE that the operator asks for',
    { site: { tls: 'dane' }, host: dane(records), need: need('dane', 'dane', 'required'), opened: open(tls(null)) },
    'tlsa success',
  ],
  [
    'DANE that cannot be used beside MTA-STS',
    {
      site: sts('enforce'),
      host: dane(unusable),
      need: need('mta-sts', 'name', 'required'),
      opened: failed('unsatisfied', tls('SELF_SIGNED_CERT_IN_CHAIN')),
    },
    'tlsa tlsa-invalid, sts certificate-not-trusted',
  ],
  [
    'our own DNS in trouble',
    { host: dane({ kind: 'trouble', text: 'no answer', isBogus: false }), need: null, opened: null },
    'nothing',
  ],
  [
    'our own DNS does not say whether there is a policy',
    { site: { stsFault: 'not-known' }, opened: open(tls(null)) },
    'no-policy-found success',
  ],
  [
    'a mail that waives the policies, such as a report',
    { site: sts('enforce'), need: { ...need('opportunistic'), isWaived: true }, opened: open(tls(null)) },
    'nothing',
  ],
  [
    'DANE goes before MTA-STS',
    { site: sts('enforce'), host: dane(records), need: need('dane', 'dane', 'required'), opened: open(tls(null)) },
    'tlsa success',
  ],
];

describe('mta/tls/tls-seen', () => {
  for (const [reason, seen, expected] of rows)
    it(`${reason}: ${expected}`, () => {
      const whole: TlsSeen = {
        need: need('opportunistic'),
        ...seen,
        site: { ...site, ...seen.site },
        host: { ...host, ...seen.host },
      };
      const found = tlsFindings(whole).map(({ policy, failure }) => `${policy} ${failure?.result ?? 'success'}`);
      assert.equal(found.length === 0 ? 'nothing' : found.join(', '), expected);
    });

  it('gives the policy as it was obeyed, and both addresses', () => {
    const [found] = tlsFindings({
      site: { ...site, ...sts('testing') },
      host,
      need: need('mta-sts'),
      opened: open(tls(null)),
    });
    assert.deepEqual(found?.strings, ['version: STSv1', 'mode: testing', 'mx: mx.dest.test', 'max_age: 60']);
    assert.deepEqual([found.mx, found.ip, found.localIp, found.base], ['mx.dest.test', '192.0.2.25', '192.0.2.1', '']);
    const [secured] = tlsFindings({
      site,
      host: { ...host, ...dane(records) },
      need: need('dane', 'dane', 'required'),
      opened: open(tls(null)),
    });
    assert.deepEqual([secured?.strings, secured?.mxHosts], [[`3 1 1 ${'01'.repeat(32)}`], ['mx.dest.test']]);
    assert.equal(secured?.base, 'base.test', 'the TLSA base domain');
  });
});
