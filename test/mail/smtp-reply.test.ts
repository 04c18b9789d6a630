import assert from 'node:assert/strict';
import fc from 'fast-check';
import { enhancedOf, ReplyReader } from '../../src/mail/smtp-reply.ts';
import type { SmtpReply } from '../../src/mail/smtp-reply.ts';

function read(...chunks: (string | Buffer)[]): { replies: SmtpReply[]; reader: ReplyReader } {
  const reader = new ReplyReader();
  return { replies: chunks.flatMap((chunk) => reader.push(Buffer.from(chunk))), reader };
}

describe('mail/smtp-reply', () => {
  it('reads one line', () => {
    const { replies, reader } = read('250 2.1.5 Ok\r\n');
    assert.deepEqual(replies, [{ code: 250, enhanced: '2.1.5', lines: ['2.1.5 Ok'], text: '2.1.5 Ok' }]);
    assert.equal(reader.fault, null);
    assert.equal(reader.partial, false);
  });

  it('reads several lines and several replies in one chunk', () => {
    const { replies } = read('250-mx.test\r\n250-SIZE 1000\r\n250 PIPELINING\r\n354 go\r\n');
    assert.deepEqual(
      replies.map((reply) => reply.code),
      [250, 354],
    );
    assert.deepEqual(replies[0]?.lines, ['mx.test', 'SIZE 1000', 'PIPELINING']);
    assert.equal(replies[0].text, 'mx.test SIZE 1000 PIPELINING');
  });

  /** [wire, code, enhanced, text, reason] */
  const rows: readonly (readonly [string, number, string | null, string, string])[] = [
    ['250\r\n', 250, null, '', 'a code alone'],
    ['250 \r\n', 250, null, '', 'a code and a space'],
    ['250 ok\n', 250, null, 'ok', 'a bare LF'],
    ['250 ok\r\r\n', 250, null, 'ok', 'two CR'],
    ['250-\r\n250 ok\r\n', 250, null, 'ok', 'an empty line inside'],
    ['550 5.1.1\r\n', 550, '5.1.1', '5.1.1', 'nothing after the enhanced code'],
    ['550 5.1.1 <a@b.c>: unknown\r\n', 550, '5.1.1', '5.1.1 <a@b.c>: unknown', 'the usual'],
    [
      '550-5.1.1 No such\r\n550 5.1.1 user\r\n',
      550,
      '5.1.1',
      '5.1.1 No such 5.1.1 user',
      'the code on each line stays',
    ],
    ['550-Sorry\r\n550 5.7.1 blocked\r\n', 550, '5.7.1', 'Sorry 5.7.1 blocked', 'not on the first line'],
    ['550 #5.1.0 Address rejected\r\n', 550, '5.1.0', '#5.1.0 Address rejected', 'with a hash'],
    ['550 [5.7.1] no\r\n', 550, '5.7.1', '[5.7.1] no', 'in brackets'],
    ['450 5.1.1 odd\r\n', 450, '5.1.1', '5.1.1 odd', 'classes that do not fit are left to the reader'],
    ['550 5.1.1.2 no\r\n', 550, null, '5.1.1.2 no', 'a version number'],
    ['550 192.0.2.1 is listed\r\n', 550, null, '192.0.2.1 is listed', 'an address'],
    ['550 3.1.1 no\r\n', 550, null, '3.1.1 no', 'no such class'],
    ['250-a\r\n550 b\r\n', 550, null, 'a b', 'the last line has the last word'],
    ['550 a\tb\u0007c\u001b[31m\r\n', 550, null, 'a b?c?[31m', 'unprintable characters'],
    ['550 na\u00efve\r\n', 550, null, 'na\u00efve', 'UTF-8'],
    ['550 a\u202eb\r\n', 550, null, 'a?b', 'direction marks'],
  ];
  for (const [wire, code, enhanced, text, reason] of rows) {
    it(`reads ${JSON.stringify(wire)}: ${reason}`, () => {
      const { replies, reader } = read(wire);
      assert.equal(reader.fault, null);
      assert.equal(replies.length, 1);
      assert.deepEqual({ ...replies[0], lines: null }, { code, enhanced, lines: null, text });
    });
  }

  /** [wire, reason] */
  const faults: readonly (readonly [string, string])[] = [
    ['\r\n', 'an empty line'],
    ['hello\r\n', 'no code'],
    ['25\r\n', 'two digits'],
    ['2500 ok\r\n', 'four digits'],
    ['150 ok\r\n', 'no such class of code'],
    ['650 ok\r\n', 'no such class of code'],
    ['250_ok\r\n', 'another separator'],
    [' 250 ok\r\n', 'a space before'],
    ['HTTP/1.1 400 Bad Request\r\n', 'another protocol'],
    ['250-a\r\nxyz\r\n', 'garbage in the middle'],
    ['\u0000\u0001\u0002\n', 'binary'],
  ];
  for (const [wire, reason] of faults) {
    it(`takes ${JSON.stringify(wire)} for a fault: ${reason}`, () => {
      const { replies, reader } = read(wire, '250 ok\r\n');
      assert.deepEqual(replies, []);
      assert.equal(reader.fault?.kind, 'fault');
    });
  }

  it('gives what was complete before a fault', () => {
    const { replies, reader } = read('250 ok\r\n220-x\r\noops\r\n250 ok\r\n');
    assert.deepEqual(
      replies.map((reply) => reply.code),
      [250],
    );
    assert.match(reader.fault?.why ?? '', /oops/);
  });

  it('keeps latin1 bytes apart from the text', () => {
    const { replies } = read(Buffer.from('550 na\u00efve\r\n', 'latin1'));
    assert.equal(replies[0]?.text, 'na\ufffdve');
  });

  it('ends an endless line', () => {
    const reader = new ReplyReader();
    for (let count = 0; count < 65; count++) reader.push(Buffer.alloc(1024, 0x61));
    assert.equal(reader.fault?.kind, 'fault');
  });

  it('ends an endless reply, by lines and by bytes', () => {
    assert.match(read('250-x\r\n'.repeat(600)).reader.fault?.why ?? '', /512 lines/);
    assert.match(read(`250-${'x'.repeat(500)}\r\n`.repeat(200)).reader.fault?.why ?? '', /65536 bytes/);
    assert.equal(read(`${'250-x\r\n'.repeat(511)}250 x\r\n`).replies[0]?.lines.length, 512);
  });

  it('counts the limits for each reply, not for the connection', () => {
    const { replies, reader } = read('250 ok\r\n'.repeat(10_000));
    assert.equal(replies.length, 10_000);
    assert.equal(reader.fault, null);
  });

  it('caps the text without cutting a character in two', () => {
    const text = read(`550 ${'x'.repeat(999)}\u{1f600}\r\n`).replies[0]?.text ?? '';
    assert.equal(text, 'x'.repeat(999));
  });

  it('is told apart: idle or inside a reply', () => {
    assert.equal(read('250-a\r\n').reader.partial, true);
    assert.equal(read('2').reader.partial, true);
    assert.equal(read('250 a\r\n').reader.partial, false);
  });

  it('does not care how the bytes are cut', () => {
    const line = fc.tuple(
      fc.integer({ min: 200, max: 599 }),
      fc.constantFrom(' ', '-'),
      fc.string({ unit: 'binary', maxLength: 30 }),
    );
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat({ max: 20 })), (lines, cuts) => {
        const wire = Buffer.from(lines.map(([code, mark, text]) => `${String(code)}${mark}${text}\r\n`).join(''));
        const whole = new ReplyReader();
        const expected = whole.push(wire);
        const pieces = new ReplyReader();
        const replies: SmtpReply[] = [];
        let start = 0;
        for (const cut of cuts) {
          replies.push(...pieces.push(wire.subarray(start, start + cut)));
          start += cut;
        }
        replies.push(...pieces.push(wire.subarray(start)));
        assert.deepEqual(replies, expected);
        assert.deepEqual(pieces.fault, whole.fault);
      }),
    );
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        for (const reply of new ReplyReader().push(Buffer.from(bytes))) assert.doesNotMatch(reply.text, /\p{C}/u);
      }),
    );
  });

  it('finds an enhanced code only where a line begins', () => {
    assert.equal(enhancedOf(['see 5.1.1']), null);
    assert.equal(enhancedOf(['', ' 4.7.0 later']), '4.7.0');
    assert.equal(enhancedOf([]), null);
  });
});
