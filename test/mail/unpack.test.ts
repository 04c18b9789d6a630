import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { unpack } from '../../src/mail/unpack.ts';
import { zip } from '../support/harness/zip.ts';

const content = Buffer.from('<feedback>'.repeat(50));
const bomb = Buffer.alloc(200_000, 65);

const rows: [reason: string, bytes: Buffer, expected: RegExp | null][] = [
  ['as it is', content, null],
  ['gzip', gzipSync(content), null],
  ['zip', zip(content), null],
  ['zip, stored', zip(content, { stored: true }), null],
  ['zip, a folder first', zip(content, { folder: true }), null],
  ['zip with something behind it', Buffer.concat([zip(content), Buffer.alloc(100)]), null],
  ['too large as it is', bomb, /too large/],
  ['a gzip bomb', gzipSync(bomb), /too much/],
  ['a zip bomb', zip(bomb), /too much/],
  ['a zip bomb that lies', zip(bomb, { size: 10 }), /too much|broken/],
  ['a zip that says more than there is', zip(content, { size: content.length + 1 }), /broken/],
  ['gzip, cut off', gzipSync(content).subarray(0, 30), /cannot be unpacked/],
  ['zip, cut off', zip(content).subarray(0, 60), /no directory/],
  ['zip without a file', zip(Buffer.alloc(0), { name: 'a/' }), /holds no file/],
  [
    'zip with broken content',
    Buffer.from(zip(content, { stored: true }).toString('latin1').replace('feed', 'food'), 'latin1'),
    /broken/,
  ],
  ['four octets of a zip', Buffer.from('PK\x03\x04', 'latin1'), /no directory/],
];

describe('mail/unpack', () => {
  for (const [reason, bytes, expected] of rows)
    it(reason, () => {
      const found = unpack(bytes, 100_000);
      if (expected === null) assert.deepEqual(found, { kind: 'file', bytes: content });
      else assert.match(found.kind === 'bad' ? found.why : 'a file', expected);
    });

  it('never throws, whatever is changed in a zip', () => {
    const good = zip(content, { folder: true });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 8 }),
        fc.nat(good.length),
        (changes, cut) => {
          const bytes = Buffer.from(good);
          for (const [at, octet] of changes) bytes[at] = octet;
          const found = unpack(bytes.subarray(0, good.length - (cut % 5)), 100_000);
          return found.kind === 'bad' || found.bytes.length <= 100_000;
        },
      ),
    );
  });
});
