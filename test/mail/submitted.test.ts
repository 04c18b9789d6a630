import assert from 'node:assert/strict';
import fc from 'fast-check';
import { simpleParser, type ParsedMail } from 'mailparser';
import { survey } from '../../src/mail/body-facts.ts';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import {
  finishSubmitted,
  readSubmitted,
  renewSubmitted,
  ROOM_FOR_HEAD,
  type SubmittedMail,
} from '../../src/mail/submitted.ts';

const FROM = 'From: Acme <hi@acme.test>\r\n';
const DATE = 'Date: Fri, 30 Jan 2026 08:00:00 GMT\r\n';

/** A line end that some servers take for one and others do not: with a dot it hides the commands of another mail. */
const BARE = /\r(?!\n)|(?<!\r)\n/;

function good(text: string | Buffer): SubmittedMail {
  const mail = readSubmitted(Buffer.isBuffer(text) ? text : Buffer.from(text));
  return mail.kind === 'mail' ? mail : assert.fail(mail.text);
}
function bad(text: string | Buffer): string {
  const mail = readSubmitted(Buffer.isBuffer(text) ? text : Buffer.from(text));
  return mail.kind === 'refused' ? mail.text : assert.fail('it was taken');
}
const stamp = {
  received: 'from a by b',
  messageId: '<1@acme.test>',
  date: new Date('2026-01-31T09:30:00Z'),
  sender: null,
};

