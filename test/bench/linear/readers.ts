/**
 * Readers of foreign input take CPU time that grows with the length of the input, not with its square. Each case is the input that a
 * reader likes least, beside the CPU time that it may take: some thirty times what it takes on a quiet machine. `npm run bench -- linear`
 * runs these alone, since a time measured beside other work says little.
 */
import assert from 'node:assert/strict';
import { readJson } from '../../../src/api/json.ts';
import { createPhraseIndex, wordingOf } from '../../../src/base/phrase.ts';
import { readReport } from '../../../src/inbound/classify.ts';
import { readBounceWords } from '../../../src/inbound/words-file.ts';
import { parseMailbox } from '../../../src/mail/address.ts';
import { addressesIn } from '../../../src/mail/addresses-in.ts';
import { changeHtml } from '../../../src/mail/change-html.ts';
import { relaxedBody } from '../../../src/mail/dkim/canonicalize.ts';
import { readSubmitted } from '../../../src/mail/submitted.ts';
import { textFromHtml } from '../../../src/mail/text-from-html.ts';
import { encodeText, measureText } from '../../../src/mail/transfer-encoding.ts';
import { guessedEasily } from '../../../src/members/password.ts';
import { judge, classify } from '../../../src/messages/delivery/classify.ts';
import { subjectOf } from '../../../src/mta/attempt/subject.ts';
import { compile } from '../../../src/templates/mixed/index.ts';
import { planHtml } from '../../../src/tracking/rewrite.ts';
import { cpuNow } from '../../support/harness/cpu-now.ts';

/** Runs `work` and fails where it took more CPU time than `mostMs`. */
function assertWithin(mostMs: number, work: () => unknown, what = ''): void {
  const start = cpuNow();
  work();
  const ms = cpuNow() - start;
  assert.ok(ms < mostMs, `${what}: ${ms.toFixed(0)} ms, more than ${String(mostMs)}`);
}

/** `unit` again and again, `length` characters in all. */
const fill = (unit: string, length: number): string => unit.repeat(Math.floor(length / unit.length));

