import assert from 'node:assert/strict';
import type { TlsaRecord } from '../../../src/net/resolver.ts';
import { needKey, tlsNeed, usableTlsa } from '../../../src/mta/connection/tls-policy.ts';
import type { TlsFacts, TlsNeed } from '../../../src/mta/connection/tls-policy.ts';

const nothingKnown: TlsFacts = {
  override: null,
  dane: null,
  sts: 'none',
  stsMatches: false,
  request: null,
  isVouched: false,
};
const tlsa = { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32) };

const dane = (...records: TlsaRecord[]): TlsFacts['dane'] => ({ kind: 'records', records, names: ['mx.test'] });

const rows: [reason: string, facts: Partial<TlsFacts>, expected: string][] = [
  ['nothing known', {}, 'opportunistic no opportunistic'],
  ['MTA-STS testing records, but does not insist', { sts: 'testing' }, 'opportunistic no mta-sts'],
  ['MTA-STS enforce, host named', { sts: 'enforce', stsMatches: true }, 'required name mta-sts'],
  ['MTA-STS enforce, host not named', { sts: 'enforce' }, 'refused'],
  ['DANE', { dane: dane(tlsa) }, 'required dane dane'],
  ['DANE goes before MTA-STS', { dane: dane(tlsa), sts: 'enforce' }, 'required dane dane'],
  ['only unusable TLSA records: TLS, unverified', { dane: dane({ ...tlsa, usage: 1 }) }, 'required no dane'],
  ['an unknown selector cannot be used', { dane: dane({ ...tlsa, selector: 2 }) }, 'required no dane'],
  ['an unknown matching type cannot be used', { dane: dane({ ...tlsa, matchingType: 3 }) }, 'required no dane'],
  ['one usable record of two', { dane: dane({ ...tlsa, usage: 0 }, tlsa) }, 'required dane dane'],
  [
    'unusable TLSA records leave an enforced MTA-STS policy in force',
    { dane: dane({ ...tlsa, usage: 0 }), sts: 'enforce', stsMatches: true },
    'required name mta-sts',
  ],
  [
    'unusable TLSA records, and a policy that does not name the host',
    { dane: dane({ ...tlsa, usage: 0 }), sts: 'enforce' },
    'refused',
  ],
  [
    'unusable TLSA records demand TLS of a policy that only tests',
    { dane: dane({ ...tlsa, usage: 0 }), sts: 'testing' },
    'required no dane',
  ],
  [
    'a digest of a wrong length cannot be used',
    { dane: dane({ ...tlsa, certificate: Buffer.alloc(20) }) },
    'required no dane',
  ],
  ['a digest of the other length cannot be used', { dane: dane({ ...tlsa, matchingType: 2 }) }, 'required no dane'],
  ['a whole key', { dane: dane({ ...tlsa, matchingType: 0, certificate: Buffer.alloc(91) }) }, 'required dane dane'],
  [
    'a whole key of no octets',
    { dane: dane({ ...tlsa, matchingType: 0, certificate: Buffer.alloc(0) }) },
    'required no dane',
  ],
  [
    'TLSA records that cannot be had',
    { dane: { kind: 'trouble', text: 'SERVFAIL' }, sts: 'enforce', stsMatches: true },
    'refused',
  ],
  ['REQUIRETLS', { request: 'require', isVouched: true }, 'required name requiretls'],
  ['REQUIRETLS, nobody vouches for the host', { request: 'require' }, 'refused for good'],
  ['REQUIRETLS, and the policy cannot be had', { request: 'require', stsFault: 'sts-policy-fetch-error' }, 'refused'],
  ['REQUIRETLS, and the policy does not name the host', { request: 'require', sts: 'enforce' }, 'refused'],
  [
    'REQUIRETLS, and the TLSA records cannot be had',
    { request: 'require', dane: { kind: 'trouble', text: 'x' } },
    'refused',
  ],
  ['REQUIRETLS with DANE', { request: 'require', isVouched: true, dane: dane(tlsa) }, 'required dane dane'],
  [
    'REQUIRETLS with DANE that cannot be used',
    { request: 'require', isVouched: true, dane: dane({ ...tlsa, usage: 1 }) },
    'required name requiretls',
  ],
  [
    'REQUIRETLS with MTA-STS',
    { request: 'require', isVouched: true, sts: 'enforce', stsMatches: true },
    'required name mta-sts',
  ],
  [
    'REQUIRETLS with MTA-STS that only tests',
    { request: 'require', isVouched: true, sts: 'testing', stsMatches: true },
    'required name requiretls',
  ],
  [
    'REQUIRETLS goes before an operator who wants no TLS',
    { request: 'require', isVouched: true, override: 'none' },
    'required name requiretls',
  ],
  [
    'REQUIRETLS over a smarthost on 465',
    { request: 'require', isVouched: true, override: 'implicit' },
    'implicit name operator',
  ],
  ['TLS-Required: No waives DANE', { request: 'waive', dane: dane(tlsa) }, 'opportunistic no opportunistic'],
  [
    'TLS-Required: No waives DANE that is in trouble',
    { request: 'waive', dane: { kind: 'trouble', text: 'x' } },
    'opportunistic no opportunistic',
  ],
  ['TLS-Required: No waives MTA-STS', { request: 'waive', sts: 'enforce' }, 'opportunistic no opportunistic'],
  [
    "TLS-Required: No does not waive the operator's word",
    { request: 'waive', override: 'verified' },
    'required name operator',
  ],
  ['the operator has the last word', { override: 'none', dane: dane(tlsa), sts: 'enforce' }, 'none no operator'],
  ['the operator asks for TLS', { override: 'required' }, 'required no operator'],
  ['the operator asks for the name', { override: 'verified' }, 'required name operator'],
  [
    'the operator knows better than a policy',
    { override: 'opportunistic', sts: 'enforce' },
    'opportunistic no operator',
  ],
  ['the operator asks for DANE', { override: 'dane', dane: dane(tlsa), sts: 'enforce' }, 'required dane dane'],
  ['the operator asks for DANE, and there is none', { override: 'dane', sts: 'enforce', stsMatches: true }, 'refused'],
  [
    'the operator asks for DANE, of which nothing can be used',
    { override: 'dane', dane: dane({ ...tlsa, usage: 1 }) },
    'refused',
  ],
  [
    'the operator asks for DANE that is in trouble',
    { override: 'dane', dane: { kind: 'trouble', text: 'x' } },
    'refused',
  ],
  [
    'REQUIRETLS where the operator asks for DANE',
    { request: 'require', isVouched: true, override: 'dane', dane: dane(tlsa) },
    'required dane dane',
  ],
  ['a smarthost on 465', { override: 'implicit' }, 'implicit name operator'],
];