describe('mail/submitted', () => {
  for (const [text, head, body, reason] of [
    [`${FROM}Subject: x\r\n\r\nbody\r\n`, `${FROM}Subject: x\r\n`, 'body\r\n', 'as it came'],
    [`${FROM}\r\n.\r\n..\r\n`, FROM, '.\r\n..\r\n', 'dots are of the body'],
    [`${FROM}\r\nno end`, FROM, 'no end\r\n', 'the last line gets its end'],
    [`${FROM}Subject: x`, `${FROM}Subject: x\r\n`, '', 'a header alone'],
    [
      `${FROM}Bcc: a@b.test,\r\n c@d.test\r\nReturn-Path: <x@y>\r\nX-Own: 1\r\n\r\n`,
      `${FROM}X-Own: 1\r\n`,
      '',
      'what is nobody’s business is taken out, folded lines too',
    ],
    [
      'From : hi@acme.test\r\nSubject\t : x\r\n\r\n',
      'From: hi@acme.test\r\nSubject: x\r\n',
      '',
      'spaces before the colon go',
    ],
    [`${FROM}bcc : c@d.test\r\n\r\n`, FROM, '', 'also in Bcc'],
    [
      `${FROM}Subject: x\r\n y : z\r\n\r\nA : b\r\n`,
      `${FROM}Subject: x\r\n y : z\r\n`,
      'A : b\r\n',
      'but not in what is no name',
    ],
    [
      `From hi@acme.test Sat Jan 31 09:30:00 2026\r\n${FROM}\r\n`,
      FROM,
      '',
      'the line that mailbox files begin a mail with goes',
    ],
    [`>From hi@acme.test Sat Jan 31 09:30:00 2026\r\n${FROM}\r\n`, FROM, '', 'quoted, too'],
    [`${FROM}Subject: a\r\n  b\r\n\r\n`, `${FROM}Subject: a\r\n  b\r\n`, '', 'folding stays'],
  ] as const)
    it(`keeps ${JSON.stringify(text.slice(0, 40))}: ${reason}`, () => {
      const mail = good(text);
      assert.deepEqual([mail.head, mail.body.toString('latin1')], [head, body]);
    });

  for (const [text, why, reason] of [
    ['Subject: x\r\n\r\nx', /^5\.6\.0 the mail has no From/, 'no From'],
    [`${FROM}from: b@c.test\r\n\r\nx`, /^5\.6\.0 the mail has several From that differ/, 'two From'],
    [
      `${FROM}List-Unsubscribe: <https://a.test>\r\nList-Unsubscribe: <https://b.test>\r\n\r\nx`,
      /^5\.6\.0 the mail has several List-Unsubscribe that differ/,
      'two ways to unsubscribe',
    ],
    [`${FROM}Subject: a\r\nsubject: b\r\n\r\nx`, /^5\.6\.0 the mail has several Subject that differ/, 'two subjects'],
    ['From: a@b.test, c@d.test\r\n\r\nx', /^5\.6\.0 From must hold one address: /, 'two authors'],
    ['From: nobody\r\n\r\nx', /^5\.6\.0 From must hold one address: there is no @/, 'no address'],
    [`${FROM}\r\na\0b`, /^5\.6\.0 the mail has NUL/, 'NUL'],
    [`${'Received: x\r\n'.repeat(51)}${FROM}\r\n`, /^5\.4\.6 too many hops/, 'a loop'],
    [`${FROM}X-Long: ${'a'.repeat(1000)}\r\n\r\n`, /^5\.6\.0 a line of the header/, 'a header line that is too long'],
    [
      `${FROM}Subject: x\r\nGood day\r\n`,
      /^5\.6\.0 a line of the header is not a field/,
      'a text without the empty line before it',
    ],
    [`${FROM}Good day: x\r\n\r\n`, /^5\.6\.0 a line of the header is not a field/, 'a name with a space in it'],
    [`${FROM}: x\r\n\r\n`, /^5\.6\.0 a line of the header is not a field/, 'a field without a name'],
    [`${FROM}Größe: x\r\n\r\n`, /^5\.6\.0 a line of the header is not a field/, 'a name outside ASCII'],
    [` a: b\r\n${FROM}\r\n`, /^5\.6\.0 a line of the header is not a field/, 'a folded line that folds nothing'],
    [
      `${FROM}From hi@acme.test Sat Jan 31 09:30:00 2026\r\n\r\n`,
      /^5\.6\.0 a line of the header is not a field/,
      'the line of a mailbox file in the middle',
    ],
    [`${FROM}X: ${'a\r\n '.repeat(200_000)}\r\n\r\n`, /^5\.6\.0 the header is too large/, 'a header without end'],
  ] as const)
    it(`refuses ${reason}`, () => {
      assert.match(bad(text), why);
    });

  it('reads sender, subject, recipients and options', () => {
    const mail = good(
      [
        'From: =?UTF-8?Q?J=C3=BCrgen?= <hi@ACME.test>',
        'To: Ana <ANA@dest.test>, "x, y" <bo@dest.test>',
        'Cc: group: cy@dest.test;',
        'Reply-To: re@acme.test',
        'Subject: =?utf-8?b?w6TDtg==?=',
        'Message-ID: <m@acme.test>',
        'Date: Sat, 31 Jan 2026 09:30:00 +0000',
        'X-Posthorn-Tag: a',
        'x-posthorn-tag: b',
        '',
        '',
      ].join('\r\n'),
    );
    assert.deepEqual([mail.from.name, mail.from.address, mail.from.domain], ['Jürgen', 'hi@acme.test', 'acme.test']);
    assert.deepEqual(
      [mail.subject, [...mail.to], [...mail.cc]],
      ['äö', ['ana@dest.test', 'bo@dest.test'], ['cy@dest.test']],
    );
    assert.deepEqual(
      [mail.messageId, mail.hasDate, mail.replyTo.map(({ address }) => address)],
      ['<m@acme.test>', true, ['re@acme.test']],
    );
    assert.deepEqual([...mail.options], [['tag', ['a', 'b']]]);
    assert.doesNotMatch(mail.head, /posthorn/i);
  });

  it('decodes options, which mail programs encode where they are long or not ASCII', () => {
    const mail = good(
      [
        'X-Posthorn-Metadata: =?UTF-8?Q?kunde=3DM=C3=BCller?=',
        'X-Posthorn-Metadata: kunde=Herr =?utf-8?q?M=C3=BCller_und_S=C3=B6hne?=',
        `X-Posthorn-Idempotency-Key: =?utf-8?q?${'k'.repeat(40)}?=\r\n =?utf-8?q?${'k'.repeat(40)}?=`,
        `${FROM}\r\n`,
      ].join('\r\n'),
    );
    assert.deepEqual(
      [...mail.options],
      [
        ['metadata', ['kunde=Müller', 'kunde=Herr Müller und Söhne']],
        ['idempotency-key', ['k'.repeat(80)]],
      ],
    );
  });

  it('hands on every option however it is misspelt, and not the mark of a mail that is passed on', () => {
    const misspelt = [
      'X-Posthorn-Send_At: 1',
      'X-Posthorn-Tag2: a',
      `X-Posthorn-${'x'.repeat(60)}: a`,
      'X-Posthorn-: a',
    ];
    const mail = good(`X-Posthorn-Delivery: 1abc\r\n${misspelt.join('\r\n')}\r\n${FROM}\r\n`);
    assert.deepEqual([...mail.options.keys()], ['send_at', 'tag2', 'x'.repeat(40), '']);
    assert.equal(mail.head, FROM);
  });

  it('adds what is missing, and only that', () => {
    const whole = (text: string): string => finishSubmitted(good(text), stamp).toString();
    assert.equal(
      whole(`${FROM}\r\nx`),
      `Received: from a by b\r\nDate: Sat, 31 Jan 2026 09:30:00 +0000\r\nMessage-ID: <1@acme.test>\r\n${FROM}\r\nx\r\n`,
    );
    assert.equal(
      whole(`${FROM}Message-ID: <m@x>\r\n${DATE}\r\n`),
      `Received: from a by b\r\n${FROM}Message-ID: <m@x>\r\n${DATE}\r\n`,
    );
  });

  for (const id of ['1@host', '', '<a b@host>', '<>', '<a@>', '<<a@b.test>>', '<noat>', '<a@@b.test>', '<ä@b.test>'])
    it(`puts a Message-ID in the place of ${JSON.stringify(id)}`, () => {
      assert.equal(
        finishSubmitted(good(`${FROM}message-id: ${id}\r\n${DATE}\r\n`), stamp).toString(),
        `Received: from a by b\r\nMessage-ID: <1@acme.test>\r\n${FROM}${DATE}\r\n`,
      );
    });

  for (const date of ['', 'Monday', '2024-01-01 10:00:00'])
    it(`puts a date in the place of ${JSON.stringify(date)}`, () => {
      const mail = good(`${FROM}Date: ${date}\r\n\r\n`);
      assert.deepEqual([mail.hasDate, mail.head], [false, FROM]);
    });

  for (const date of ['1 Jan 24 10:00 EST', 'Mon, 01 Jan 2024 10:00:00 +0000 (UTC)', 'Mon,1 Jan 2024 10:00:00 GMT'])
    it(`keeps the date ${date}`, () => {
      assert.equal(good(`${FROM}Date: ${date}\r\n\r\n`).head, `${FROM}Date: ${date}\r\n`);
    });

  for (const [given, sent, reason] of [
    ['To: a@b.test\r\nTO: Bo <c@d.test>\r\n', 'To: a@b.test,\r\n Bo <c@d.test>\r\n', 'joins lists of addresses'],
    ['Cc: a@b.test\r\nCc: a@b.test\r\n', 'Cc: a@b.test\r\n', 'drops an equal list'],
    ['Subject: x\r\nsubject:  x\r\n', 'Subject: x\r\n', 'drops an equal subject'],
    ['Comments: x\r\nComments: x\r\n', 'Comments: x\r\nComments: x\r\n', 'keeps what may be there twice'],
    [
      'Sender: c@evil.test\r\nAuthentication-Results: a; dkim=pass\r\nARC-Seal: i=1\r\nARC-Authentication-Results: i=1; a\r\nReceived-SPF: pass\r\nFeedback-ID: a\r\nX-Message-Id: msg_1\r\n',
      '',
      'drops what a server says of a mail, and Sender until it is checked',
    ],
  ] as const)
    it(`has one of each field: ${reason}`, () => {
      assert.equal(good(`${FROM}${given}\r\nx`).head, `${FROM}${sent}`);
    });

  it('puts the Sender that was checked in front', () => {
    const mail = good(`${FROM}Sender: Bo (the bot) <bo@acme.test>\r\n\r\n`);
    assert.equal(mail.sender?.address, 'bo@acme.test');
    assert.match(finishSubmitted(mail, { ...stamp, sender: mail.sender }).toString(), /^Sender: .*<bo@acme\.test>\r$/m);
  });

  for (const [from, name, sent, reason] of [
    ['Acme,\r\n\tInc. <hi@acme.test>', 'Acme, Inc.', '"Acme, Inc." <hi@acme.test>', 'folded with a tab'],
    [
      '=?utf-8?Q?Acm=C3=A9?=\r\n\t=?utf-8?Q?_of?= <hi@acme.test>',
      'Acmé of',
      '=?UTF-8?Q?Acm=C3=A9_of?= <hi@acme.test>',
      'with encoded words on two lines',
    ],
    ['Jàn <hi@acme.test>', 'Jàn', '=?UTF-8?Q?J=C3=A0n?= <hi@acme.test>', 'in UTF-8'],
    ['hi@acme.test (Cron Daemon)', 'Cron Daemon', 'Cron Daemon <hi@acme.test>', 'of cron'],
    ['root <hi@acme.test (fcron)>', 'root', 'root <hi@acme.test>', 'of fcron'],
    ['Acme <hi@acme.test> (by hand)', 'Acme', 'Acme <hi@acme.test>', 'with a comment behind it'],
    ['hi@acme.test ((a) b)', '(a) b', '"(a) b" <hi@acme.test>', 'with a comment in a comment'],
    ['hi@acme.test ()', null, 'hi@acme.test', 'with an empty comment'],
    ['"Acme (test)" <hi@acme.test>', 'Acme (test)', '"Acme (test)" <hi@acme.test>', 'with brackets in quotes'],
    ['Acme <hi@acme.test>,', 'Acme', 'Acme <hi@acme.test>', 'with a comma behind it'],
    ['Team: Acme <hi@acme.test>;', 'Acme', 'Acme <hi@acme.test>', 'in a group'],
    ['ceo@evil.test <hi@acme.test>', 'ceo@evil.test', '"ceo@evil.test" <hi@acme.test>', 'with an address as name'],
    [';ceo@evil.test; (x) <hi@acme.test>', ';ceo@evil.test; (x)', '";ceo@evil.test; (x)" <hi@acme.test>', 'with more'],
  ] as const)
    it(`reads a From ${reason}, and writes it anew`, () => {
      const mail = good(`From: ${from}\r\n\r\n`);
      assert.deepEqual([mail.from.name, mail.from.address], [name, 'hi@acme.test']);
      assert.equal(mail.head, `From: ${sent}\r\n`);
    });

  for (const from of [
    'hi@acme.test (<bo@dest.test>)',
    'hi@acme.test (bo@dest.test)',
    'Team: hi@acme.test, bo@dest.test;',
    `${'('.repeat(2000)} hi@acme.test`,
  ])
    it(`refuses ${from.slice(0, 50)}`, () => {
      assert.match(bad(`From: ${from}\r\n\r\n`), /^5\.6\.0 From must hold one/);
    });

  it('makes a new mail of one that was sent, with everything else as it was', () => {
    const first = finishSubmitted(
      good(`Received: from x\r\n by y\r\n${FROM}message-id: <m@x>\r\nSubject: ä\r\n b\r\n${DATE}\r\n\xff.\r\n`),
      stamp,
    );
    const again = renewSubmitted(first, { messageId: '<2@acme.test>', date: new Date('2026-02-01T00:00:00Z') });
    const fresh = 'Date: Sun, 01 Feb 2026 00:00:00 +0000\r\nMessage-ID: <2@acme.test>\r\n';
    assert.equal(
      again.toString(),
      `Received: from a by b\r\nReceived: from x\r\n by y\r\n${fresh}${FROM}Subject: =?UTF-8?B?w6Q=?= b\r\n\r\n\xff.\r\n`,
    );
    assert.deepEqual(readSubmitted(again).kind, 'mail');
  });

  it('writes the header of a large mail in its place, and no octet outside of it', () => {
    const text = `${FROM}${DATE}\r\n${'A line of text\r\n'.repeat(2000)}`;
    const memory = Buffer.alloc(ROOM_FOR_HEAD + text.length, '#');
    memory.write(text, ROOM_FOR_HEAD);
    const whole = finishSubmitted(good(memory.subarray(ROOM_FOR_HEAD)), stamp);
    assert.equal(whole.buffer, memory.buffer);
    assert.equal(whole.toString(), finishSubmitted(good(text.slice(0, 500) + text.slice(500)), stamp).toString());
    assert.ok(memory.subarray(0, 1500).equals(Buffer.alloc(1500, '#')));
  });

  it('says of a body what sending it needs', () => {
    assert.deepEqual(good(`${FROM}\r\na  b\r\n\r\n`).facts, {
      bodyHash: relaxedBodyHash(Buffer.from('a b\r\n')),
      eightBit: false,
    });
    assert.equal(good(`${FROM}\r\nä\r\n`).facts.eightBit, true);
  });

  it('keeps a header that is not UTF-8 legible', () => {
    const mail = good(
      Buffer.concat([Buffer.from(`${FROM}Subject: caf`), Buffer.from([0xe9]), Buffer.from('\r\n\r\n')]),
    );
    assert.equal(mail.subject, 'café');
  });

  for (const [charset, octets] of [
    ['windows-1251', [0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2]],
    ['koi8-r', [0xf0, 0xd2, 0xc9, 0xd7, 0xc5, 0xd4]],
  ] as const)
    it(`reads a header in ${charset} by the charset of the text`, () => {
      const type = `Content-Type: text/plain; charset=${charset}\r\n`;
      const mail = good(
        Buffer.concat([Buffer.from(`${FROM}${type}Subject: `), Buffer.from(octets), Buffer.from('\r\n\r\n')]),
      );
      assert.equal(mail.subject, 'Привет');
      assert.equal(mail.head, `${FROM}${type}Subject: =?UTF-8?B?0J/RgNC40LLQtdGC?=\r\n`);
    });

  for (const [given, sent] of [
    ['To: Jörg <a@b.test>, c@d.test', 'To: =?UTF-8?B?SsO2cmc=?= <a@b.test>, c@d.test'],
    ['Cc: Ämter: Bo <a@b.test>;', 'Cc: Bo <a@b.test>'],
    ['To: Empfänger:;', 'To: undisclosed-recipients:;'],
    ['To: jörg@b.test', 'To: jörg@b.test'],
    ['List-Unsubscribe: <https://b.test/tür>', 'List-Unsubscribe: <https://b.test/t%C3%BCr>'],
    ['Content-Type: text/plain; name="ä; b"', "Content-Type: text/plain; name*0*=utf-8''%C3%A4%3B%20b"],
    ['X-Note: =?utf-8?q?=C3=A4?= ä', 'X-Note: =?UTF-8?B?w6Qgw6Q=?='],
  ] as const)
    it(`writes ${given} in ASCII, but an address`, () => {
      assert.equal(good(`${FROM}${given}\r\n\r\n`).head, `${FROM}${sent}\r\n`);
    });

  it('writes the names of files in ASCII, in parts of parts too, and no octet of a part that is signed', () => {
    const file = (head: string) => `Content-Disposition: attachment; ${head}\r\n\r\nB\xe4r\r\n`;
    const mail = (head: string, type = 'mixed') =>
      `${FROM}Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/${type}; boundary=b\r\n\r\n--b\r\n${file(head)}--b--\r\n--a--\r\n`;
    const whole = (text: string): string => {
      const { head, body } = good(Buffer.from(text, 'latin1'));
      return `${head}\r\n${body.toString('latin1')}`;
    };
    assert.equal(whole(mail('filename="B\xe4r"')), mail("filename*0*=utf-8''B%C3%A4r"));
    const signed = mail('filename="B\xe4r"', 'signed');
    assert.equal(whole(signed), signed);
  });

  it('reads a field in UTF-8 beside one that is not', () => {
    const mail = good(
      Buffer.concat([Buffer.from(`${FROM}Subject: grüße\r\nX-Old: `), Buffer.from([0xe9]), Buffer.from('\r\n\r\n')]),
    );
    assert.equal(mail.head, `${FROM}Subject: =?UTF-8?B?Z3LDvMOfZQ==?=\r\nX-Old: =?UTF-8?B?w6k=?=\r\n`);
  });

  const long = 'word '.repeat(300);
  for (const [head, body, reason] of [
    ['', `${long}\r\n`, 'a plain mail'],
    [
      'Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n',
      `<p>${long}ä</p>\r\n`,
      '8-bit html',
    ],
    ['Content-Type: application/octet-stream\r\n', `${'x'.repeat(3000)}\r\n`, 'octets'],
    ['Content-Transfer-Encoding: quoted-printable\r\n', `first =\r\nline\r\n.\r\n${long}=3D\r\n`, 'quoted-printable'],
    ['Content-Transfer-Encoding: base64\r\n', `${Buffer.from(long).toString('base64')}\r\n`, 'base64 in one line'],
    [
      'Content-Type: multipart/mixed; boundary="b b"\r\n',
      `pre\r\n--b b\r\nContent-Type: text/plain\r\n\r\n${long}\r\n--b b\r\n\r\nshort\r\n--b b--\r\n`,
      'one part of several',
    ],
    [
      'Content-Type: multipart/mixed; boundary=b\r\n',
      `--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: a@b.test\r\n\r\n${long}\r\n--b--\r\n`,
      'a mail inside',
    ],
    ['Content-Type: multipart/mixed; boundary=b\r\n', `--b\r\n\r\n${long}`, 'an end that is missing'],
    [
      'Content-Type: multipart/alternative; boundary=b\r\n',
      `--b\r\nContent-Type: text/plain\r\n\r\n--b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n${long}\r\n--b--\r\n`,
      'parts that are empty before it',
    ],
  ] as const)
    it(`mends lines that are too long: ${reason}`, async () => {
      const mail = good(`${FROM}${head}\r\n${body}`);
      const whole = finishSubmitted(mail, stamp);
      assert.ok(!survey(whole).hasLongLine);
      assert.doesNotMatch(whole.toString('latin1'), BARE);
      const [before, after] = await Promise.all([simpleParser(`${FROM}${head}\r\n${body}`), simpleParser(whole)]);
      assert.deepEqual(await saidBy(after), await saidBy(before));
    });

  it('says of a mail that it had to encode that it is MIME, once (RFC 2045 section 4)', () => {
    const versions = (mail: string): number => {
      const { head, body } = good(`${FROM}${mail}`);
      return `${head}\r\n${body.toString('latin1')}`.match(/^MIME-Version: 1\.0\r$/gim)?.length ?? 0;
    };
    assert.equal(versions(`\r\n${long}\r\n`), 1);
    assert.equal(versions(`mime-version: 1.0\r\nContent-Type: text/html\r\n\r\n${long}\r\n`), 1);
    const around = 'MIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\r\n';
    assert.equal(versions(`${around}From: a@b.test\r\n\r\n${long}\r\n`), 2);
    assert.equal(versions('\r\nshort\r\n'), 0);
  });

  /** The parts that a reader sees; of a mail inside, its own parts. */
  async function saidBy({ text, html, attachments }: ParsedMail): Promise<unknown[]> {
    const inner = attachments.map(async ({ contentType, content }) =>
      contentType === 'message/rfc822' ? saidBy(await simpleParser(content)) : content.toString('latin1').trim(),
    );
    return [text?.trim(), html, await Promise.all(inner)];
  }

  it('makes a file of a report with lines that are too long', () => {
    const mail = good(
      `${FROM}Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nA: ${long}\r\n--b--\r\n`,
    );
    const whole = finishSubmitted(mail, stamp).toString('latin1');
    assert.match(whole, /Content-Type: application\/octet-stream\r\nContent-Transfer-Encoding: base64\r\n/);
    assert.doesNotMatch(whole, /message\/delivery-status/);
  });

  for (const type of ['multipart/signed; boundary=b', 'multipart/encrypted; boundary=b', 'application/pkcs7-mime'])
    it(`does not mend ${type}`, () => {
      assert.match(bad(`${FROM}Content-Type: ${type}\r\n\r\n--b\r\n\r\n${long}\r\n--b--\r\n`), /signed or encrypted/);
      good(`${FROM}Content-Type: ${type}\r\n\r\n--b\r\n\r\nshort\r\n--b--\r\n`);
    });

  for (const [what, field] of [
    ['recipients', `To: ${Array.from({ length: 50 }, (_, i) => `Ana <ana.${String(i)}@dest.test>`).join(', ')}`],
    ['References', `References:${' <0123456789@acme.test>'.repeat(200)}`],
    ['tabs and runs of spaces', `X-Note:${'\tword  '.repeat(300)}`],
    ['a first word that only fits a line of its own', `X-Note: ${'a'.repeat(995)}`],
    ['a line behind a folded one', `X-Note: short\r\n ${'word '.repeat(300)}`],
  ] as const)
    it(`folds a header line with ${what}, which unfolded is the same`, () => {
      const { head } = good(`${FROM}${field}\r\n\r\nbody`);
      const lines = head.split('\r\n');
      assert.ok(
        lines.every((line, at) => Buffer.byteLength(line) <= 998 && (line.trim() !== '' || at === lines.length - 1)),
      );
      const unfolded = (text: string): string => text.replaceAll('\r\n', '').replaceAll('\t', ' ').trimEnd();
      assert.equal(unfolded(head), unfolded(`${FROM}${field}`));
    });

  it('refuses to mend a multipart whose parts cannot be told apart, and loses nothing of one that needs no mending', () => {
    const head = `${FROM}Content-Type: multipart/mixed; boundary=b\r\n`;
    assert.match(bad(`${head}\r\n--other\r\n\r\n${long}\r\n--other--\r\n`), /cannot be told apart/);
    assert.equal(good(`${head}\r\n--other\r\n\r\nshort\r\n`).body.toString(), '--other\r\n\r\nshort\r\n');
    assert.match(bad(`${FROM}Content-Type: multipart/mixed\r\n\r\n${long}\r\n`), /cannot be told apart/);
  });

  it('gives clean lines for any octets, or refuses', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), (bytes) => {
        const mail = readSubmitted(Buffer.concat([Buffer.from(FROM), Buffer.from(bytes)]));
        if (mail.kind === 'refused') return;
        const text = finishSubmitted(mail, stamp).toString('latin1');
        assert.doesNotMatch(text, BARE);
        assert.ok(!text.includes('\0'));
        assert.ok(text.split('\r\n').every((line) => line.length <= 998));
      }),
    );
  });

  it('writes no line end of quoted-printable bare, and keeps what is in it', () => {
    const piece = fc.constantFrom('=0A', '=0D', '=0D=0A', '\r\n', '.', ' ', '=\r\n', 'a', '=C3=A4', long);
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const body = `${pieces.join('')}${'x'.repeat(1000)}\r\n`;
        const head = 'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n';
        const mail = good(`${FROM}${head}\r\n${body}`);
        const encoded = mail.body.toString('latin1');
        assert.doesNotMatch(encoded, BARE);
        assert.ok(!survey(mail.body).hasLongLine);
        const isBase64 = /^Content-Transfer-Encoding: base64/m.test(mail.head);
        const after = isBase64 ? Buffer.from(encoded, 'base64').toString('latin1') : decoded(encoded);
        assert.equal(after.trimEnd(), decoded(body).trimEnd());
      }),
    );
  });

  const decoded = (text: string): string =>
    text
      .replace(/=\r\n/g, '')
      .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
});
