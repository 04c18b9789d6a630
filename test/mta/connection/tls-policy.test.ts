import assert from 'node:assert/strict';
import { needKey, satisfies, tlsNeed } from '../../../src/mta/connection/tls-policy.ts';
import type { TlsFacts, TlsNeed, TlsResult } from '../../../src/mta/connection/tls-policy.ts';

const nothingKnown: TlsFacts = { override: null, dane: null, sts: 'none', stsMatches: false, requireTls: false };
const tlsa = { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.from('00', 'hex') };

const rows: [reason: string, facts: Partial<TlsFacts>, expected: string][] = [
  ['nothing known', {}, 'opportunistic no opportunistic'],
  ['MTA-STS testing records, but does not insist', { sts: 'testing' }, 'opportunistic no mta-sts'],
  ['MTA-STS enforce, host named', { sts: 'enforce', stsMatches: true }, 'required name mta-sts'],
  ['MTA-STS enforce, host not named', { sts: 'enforce' }, 'refused'],
  ['DANE', { dane: [tlsa] }, 'required dane dane'],
  ['DANE goes before MTA-STS', { dane: [tlsa], sts: 'enforce' }, 'required dane dane'],
  ['only unusable TLSA records: TLS, unverified', { dane: [{ ...tlsa, usage: 1 }] }, 'required no dane'],
  ['no TLSA records, validated', { dane: [] }, 'opportunistic no opportunistic'],
  ['REQUIRETLS', { requireTls: true }, 'required name requiretls'],
  ['the operator has the last word', { override: 'none', dane: [tlsa], sts: 'enforce' }, 'none no operator'],
  ['the operator asks for TLS', { override: 'required' }, 'required no operator'],
  ['the operator asks for the name', { override: 'verified' }, 'required name operator'],
  [
    'the operator knows better than a policy',
    { override: 'opportunistic', sts: 'enforce' },
    'opportunistic no operator',
  ],
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
    const dane = [
      { ...need('required', 'dane'), tlsa: [tlsa] },
      { ...need('required', 'dane'), tlsa: [{ ...tlsa, certificate: Buffer.from('11', 'hex') }] },
    ];
    assert.equal(new Set([...needs, ...dane].map(needKey)).size, 6);
  });
});
