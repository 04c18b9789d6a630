import assert from 'node:assert/strict';
import fc from 'fast-check';
import { idFloor, idPrefixes, idTime, isId, newId } from '../../src/base/id.ts';

const NOW = Date.parse('2026-01-31T09:30:00.000Z');

describe('base/id', () => {
  it('is a prefix and 26 characters of Crockford base32', () => {
    for (const prefix of idPrefixes) {
      const id = newId(prefix, NOW);
      assert.match(id, /^[a-z]{3}_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
      assert.ok(isId(prefix, id));
    }
  });

  it('is a UUID of version 7 with the time in front (RFC 9562 section 5.7)', () => {
    const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
    let value = 0n;
    for (const character of newId('msg', 2 ** 45).slice(4)) value = value * 32n + BigInt(alphabet.indexOf(character));
    const hex = value.toString(16).padStart(32, '0');
    assert.equal(Number.parseInt(hex.slice(0, 12), 16), 2 ** 45);
    assert.equal(hex[12], '7', 'version');
    assert.match(hex[16] ?? '', /[89ab]/, 'variant');
  });

  it('ascends strictly, in one millisecond, over many, and when the clock steps back', () => {
    let last = '';
    for (let at = 0; at < 20_000; at++) {
      const id = newId('evt', 2 ** 45 + 1000 + (at % 7 === 0 ? -500 : 0));
      assert.ok(id > last, `${id} after ${last}`);
      last = id;
    }
  });

  it('follows a clock that is set back by more than a second, so that ranges of ids stay ranges of time', () => {
    const base = 2 ** 45 + 10_000_000;
    newId('evt', base);
    const id = newId('evt', base - 3_600_000);
    assert.ok(id >= idFloor('evt', base - 3_600_000) && id < idFloor('evt', base - 3_599_999), id);
  });

  it('is never the same twice', () => {
    const ids = new Set(Array.from({ length: 20_000 }, () => newId('dlv', NOW)));
    assert.equal(ids.size, 20_000);
  });

  for (const [reason, text] of [
    ['another prefix', newId('msg', NOW).replace('msg', 'evt')],
    ['upper case', newId('msg', NOW).toUpperCase()],
    ['too short', newId('msg', NOW).slice(0, -1)],
    ['too long', `${newId('msg', NOW)}0`],
    ['a line feed', `${newId('msg', NOW)}\n`],
    ['more than 128 bits', 'msg_8zzzzzzzzzzzzzzzzzzzzzzzzz'],
    ['a letter that is not in the alphabet', 'msg_0000000000000000000000000u'],
    ['nothing', ''],
  ] as const) {
    it(`is not ${reason}`, () => {
      assert.equal(isId('msg', text), false);
    });
  }

  it('tells when it was made', () => {
    const at = 2 ** 47 + 1_234_567_891;
    assert.equal(idTime(newId('req', at)), at);
    assert.equal(idTime(idFloor('req', 0)), 0);
    assert.equal(idTime('req_x'), null);
  });

  it('sorts like time against a floor', () => {
    const base = 2 ** 46;
    fc.assert(
      fc.property(fc.nat({ max: 1000 }), (step) => {
        const id = newId('msg', base + step * 10);
        assert.ok(idFloor('msg', base) <= id);
        assert.ok(id < idFloor('msg', base + 11_000 + step * 10));
      }),
    );
    assert.equal(idFloor('msg', -5), 'msg_00000000000000000000000000');
    assert.equal(idFloor('msg', 2 ** 60).length, 30);
  });
});
