import assert from 'node:assert/strict';
import { byPreference, findMailHosts, siteOf } from '../../../src/mta/dns/mx.ts';
import type { MailHostOptions, MailRoute } from '../../../src/mta/dns/mx.ts';
import { FakeResolver } from '../../support/fakes/fake-resolver.ts';
import type { Zones } from '../../support/fakes/zones.ts';

const options: MailHostOptions = {
  ownHostname: 'mail.posthorn.test',
  isOwn: (ip) => ip === '198.18.0.25',
  remotePort: 25,
  allowPrivate: true,
  ipv4: true,
  ipv6: false,
  random: () => 0.5,
};

function find(zones: Zones, overrides: Partial<MailHostOptions> = {}): Promise<MailRoute> {
  return findMailHosts({ resolver: new FakeResolver(zones) }, 'dest.test', { ...options, ...overrides });
}

/** `name:ip,ip` of each host, in order; otherwise the kind and its details. */
function shown(route: MailRoute): string {
  switch (route.kind) {
    case 'hosts':
      return route.hosts.map((host) => `${host.name}:${host.addresses.map(({ ip }) => ip).join(',')}`).join(' ');
    case 'refused':
      return `refused ${route.enhanced} ${route.reason}`;
    default:
      return route.kind;
  }
}

const a1 = { 'mx1.dest.test A': ['192.0.2.1'] };
const a2 = { 'mx2.dest.test A': ['192.0.2.2'] };
const both = { 'dest.test MX': ['20 mx2.dest.test', '10 mx1.dest.test'] };

const rows: [reason: string, zones: Zones, expected: string, overrides?: Partial<MailHostOptions>][] = [
  ['in order of preference', { ...both, ...a1, ...a2 }, 'mx1.dest.test:192.0.2.1 mx2.dest.test:192.0.2.2'],
  ['null MX', { 'dest.test MX': ['0 .'] }, 'refused 5.1.10 null_mx'],
  [
    'a null MX beside a real one is no null MX',
    { 'dest.test MX': ['0 .', '10 mx1.dest.test'], ...a1 },
    'mx1.dest.test:192.0.2.1',
  ],
  ['no MX: the domain itself', { 'dest.test A': ['192.0.2.9'] }, 'dest.test:192.0.2.9'],
  ['no MX, by alias', { 'dest.test CNAME': ['web.test'], 'web.test A': ['192.0.2.8'] }, 'dest.test:192.0.2.8'],
  ['no MX and no address', { 'dest.test TXT': ['hello'] }, 'refused 5.4.4 no_address'],
  ['no such domain', {}, 'no_domain'],
  ['MX in trouble', { 'dest.test MX': 'SERVFAIL' }, 'trouble'],
  ['MX timed out', { 'dest.test MX': 'TIMEOUT' }, 'trouble'],
  [
    'domain aliased to one with MX',
    { 'dest.test CNAME': ['real.test'], 'real.test MX': ['5 mx1.dest.test'], ...a1 },
    'mx1.dest.test:192.0.2.1',
  ],
  [
    'MX name is an alias',
    { 'dest.test MX': ['5 www.test'], 'www.test CNAME': ['mx1.dest.test'], ...a1 },
    'www.test:192.0.2.1',
  ],
  ['a host without address is passed over', { ...both, ...a2 }, 'mx2.dest.test:192.0.2.2'],
  ['no host exists', both, 'refused 5.4.4 no_address'],
  ['one gone, one in trouble', { ...both, 'mx1.dest.test A': 'SERVFAIL' }, 'trouble'],
  ['one in trouble, one usable', { ...both, 'mx1.dest.test A': 'TIMEOUT', ...a2 }, 'mx2.dest.test:192.0.2.2'],
  ['own domain has no address, DNS in trouble', { 'dest.test A': 'SERVFAIL' }, 'trouble'],
  ['an MX that is an IP address is no host', { 'dest.test MX': ['10 192.0.2.1'] }, 'refused 5.4.4 no_address'],
  ['an MX that could spoil a log is no host', { 'dest.test MX': ['10 mx"><b>.test'] }, 'refused 5.4.4 no_address'],
  [
    'ourselves by name: we and what is no better go',
    {
      'dest.test MX': [
        '10 mx1.dest.test',
        '20 MAIL.posthorn.test'.toLowerCase(),
        '20 mx2.dest.test',
        '30 mx3.dest.test',
      ],
      ...a1,
      ...a2,
    },
    'mx1.dest.test:192.0.2.1',
  ],
  [
    'ourselves the best',
    { 'dest.test MX': ['10 mail.posthorn.test', '20 mx2.dest.test'], ...a2 },
    'refused 5.4.6 routing_loop',
  ],
  ['ourselves by address', { ...both, 'mx1.dest.test A': ['198.18.0.25'], ...a2 }, 'refused 5.4.6 routing_loop'],
  [
    'ourselves by address, as the second',
    { ...both, ...a1, 'mx2.dest.test A': ['198.18.0.25'] },
    'mx1.dest.test:192.0.2.1',
  ],
  ['no MX, and the domain is us', { 'dest.test A': ['198.18.0.25'] }, 'refused 5.4.6 routing_loop'],
  [
    'a better host in trouble, then ourselves',
    { 'dest.test MX': ['10 mx1.dest.test', '20 mail.posthorn.test'], 'mx1.dest.test A': 'SERVFAIL' },
    'trouble',
  ],
  ['private', { ...both, 'mx1.dest.test A': ['10.0.0.1'] }, 'refused 5.4.4 private_address', { allowPrivate: false }],
  ['loopback', { ...both, 'mx1.dest.test A': ['127.0.0.1'] }, 'refused 5.4.4 private_address', { allowPrivate: false }],
  [
    'private beside public',
    { ...both, 'mx1.dest.test A': ['10.0.0.1', '8.8.8.8'] },
    'mx1.dest.test:8.8.8.8',
    { allowPrivate: false },
  ],
  [
    'private, but one in trouble',
    { ...both, 'mx1.dest.test A': ['10.0.0.1'], 'mx2.dest.test A': 'SERVFAIL' },
    'trouble',
    { allowPrivate: false },
  ],
  [
    'both families, IPv6 first',
    { ...both, ...a1, 'mx1.dest.test AAAA': ['2001:db8::1'] },
    'mx1.dest.test:2001:db8::1,192.0.2.1',
    { ipv6: true },
  ],
  [
    'IPv6 in trouble, IPv4 there',
    { ...both, ...a1, 'mx1.dest.test AAAA': 'SERVFAIL' },
    'mx1.dest.test:192.0.2.1',
    { ipv6: true },
  ],
  [
    'an address of ours: no host of its preference, nor of a worse one',
    {
      'dest.test MX': ['10 mx1.dest.test', '20 own.dest.test', '20 mx2.dest.test', '30 mx3.dest.test'],
      ...{ ...a1, ...a2, 'own.dest.test A': ['198.18.0.25'], 'mx3.dest.test A': ['192.0.2.3'] },
    },
    'mx1.dest.test:192.0.2.1',
  ],
  ['IPv6 only, not wanted', { ...both, 'mx1.dest.test AAAA': ['2001:db8::1'] }, 'refused 5.4.4 no_address'],
];