describe('readers take linear time', () => {
  it('addresses in prose of 1 MB', () => {
    for (const unit of ['@', '"@', 'a@', '<a@', '>@', 'a@b.c'])
      assertWithin(8000, () => addressesIn(fill(unit, 1_000_000)), unit);
  });

  it('DKIM canonicalization', () => {
    for (const unit of [' ', '\t', '\r\n', ' \r\n', 'a ', '\r', '  a'])
      assertWithin(500, () => relaxedBody(Buffer.from(fill(unit, 100_000))), JSON.stringify(unit));
  });

  it('html parts of a submitted mail of 5 MB', () => {
    const parts = (depth: number): string =>
      depth === 0 ? '' : `Content-Type: multipart/mixed; boundary=b${String(depth)}\r\n\r\n--b${String(depth)}\r\n`;
    const nested = Array.from({ length: 20 }, (_, at) => parts(at + 1)).join('');
    const mixed = 'Content-Type: multipart/mixed; boundary=m\r\n\r\n';
    const html = 'Content-Type: text/html\r\n';
    for (const [what, head, unit] of [
      ['empty parts', mixed, '--m\r\n'],
      ['marks that are no delimiters', mixed, '--m x'],
      ['a header of a part', `${mixed}--m\r\n`, 'Content-Type: text/html;\r\n '],
      ['parts in twenty parts', nested, '\r\nx'],
      ['soft line ends', `${html}Content-Transfer-Encoding: quoted-printable\r\n\r\n`, '= \t'],
      ['html parts', mixed, `\r\n--m\r\n${html}\r\n<a>`],
    ] as const) {
      const mail = Buffer.from(`${head}${fill(unit, 5_000_000)}\r\n`, 'latin1');
      assertWithin(5000, () => changeHtml(mail, ({ octets }) => `${octets} `), what);
    }
  });

  it('a submitted mail of one line of 5 MB', () => {
    const head = Buffer.from('From: Acme <hi@acme.test>\r\nContent-Type: text/plain\r\n\r\n');
    assertWithin(5000, () => readSubmitted(Buffer.concat([head, Buffer.alloc(5_000_000, 'x')])));
  });

  it('transfer encodings', () => {
    for (const unit of ['x', ' ', '\n', '=', 'x '.repeat(38), 'ü', '\u0000', `${'x'.repeat(76)}\n`])
      assertWithin(500, () => encodeText(measureText(fill(unit, 200_000)), 'message'), JSON.stringify(unit));
  });

  it('text from html', () => {
    const units = [
      '<',
      '<a "',
      "<a ='",
      '<!--',
      '<!-- -->',
      '<script>',
      '</script',
      '&',
      '&#',
      '<p>',
      '<ul><li>',
      ' ',
      '<a href="http://x">',
      '<div style="display:none">',
      '<a x=',
      '<pre>\n',
      '<img alt="',
      '\u0000',
    ];
    for (const unit of units) assertWithin(200, () => textFromHtml(fill(unit, 50_000)), JSON.stringify(unit));
  });

  it('addresses', () => {
    for (const text of [
      '"\\'.repeat(499),
      '<"'.repeat(499) + '@',
      '<'.repeat(999),
      '"'.repeat(998) + '@>',
      'a.'.repeat(499),
    ])
      assertWithin(
        200,
        () => {
          for (let round = 0; round < 20; round++) parseMailbox(text);
        },
        text.slice(0, 4),
      );
  });

  it('JSON', () => {
    for (const text of [
      `{"a":"${'\\\\'.repeat(500_000)}"}`,
      `{"a":"${'\\"'.repeat(500_000)}"}`,
      `{"${'a'.repeat(1_000_000)}`,
      '"'.repeat(1_000_001),
    ])
      assertWithin(2000, () => readJson(Buffer.from(text)), text.slice(0, 10));
  });

  it('templates', () => {
    for (const piece of [
      '{{ "',
      '{{ \'" ',
      '{% comment %}',
      '{{!--',
      '{{{',
      '{% raw %}',
      '  \n',
      '{{#if ',
      '\\{{',
      '{{ a | b',
      '[[',
      '((',
      '{{a.[b',
    ])
      assertWithin(3000, () => compile(fill(piece, 200_000), 'html'), piece);
  });

  it('what a refusal is about', () => {
    const bits = [
      'too many ',
      'user ',
      'a',
      ' ',
      '1.',
      '1:',
      'rate ',
      'number of ',
      "recipient's ",
      'connection ',
      'our organization ',
      'per ',
      '255.255.255.',
      'aaaa:',
    ];
    const judged = { class: 'soft', reason: 'other', greylisting: false } as const;
    for (const bit of bits)
      for (const phase of ['connect', 'mail', 'rcpt'] as const)
        for (const code of [450, 550]) {
          const refusal = { phase, code, enhanced: null, text: fill(bit, 60_000) };
          assertWithin(
            200,
            () => {
              for (let count = 0; count < 20; count++) subjectOf(refusal, judged);
            },
            `${JSON.stringify(bit)} at ${phase} ${String(code)}`,
          );
        }
  });

  it('the classes of replies', () => {
    const words = ['spf ', 'mailbox ', 'exceed ', 'message content ', 'attachment ', 'recipient ', 'a', ' ', 'sender '];
    for (const word of words)
      assertWithin(
        200,
        () => classify({ phase: 'rcpt', code: 550, enhanced: null, text: fill(word, 1_000_000) }),
        word,
      );
  });

  it('phrases', () => {
    const index = createPhraseIndex();
    index.add(['user ... (name|user) ... unknown', 'user [user|name] ... unknown', '用户 ... 不存在']);
    for (const word of ['user ', '用户', 'a.', 'a@', 'x-', 'https://', '((('])
      assertWithin(
        200,
        () => {
          for (let round = 0; round < 10; round++) index.find(wordingOf(word.repeat(1_000)).words);
        },
        word,
      );
  });

  it('the longest password and context, in 5 ms', () => {
    const context = [`${'a'.repeat(64)}@${'b.'.repeat(120)}example`, 'c'.repeat(253)];
    guessedEasily('warm up', context);
    assertWithin(50, () => {
      for (let count = 0; count < 10; count++) guessedEasily(`${'aB$'.repeat(85)}x`, context);
    });
  });

  for (const [name, html] of [
    ['brackets', '<'.repeat(200_000)],
    ['open links', '<a href="'.repeat(30_000)],
    ['attributes', `<a ${'href=x '.repeat(50_000)}>`],
    ['spaces before a value', `<a href=${' '.repeat(200_000)}https://a.test/>`],
    ['closing tags', '</body'.repeat(50_000)],
    ['closed tags', '</body>'.repeat(50_000)],
    ['entities', `<a href="https://a.test/${'&amp;'.repeat(50_000)}">`],
    ['comments', '<!--'.repeat(50_000)],
  ] as const)
    it(`links in html of ${name}`, () => {
      assertWithin(2000, () => planHtml(html));
    });

  describe('mail that comes back, half a megabyte', () => {
    const words = readBounceWords();
    const head = 'From: MAILER-DAEMON@x.example\nTo: a@b.example\nSubject: failure notice\n';
    const parts = `${head}Content-Type: multipart/report; boundary=b\n\n`;
    for (const [start, unit] of [
      [head, '=?'],
      [`${head}X: `, '=?utf-8?q?a?= '],
      ['', 'A: b\n'],
      ['', '\r'],
      [`${head}\n`, '\n'],
      [`${head}\n`, '<'],
      [`${head}\n`, '@'],
      [`${head}\n`, 'a.b@'],
      [`${head}\n`, '<a@b.example>: x\n'],
      [`${head}\n`, 'x a@b.example '],
      [`${head}\n`, ' \n a@b.example: x\n'],
      [`${head}\n`, 'given up if it '],
      [`${head}\n`, 'given up. '],
      [`${head}Auto-Submitted: auto-replied `, '(rejected'],
      [`${head}Auto-Submitted: auto-replied (rejected)\n\n`, 'was rejected: a@b.example\n'],
      [`${head}\n`, '550 5.1.1 '],
      [`${head}\n`, 'b+'],
      [`${head}\n`, '> final-recipient: rfc822; a@b\n'],
      [`${head}\n`, 'Received: x\n'],
      [`${head}\n`, '--- original message\n'],
      [`${head}\n`, 'account mailbox user '],
      ['X-Failed-Recipients: ', 'a@b.example, '],
      ['Subject: ', 're: [x] '],
      ['Content-Type: ', ';a="'],
      [parts, '--b\n'],
      [parts, '--b\n\nx\n'],
      [`${parts}--b\nContent-Type: message/delivery-status\n\n`, '\n\n'],
      [
        `${parts}--b\nContent-Type: message/delivery-status\n\n`,
        'Final-Recipient: rfc822; a@b.example\nAction: failed\nStatus: 5.0.0\n\n',
      ],
      [`${parts}--b\nContent-Type: message/rfc822\n\n`, 'Content-Type: message/rfc822\n\n'],
      [`${head}Content-Type: text/html\n\n`, '<div><p>'],
      [`${head}Content-Transfer-Encoding: quoted-printable\n\n`, '= '],
    ] as const)
      it(`of ${JSON.stringify(unit)}`, () => {
        const bytes = Buffer.from((start + unit.repeat(512 * 1024)).slice(0, 512 * 1024), 'latin1');
        assertWithin(400, () => readReport({ words, judge }, bytes));
      });
  });
});
