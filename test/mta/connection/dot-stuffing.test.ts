import assert from 'node:assert/strict';
import fc from 'fast-check';
import { dotStuffed, inBlocks } from '../../../src/mta/connection/session.ts';

const rows: [text: string, onTheWire: string, reason: string][] = [
  ['', '.\r\n', 'an empty message'],
  ['a\r\n', 'a\r\n.\r\n', 'nothing to do'],
  ['a', 'a\r\n.\r\n', 'the last line has no end'],
  ['.\r\n', '..\r\n.\r\n', 'a lone dot at the start'],
  ['a\r\n.\r\nb\r\n', 'a\r\n..\r\nb\r\n.\r\n', 'what would end the message'],
  ['a\r\n.\r\n.\r\n', 'a\r\n..\r\n..\r\n.\r\n', 'twice in a row'],
  ['a\r\n..b\r\n', 'a\r\n...b\r\n.\r\n', 'only the first dot counts'],
  ['a.b\r\nc.\r\n', 'a.b\r\nc.\r\n.\r\n', 'dots elsewhere'],
];

const lineParts = fc.constantFrom('a', '.', '..', '\r\n', '\r\n.', 'word');

/** Cuts a text at the given places. */
function cut(text: string, places: number[]): Buffer[] {
  const sorted = [0, ...places.map((place) => place % (text.length + 1)), text.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, at) => Buffer.from(text.slice(sorted[at], end)));
}

/** As RFC 5321 section 4.5.2 has the receiver do it. */
function received(wire: string): string {
  const lines = wire.split('\r\n');
  assert.equal(lines.pop(), '');
  assert.equal(lines.pop(), '.');
  assert.equal(lines.includes('.'), false, 'ended too early');
  return lines.map((line) => `${line.startsWith('.') ? line.slice(1) : line}\r\n`).join('');
}

describe('mta/connection/dot-stuffing', () => {
  for (const [text, wire, reason] of rows)
    it(reason, () => {
      assert.equal(Buffer.concat(dotStuffed([Buffer.from(text)])).toString(), wire);
    });

  it('brings any text through, however it is cut', () => {
    fc.assert(
      fc.property(fc.array(lineParts), fc.array(fc.nat(1000), { maxLength: 6 }), (parts, places) => {
        const text = parts.join('');
        const wire = Buffer.concat(dotStuffed(cut(text, places))).toString();
        assert.equal(received(wire), text === '' || text.endsWith('\r\n') ? text : `${text}\r\n`);
      }),
    );
  });

  it('copies nothing', () => {
    const message = Buffer.from('a\r\nb\r\n');
    assert.equal(dotStuffed([message])[0], message);
  });

  it('copies small messages into one piece, and large ones nowhere', () => {
    const [head, body] = [Buffer.alloc(400, 'h'), Buffer.alloc(100_000, 'b')];
    assert.deepEqual(inBlocks([head, head], 131_072), [[Buffer.concat([head, head])]]);
    const [block = [], ...more] = inBlocks([head, body], 131_072);
    assert.deepEqual([more.length, block[1]?.buffer === body.buffer], [0, true]);
  });

  it('makes no block of more pieces than a system call takes', () => {
    const blocks = inBlocks(
      Array.from({ length: 20_000 }, () => Buffer.from('.')),
      131_072,
    );
    assert.ok(blocks.length > 1 && blocks.every(({ length }) => length <= 512));
  });

  it('makes blocks that are full but the last, and lose nothing', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50)), fc.integer({ min: 1, max: 64 }), (sizes, most) => {
        const pieces = sizes.map((size, at) => Buffer.alloc(size, at + 1));
        const blocks = inBlocks(pieces, most).map((block) => Buffer.concat(block));
        assert.deepEqual(Buffer.concat(blocks), Buffer.concat(pieces));
        for (const block of blocks.slice(0, -1)) assert.equal(block.length, most);
      }),
    );
  });
});