describe('mta/dns/mx', () => {
  for (const [reason, zones, expected, overrides] of rows)
    it(reason, async () => {
      assert.equal(shown(await find(zones, overrides)), expected);
    });

  it('says which name an MX record has where that is no host, and who has to correct it', async () => {
    for (const [name, said] of [
      ['192.0.2.1', /"192\.0\.2\.1", an IP address, where DNS demands the name of a host: the owner of the domain has/],
      ['mx"><b>.test', /"mx\\"><b>\.test", which cannot be the name of a host/],
    ] as const) {
      // It is not looked up: DNS that is in trouble must not keep the mail.
      const route = await find({ 'dest.test MX': [`10 ${name}`], [`${name} A`]: 'SERVFAIL' });
      assert.match(route.kind === 'refused' ? route.text : route.kind, said);
    }
    const beside = { 'dest.test MX': ['10 192.0.2.9', '20 mx1.dest.test'], '192.0.2.9 A': ['192.0.2.9'], ...a1 };
    assert.equal(shown(await find(beside)), 'mx1.dest.test:192.0.2.1');
  });

  it('names one site for one set of hosts, whatever order and preference', async () => {
    const one = await find({ ...both, ...a1 });
    const other = await find({ 'dest.test MX': ['5 MX2.dest.test', '5 mx1.dest.test'], ...a1 });
    assert.equal(one.kind === 'hosts' && one.site, 'mx1.dest.test,mx2.dest.test');
    assert.equal(other.kind === 'hosts' && other.site, 'mx1.dest.test,mx2.dest.test');
  });

  it('keeps the name of a large site short, and different for different sites', () => {
    const farm = Array.from({ length: 30 }, (_, at) => `mx${String(at)}.farm.test`);
    const site = siteOf(farm);
    assert.ok(site.length < 60, site);
    assert.equal(site, siteOf([...farm].reverse()));
    assert.notEqual(site, siteOf(farm.slice(1)));
  });

  it('looks at a bounded number of hosts of a hostile domain, and no further than needed', async () => {
    const hosts = Array.from({ length: 300 }, (_, at) => `10 mx${String(at)}.dest.test`);
    const nowhere = new FakeResolver({ 'dest.test MX': hosts });
    await findMailHosts({ resolver: nowhere }, 'dest.test', options);
    assert.equal(nowhere.asked.length, 1 + 20);
    const zones: Zones = { 'dest.test MX': hosts };
    for (let at = 0; at < 300; at++) zones[`mx${String(at)}.dest.test A`] = ['192.0.2.1'];
    const somewhere = new FakeResolver(zones);
    await findMailHosts({ resolver: somewhere }, 'dest.test', options);
    assert.equal(somewhere.asked.length, 1 + 5);
  });

  it('lives as long as the shortest answer, and knows what was validated', async () => {
    const resolver = new FakeResolver({ ...both, ...a1 });
    resolver.ttl = 42;
    for (const name of ['dest.test', 'mx1.dest.test']) resolver.secure.add(name);
    const route = await findMailHosts({ resolver }, 'dest.test', options);
    assert.ok(route.kind === 'hosts');
    assert.equal(route.ttl, 42);
    assert.equal(route.hosts[0]?.secure, true);
    assert.equal(route.fromMx, true);
  });

  it('shuffles inside one preference only', () => {
    const records = [
      { preference: 10, exchange: 'a' },
      { preference: 10, exchange: 'b' },
      { preference: 5, exchange: 'c' },
    ];
    const order = (lots: number[]): string =>
      byPreference(records, () => lots.shift() ?? 0)
        .map(({ exchange }) => exchange)
        .join('');
    assert.equal(order([0.1, 0.9, 0.9]), 'cab');
    assert.equal(order([0.9, 0.1, 0.9]), 'cba');
  });
});
