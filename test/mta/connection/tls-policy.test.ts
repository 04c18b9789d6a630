import assert from 'node:assert/strict';
import type { TlsaRecord } from '../../../src/base/resolver.ts';
import { needKey, satisfies, tlsNeed } from '../../../src/mta/connection/tls-policy.ts';
import type { TlsFacts, TlsNeed, TlsResult } from '../../../src/mta/connection/tls-policy.ts';

const nothingKnown: TlsFacts = {
  override: null,
  dane: null,
  sts: 'none',
  stsMatches: false,
  wish: null,
  isVouched: false,
};
const tlsa = { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.from('00', 'hex') };

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
  ['unusable TLSA records go before MTA-STS, too', { dane: dane({ ...tlsa, usage: 0 }), sts: 'enforce', stsMatches: true }, 'required no dane'], // prettier-ignore
  ['TLSA records that cannot be had', { dane: { kind: 'trouble', text: 'SERVFAIL' }, sts: 'enforce', stsMatches: true }, 'refused'], // prettier-ignore
  ['REQUIRETLS', { wish: 'require', isVouched: true }, 'required name requiretls'],
  ['REQUIRETLS, nobody vouches for the host', { wish: 'require' }, 'refused'],
  ['REQUIRETLS with DANE', { wish: 'require', isVouched: true, dane: dane(tlsa) }, 'required dane dane'],
  ['REQUIRETLS with DANE that cannot be used', { wish: 'require', isVouched: true, dane: dane({ ...tlsa, usage: 1 }) }, 'required name requiretls'], // prettier-ignore
  ['REQUIRETLS with MTA-STS', { wish: 'require', isVouched: true, sts: 'enforce', stsMatches: true }, 'required name mta-sts'], // prettier-ignore
  ['REQUIRETLS with MTA-STS that only tests', { wish: 'require', isVouched: true, sts: 'testing', stsMatches: true }, 'required name requiretls'], // prettier-ignore
  ['REQUIRETLS goes before an operator who wants no TLS', { wish: 'require', isVouched: true, override: 'none' }, 'required name requiretls'], // prettier-ignore
  ['REQUIRETLS over a smarthost on 465', { wish: 'require', isVouched: true, override: 'implicit' }, 'implicit name operator'], // prettier-ignore
  ['TLS-Required: No waives DANE', { wish: 'waive', dane: dane(tlsa) }, 'opportunistic no opportunistic'],
  ['TLS-Required: No waives DANE that is in trouble', { wish: 'waive', dane: { kind: 'trouble', text: 'x' } }, 'opportunistic no opportunistic'], // prettier-ignore
  ['TLS-Required: No waives MTA-STS', { wish: 'waive', sts: 'enforce' }, 'opportunistic no opportunistic'],
  ["TLS-Required: No does not waive the operator's word", { wish: 'waive', override: 'verified' }, 'required name operator'], // prettier-ignore
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
  ['the operator asks for DANE, of which nothing can be used', { override: 'dane', dane: dane({ ...tlsa, usage: 1 }) }, 'refused'], // prettier-ignore
  ['the operator asks for DANE that is in trouble', { override: 'dane', dane: { kind: 'trouble', text: 'x' } }, 'refused'], // prettier-ignore
  ['REQUIRETLS where the operator asks for DANE', { wish: 'require', isVouched: true, override: 'dane', dane: dane(tlsa) }, 'required dane dane'], // prettier-ignore
  ['a smarthost on 465', { override: 'implicit' }, 'implicit name operator'],
];

const need = (mode: TlsNeed['mode'], verify: TlsNeed['verify'] = 'no'): TlsNeed => ({
  mode,
  verify,
  tlsa: [],
  policy: 'operator',
});
const result = (verified: boolean, policy: TlsResult['policy'] = 'opportunistic'): TlsResult => ({
  protocol: 'TLSv1.3',
  cipher: 'x',
  verified,
  policy,
  fault: verified ? null : 'y',
});

describe('mta/connection/tls-policy', () => {
  for (const [reason, facts, expected] of rows)
    it(reason, () => {
      const found = tlsNeed({ ...nothingKnown, ...facts });
      const shown = found.kind === 'need' ? `${found.need.mode} ${found.need.verify} ${found.need.policy}` : found.kind;
      assert.equal(shown, expected);
    });

  it('knows whether an open connection is good enough', () => {
    assert.equal(satisfies(null, need('opportunistic')), true);
    assert.equal(satisfies(null, need('required')), false);
    assert.equal(satisfies(result(false), need('required')), true);
    assert.equal(satisfies(result(false), need('required', 'name')), false);
    assert.equal(satisfies(result(true), need('required', 'name')), true);
    assert.equal(satisfies(result(true), need('required', 'dane')), false, 'a trusted chain is no DANE match');
    assert.equal(
      satisfies(result(true, 'dane'), need('required', 'name')),
      false,
      'a DANE match says nothing about the chain',
    );
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
