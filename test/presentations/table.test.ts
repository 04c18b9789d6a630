import assert from 'node:assert/strict';
import fc from 'fast-check';
import { json, printable, table } from '../../src/presentations/presentation.ts';

/** Characters that control a terminal or the direction of its text. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

describe('cli/table', () => {
  it('makes columns as wide as what stands in them', () => {
    assert.deepEqual(
      table(
        ['NAME', 'N', 'OK'],
        [
          ['a', 1, true],
          ['longer', 22, false],
          ['', null, undefined],
        ],
      ),
      ['NAME    N   OK', 'a       1   yes', 'longer  22  no', '-       -   -'],
    );
  });

  it('is nothing where there is nothing', () => {
    assert.deepEqual(table(['NAME'], []), []);
  });

  for (const [text, shown, reason] of [
    ['452 4.2.2 mailbox full', '452 4.2.2 mailbox full', 'plain text stays'],
    ['Grüße – 你好 🎉', 'Grüße – 你好 🎉', 'all scripts stay'],
    ['\u001b[2J', '\\u001b[2J', 'an escape sequence'],
    ['\u009b2J', '\\u009b2J', 'its one-byte form'],
    ['a\r\nb\u0000', 'a\\u000d\\u000ab\\u0000', 'line breaks would tear the table'],
    ['evil\u202egnp.exe', 'evil\\u202egnp.exe', 'text that runs backwards'],
  ] as const) {
    it(`shows ${JSON.stringify(text)} as ${JSON.stringify(shown)}: ${reason}`, () => {
      assert.equal(printable(text), shown);
      assert.doesNotMatch(json(text, 0), CONTROLS);
    });
  }

  it('lets no control character through, and keeps the value of JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.doesNotMatch(printable(text) + json({ text }, 0), CONTROLS);
        assert.deepEqual(JSON.parse(json({ text })), { text });
      }),
    );
  });
});
