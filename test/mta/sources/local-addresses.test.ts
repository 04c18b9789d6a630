import assert from 'node:assert/strict';
import { namedIpv6Address } from '../../../src/net/named-ipv6.ts';
import { FakeResolver } from '../../support/fakes/fake-resolver.ts';
import type { Zones } from '../../support/fakes/zones.ts';

describe('mta/sources/local-addresses', () => {
  const own = '2a00:1450:4001::25';
  const rows: [addresses: string[], zones: Zones, found: string | null, asked: number, why: string][] = [
    [
      [own],
      { [`${own} PTR`]: ['mail.acme.test'], 'mail.acme.test AAAA': ['2a00:1450:4001:0:0:0:0:25'] },
      own,
      2,
      'both directions agree, however the address is written',
    ],
    [[own], { [`${own} PTR`]: ['a.test', 'b.test'], 'b.test AAAA': [own] }, own, 3, 'one name of several leads back'],
    [
      [own],
      { [`${own} PTR`]: ['mail.acme.test'], 'mail.acme.test AAAA': ['2a00:1450:4001::26'] },
      null,
      2,
      'the name leads elsewhere',
    ],
    [[own], { [`${own} PTR`]: ['mail.acme.test'] }, null, 2, 'the name has no address'],
    [[own], {}, null, 1, 'no name'],
    [[own], { [`${own} PTR`]: 'SERVFAIL' }, null, 1, 'DNS fails: not sure is no'],
    [
      ['::1', 'fe80::1', 'fd00::2', '127.0.0.1', '2001:db8::1', 'nonsense'],
      {},
      null,
      0,
      'addresses that others cannot reach are not asked for',
    ],
    [['2a00::1', own], { [`${own} PTR`]: ['m.test'], 'm.test AAAA': [own] }, own, 3, 'the second address'],
    [
      Array.from({ length: 100 }, (_, i) => `2a00::${(i + 1).toString(16)}`),
      {},
      null,
      8,
      'not a hundred questions at start',
    ],
  ];
  for (const [addresses, zones, found, asked, why] of rows) {
    it(`${found === null ? 'takes none' : 'takes one'}: ${why}`, async () => {
      const resolver = new FakeResolver(zones);
      assert.equal(await namedIpv6Address({ resolver }, addresses), found);
      assert.equal(resolver.asked.length, asked);
    });
  }
});
