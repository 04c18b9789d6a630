import assert from 'node:assert/strict';
import { findRelay } from '../../../src/mta/dns/mx.ts';
import { FakeResolver } from '../../support/fakes/fake-resolver.ts';
import type { Zones } from '../../support/fakes/zones.ts';

describe('mta/dns/relay', () => {
  const both: Zones = { 'relay.test A': ['10.0.0.1', '10.0.0.2'], 'relay.test AAAA': ['fd00::1'] };
  const rows: [host: string, ipv6: boolean, zones: Zones, found: string[] | string, why: string][] = [
    ['127.0.0.1', false, {}, ['127.0.0.1'], 'an address is taken as it is'],
    ['::1', false, {}, ['::1'], 'an IPv6 address too: the operator says so'],
    ['relay.test', false, both, ['10.0.0.1', '10.0.0.2'], 'private networks are permitted, IPv6 is not asked for'],
    ['relay.test', true, both, ['fd00::1', '10.0.0.1', '10.0.0.2'], 'both families'],
    [
      'relay.test',
      true,
      { 'relay.test A': ['10.0.0.1'], 'relay.test AAAA': 'SERVFAIL' },
      ['10.0.0.1'],
      'what is known is enough',
    ],
    ['relay.test', true, {}, 'the smarthost relay.test has no address', 'no address'],
    [
      'relay.test',
      false,
      { 'relay.test A': 'SERVFAIL' },
      'the smarthost relay.test: A of relay.test: SERVFAIL',
      'trouble',
    ],
  ];
  for (const [host, ipv6, zones, found, why] of rows) {
    it(`${host}: ${why}`, async () => {
      const route = await findRelay({ resolver: new FakeResolver(zones) }, host, { port: 2525, ipv6 });
      if (route.kind !== 'hosts') {
        assert.deepEqual(route, { kind: 'trouble', text: found });
        return;
      }
      assert.deepEqual([route.site, route.hosts.length, route.hosts[0]?.port], [host, 1, 2525]);
      assert.deepEqual(
        route.hosts[0]?.addresses.map(({ ip }) => ip),
        found,
      );
    });
  }
});
