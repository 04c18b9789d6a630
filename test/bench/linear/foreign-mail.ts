/**
 * Whatever a stranger writes is read in time that grows with its length, not with the square of it. Each regular expression that can
 * see foreign input is given 100 KB of what it likes least; then the reader as a whole gets hostile mails. By CPU time.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { readReport } from '../../../src/inbound/classify.ts';
import { judge } from '../../../src/messages/delivery/classify.ts';
import { readBounceWords } from '../../../src/inbound/words-file.ts';
import { cpuNow } from '../../support/harness/cpu-now.ts';
import { closureOf, fillersFor, literalsIn, type RegExpLiteral } from '../../support/tools/regexp-literals.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const SIZE = 100_000;
/** A linear pass over 100 KB takes about one; a quadratic one many thousands. */
const MOST_MS = 150;

/** The functions that read mail, SMTP and replies of others. */
const READERS = [
  'src/inbound/report-worker.ts',
  'src/inbound/submission-worker.ts',
  'src/inbound/report-owner.ts',
  'src/inbound/forward.ts',
  'src/inbound/mx.ts',
  'src/inbound/listener.ts',
  'src/mail/smtp-reply.ts',
  'src/messages/delivery/classify.ts',
  'src/base/phrase.ts',
];

/**
 * Expressions that are slow on such texts and never see them. Each names what keeps the text short; without that the expression
 * has to be changed.
 */
const NEVER_LONG: Readonly<Record<string, string>> = {};

function slowest({ pattern, isSplit }: RegExpLiteral): { ms: number; filler: string } {
  let worst = { ms: 0, filler: '' };
  for (const filler of fillersFor(pattern))
    for (const end of ['', '\u0001', 'a'] as const) {
      const text = filler.repeat(Math.ceil(SIZE / filler.length)).slice(0, SIZE) + end;
      pattern.lastIndex = 0;
      const from = cpuNow();
      if (isSplit) text.split(pattern, 1000);
      else if (pattern.global) text.replace(pattern, '');
      else pattern.exec(text);
      const ms = cpuNow() - from;
      if (ms > worst.ms) worst = { ms, filler };
      if (ms > MOST_MS) return worst;
    }
  return worst;
}

const report = (type: string, fields: string): string =>
  `From: MAILER-DAEMON@a.test\nSubject: Undelivered\nContent-Type: multipart/report; report-type=${type}; boundary=b\n\n--b\n\nx\n--b\nContent-Type: message/${type}\n\n${fields}\n--b\nContent-Type: message/rfc822\n\nSubject: x\n\nx\n--b--\n`;

