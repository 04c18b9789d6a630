import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newId } from '../../../src/base/id.ts';
import { deliveryOf, returnPathFor, type ReturnPathKey } from '../../../src/messages/delivery/return-path.ts';

const key: ReturnPathKey = { id: 1, secret: Buffer.alloc(32, 7) };
const other: ReturnPathKey = { id: 1, secret: Buffer.alloc(32, 8) };
const retired: ReturnPathKey = { id: 31, secret: Buffer.alloc(32, 9) };
const id = newId('dlv', 1_770_000_000_000);
const path = returnPathFor(key, id);

describe('messages/return-path', () => {
  it('finds its delivery again, whatever its time and key', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 2 ** 45 }),
        fc.nat({ max: 31 }),
        fc.uint8Array({ minLength: 16, maxLength: 64 }),
        (at, number, secret) => {
          const made = newId('dlv', at);
          const with_: ReturnPathKey = { id: number, secret: Buffer.from(secret) };
          const written = returnPathFor(with_, made);
          assert.match(written, /^b\+[0-9a-z]{43}$/);
          assert.equal(deliveryOf([with_], written), made);
          assert.equal(deliveryOf([with_], written.toUpperCase()), made, 'servers on the way may fold its case');
        },
      ),
    );
  });

  it('fits a local part of 64 octets (RFC 5321 section 4.5.3.1.1)', () => {
    assert.equal(Buffer.byteLength(path), 45);
  });

  it('is the same at each try', () => {
    assert.equal(returnPathFor(key, id), path);
  });

  it('is checked with the key whose number it carries', () => {
    const old = returnPathFor(retired, id);
    assert.equal(deliveryOf([key, retired], old), id);
    assert.equal(deliveryOf([key], old), null, 'a key that is no longer known verifies nothing');
    assert.equal(deliveryOf([other], path), null, 'the same number with another secret');
  });

  it('cannot be forged by changing any one character', () => {
    for (let at = 0; at < path.length; at++) {
      const changed = path.slice(0, at) + (path[at] === '0' ? '1' : '0') + path.slice(at + 1);
      assert.equal(deliveryOf([key], changed), null, changed);
    }
  });

  for (const [reason, text] of [
    ['nothing', ''],
    ['somebody’s mailbox', 'ana'],
    ['the tag alone', 'b+'],
    ['one character short', path.slice(0, -1)],
    ['one character long', `${path}0`],
    ['another tag', `c${path.slice(1)}`],
    ['letters that are not in the alphabet', `b+${'u'.repeat(43)}`],
    ['a line feed at the end', `${path.slice(0, -1)}\n`],
    ['a megabyte', 'b+' + '0'.repeat(1_000_000)],
  ] as const) {
    it(`is not ${reason}`, () => {
      assert.equal(deliveryOf([key, retired], text), null);
    });
  }

  it('never throws, whatever a stranger writes', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => deliveryOf([key], text) === null));
  });

  it('refuses a key number that one character cannot say', () => {
    for (const number of [-1, 32, 1.5]) assert.throws(() => returnPathFor({ ...key, id: number }, id), /from 0 to 31/);
  });
});
