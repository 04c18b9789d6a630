import assert from 'node:assert/strict';
import { simpleParser } from 'mailparser';
import { parseMailbox } from '../../src/mail/address.ts';
import type { Mailbox } from '../../src/mail/address.ts';
import { parseHeaders, writeHead, type HeadInput } from '../../src/mail/header.ts';

function box(text: string): Mailbox {
  const parsed = parseMailbox(text);
  assert.ok(parsed.kind === 'ok');
  return parsed.mailbox;
}

const input: HeadInput = {
  from: box('Acme, Inc. <hi@acme.test>'),
  to: [box('Ána <ana@example.net>')],
  cc: [],
  replyTo: [],
  subject: 'Your order',
  date: new Date('2026-01-31T09:30:00Z'),
  messageId: 'msg_1@acme.test',
  extra: [],
};

describe('mail/message-head', () => {
  it('writes the fields in their order', () => {
    const head = writeHead({
      ...input,
      cc: [box('b@example.net'), box('c@example.net')],
      replyTo: [box('r@acme.test')],
      extra: [
        ['X-Message-Id', 'msg_1'],
        ['Feedback-ID', 'a:b:c'],
        ['X-Own', 'ü'],
      ],
    });
    assert.equal(
      head,
      [
        'Date: Sat, 31 Jan 2026 09:30:00 +0000',
        'From: "Acme, Inc." <hi@acme.test>',
        'Reply-To: r@acme.test',
        'To: =?UTF-8?Q?=C3=81na?= <ana@example.net>',
        'Cc: b@example.net, c@example.net',
        'Subject: Your order',
        'Message-ID: <msg_1@acme.test>',
        'X-Message-Id: msg_1',
        'Feedback-ID: a:b:c',
        'X-Own: =?UTF-8?B?w7w=?=',
        '',
      ].join('\r\n'),
    );
  });

  it('leaves out what is not there', () => {
    assert.deepEqual(
      parseHeaders(writeHead(input)).map((field) => field.name),
      ['Date', 'From', 'To', 'Subject', 'Message-ID'],
    );
  });

  it('has no Bcc, whoever asks', () => {
    assert.doesNotMatch(writeHead({ ...input, extra: [['BCC', 'secret@example.net']] }), /secret/);
  });

  it('takes a Message-ID with brackets too', () => {
    assert.match(writeHead({ ...input, messageId: '<a@b.c>' }), /^Message-ID: <a@b\.c>\r$/m);
  });

  it('lets nothing be injected', () => {
    const evil = 'x\r\nBcc: secret@example.net\r\n\r\nbody';
    const head = writeHead({
      ...input,
      from: { ...input.from, name: evil },
      subject: evil,
      extra: [['X-Own', evil]],
    });
    assert.deepEqual(
      parseHeaders(head).map((field) => field.name),
      ['Date', 'From', 'To', 'Subject', 'Message-ID', 'X-Own'],
    );
    assert.throws(() => writeHead({ ...input, extra: [['X\r\nBcc', 'x']] }));
  });

  it('is read as it was meant', async () => {
    const parsed = await simpleParser(
      `${writeHead({ ...input, subject: 'Příliš žluťoučký kůň '.repeat(12).trim() })}\r\n`,
    );
    assert.equal(parsed.subject, 'Příliš žluťoučký kůň '.repeat(12).trim());
    assert.equal(parsed.date?.toISOString(), '2026-01-31T09:30:00.000Z');
    assert.deepEqual(parsed.from?.value, [{ address: 'hi@acme.test', name: 'Acme, Inc.' }]);
    assert.equal(parsed.messageId, '<msg_1@acme.test>');
  });
});
