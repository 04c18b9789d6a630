import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Problem } from '../../src/base/problem.ts';
import { canonicalIpList, isIpAllowed } from '../../src/keys/ip-list.ts';

const good: [entry: string, canonical: string, reason: string][] = [
  ['192.0.2.1', '192.0.2.1', 'a single IPv4 address'],
  ['192.0.2.1/32', '192.0.2.1', 'a range of one is an address'],
  ['192.0.2.77/24', '192.0.2.0/24', 'bits behind the prefix are cleared'],
  ['255.255.255.255/1', '128.0.0.0/1', 'the widest range that is one'],
  ['10.255.255.255/9', '10.128.0.0/9', 'not on a byte boundary'],
  ['2001:DB8:0:0:0:0:0:1', '2001:db8::1', 'RFC 5952: lower case, zeros left out'],
  ['2001:db8::1/128', '2001:db8::1', 'a range of one'],
  ['2001:db8:ffff:ffff::/33', '2001:db8:8000::/33', 'not on a group boundary'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1', 'RFC 5952 4.2.2: one zero group is written out'],
  ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1', 'RFC 5952 4.2.3: the longest run'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1', 'RFC 5952 4.2.3: the first of equal runs'],
  ['::', '::', 'all zeros'],
  ['::1', '::1', 'loopback'],
  ['fe80::/10', 'fe80::/10', 'link-local'],
  ['::ffff:192.0.2.1', '192.0.2.1', 'a mapped address is the IPv4 address'],
  ['::ffff:192.0.2.0/120', '192.0.2.0/24', 'a mapped range'],
];

const bad: [entry: string, reason: string][] = [
  ['', 'empty'],
  ['0.0.0.0/0', 'everybody'],
  ['1.2.3.4/0', 'everybody, in disguise'],
  ['::/0', 'everybody'],
  ['2001:db8::/0', 'everybody, in disguise'],
  ['::ffff:0.0.0.0/96', 'everybody with IPv4'],
  ['192.0.2.1/33', 'prefix too long'],
  ['2001:db8::/129', 'prefix too long'],
  ['192.0.2.1/', 'no prefix'],
  ['192.0.2.1/-1', 'negative'],
  ['192.0.2.1/08', 'leading zero'],
  ['192.0.2.1/2 ', 'space'],
  ['192.0.2.1/24/24', 'two prefixes'],
  ['192.0.2.256', 'no byte'],
  ['192.0.2', 'three parts'],
  ['0x7f.0.0.1', 'hex'],
  ['192.0.02.1', 'octal'],
  ['fe80::1%eth0', 'a zone'],
  ['example.net', 'a name'],
  ['1'.repeat(100_000), 'long'],
];

describe('keys/ip-list', () => {
  for (const [entry, canonical, reason] of good) {
    it(`takes ${entry}: ${reason}`, () => {
      assert.deepEqual(canonicalIpList([entry]), [canonical]);
      assert.deepEqual(canonicalIpList([canonical]), [canonical], 'what is canonical stays');
    });
  }

  for (const [entry, reason] of bad) {
    it(`refuses ${entry.slice(0, 40)}: ${reason}`, () => {
      assert.throws(
        () => canonicalIpList(['192.0.2.1', entry]),
        (error: unknown) =>
          error instanceof Problem && error.code === 'invalid_field' && error.field === 'allowed_ips[1]',
      );
    });
  }

  it('takes 100 entries, drops doubles, refuses 101', () => {
    assert.deepEqual(canonicalIpList(['192.0.2.1', '192.0.2.1/32', '::ffff:192.0.2.1']), ['192.0.2.1']);
    const many = Array.from({ length: 101 }, (_, i) => `10.0.0.${String(i)}`);
    assert.equal(canonicalIpList(many.slice(1)).length, 100);
    assert.throws(
      () => canonicalIpList(many),
      (error: unknown) => error instanceof Problem && error.code === 'too_many_items',
    );
  });

  const lists: [list: string[], ip: string, allowed: boolean][] = [
    [[], '192.0.2.1', true],
    [['192.0.2.0/24'], '192.0.2.255', true],
    [['192.0.2.0/24'], '192.0.3.0', false],
    [['192.0.2.1'], '192.0.2.1', true],
    [['192.0.2.1'], '::ffff:192.0.2.1', true],
    [['2001:db8::/33'], '2001:db8:7fff::1', true],
    [['2001:db8::/33'], '2001:db8:8000::1', false],
    [['fe80::1'], 'fe80::1%eth0', true],
    [['192.0.2.1'], 'not an address', false],
    [['192.0.2.1'], '', false],
  ];
  for (const [list, ip, allowed] of lists) {
    it(`${allowed ? 'lets' : 'does not let'} ${ip} in by [${list.join()}]`, () => {
      assert.equal(isIpAllowed(list, ip), allowed);
      assert.equal(isIpAllowed(list, ip), allowed, 'also from memory');
    });
  }

  it('an address is in the canonical range made of it, whatever the prefix', () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.integer({ min: 1, max: 32 }), (ip, bits) => {
        assert.ok(isIpAllowed(canonicalIpList([`${ip}/${String(bits)}`]), ip));
      }),
    );
    fc.assert(
      fc.property(fc.ipV6(), fc.integer({ min: 1, max: 128 }), (ip, bits) => {
        // Below 96 bits a range around a mapped address is an IPv6 range, which mapped callers are not in. ipaddr.js reads `::1.2.3.4` as one.
        fc.pre(!/^(?:(0*:)*(:|0*)?ffff:|::\d+\.)/i.test(ip));
        assert.ok(isIpAllowed(canonicalIpList([`${ip}/${String(bits)}`]), ip), ip);
      }),
    );
  });
});
