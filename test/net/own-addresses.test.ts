import assert from 'node:assert/strict';
import { createOwnAddresses, isOpenAt, type OpenPort } from '../../src/net/own-addresses.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const own = ['127.0.0.1', '::1', '192.0.2.5', '2001:db8::5'];

describe('net/own-addresses: a port of ours is open at an address', () => {
  const rows: [ports: OpenPort[], at: string, isOpen: boolean, why: string][] = [
    [[{ host: '192.0.2.5', open: 25 }], '192.0.2.5', true, 'it is bound there'],
    [[{ host: '192.0.2.5', open: 25 }], '192.0.2.6', false, 'it is bound elsewhere'],
    [[{ host: '192.0.2.5', open: 2525 }], '192.0.2.5', false, 'another port'],
    [[{ host: '0.0.0.0', open: null }], '192.0.2.5', false, 'another program has the port'],
    [[{ host: '0.0.0.0', open: 25 }], '192.0.2.5', true, 'all IPv4 addresses'],
    [[{ host: '0.0.0.0', open: 25 }], '192.0.2.6', false, 'not one of ours'],
    [[{ host: '0.0.0.0', open: 25 }], '2001:db8::5', false, 'not those of IPv6'],
    [[{ host: '::', open: 25 }], '2001:DB8:0::5', true, 'all addresses, in another spelling'],
    [[{ host: '::', open: 25 }], '192.0.2.5', true, 'all addresses are those of IPv4, too'],
    [[{ host: '2001:db8:0::5', open: 25 }], '2001:db8::5', true, 'bound there, in another spelling'],
    [[], '192.0.2.5', false, 'no port'],
    [
      [
        { host: '127.0.0.1', open: 587 },
        { host: '0.0.0.0', open: 25 },
      ],
      '192.0.2.5',
      true,
      'one of several',
    ],
  ];
  for (const [ports, ip, isOpen, why] of rows)
    it(`${ip}: ${String(isOpen)} (${why})`, () => {
      assert.equal(
        isOpenAt(ports, () => own, { ip, port: 25 }),
        isOpen,
      );
    });

  it('has the addresses of the machine, and asks for them every ten seconds', () => {
    const clock = new FakeClock();
    const addresses = createOwnAddresses({ clock });
    const first = addresses();
    assert.ok(first.includes('127.0.0.1'), first.join());
    assert.equal(addresses(), first);
    clock.advance(10_000);
    assert.notEqual(addresses(), first);
    assert.deepEqual(addresses(), first);
  });
});
