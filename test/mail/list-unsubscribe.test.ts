import assert from 'node:assert/strict';
import { LONGEST_UNSUBSCRIBE_URL, unsubscribeHeaders } from '../../src/mail/list-unsubscribe.ts';

const POST = 'List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n';

describe('mail/list-unsubscribe', () => {
  for (const [input, expected, why] of [
    [{ url: null, mailto: null, oneClick: true }, '', 'no way out, no header'],
    [
      { url: 'https://a.test/u', mailto: null, oneClick: true },
      `List-Unsubscribe: <https://a.test/u>\r\n${POST}`,
      'one click',
    ],
    [
      { url: 'https://a.test/u', mailto: null, oneClick: false },
      'List-Unsubscribe: <https://a.test/u>\r\n',
      'a page that asks',
    ],
    [
      { url: 'http://a.test/u', mailto: null, oneClick: true },
      'List-Unsubscribe: <http://a.test/u>\r\n',
      'one click demands https (RFC 8058 section 3.1)',
    ],
    [
      { url: null, mailto: 'u@a.test?subject=x', oneClick: true },
      'List-Unsubscribe: <mailto:u@a.test?subject=x>\r\n',
      'mail alone',
    ],
    [
      { url: 'https://a.test/u', mailto: 'u@a.test', oneClick: true },
      `List-Unsubscribe: <https://a.test/u>,\r\n <mailto:u@a.test>\r\n${POST}`,
      'the page first',
    ],
    [
      { url: 'https://a.test/?q==?utf-8?q?x?=', mailto: null, oneClick: false },
      'List-Unsubscribe: <https://a.test/?q==?utf-8?q?x?=>\r\n',
      'what looks like an encoded word stays an address',
    ],
  ] as const) {
    it(why, () => {
      assert.equal(unsubscribeHeaders(input), expected);
    });
  }

  it('keeps every line within 998 characters', () => {
    const url = `https://a.test/${'x'.repeat(LONGEST_UNSUBSCRIBE_URL - 15)}`;
    for (const line of unsubscribeHeaders({ url, mailto: 'u@a.test', oneClick: true }).split('\r\n'))
      assert.ok(line.length <= 998);
  });

  for (const [url, why] of [
    ['https://a.test/u>\r\nBcc: <x@y.test', 'a line break'],
    ['https://a.test/a b', 'a space'],
    ['https://a.test/<b>', 'angle brackets'],
    ['https://a.test/ž', 'no ASCII'],
    [`https://a.test/${'x'.repeat(LONGEST_UNSUBSCRIBE_URL)}`, 'too long'],
  ] as const) {
    it(`is a mistake of ours with ${why}`, () => {
      assert.throws(() => unsubscribeHeaders({ url, mailto: null, oneClick: false }), /not an address of a list/);
    });
  }
});