const need = (mode: TlsNeed['mode'], verify: TlsNeed['verify'] = 'no'): TlsNeed => ({
  mode,
  verify,
  tlsa: [],
  policy: 'operator',
});

describe('mta/connection/tls-policy', () => {
  for (const [reason, facts, expected] of rows)
    it(reason, () => {
      const found = tlsNeed({ ...nothingKnown, ...facts });
      const refused = found.kind === 'refused' && found.isFinal === true ? 'refused for good' : found.kind;
      const shown = found.kind === 'need' ? `${found.need.mode} ${found.need.verify} ${found.need.policy}` : refused;
      assert.equal(shown, expected);
    });

  it('uses only the strongest digest of each usage and selector (RFC 7671 section 9)', () => {
    const strong = { ...tlsa, matchingType: 2, certificate: Buffer.alloc(64) };
    const whole = { ...tlsa, matchingType: 0 };
    assert.deepEqual(usableTlsa([tlsa, strong, whole]), [strong, whole]);
    const others = [
      { ...tlsa, usage: 2 },
      { ...tlsa, selector: 0 },
    ];
    assert.deepEqual(usableTlsa([...others, strong]), [...others, strong], 'the others keep theirs');
    const broken = { ...strong, certificate: Buffer.alloc(63) };
    assert.deepEqual(usableTlsa([tlsa, broken]), [tlsa], 'a digest that cannot be used is no stronger one');
  });

  it('lets a message that waives the policies share its connections with others', () => {
    const waived = tlsNeed({ ...nothingKnown, request: 'waive', sts: 'enforce' });
    const ordinary = tlsNeed(nothingKnown);
    assert.ok(waived.kind === 'need' && ordinary.kind === 'need');
    assert.equal(needKey(waived.need), needKey(ordinary.need));
  });

  it('gives different needs different keys', () => {
    const needs = [need('none'), need('opportunistic'), need('required'), need('required', 'name')];
    const whole = Buffer.alloc(400, 1);
    const certificates = [
      { ...need('required', 'dane'), tlsa: [tlsa] },
      { ...need('required', 'dane'), tlsa: [{ ...tlsa, certificate: Buffer.from('11', 'hex') }] },
      { ...need('required', 'dane'), tlsa: [{ ...tlsa, matchingType: 0, certificate: Buffer.concat([whole, whole]) }] },
      { ...need('required', 'dane'), tlsa: [{ ...tlsa, matchingType: 0, certificate: whole }] },
      { ...need('required', 'dane'), tlsa: [tlsa], names: ['other.test'] },
    ];
    assert.equal(new Set([...needs, ...certificates].map(needKey)).size, 9);
  });
});
