import assert from 'node:assert/strict';
import fc from 'fast-check';
import { writeDuration } from '../../src/base/time.ts';
import * as kinds from '../../src/config/kind.ts';
import type { Kind } from '../../src/config/kind.ts';

const good = <T>(kind: Kind<T>, written: unknown, loaded: T, reason: string) => ({ kind, written, loaded, reason });
const bad = (kind: Kind<unknown>, written: unknown, reason: string) => ({ kind, written, reason });

const wait = kinds.duration('1s', '30d');
const room = kinds.size('1KiB', '1GiB');

describe('kinds of settings', () => {
  for (const { kind, written, loaded, reason } of [
    good(kinds.duration('1ms', '1h'), '250ms', 250, 'milliseconds'),
    good(wait, '1.5s', 1500, 'a fraction'),
    good(wait, '72h', 259_200_000, 'hours'),
    good(wait, '30d', 2_592_000_000, 'days, and the upper bound itself'),
    good(room, '512MiB', 2 ** 29, 'binary units'),
    good(room, 2048, 2048, 'bytes as a number'),
    good(room, '2048', 2048, 'bytes as text, as a variable gives them'),
    good(room, '1024B', 1024, 'bytes with their unit'),
    good(kinds.listenPort(), 0, 0, 'any free port'),
    good(kinds.remotePort(), 65_535, 65_535, 'the last port'),
    good(kinds.count(1, 5), 5, 5, 'the upper bound'),
    good(kinds.flag(), true, true, 'yes'),
    good(kinds.oneOf('a', 'b'), 'b', 'b', 'one of them'),
    good(kinds.hostName(), 'Mail.Example.COM', 'mail.example.com', 'held in lower case'),
    good(kinds.ipNetwork(), '10.0.0.0/8', '10.0.0.0/8', 'a range'),
    good(kinds.ipNetwork(), '::1', '::1', 'one address'),
    good(kinds.dnsServer(), '[::1]:5353', '[::1]:5353', 'IPv6 with a port'),
    good(kinds.dnsServer(), '127.0.0.1', '127.0.0.1', 'the usual port'),
    good(kinds.mailAddress(), 'postmaster@example.com', 'postmaster@example.com', 'plain'),
    good(kinds.webAddress(), 'https://mail.example.com/', 'https://mail.example.com', 'without its final slash'),
    good(kinds.webAddress(), 'http://10.0.0.1:8025/hub/', 'http://10.0.0.1:8025/hub', 'a path is kept'),
    good(kinds.list(wait, 3), ['1m', '5m'], [60_000, 300_000], 'each entry by its kind'),
    good(kinds.routes(), { 'Dest.TEST': 'hold' }, { 'dest.test': { kind: 'hold' } }, 'domains are held in lower case'),
  ]) {
    it(`${JSON.stringify(written)} is good: ${reason}`, () => {
      assert.deepEqual(kind.schema.parse(written), loaded);
    });
  }

  for (const { kind, written, reason } of [
    bad(wait, 30, 'a number without unit'),
    bad(wait, '30', 'a text without unit'),
    bad(wait, '1h30m', 'two units'),
    bad(wait, '-1s', 'a negative wait'),
    bad(wait, '1 s', 'a blank'),
    bad(wait, '999ms', 'under the lower bound'),
    bad(wait, '31d', 'over the upper bound'),
    bad(wait, `${'9'.repeat(400)}s`, 'digits without end'),
    bad(room, '5MB', 'a unit nobody agrees on'),
    bad(room, '1.5MiB', 'a fraction'),
    bad(room, -1, 'negative'),
    bad(room, '2GiB', 'over the upper bound'),
    bad(kinds.listenPort(), 65_536, 'no such port'),
    bad(kinds.listenPort(), 25.5, 'half a port'),
    bad(kinds.listenPort(), '25', 'a text in the file'),
    bad(kinds.remotePort(), 0, 'nothing can be dialled there'),
    bad(kinds.count(1, 5), 6, 'too many'),
    bad(kinds.flag(), 'yes', 'a word'),
    bad(kinds.flag(), 1, 'a number'),
    bad(kinds.oneOf('a', 'b'), 'c', 'none of them'),
    bad(kinds.hostName(), 'under_score.test', 'not LDH'),
    bad(kinds.hostName(), '-a.test', 'hyphen in front'),
    bad(kinds.hostName(), `${'a'.repeat(64)}.test`, 'a label of 64'),
    bad(kinds.hostName(), '10.0.0.256', 'a mistyped address'),
    bad(kinds.ipNetwork(), '10.0.0.0/33', 'too many bits'),
    bad(kinds.ipNetwork(), '10.0.0.0/8/8', 'two masks'),
    bad(kinds.ipNetwork(), 'fe80::1%eth0', 'a zone'),
    bad(kinds.dnsServer(), 'dns.example.com', 'a name would need DNS'),
    bad(kinds.dnsServer(), '127.0.0.1:0', 'port 0'),
    bad(kinds.dnsServer(), '127.0.0.1:99999', 'no such port'),
    bad(kinds.mailAddress(), 'postmaster', 'no domain'),
    bad(kinds.mailAddress(), 'a b@example.com', 'a blank'),
    bad(kinds.mailAddress(), 'a@b@example.com', 'two at signs'),
    bad(kinds.webAddress(), 'ftp://example.com', 'another scheme'),
    bad(kinds.webAddress(), 'https://user:pass@example.com', 'credentials'),
    bad(kinds.webAddress(), 'https://example.com/?a=1', 'a query'),
    bad(kinds.webAddress(), 'mail.example.com', 'no scheme'),
    bad(kinds.filePath(), '', 'nothing'),
    bad(kinds.filePath(), 'a\u0000b', 'a control character'),
    bad(kinds.filePath(), 'a'.repeat(4097), 'too long'),
    bad(kinds.list(wait, 3, 1), [], 'too few'),
    bad(kinds.list(wait, 3), ['1s', '1s', '1s', '1s'], 'too many'),
    bad(kinds.list(wait, 3), '1s', 'no list'),
    bad(kinds.list(wait, 3), ['1s', 'soon'], 'one bad entry'),
    bad(kinds.routes(), ['mx'], 'no map'),
    bad(kinds.routes(), { nodot: 'mx' }, 'no domain'),
  ]) {
    it(`${JSON.stringify(written).slice(0, 40)} is refused: ${reason}`, () => {
      assert.equal(kind.schema.safeParse(written).success, false);
    });
  }

  it('takes at most 10,000 map entries', () => {
    const entries = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`d${i}.test`, 'mx']));
    assert.equal(kinds.routes().schema.safeParse(entries).success, false);
  });

  it('writes durations and sizes so that they read back the same', () => {
    const [anyWait, anyRoom] = [kinds.duration('0ms', '3650d'), kinds.size('0B', '1TiB')];
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 9 }), (n) => {
        // Nine digits are what a duration may have in front of its unit.
        assert.equal(anyWait.schema.parse(writeDuration(n)), n);
        assert.equal(anyRoom.schema.parse(kinds.writeSize(n)), n);
      }),
      { examples: [[0], [1000], [86_400_000], [2 ** 20]] },
    );
    assert.equal(writeDuration(5_400_000), '90m');
    assert.equal(kinds.writeSize(2 ** 29), '512MiB');
  });

  it('never throws, whatever is written', () => {
    const every = [
      wait,
      room,
      kinds.routes(),
      kinds.webAddress(),
      kinds.dnsServer(),
      kinds.list(wait, 3),
      kinds.mailAddress(),
    ];
    fc.assert(
      fc.property(fc.anything(), (written) => {
        for (const { schema } of every) schema.safeParse(written);
      }),
    );
  });
});
