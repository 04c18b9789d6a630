import assert from 'node:assert/strict';
import { createLocalAddresses } from '../../../src/mta/sources/local-addresses.ts';
import { namedIpv6Address } from '../../../src/net/own-addresses.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
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
    [[own], { [`${own} PTR`]: 'SERVFAIL' }, null, 1, 'DNS fails: not sure is no, for now'],
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
      const { address, isSure } = await namedIpv6Address({ resolver }, addresses);
      assert.deepEqual([address, isSure], [found, !Object.values(zones).includes('SERVFAIL')]);
      assert.equal(resolver.asked.length, asked);
    });
  }

  it('looks again every minute while DNS does not answer, and says meanwhile that it is not sure', async () => {
    const clock = new FakeClock();
    const zones: Zones = { [`${own} PTR`]: 'SERVFAIL' };
    const resolver = new FakeResolver(zones);
    const warnings: unknown[] = [];
    const log = { debug: () => undefined, warn: (facts: unknown) => warnings.push(facts) } as never;
    const sources = [{ name: 'out1', ipv6: own }];
    const local = createLocalAddresses({ clock, log, resolver }, { ipv6: 'auto', sources, own: [own] });
    const settled = async (asked: number): Promise<void> => {
      while (resolver.asked.length < asked) await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setImmediate(resolve));
    };
    await settled(2);
    assert.deepEqual([local.isUsed(), local.isSure(), warnings], [false, false, []]);
    zones[`${own} PTR`] = ['mail.acme.test'];
    zones['mail.acme.test AAAA'] = [own];
    clock.advance(60_000);
    await settled(6);
    assert.deepEqual([local.isUsed(), local.isSure(), clock.nextAt()], [true, true, null]);
    assert.deepEqual(local.of({ name: 'out1', pool: 'default', ehlo: 'x', ipv4: null, ipv6: own }).addresses, [own]);
  });
});
