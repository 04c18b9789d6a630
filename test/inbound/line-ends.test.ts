import assert from 'node:assert/strict';
import { withCrlfLines } from '../../src/inbound/data-mode.ts';

async function taken(...pieces: string[]): Promise<string> {
  const parts: Buffer[] = [];
  const read = withCrlfLines((take) => {
    for (const piece of pieces) take(Buffer.from(piece, 'latin1'));
    return Promise.resolve();
  });
  await read((part) => parts.push(part));
  return Buffer.concat(parts).toString('latin1');
}

describe('inbound/line-ends', () => {
  for (const [mail, expected] of [
    ['a\r\nb\r\n', 'a\r\nb\r\n'],
    ['a\nb\n', 'a\r\nb\r\n'],
    ['a\rb\r', 'a\r\nb\r\n'],
    ['a\r\r\nb', 'a\r\n\r\nb'],
    ['a\n\rb', 'a\r\n\r\nb'],
    ['\n.\n\r.\r\n', '\r\n.\r\n\r\n.\r\n'],
    ['\xff\x00\n', '\xff\x00\r\n'],
    ['', ''],
  ] as const)
    it(`makes ${JSON.stringify(mail)} lines, however it is cut`, async () => {
      assert.equal(await taken(mail), expected);
      assert.equal(await taken(...Array.from(mail)), expected, 'octet by octet');
      for (let at = 0; at <= mail.length; at++)
        assert.equal(await taken(mail.slice(0, at), '', mail.slice(at)), expected);
    });
});
