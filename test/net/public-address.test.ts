import assert from 'node:assert/strict';
import fc from 'fast-check';
import { plainAddress } from '../../src/net/ip.ts';
import { createAddressRule } from '../../src/net/safe-fetch.ts';

const ruleOf = (allowCidrs: string[] = [], own: string[] = []) =>
  createAddressRule({ allowCidrs, ownAddresses: () => own });

describe('base/public-address', () => {
  const rule = ruleOf();

  for (const [ip, reason] of [
    ['0.0.0.0', 'this network'],
    ['0.1.2.3', 'this network'],
    ['10.0.0.1', 'private'],
    ['100.64.0.1', 'carrier NAT'],
    ['100.127.255.255', 'carrier NAT, its end'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback, its end'],
    ['169.254.169.254', 'the metadata service of clouds'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private, its end'],
    ['192.0.0.8', 'protocol assignments'],
    ['192.0.2.1', 'documentation'],
    ['192.88.99.1', 'the 6to4 relay that was'],
    ['192.168.1.1', 'private'],
    ['198.18.0.1', 'benchmarks'],
    ['198.19.255.255', 'benchmarks, their end'],
    ['198.51.100.1', 'documentation'],
    ['203.0.113.1', 'documentation'],
    ['224.0.0.1', 'multicast'],
    ['240.0.0.1', 'reserved'],
    ['255.255.255.255', 'broadcast'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback, written out'],
    ['fe80::1', 'link local'],
    ['fe80::1%eth0', 'link local, with a zone'],
    ['febf::1', 'link local, its end'],
    ['fec0::1', 'site local, that was'],
    ['fc00::1', 'unique local'],
    ['fdff::1', 'unique local'],
    ['ff02::1', 'multicast'],
    ['100::1', 'discard'],
    ['2001:db8::1', 'documentation'],
    ['3fff::1', 'documentation'],
    ['5f00::1', 'segment routing'],
    ['64:ff9b::7f00:1', 'NAT64 of loopback'],
    ['64:ff9b::808:808', 'NAT64, even of a public address: whose network it crosses is not known'],
    ['64:ff9b:1::1', 'local NAT64'],
    ['2002:7f00:1::', '6to4 of loopback'],
    ['2002:808:808::1', '6to4, even of a public address'],
    ['2001::1', 'Teredo'],
    ['2001:0:53aa:64c:0:0:80ff:fffe', 'Teredo'],
    ['2001:10::1', 'ORCHID'],
    ['::ffff:127.0.0.1', 'mapped loopback'],
    ['::ffff:7f00:1', 'mapped loopback in hex'],
    ['::ffff:a9fe:a9fe', 'mapped metadata service'],
    ['0:0:0:0:0:ffff:10.1.2.3', 'mapped private, written out'],
    ['::127.0.0.1', 'compatible form'],
    ['::ffff:0:127.0.0.1', 'translated form (SIIT)'],
    ['4000::1', 'not assigned'],
    ['', 'no address'],
    ['localhost', 'no address'],
    ['2130706433', 'no address in this form'],
    ['0x7f.1', 'no address in this form'],
    ['0177.0.0.1', 'no address in this form'],
    ['127.1', 'no address in this form'],
  ] as const) {
    it(`closes ${ip}: ${reason}`, () => {
      assert.equal(rule(ip), false);
    });
  }

  for (const ip of [
    '1.1.1.1',
    '8.8.8.8',
    '9.255.255.255',
    '11.0.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '126.255.255.255',
    '128.0.0.1',
    '169.253.255.255',
    '172.15.255.255',
    '172.32.0.0',
    '191.255.255.255',
    '192.0.1.1',
    '192.167.1.1',
    '198.17.0.1',
    '198.20.0.1',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00:1450::1',
    '2001:4860:4860::8888',
    '::ffff:8.8.8.8',
    '::ffff:808:808',
  ]) {
    it(`opens ${ip}`, () => {
      assert.equal(rule(ip), true);
    });
  }

  it('closes what is ours, in any spelling', () => {
    const own = ruleOf([], ['198.41.0.4', '2a00::0001', '127.0.0.1']);
    for (const ip of ['198.41.0.4', '::ffff:198.41.0.4', '2a00::1', '2a00:0:0:0:0:0:0:1'])
      assert.equal(own(ip), false, ip);
    assert.equal(own('198.41.0.5'), true);
  });

  it('opens what the operator allows, and no more', () => {
    const some = ruleOf(['10.1.0.0/16', '127.0.0.1', 'fd00:1::/32'], ['10.1.2.3']);
    for (const ip of ['10.1.2.3', '10.1.255.255', '::ffff:10.1.0.1', '127.0.0.1', 'fd00:1::5'])
      assert.equal(some(ip), true, ip);
    for (const ip of ['10.2.0.1', '127.0.0.2', 'fd00:2::5', '::1']) assert.equal(some(ip), false, ip);
  });

  it('writes each address in one way', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (ip) => {
        const plain = plainAddress(ip);
        assert.ok(plain !== null);
        assert.equal(plainAddress(plain), plain);
        assert.equal(rule(ip), rule(plain));
      }),
    );
  });

  it('never throws, and opens no text that is not an address', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        if (plainAddress(text) === null) assert.equal(rule(text), false);
      }),
    );
  });
});
