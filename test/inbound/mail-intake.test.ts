/** The memory that a mail has while it comes. */
import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { listenerLimits, type ReadMail, takeMail, type TakenMail, Tally } from '../../src/inbound/mail-intake.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const KEEP_BYTES = 512 * 1024;

function piecesOf(mail: Buffer, lengths: readonly number[]): ReadMail {
  return (take) => {
    let from = 0;
    for (const length of lengths) {
      take(Buffer.from(mail.subarray(from, from + length)));
      from += length;
    }
    return Promise.resolve();
  };
}

async function take<Result>(
  read: ReadMail,
  use: (mail: TakenMail) => Result,
  { keepBytes = KEEP_BYTES, announced = 0 } = {},
): Promise<Result> {
  const clock = new FakeClock(0);
  const memory = new Tally();
  const deps = { clock, limits: listenerLimits, memory, keepBytes };
  const result = await takeMail(deps, { read, network: 'net', announced, tooSlow: () => undefined }, (mail) =>
    Promise.resolve(use(mail)),
  );
  assert.deepEqual([memory.total, memory.of('net')], [0, 0]);
  return result;
}

describe('inbound/mail-intake', () => {
  it('keeps what came, however it was cut, up to the limit', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 40_000 }), { maxLength: 30 }), async (lengths) => {
        const mail = Buffer.alloc(
          lengths.reduce((sum, length) => sum + length, 0),
          'abcdefghijklm',
        );
        const { bytes, size } = await take(piecesOf(mail, lengths), (one) => ({ bytes: one.bytes(), size: one.size }));
        assert.equal(size, mail.length);
        assert.ok(bytes.equals(mail.subarray(0, KEEP_BYTES)));
      }),
    ));

  it('needs no more memory for a mail that comes in pieces of two octets', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const lengths = Array.from({ length: KEEP_BYTES / 2 }, () => 2);
    const mail = Buffer.alloc(KEEP_BYTES, '.\n');
    collect();
    const before = process.memoryUsage().heapUsed;
    const grown = await take(piecesOf(mail, lengths), () => {
      collect();
      return process.memoryUsage().heapUsed - before;
    });
    assert.ok(grown < 4 * 2 ** 20, `${String(grown)} octets of heap for ${String(KEEP_BYTES)}`);
  });

  for (const announced of [0, 9_000_000, 5_000_000])
    it(`copies a large mail into one memory, and gives the pieces back: ${String(announced)} announced`, async () => {
      const pieces = Array.from({ length: 140 }, (_, n) => Buffer.allocUnsafeSlow(65_000).fill(`${String(n)}.`));
      const mail = Buffer.concat(pieces);
      const readPieces: ReadMail = (takePiece) => {
        for (const piece of pieces) takePiece(piece);
        return Promise.resolve();
      };
      const bytes = await take(readPieces, (one) => one.bytes(), { keepBytes: 20_000_000, announced });
      assert.ok(bytes.equals(mail));
      assert.ok(bytes.byteOffset > 1000);
      assert.ok(pieces.filter(({ length }) => length > 0).length < 70);
    });
});
