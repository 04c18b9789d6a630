import assert from 'node:assert/strict';
import fc from 'fast-check';
import { addressBucket, addressList, isListed } from '../../src/net/ip.ts';
import { clientAddress, isNewProxy } from '../../src/api/client-address.ts';

describe('clientAddress', () => {
  const proxies = ['10.0.0.0/8', '2001:db8:ffff::/48', '127.0.0.1'];
  const rows: [remote: string | undefined, forwarded: string | undefined, address: string, why: string][] = [
    ['192.0.2.1', undefined, '192.0.2.1', 'a direct client'],
    ['192.0.2.1', '198.51.100.1', '192.0.2.1', 'who is no proxy is not believed'],
    ['10.0.0.1', '198.51.100.1', '198.51.100.1', 'behind one proxy'],
    ['10.0.0.1', '203.0.113.9, 198.51.100.1', '198.51.100.1', 'what the client wrote in front is not believed'],
    ['10.0.0.1', '203.0.113.9, 198.51.100.1, 10.1.1.1', '198.51.100.1', 'behind two proxies'],
    ['10.0.0.1', '10.2.2.2, 10.1.1.1', '10.2.2.2', 'nobody but proxies: the first of them'],
    ['10.0.0.1', 'unknown', '10.0.0.1', 'no address: the last that was one'],
    ['10.0.0.1', '198.51.100.1, ,10.1.1.1', '10.1.1.1', 'an empty item ends the trust'],
    ['10.0.0.1', '', '10.0.0.1', 'an empty header'],
    ['10.0.0.1', '198.51.100.1:8080', '198.51.100.1', 'with a port'],
    ['10.0.0.1', '[2001:db8::1]:8080', '2001:db8::1', 'IPv6 with a port'],
    ['10.0.0.1', '2001:0DB8:0:0::1', '2001:db8::1', 'IPv6 in its canonical form'],
    ['::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1', 'the proxy in IPv6 clothes'],
    ['::ffff:192.0.2.1', undefined, '192.0.2.1', 'IPv4 in IPv6 clothes'],
    ['10.0.0.1', '::ffff:c000:201', '192.0.2.1', 'the same in hexadecimal'],
    ['2001:db8:ffff::9', '2001:db8::7', '2001:db8::7', 'a proxy with IPv6'],
    ['fe80::1%eth0', undefined, 'fe80::1', 'a zone is left out'],
    [undefined, undefined, '0.0.0.0', 'a connection that has gone'],
  ];
  for (const [remote, forwarded, address, why] of rows) {
    it(`${why}: ${address}`, () => {
      assert.equal(clientAddress(remote, forwarded, addressList(proxies)), address);
    });
  }

  it('a proxy that is not trusted is noted once, and none of the Internet, where anybody can write the header', () => {
    const known = new Set<string>();
    const remotes = ['127.0.0.1', '127.0.0.1', '10.0.0.1', '8.8.8.8', undefined];
    const found = remotes.map((remote) => isNewProxy(known, remote, addressList(['10.0.0.0/8'])));
    assert.deepEqual([found, [...known]], [[true, false, false, false, false], ['127.0.0.1']]);
    for (let host = 1; host < 100; host++) isNewProxy(known, `192.168.0.${String(host)}`, addressList([]));
    assert.equal(known.size, 10);
  });

  it('gives an address, whatever the header', () => {
    const trusted = addressList(['0.0.0.0/1', '128.0.0.0/1']);
    const soup = fc
      .array(fc.constantFrom('1.2.3.4', '::1', '[', ']', ':', ',', ' ', '%', '300.1.1.1', 'x'))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.oneof(fc.string(), soup), (header) => {
        assert.match(clientAddress('192.0.2.1', header, trusted), /^[0-9a-f.:]+$/);
      }),
    );
  });
});

describe('addressList', () => {
  const rows: [ranges: string[], address: string, within: boolean][] = [
    [['192.0.2.1'], '192.0.2.1', true],
    [['192.0.2.1'], '192.0.2.2', false],
    [['192.0.2.0/24'], '192.0.2.255', true],
    [['2001:db8::1'], '2001:db8::1', true],
    [['2001:db8::/32'], '2001:db9::1', false],
    [[], '192.0.2.1', false],
    [['192.0.2.0/24', '2001:db8::/32'], '2001:db8:1::', true],
  ];
  for (const [ranges, address, within] of rows) {
    it(`[${ranges.join(', ')}] ${within ? 'has' : 'has not'} ${address}`, () => {
      assert.equal(isListed(addressList(ranges), address), within);
    });
  }
});

describe('addressBucket', () => {
  it('is the address for IPv4 and the /64 for IPv6', () => {
    assert.equal(addressBucket('192.0.2.1'), '192.0.2.1');
    assert.equal(addressBucket('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2');
    assert.equal(addressBucket('2001:db8:1:2::9'), addressBucket('2001:db8:1:2:ffff::'));
    assert.notEqual(addressBucket('2001:db8:1:2::'), addressBucket('2001:db8:1:3::'));
  });
});
