import assert from 'node:assert/strict';
import { crc32, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { unpack } from '../../src/mail/aggregate-reports.ts';
import { zip } from '../support/harness/zip.ts';

const content = Buffer.from('<feedback>'.repeat(50));
const bomb = Buffer.alloc(200_000, 65);

const half = content.subarray(content.length / 2);
const most = Buffer.alloc(60_000, 65);

/** A gzip file with all that the head of a member may have (RFC 1952 section 2.3). */
function gzipWithWholeHead(bytes: Buffer): Buffer {
  const plain = gzipSync(bytes);
  const head = Buffer.from(plain.subarray(0, 10));
  head[3] = 2 | 4 | 8 | 16;
  const extra = Buffer.from([4, 0, 1, 2, 0, 0]);
  const whole = Buffer.concat([head, extra, Buffer.from('a.xml\0of today\0')]);
  const sum = Buffer.alloc(2);
  sum.writeUInt16LE(crc32(whole) & 0xffff);
  return Buffer.concat([whole, sum, plain.subarray(10)]);
}

function brokenSum(bytes: Buffer): Buffer {
  const broken = Buffer.from(bytes);
  broken.writeUInt32LE(0, bytes.length - 8);
  return broken;
}

const rows: [reason: string, bytes: Buffer, expected: RegExp | null][] = [
  ['as it is', content, null],
  ['gzip', gzipSync(content), null],
  ['gzip with zeros behind it', Buffer.concat([gzipSync(content), Buffer.alloc(9)]), null],
  ['gzip with a line end behind it', Buffer.concat([gzipSync(content), Buffer.from('\r\n')]), null],
  ['gzip with text behind it', Buffer.concat([gzipSync(content), Buffer.from('-- \nscanned')]), null],
  ['gzip of several members', Buffer.concat([gzipSync(half), gzipSync(half)]), null],
  ['gzip with extra field, name, comment and sum of its head', gzipWithWholeHead(content), null],
  ['gzip whose second member is cut off', Buffer.concat([gzipSync(half), gzipSync(half).subarray(0, 12)]), /unpacked/],
  ['gzip of members that are too much together', Buffer.concat([gzipSync(most), gzipSync(most)]), /too much/],
  ['gzip with a wrong sum', brokenSum(gzipSync(content)), /unpacked/],
  ['gzip that ends in its head', gzipSync(content).subarray(0, 6), /unpacked|too much, or is cut off/],
  ['zip', zip(content), null],
  ['zip, stored', zip(content, { stored: true }), null],
  ['zip, a folder first', zip(content, { folder: true }), null],
  ['zip with something behind it', Buffer.concat([zip(content), Buffer.alloc(100)]), null],
  ['too large as it is', bomb, /too large/],
  ['a gzip bomb', gzipSync(bomb), /too much/],
  ['a zip bomb', zip(bomb), /too much/],
  ['gzip, cut off', gzipSync(content).subarray(0, 30), /unpacked/],
  ['zip, cut off', zip(content).subarray(0, 45), /unpacked/],
  ['zip, stored, cut off', zip(content, { stored: true }).subarray(0, 60), /broken/],
  ['zip without a file', zip(Buffer.alloc(0), { name: 'a/' }), /holds no file/],
  ['four octets of a zip', Buffer.from('PK\x03\x04', 'latin1'), /cut off/],
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
