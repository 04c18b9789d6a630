import assert from 'node:assert/strict';
import { tlsaText } from '../../../src/mta/connection/tls-policy.ts';
import { withDane } from '../../../src/mta/dns/dane.ts';
import { findMailHosts, type MailHostOptions } from '../../../src/mta/dns/mx.ts';
import { FakeResolver } from '../../support/fakes/fake-resolver.ts';
import type { Zones } from '../../support/fakes/zones.ts';

const options: MailHostOptions = {
  ownHostname: 'mail.posthorn.test',
  isOwn: () => false,
  remotePort: 25,
  allowPrivate: true,
  ipv4: true,
  ipv6: false,
  random: () => 0.5,
};

const mx = { 'dest.test MX': ['10 mx.test'], 'mx.test A': ['192.0.2.1'] };
const alias = { 'dest.test MX': ['10 www.test'], 'www.test CNAME': ['mx.test'], 'mx.test A': ['192.0.2.1'] };
const own = { '_25._tcp.mx.test TLSA': ['3 1 1 00ff'] };
const ofAlias = { '_25._tcp.www.test TLSA': ['3 1 1 11ff'] };
const all = ['dest.test', 'mx.test', 'www.test', '_25._tcp.mx.test', '_25._tcp.www.test'];
const but = (...names: string[]): string[] => all.filter((name) => !names.includes(name));
const ofDomain = { 'dest.test A': ['192.0.2.9'], '_25._tcp.dest.test TLSA': ['2 0 1 22ff'] };

const rows: [reason: string, zones: Zones, secure: string[], expected: string][] = [
  ['all secure', { ...mx, ...own }, all, '3 1 1 00ff for mx.test dest.test'],
  ['secure, but no records', mx, all, 'none'],
  ['the MX answer is not secure', { ...mx, ...own }, but('dest.test'), 'none, not asked'],
  ['the address is not secure', { ...mx, ...own }, but('mx.test'), 'none, not asked'],
  ['the records are not secure', { ...mx, ...own }, but('_25._tcp.mx.test'), 'none'],
  ['TLSA SERVFAIL: what a bogus answer looks like', { ...mx, '_25._tcp.mx.test TLSA': 'SERVFAIL' }, all, 'trouble'],
  ['TLSA without answer', { ...mx, '_25._tcp.mx.test TLSA': 'TIMEOUT' }, all, 'trouble'],
  [
    'TLSA in trouble where the host is not secure',
    { ...mx, '_25._tcp.mx.test TLSA': 'SERVFAIL' },
    but('mx.test'),
    'none, not asked',
  ],
  [
    'an alias: records where it leads',
    { ...alias, ...own, ...ofAlias },
    all,
    '3 1 1 00ff for mx.test www.test dest.test',
  ],
  ['an alias: else its own records', { ...alias, ...ofAlias }, all, '3 1 1 11ff for www.test dest.test'],
  [
    'an alias: else where it leads is not secure',
    { ...alias, ...own, ...ofAlias },
    but('_25._tcp.mx.test'),
    '3 1 1 11ff for www.test dest.test',
  ],
  ['an alias: trouble where it leads', { ...alias, ...ofAlias, '_25._tcp.mx.test TLSA': 'SERVFAIL' }, all, 'trouble'],
  [
    'a secure alias into a zone that is not',
    { ...alias, ...own, ...ofAlias },
    ['dest.test', 'www.test', '_25._tcp.www.test'],
    '3 1 1 11ff for www.test dest.test',
  ],
  ['no MX, surely', ofDomain, ['dest.test', '_25._tcp.dest.test'], '2 0 1 22ff for dest.test'],
  ['no MX, but nobody vouches for that', ofDomain, ['_25._tcp.dest.test'], 'none, not asked'],
];

describe('mta/dns/dane', () => {
  for (const [reason, zones, secure, expected] of rows)
    it(`${reason}: ${expected}`, async () => {
      const resolver = new FakeResolver(zones);
      for (const name of secure) resolver.secure.add(name);
      const route = await withDane({ resolver }, 'dest.test', await findMailHosts({ resolver }, 'dest.test', options));
      assert.equal(route.kind, 'hosts');
      const dane = route.hosts[0]?.dane ?? null;
      const asked = resolver.asked.some((question) => question.endsWith('TLSA'));
      const shown = {
        records: () => dane?.kind === 'records' && `${dane.records.map(tlsaText).join()} for ${dane.names.join(' ')}`,
        trouble: () => 'trouble',
        none: () => (asked ? 'none' : 'none, not asked'),
      };
      assert.equal(shown[dane?.kind ?? 'none'](), expected);
      assert.equal(route.ttl, expected === 'trouble' ? 5 : 300);
    });

  it('leaves a route without hosts unchanged', async () => {
    const route = await withDane({ resolver: new FakeResolver() }, 'dest.test', { kind: 'no_domain', fresh: true });
    assert.deepEqual(route, { kind: 'no_domain', fresh: true });
  });
});