/** Where in a mail a long text can stand. */
const SHAPES: Readonly<Record<string, (text: string) => string>> = {
  'Final-Recipient': (text) =>
    report(
      'delivery-status',
      `Reporting-MTA: dns; a\n\nFinal-Recipient: rfc822; a${text}b\nAction: failed\nStatus: 5.1.1`,
    ),
  'Original-Recipient': (text) =>
    report('delivery-status', `Original-Recipient: rfc822; ${text}\nFinal-Recipient: rfc822; a@b.c\nAction: failed`),
  'Diagnostic-Code': (text) =>
    report('delivery-status', `Final-Recipient: rfc822; a@b.c\nAction: failed\nDiagnostic-Code: smtp; ${text}`),
  'Status and Action': (text) =>
    report('delivery-status', `Final-Recipient: rfc822; a@b.c\nAction: ${text}\nStatus: ${text}`),
  'Reporting-MTA': (text) =>
    report('delivery-status', `Reporting-MTA: ${text}\n\nFinal-Recipient: rfc822; a@b.c\nAction: failed`),
  'many recipients': (text) =>
    report('delivery-status', `Final-Recipient: rfc822; ${text.slice(0, 100)}\nAction: failed\n\n`.repeat(1000)),
  'Original-Rcpt-To': (text) => report('feedback-report', `Feedback-Type: abuse\nOriginal-Rcpt-To: <${text}`),
  'Original-Mail-From': (text) =>
    report('feedback-report', `Feedback-Type: abuse\nOriginal-Mail-From: ${text}\nUser-Agent: ${text}`),
  'head of the returned mail': (text) =>
    `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/rfc822-headers\n\nReceived: for <${text}\nX-Posthorn-Delivery: ${text}\nTo: ${text}\n\n--b--`,
  From: (text) => `From: ${text}\n\nx`,
  Subject: (text) => `From: MAILER-DAEMON@a\nSubject: ${text}\n\nx`,
  'Content-Type': (text) => `Content-Type: multipart/mixed; boundary="${text}\n\n--x`,
  boundary: (text) => `Content-Type: multipart/mixed; boundary=b\n\n--b\n${text}`,
  'Content-Disposition': (text) =>
    `Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: attachment; filename="${text}\n\nx\n--b--`,
  'a name of a header': (text) => `${text}: x\n\nx`,
  prose: (text) => `From: MAILER-DAEMON@a\nSubject: failure notice\n\n${text}`,
  'prose with an address': (text) => `From: MAILER-DAEMON@a\nSubject: failure notice\n\n<a@b.c>: 550 5.1.1 ${text}`,
  html: (text) => `From: MAILER-DAEMON@a\nContent-Type: text/html\n\n<p>${text}`,
  base64: (text) =>
    `From: MAILER-DAEMON@a\nContent-Type: text/plain; charset=iso-2022-jp\nContent-Transfer-Encoding: base64\n\n${Buffer.from(text).toString('base64')}`,
  'quoted-printable': (text) => `From: MAILER-DAEMON@a\nContent-Transfer-Encoding: quoted-printable\n\n${text}`,
  'a report as XML': (text) =>
    `Subject: Report domain: a\nContent-Type: text/xml\n\n<feedback><report_metadata><org_name>${text}`,
  'a report as JSON': (text) =>
    `TLS-Report-Domain: a\nContent-Type: application/json\n\n{"policies":[{"policy":{"policy-domain":"${text}`,
};

const FILLERS = [
  '>',
  ')>',
  '"',
  "'",
  ';',
  ',',
  '<',
  '(',
  ' ',
  '\t',
  '\n ',
  '\n',
  'a',
  'a ',
  'a@',
  '@',
  '.',
  'a.',
  '5.',
  '550 ',
  '=?utf-8?q?a?= ',
  '=?',
  '\\x{41}',
  '\\',
  '=41',
  '=\n',
  '--b\n',
  '[',
  '*',
  're: ',
  '> ',
  ':',
  'a:b\n',
  '<a@b.c>\n',
  '&amp;',
  '<p>',
  '!',
  '\u0000',
  'é',
  '~',
  '{',
] as const;
/** Some thirty times what most of these take. */
const LONGEST_READING_MS = 300;

describe('what strangers write', () => {
  it('is matched by none of the kind that is known to be slow, or this test would not see it', () => {
    const pattern = /[>)"',;]+$/;
    assert.ok(slowest({ place: '', pattern, isSplit: false }).ms > MOST_MS);
  });

  for (const [shape, mailOf] of Object.entries(SHAPES))
    it(`is read quickly: 200 KB as ${shape}`, () => {
      const words = readBounceWords();
      for (const filler of FILLERS) {
        const mail = Buffer.from(mailOf(filler.repeat(Math.ceil(200_000 / filler.length))));
        const from = cpuNow();
        readReport({ words, judge }, mail);
        const ms = cpuNow() - from;
        assert.ok(ms < LONGEST_READING_MS, `${JSON.stringify(filler)}: ${ms.toFixed(0)} ms`);
      }
    });

  it('is matched by no expression that is worse than linear', function () {
    this.timeout(300_000);
    const literals = closureOf(READERS.map((file) => path.join(root, file))).flatMap((file) => literalsIn(file, root));
    assert.ok(literals.length > 100, `only ${String(literals.length)} expressions were found`);
    const slow = literals.flatMap((one) => {
      const { ms, filler } = slowest(one);
      return ms > MOST_MS ? [`${one.place}: ${ms.toFixed(0)} ms for ${JSON.stringify(filler)}`] : [];
    });
    assert.deepEqual(
      slow.filter((line) => !Object.keys(NEVER_LONG).some((known) => line.includes(known))),
      [],
    );
  });
});
