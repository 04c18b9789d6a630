import assert from 'node:assert/strict';
import { isPublicAddress, plainAddress, siteOf } from '../../src/net/ip.ts';

const rows: [string, boolean, string][] = [
  ['8.8.8.8', true, 'ordinary'],
  ['127.0.0.1', false, 'loopback'],
  ['10.1.2.3', false, 'private'],
  ['172.31.255.255', false, 'private, upper end'],
  ['172.32.0.1', true, 'just above the private range'],
  ['192.168.0.1', false, 'private'],
  ['169.254.169.254', false, 'link-local: the metadata service of clouds'],
  ['100.64.0.1', false, 'carrier NAT'],
  ['0.0.0.0', false, 'this host'],
  ['224.0.0.1', false, 'multicast'],
  ['255.255.255.255', false, 'broadcast'],
  ['203.0.113.9', false, 'documentation'],
  ['2606:4700::1111', true, 'ordinary'],
  ['::1', false, 'loopback'],
  ['::', false, 'unspecified'],
  ['fe80::1', false, 'link-local'],
  ['fe80::1%eth0', false, 'link-local with a zone'],
  ['fc00::1', false, 'unique local'],
  ['ff02::1', false, 'multicast'],
  ['2001:db8::1', false, 'documentation'],
  ['::ffff:127.0.0.1', false, 'IPv4-mapped loopback'],
  ['::ffff:7f00:1', false, 'the same in hex'],
  ['::ffff:8.8.8.8', true, 'IPv4-mapped public'],
  ['64:ff9b::10.0.0.1', false, 'NAT64 of a private address'],
  ['2002:7f00:1::', false, '6to4 of loopback'],
  ['dest.test', false, 'no address'],
  ['', false, 'nothing'],
];

describe('base/ip', () => {
  for (const [ip, isPublic, reason] of rows)
    it(`${ip || '(empty)'} is ${isPublic ? '' : 'not '}public: ${reason}`, () => {
      assert.equal(isPublicAddress(ip), isPublic);
    });

  for (const [text, plain] of [
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['0177.0.0.1', null],
    ['0x7f.1', null],
    ['2130706433', null],
    ['', null],
  ] as const)
    it(`${text} is written ${plain ?? 'not at all'}`, () => {
      assert.equal(plainAddress(text), plain);
    });

  for (const [ip, site] of [
    ['192.0.2.77', '192.0.2.0/24'],
    ['::ffff:192.0.2.77', '192.0.2.0/24'],
    ['2001:db8:1:2::5', '2001:db8:1::/48'],
    ['2001:db8:1:ffff::5', '2001:db8:1::/48'],
    ['::2:1:0:0:1', '0:0:0::/48'],
  ] as const)
    it(`${ip} is of the site ${site}`, () => {
      assert.equal(siteOf(ip), site);
    });
});
