import assert from 'node:assert/strict';

import fc from 'fast-check';
import { z } from 'zod';

import { Problem } from '../../../src/base/problem.ts';
import { BLOCKED_EXTENSIONS } from '../../../src/base/blocked-extensions.ts';
import { checkSend } from '../../../src/messages/request/send-request.ts';
import type { MessageDraft } from '../../../src/messages/request/send-request.ts';
import { defaultLimits } from '../../../src/messages/request/send-limits.ts';
import { BulkMessage, SingleMessage } from '../../../src/messages/request/send-schema.ts';
import { withoutEmptyTexts } from '../../../src/messages/request/template-members.ts';

const NOW = Date.parse('2026-01-31T09:30:00.000Z');
const rules = { now: NOW, smtputf8: false, limits: defaultLimits };
const good = { from: 'Acme <hi@acme.test>', to: 'ana@example.net', subject: 'Welcome', html: '<p>Hello</p>' };

const inMinutes = (minutes: number): string => new Date(NOW + minutes * 60_000).toISOString();
const DAYS = 24 * 60;
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const file = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  filename: 'a.pdf',
  content: base64('hello'),
  ...more,
});
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
const named = <T>(count: number, make: (index: number) => [string, T]): Record<string, T> =>
  Object.fromEntries(many(count, make));

function draft(more: Record<string, unknown> = {}, changed: Partial<typeof rules> = {}): MessageDraft {
  const result = checkSend({ ...good, ...more }, { ...rules, ...changed });
  assert.equal(result.kind, 'single');
  return result.draft;
}

function refused(body: Record<string, unknown>): Problem {
  try {
    checkSend(body, rules);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'the request passed' });
}

/** [what is put over the good request, code, field, why] */
const bad: readonly (readonly [more: Record<string, unknown>, code: string, field: string, why: string])[] = [
  [{ from: undefined }, 'missing_field', 'from', 'no sender'],
  [{ from: null }, 'missing_field', 'from', 'null is absent'],
  [{ from: '' }, 'invalid_sender', 'from', 'an empty sender'],
  [{ from: 'hi@acme' }, 'invalid_sender', 'from', 'a domain of one label'],
  [{ from: 'a@b.test, c@d.test' }, 'invalid_sender', 'from', 'two mailboxes'],
  [{ from: ['a@b.test'] }, 'invalid_type', 'from', 'a list'],
  [{ from: 'A\r\nBcc: x@y.test <hi@acme.test>' }, 'invalid_sender', 'from', 'a line break in the name'],
  [{ to: undefined }, 'missing_field', 'to', 'no recipient'],
  [{ to: '' }, 'invalid_recipient', 'to', 'an empty recipient'],
  [{ to: 'not an address' }, 'invalid_recipient', 'to', 'no address'],
  [{ to: ['a@b.test'] }, 'invalid_type', 'to', 'one address, not a list'],
  [{ to: 'á@b.test' }, 'invalid_recipient', 'to', 'SMTPUTF8 is off'],
  [{ to: `${'a'.repeat(1e6)}@b.test` }, 'invalid_recipient', 'to', 'a megabyte'],
  [{ cc: 5 }, 'invalid_type', 'cc', 'neither string nor list'],
  [{ cc: '' }, 'invalid_recipient', 'cc', 'an empty copy'],
  [{ cc: ['a@b.test', 'x'] }, 'invalid_recipient', 'cc[1]', 'a bad one in the list'],
  [{ cc: ['a@b.test', 5] }, 'invalid_type', 'cc[1]', 'no string in the list'],
  [{ bcc: 'x' }, 'invalid_recipient', 'bcc', 'a bad blind copy'],
  [{ bcc: ['x'] }, 'invalid_recipient', 'bcc[0]', 'a bad one in the list'],
  [{ cc: many(50, (i) => `c${i}@b.test`) }, 'too_many_recipients', 'cc', '51 with `to`'],
  [{ cc: ['c@b.test'], bcc: many(49, (i) => `b${i}@b.test`) }, 'too_many_recipients', 'bcc', '51 over three members'],
  [{ cc: many(100_000, () => 'a@b.test') }, 'too_many_recipients', 'cc', 'a hostile number of doubles'],
  [{ reply_to: 'x' }, 'invalid_address', 'reply_to', 'no address'],
  [{ reply_to: ['a@b.test', 'x'] }, 'invalid_address', 'reply_to[1]', 'a bad one in the list'],
  [{ reply_to: many(11, (i) => `r${i}@b.test`) }, 'too_many_items', 'reply_to', 'eleven'],
  [{ subject: undefined }, 'missing_field', 'subject', 'no subject'],
  [{ subject: '' }, 'invalid_field', 'subject', 'an empty subject'],
  [{ subject: 'x'.repeat(999) }, 'field_too_long', 'subject', '999 characters'],
  [{ subject: 'a\r\nBcc: x@y.z' }, 'invalid_field', 'subject', 'header injection'],
  [{ subject: 'a\nb' }, 'invalid_field', 'subject', 'a line feed'],
  [{ subject: 'a\rb' }, 'invalid_field', 'subject', 'a carriage return'],
  [{ subject: 'a\0b' }, 'invalid_field', 'subject', 'NUL'],
  [{ subject: 5 }, 'invalid_type', 'subject', 'a number'],
  [{ html: undefined }, 'missing_content', 'html', 'no body'],
  [{ html: null, text: null }, 'missing_content', 'html', 'null is absent'],
  [{ html: '', text: '' }, 'missing_content', 'html', 'an empty body is none'],
  [{ html: {} }, 'invalid_type', 'html', 'an object'],
  [{ html: 'x'.repeat(5 * 1024 * 1024 + 1) }, 'field_too_long', 'html', 'a byte over 5 MiB'],
  [{ html: 'é'.repeat(2.5 * 1024 * 1024 + 1) }, 'field_too_long', 'html', 'bytes count, not characters'],
  [{ text: 'x'.repeat(5 * 1024 * 1024 + 1) }, 'field_too_long', 'text', 'a byte over 5 MiB'],
  [{ auto_text: 'yes' }, 'invalid_type', 'auto_text', 'no boolean'],
  [{ template_id: 'order-shipped' }, 'invalid_field', 'template_id', 'not available yet'],
  [{ template_version: 1 }, 'invalid_field', 'template_version', 'not available yet'],
  [{ variables: {} }, 'invalid_field', 'variables', 'not available yet'],
  [{ strict_variables: true }, 'invalid_field', 'strict_variables', 'not available yet'],
  [{ locale: 'en' }, 'invalid_field', 'locale', 'not available yet'],
  [{ timezone: 'UTC' }, 'invalid_field', 'timezone', 'not available yet'],
  [{ track_opens: 'yes' }, 'invalid_type', 'track_opens', 'no boolean'],
  [{ track_clicks: 1 }, 'invalid_type', 'track_clicks', 'no boolean'],
  [{ unsubscribe: 'yes' }, 'invalid_type', 'unsubscribe', 'neither boolean nor object'],
  [{ unsubscribe: { href: 'https://acme.test/u' } }, 'unknown_field', 'unsubscribe.href', 'a member nobody knows'],
  [{ unsubscribe: { url: 5 } }, 'invalid_type', 'unsubscribe.url', 'a number'],
  [{ unsubscribe: { url: '/u' } }, 'invalid_field', 'unsubscribe.url', 'not absolute'],
  [{ unsubscribe: { url: 'javascript:alert(1)' } }, 'invalid_field', 'unsubscribe.url', 'another scheme'],
  [{ unsubscribe: { url: 'mailto:u@acme.test' } }, 'invalid_field', 'unsubscribe.url', 'an address'],
  [
    { unsubscribe: { url: `https://acme.test/${'x'.repeat(960)}` } },
    'invalid_field',
    'unsubscribe.url',
    'longer than a header line holds',
  ],
  [
    { unsubscribe: { url: `https://acme.test/${'x'.repeat(2000)}` } },
    'field_too_long',
    'unsubscribe.url',
    'far too long',
  ],
  [
    { unsubscribe: { url: 'http://acme.test/u', one_click: true } },
    'invalid_field',
    'unsubscribe.one_click',
    'one-click without https',
  ],
  [{ unsubscribe: { one_click: 'yes' } }, 'invalid_type', 'unsubscribe.one_click', 'no boolean'],
  [{ unsubscribe: { mailto: 'nobody' } }, 'invalid_field', 'unsubscribe.mailto', 'no address'],
  [
    { unsubscribe: { mailto: 'Acme <u@acme.test>' } },
    'invalid_field',
    'unsubscribe.mailto',
    'a name before the address',
  ],
  [
    { unsubscribe: { mailto: 'u@acme.test?subject=a b' } },
    'invalid_field',
    'unsubscribe.mailto',
    'a space that is not escaped',
  ],
  [
    { unsubscribe: { mailto: 'u@acme.test?x=>\r\nBcc: x@y.test' } },
    'invalid_field',
    'unsubscribe.mailto',
    'a line break',
  ],
  [
    { unsubscribe: { mailto: '"a b"@acme.test' } },
    'invalid_field',
    'unsubscribe.mailto',
    'a quoted local part, which would need escapes',
  ],
  [
    { template_id: 'x', subject: undefined, from: undefined },
    'invalid_field',
    'template_id',
    'told before what it would have brought',
  ],
  [{ headers: [] }, 'invalid_type', 'headers', 'a list'],
  [{ headers: { 'X-A': 5 } }, 'invalid_type', 'headers.X-A', 'a number'],
  [{ headers: { 'X A': 'b' } }, 'invalid_header', 'headers.X A', 'a space in the name'],
  [{ headers: { 'X:A': 'b' } }, 'invalid_header', 'headers.X:A', 'a colon in the name'],
  [{ headers: { 'X-A\r\nBcc': 'b' } }, 'invalid_header', 'headers.X-A\r\nBcc', 'a line break in the name'],
  [{ headers: { 'X-É': 'b' } }, 'invalid_header', 'headers.X-É', 'no ASCII'],
  [{ headers: { '': 'b' } }, 'invalid_header', 'headers.', 'an empty name'],
  [{ headers: { ['X'.repeat(127)]: 'b' } }, 'invalid_header', `headers.${'X'.repeat(127)}`, 'a long name'],
  [{ headers: { 'X-A': 'a\r\nBcc: x@y.test' } }, 'invalid_header', 'headers.X-A', 'a line break in the value'],
  [{ headers: { 'X-A': 'a\nb' } }, 'invalid_header', 'headers.X-A', 'a line feed in the value'],
  [{ headers: { 'X-A': 'a\0b' } }, 'invalid_header', 'headers.X-A', 'NUL in the value'],
  [{ headers: { 'X-A': 'x'.repeat(996) } }, 'invalid_header', 'headers.X-A', 'a long value'],
  [{ headers: { 'X-A': '1', 'x-a': '2' } }, 'invalid_header', 'headers.x-a', 'one header, written in two ways'],
  [{ headers: named(51, (i) => [`X-${i}`, 'a']) }, 'too_many_items', 'headers', '51 headers'],
  [
    { headers: JSON.parse('{"__proto__":"a"}') },
    'invalid_field',
    'headers.__proto__',
    'a name that objects treat in a special way',
  ],
  [{ attachments: {} }, 'invalid_type', 'attachments', 'no list'],
  [{ attachments: many(51, () => file()) }, 'too_many_items', 'attachments', '51 attachments'],
  [{ attachments: ['x'] }, 'invalid_type', 'attachments[0]', 'no object'],
  [
    { attachments: [file({ url: 'http://x.test' })] },
    'unknown_field',
    'attachments[0].url',
    'attachments by URL do not exist',
  ],
  [{ attachments: [file({ filename: undefined })] }, 'missing_field', 'attachments[0].filename', 'no name'],
  [{ attachments: [file({ filename: '' })] }, 'invalid_attachment', 'attachments[0].filename', 'an empty name'],
  [{ attachments: [file({ filename: '../a.pdf' })] }, 'invalid_attachment', 'attachments[0].filename', 'a slash'],
  [{ attachments: [file({ filename: 'a\\b.pdf' })] }, 'invalid_attachment', 'attachments[0].filename', 'a backslash'],
  [
    { attachments: [file({ filename: 'a\r\nX: y.pdf' })] },
    'invalid_attachment',
    'attachments[0].filename',
    'a line break',
  ],
  [{ attachments: [file({ filename: 'a\0.pdf' })] }, 'invalid_attachment', 'attachments[0].filename', 'NUL'],
  [
    { attachments: [file({ filename: 'é'.repeat(128) })] },
    'invalid_attachment',
    'attachments[0].filename',
    '256 bytes',
  ],
  [
    { attachments: [file({ filename: 'setup.exe' })] },
    'attachment_type_not_allowed',
    'attachments[0].filename',
    'a program',
  ],
  [
    { attachments: [file({ filename: 'setup.EXE. ' })] },
    'attachment_type_not_allowed',
    'attachments[0].filename',
    'as Windows reads it',
  ],
  [
    { attachments: [file({ filename: 'a.exe\u200b' })] },
    'attachment_type_not_allowed',
    'attachments[0].filename',
    'a zero-width space behind the extension',
  ],
  [
    { attachments: [file({ filename: 'a.e\u00adx\u2060e' })] },
    'attachment_type_not_allowed',
    'attachments[0].filename',
    'characters that nobody sees in the extension',
  ],
  [{ attachments: [file(), file({ content: undefined })] }, 'missing_field', 'attachments[1].content', 'no content'],
  [{ attachments: [file({ content: 5 })] }, 'invalid_type', 'attachments[0].content', 'a number'],
  [{ attachments: [file({ content: 'aGVsbG8' })] }, 'invalid_attachment', 'attachments[0].content', 'no padding'],
  [
    { attachments: [file({ content: 'aGVs*G8=' })] },
    'invalid_attachment',
    'attachments[0].content',
    'not of the alphabet',
  ],
  [
    { attachments: [file({ content: 'aGVs-_8=' })] },
    'invalid_attachment',
    'attachments[0].content',
    'the URL alphabet',
  ],
  [
    { attachments: [file({ content: 'aG=sbG8=' })] },
    'invalid_attachment',
    'attachments[0].content',
    'padding in the middle',
  ],
  [{ attachments: [file({ content: 'aGVs====' })] }, 'invalid_attachment', 'attachments[0].content', 'padding alone'],
  [
    { attachments: [file({ content: 'aGVsŁG8=' })] },
    'invalid_attachment',
    'attachments[0].content',
    'a letter whose low byte is in the alphabet',
  ],
  [
    { attachments: [file({ content: 'data:text/plain;base64,aGVsbG8=' })] },
    'invalid_attachment',
    'attachments[0].content',
    'a data URI',
  ],
  [{ attachments: [file({ content_type: 'pdf' })] }, 'invalid_attachment', 'attachments[0].content_type', 'no subtype'],
  [
    { attachments: [file({ content_type: 'a/b\r\nX: y' })] },
    'invalid_attachment',
    'attachments[0].content_type',
    'a line break',
  ],
  [
    { attachments: [file({ content_type: 'a/b; c' })] },
    'invalid_attachment',
    'attachments[0].content_type',
    'a parameter without value',
  ],
  [
    { attachments: [file({ content_type: 'Multipart/mixed; boundary=x' })] },
    'invalid_attachment',
    'attachments[0].content_type',
    'a multipart is not one part',
  ],
  [
    { attachments: [file({ content_type: `a/b; c=${'d'.repeat(194)}` })] },
    'invalid_attachment',
    'attachments[0].content_type',
    'over 200 characters',
  ],
  [
    { attachments: [file({ content_id: '<logo>' })] },
    'invalid_attachment',
    'attachments[0].content_id',
    'brackets are added by us',
  ],
  [{ attachments: [file({ content_id: '' })] }, 'invalid_attachment', 'attachments[0].content_id', 'empty'],
  [
    { attachments: [file({ content_id: 'x'.repeat(79) })] },
    'invalid_attachment',
    'attachments[0].content_id',
    '79 characters',
  ],
  [
    { attachments: [file({ content_id: 'a' }), file({ content_id: 'a' })] },
    'invalid_attachment',
    'attachments[1].content_id',
    'not unique',
  ],
  [
    { attachments: [file({ disposition: 'hidden' })] },
    'invalid_attachment',
    'attachments[0].disposition',
    'neither of the two',
  ],
  [
    { attachments: [file({ content: Buffer.alloc(19.4e6).toString('base64') })] },
    'message_too_large',
    'attachments',
    'over 25 MiB encoded',
  ],
  [{ tags: 'a' }, 'invalid_type', 'tags', 'no list'],
  [{ tags: many(11, (i) => `t${i}`) }, 'too_many_items', 'tags', 'eleven tags'],
  [{ tags: ['a', 'b,c'] }, 'invalid_field', 'tags[1]', 'a comma'],
  [{ tags: ['a', ' b'] }, 'invalid_field', 'tags[1]', 'a blank before it'],
  [{ tags: ['a', 'b\u0085'] }, 'invalid_field', 'tags[1]', 'a control character'],
  [{ tags: [''] }, 'invalid_field', 'tags[0]', 'empty'],
  [{ tags: ['😀'.repeat(129)] }, 'invalid_field', 'tags[0]', '129 characters'],
  [{ tags: ['a', 'b', 'a'] }, 'invalid_field', 'tags[2]', 'not unique'],
  [{ metadata: { order: 17 } }, 'invalid_type', 'metadata.order', 'a number'],
  [{ metadata: { 'a b': 'x' } }, 'invalid_field', 'metadata.a b', 'a space in the key'],
  [{ metadata: { ['k'.repeat(65)]: 'x' } }, 'invalid_field', `metadata.${'k'.repeat(65)}`, 'a long key'],
  [{ metadata: { a: 'x'.repeat(501) } }, 'invalid_field', 'metadata.a', 'a long value'],
  [{ metadata: { a: 'x\0' } }, 'invalid_field', 'metadata.a', 'NUL'],
  [{ metadata: named(51, (i) => [`k${i}`, 'x']) }, 'invalid_field', 'metadata', '51 keys'],
  [{ metadata: named(21, (i) => [`k${i}`, 'x'.repeat(500)]) }, 'invalid_field', 'metadata', 'over 10 KiB in sum'],
  [{ send_at: 5 }, 'invalid_type', 'send_at', 'a number'],
  [{ send_at: 'tomorrow' }, 'invalid_send_at', 'send_at', 'no RFC 3339'],
  [{ send_at: '2026-02-01T09:30:00' }, 'invalid_send_at', 'send_at', 'no offset'],
  [{ send_at: '2026-02-30T09:30:00Z' }, 'invalid_send_at', 'send_at', 'no such day'],
  [{ send_at: '2026-02-01 09:30:00Z' }, 'invalid_send_at', 'send_at', 'no T'],
  [{ send_at: inMinutes(-5.1) }, 'invalid_send_at', 'send_at', 'over five minutes ago'],
  [{ send_at: inMinutes(30 * DAYS + 1) }, 'invalid_send_at', 'send_at', 'over 30 days ahead'],
  [{ expires_at: 'x' }, 'invalid_field', 'expires_at', 'no RFC 3339'],
  [{ expires_at: inMinutes(0) }, 'invalid_field', 'expires_at', 'not after now'],
  [{ expires_at: inMinutes(7 * DAYS + 1) }, 'invalid_field', 'expires_at', 'over 7 days'],
  [{ send_at: inMinutes(60), expires_at: inMinutes(60) }, 'invalid_field', 'expires_at', 'not after send_at'],
  [{ stream: 'News' }, 'unknown_stream', 'stream', 'no slug'],
  [{ stream: 5 }, 'invalid_type', 'stream', 'a number'],
  [{ on_suppressed: 'drop' }, 'invalid_field', 'on_suppressed', 'neither of the two'],
  [{ test: 'yes' }, 'invalid_type', 'test', 'neither boolean nor object'],
  [{ test: { outcome: 'lost' } }, 'invalid_field', 'test.outcome', 'no such outcome'],
  [{ test: {} }, 'missing_field', 'test.outcome', 'an outcome is what the object is for'],
  [{ subjct: 'x' }, 'unknown_field', 'subjct', 'a typing error'],
  [{ on_error: 'skip' }, 'unknown_field', 'on_error', 'of the bulk form'],
  [{ recipient: 'x' }, 'unknown_field', 'recipient', 'near to the bulk form'],
  [{ to: 'x', html: undefined }, 'invalid_recipient', 'to', 'of two, the one declared first'],
];

describe('checkSend, single form', () => {
  for (const [more, code, field, why] of bad) {
    it(`${code} ${field.slice(0, 40)}: ${why}`, () => {
      const problem = refused({ ...good, ...more });
      assert.deepEqual({ code: problem.code, field: problem.field }, { code, field });
      assert.ok(problem.message.length < 600, problem.message);
    });
  }

  it('takes the smallest request and fills in the rest', () => {
    assert.deepEqual(draft(), {
      from: { name: 'Acme', local: 'hi', domain: 'acme.test', address: 'hi@acme.test' },
      to: { name: null, local: 'ana', domain: 'example.net', address: 'ana@example.net' },
      cc: [],
      bcc: [],
      replyTo: [],
      subject: 'Welcome',
      content: { html: '<p>Hello</p>', text: null, autoText: true, attachments: [] },
      headers: [],
      tags: [],
      metadata: {},
      sendAt: null,
      expiresAt: null,
      stream: null,
      trackOpens: null,
      trackClicks: null,
      unsubscribe: null,
      onSuppressed: 'accept',
      test: null,
    });
  });

  for (const [wire, expected, why] of [
    [true, { url: null, mailto: null, oneClick: true }, 'all of it hosted'],
    [false, false, 'off, whatever the stream says'],
    [{}, { url: null, mailto: null, oneClick: true }, 'nothing of its own'],
    [{ one_click: false }, { url: null, mailto: null, oneClick: false }, 'the hosted page without one-click'],
    [
      { url: 'https://acme.test/u' },
      { url: 'https://acme.test/u', mailto: null, oneClick: false },
      'a page of its own may not take a POST',
    ],
    [
      { url: 'https://acme.test/ü?a=<b>', one_click: true },
      { url: 'https://acme.test/%C3%BC?a=%3Cb%3E', mailto: null, oneClick: true },
      'as a browser would ask for it',
    ],
    [
      { url: 'http://acme.test/u' },
      { url: 'http://acme.test/u', mailto: null, oneClick: false },
      'http, for a page that asks first',
    ],
    [
      { mailto: 'mailto:stop+17@acme.test?subject=stop%20it' },
      { url: null, mailto: 'stop+17@acme.test?subject=stop%20it', oneClick: true },
      'an address with a subject',
    ],
    [
      { url: null, mailto: 'stop@acme.test' },
      { url: null, mailto: 'stop@acme.test', oneClick: true },
      'null is absent',
    ],
  ] as const) {
    it(`unsubscribe ${JSON.stringify(wire)}: ${why}`, () => {
      assert.deepEqual(draft({ unsubscribe: wire }).unsubscribe, expected);
    });
  }

  it('takes null for every optional member', () => {
    const optional = Object.keys(SingleMessage.shape).filter((name) => !(name in good));
    assert.ok(optional.length > 15);
    assert.deepEqual(draft(Object.fromEntries(optional.map((name) => [name, null]))), draft());
  });

  it('takes an empty text for null, but where it is a fault or a value', () => {
    const optional = Object.keys(SingleMessage.shape).filter((name) => !(name in good));
    const empty = Object.fromEntries(optional.map((name) => [name, '']));
    assert.deepEqual(draft(withoutEmptyTexts(empty)), draft());
    const kept = {
      recipients: [{ from: '', to: '', subject: '' }],
      attachments: [{ filename: '', content: '' }],
      metadata: { a: '' },
      variables: { name: '' },
      cc: [''],
    };
    assert.deepEqual(withoutEmptyTexts(kept), kept);
    assert.deepEqual(
      withoutEmptyTexts({ recipients: [{ cc: '' }], attachments: [{ content_type: '' }], unsubscribe: { url: '' } }),
      { recipients: [{ cc: null }], attachments: [{ content_type: null }], unsubscribe: { url: null } },
    );
  });

  it('takes every member', () => {
    const all = draft({
      cc: 'Bo <bo@example.net>',
      bcc: ['cy@example.net', 'cy@example.net'],
      reply_to: ['help@acme.test'],
      text: 'Hello',
      headers: { 'X-Order': '17', 'List-Unsubscribe': '<mailto:u@acme.test>' },
      attachments: [file({ content_id: 'logo', filename: 'logo.PNG' })],
      tags: ['Password Reset', 'Größe@b'],
      metadata: { order: '17' },
      send_at: inMinutes(60),
      expires_at: inMinutes(120),
      track_opens: false,
      track_clicks: false,
      unsubscribe: false,
      stream: 'broadcast',
      on_suppressed: 'reject',
      test: { outcome: 'bounced' },
    });
    assert.deepEqual(
      all.cc.map(({ address }) => address),
      ['bo@example.net'],
    );
    assert.deepEqual(all.bcc.length, 2);
    assert.deepEqual(
      all.replyTo.map(({ address }) => address),
      ['help@acme.test'],
    );
    assert.deepEqual(all.headers, [
      ['X-Order', '17'],
      ['List-Unsubscribe', '<mailto:u@acme.test>'],
    ]);
    assert.deepEqual(all.content, {
      html: good.html,
      text: 'Hello',
      autoText: false,
      attachments: [
        {
          filename: 'logo.PNG',
          contentType: 'image/png',
          contentId: 'logo',
          disposition: 'inline',
          content: Buffer.from('hello'),
        },
      ],
    });
    assert.deepEqual(all.tags, ['Password Reset', 'Größe@b']);
    assert.deepEqual(all.metadata, { order: '17' });
    assert.equal(all.sendAt, NOW + 3_600_000);
    assert.equal(all.expiresAt, NOW + 7_200_000);
    assert.deepEqual([all.stream, all.onSuppressed, all.test], ['broadcast', 'reject', { outcome: 'bounced' }]);
  });

  it('takes values on their limits', () => {
    assert.equal(draft({ subject: 'x'.repeat(998) }).subject.length, 998);
    assert.equal(draft({ subject: '😀'.repeat(998) }).subject.length, 2 * 998, 'characters are code points');
    assert.equal(draft({ cc: many(49, (i) => `c${i}@b.test`) }).cc.length, 49);
    assert.equal(draft({ cc: many(60, () => 'c@b.test') }).cc.length, 60, 'doubles count once');
    assert.equal(draft({ headers: named(50, (i) => [`X-${i}`, 'x'.repeat(995)]) }).headers.length, 50);
    assert.equal(draft({ headers: { references: '<a@b.test> '.repeat(1489) } }).headers.length, 1);
    assert.equal(draft({ html: 'x'.repeat(5 * 1024 * 1024) }).content.html?.length, 5 * 1024 * 1024);
    assert.equal(draft({ attachments: [file({ filename: `${'é'.repeat(125)}.docx` })] }).content.attachments.length, 1);
    assert.equal(
      draft({ attachments: [file({ content: Buffer.alloc(18e6).toString('base64') })] }).content.attachments[0]?.content
        .length,
      18e6,
    );
    assert.equal(draft({ send_at: inMinutes(-5) }).sendAt, null, 'a little late is now');
    assert.equal(draft({ send_at: inMinutes(30 * DAYS) }).sendAt, NOW + 30 * DAYS * 60_000);
    assert.equal(draft({ expires_at: inMinutes(7 * DAYS) }).expiresAt, NOW + 7 * DAYS * 60_000);
    assert.equal(Object.keys(draft({ metadata: named(50, (i) => [`k${i}`, 'x'.repeat(200)]) }).metadata).length, 50);
  });

  it('sends html verbatim, braces, NUL and all', () => {
    assert.equal(draft({ html: '{{name}}\0\r\n' }).content.html, '{{name}}\0\r\n');
  });

  it('derives no text part where there is one, none is wanted, or there is no html', () => {
    assert.equal(draft({ auto_text: false }).content.autoText, false);
    assert.equal(draft({ text: 'x' }).content.autoText, false);
    assert.deepEqual(draft({ html: undefined, text: 'x' }).content, {
      html: null,
      text: 'x',
      autoText: false,
      attachments: [],
    });
    assert.equal(draft({ html: '', text: 'x' }).content.html, null);
  });

  it('takes non-ASCII local parts where SMTPUTF8 is on', () => {
    assert.equal(draft({ to: 'á@b.test' }, { smtputf8: true }).to.local, 'á');
  });

  it('tells a data URI and a URL alphabet apart from other nonsense', () => {
    const why = (content: string): string => refused({ ...good, attachments: [file({ content })] }).message;
    assert.match(why('data:application/pdf;base64,aGVsbG8='), /data URI/);
    assert.match(why('aGVs-_8='), /base64url/);
  });

  it('obeys the limits it is given', () => {
    const limits = {
      ...defaultLimits,
      recipients: 2,
      attachments: 1,
      htmlBytes: 20,
      messageBytes: 3_000_000,
      blockedExtensions: ['pdf'],
    };
    const code = (more: Record<string, unknown>): string => {
      try {
        checkSend({ ...good, ...more }, { ...rules, limits });
        return 'ok';
      } catch (error) {
        return error instanceof Problem ? `${error.code} ${String(error.field)}` : String(error);
      }
    };
    assert.equal(code({}), 'ok');
    assert.equal(code({ cc: ['a@b.test', 'b@b.test'] }), 'too_many_recipients cc');
    assert.equal(
      code({ attachments: [file({ filename: 'a' }), file({ filename: 'a' })] }),
      'too_many_items attachments',
    );
    assert.equal(code({ html: 'x'.repeat(21) }), 'field_too_long html');
    assert.equal(code({ attachments: [file()] }), 'attachment_type_not_allowed attachments[0].filename');
    assert.equal(code({ attachments: [file({ filename: 'setup.exe' })] }), 'ok');
    assert.equal(code({ attachments: [file({ filename: 'a', content: Buffer.alloc(2e6).toString('base64') })] }), 'ok');
    assert.equal(
      code({ attachments: [file({ filename: 'a', content: Buffer.alloc(2.2e6).toString('base64') })] }),
      'message_too_large attachments',
    );
    assert.equal(code({ text: 'x'.repeat(2.8e6) }), 'ok');
    assert.equal(code({ text: 'x'.repeat(3e6) }), 'message_too_large html');
    assert.equal(code({ html: undefined, text: 'x'.repeat(3e6) }), 'message_too_large text');
  });

  it('counts a derived text part as what it will be', () => {
    const limits = { ...defaultLimits, messageBytes: 3_000_000 };
    const markup = `<style>${'a{color:red}\n'.repeat(200_000)}</style><p>Hi</p>`;
    assert.equal(checkSend({ ...good, html: markup }, { ...rules, limits }).kind, 'single', 'hardly any text is in it');
    assert.throws(() => checkSend({ ...good, html: 'words and\n'.repeat(200_000) }, { ...rules, limits }), {
      code: 'message_too_large',
    });
  });
});

describe('header names', () => {
  const ours =
    'From To Cc Bcc Subject Sender Reply-To Date Message-ID MIME-Version Content-Type Content-Transfer-Encoding Content-X ' +
    'DKIM-Signature ARC-Seal ARC-Message-Signature Received Return-Path Authentication-Results Resent-From Resent-Date ' +
    'Feedback-ID X-Message-Id X-Posthorn-Anything';
  for (const name of ours.split(' ')) {
    it(`${name} is refused in any case`, () => {
      for (const written of [name, name.toLowerCase(), name.toUpperCase()]) {
        const { code, field } = refused({ ...good, headers: { [written]: 'x' } });
        assert.deepEqual([code, field], ['header_not_allowed', `headers.${written}`]);
      }
    });
  }

  const theirs =
    'In-Reply-To References Precedence Auto-Submitted X-Priority List-Id List-Unsubscribe List-Unsubscribe-Post Archived-At ' +
    'X-Mailer Importance Received-SPF Dates Contents constructor toString x';
  for (const name of theirs.split(' ')) {
    it(`${name} passes as it is`, () => {
      assert.deepEqual(draft({ headers: { [name]: 'x' } }).headers, [[name, 'x']]);
    });
  }
});

describe('attachments', () => {
  it('refuses every blocked extension', () => {
    assert.equal(BLOCKED_EXTENSIONS.length, 41);
    for (const extension of BLOCKED_EXTENSIONS) {
      assert.equal(
        refused({ ...good, attachments: [file({ filename: `a.pdf.${extension}` })] }).code,
        'attachment_type_not_allowed',
        extension,
      );
    }
  });

  const types: readonly (readonly [filename: string, given: string | null, type: string])[] = [
    ['a.pdf', null, 'application/pdf'],
    ['a.PDF', null, 'application/pdf'],
    ['a.tar.gz', null, 'application/gzip'],
    ['invite.ics', 'text/calendar; method=REQUEST', 'text/calendar; method=REQUEST'],
    ['a.csv', 'text/csv; charset="utf-8"; header=present', 'text/csv; charset="utf-8"; header=present'],
    ['a.exe.txt', null, 'text/plain; charset=utf-8'],
    ['b.csv', 'text/csv', 'text/csv'],
    ['b.json', null, 'application/json'],
    ['README', null, 'application/octet-stream'],
    ['a.unheard', null, 'application/octet-stream'],
    ['a.constructor', null, 'application/octet-stream'],
    ['.pdf', null, 'application/pdf'],
    ['Mail.EML', null, 'message/rfc822'],
    ['...', null, 'application/octet-stream'],
    ['a.pdf', 'application/x-own', 'application/x-own'],
  ];
  for (const [filename, given, type] of types) {
    it(`${filename} (${String(given)}) is ${type}`, () => {
      assert.equal(
        draft({ attachments: [file({ filename, content_type: given })] }).content.attachments[0]?.contentType,
        type,
      );
    });
  }

  it('have no charset where a text is not UTF-8', () => {
    const attachments = [file({ filename: 'b.csv', content: Buffer.from('Gr\xf6\xdfe', 'latin1').toString('base64') })];
    assert.equal(draft({ attachments }).content.attachments[0]?.contentType, 'text/csv');
  });

  it('are inline with a content id unless told otherwise', () => {
    const all = draft({
      attachments: [
        file(),
        file({ content_id: 'a' }),
        file({ content_id: 'b', disposition: 'attachment' }),
        file({ disposition: 'inline' }),
      ],
    });
    assert.deepEqual(
      all.content.attachments.map(({ disposition }) => disposition),
      ['attachment', 'inline', 'attachment', 'inline'],
    );
  });

  it('may be empty, and broken into lines', () => {
    const contents = ['', 'aGVs\r\nbG8=\n', ' a G V s b G 8 =\t'].map((content) => file({ content }));
    assert.deepEqual(
      draft({ attachments: contents }).content.attachments.map(({ content }) => content.toString()),
      ['', 'hello', 'hello'],
    );
  });

  it('come back as they were, whatever their bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const decoded = draft({ attachments: [file({ content: Buffer.from(bytes).toString('base64') })] }).content
          .attachments[0];
        assert.deepEqual(decoded?.content, Buffer.from(bytes));
      }),
    );
  });

  it('are base64 exactly where the pattern of RFC 4648 says so', () => {
    const strict = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
    const near = fc.string({
      unit: fc.constantFrom('A', 'z', '0', '+', '/', '=', '=', '-', '_', '*', 'é', 'Ł', '\u0141', '😀', '\0', '\v'),
      maxLength: 12,
    });
    fc.assert(
      fc.property(near, (content) => {
        const passes = ((): boolean => {
          try {
            draft({ attachments: [file({ content })] });
            return true;
          } catch {
            return false;
          }
        })();
        assert.equal(passes, strict.test(content));
      }),
      { numRuns: 5000 },
    );
  });
});

describe('checkSend, whatever comes', () => {
  const members = [...new Set([...Object.keys(SingleMessage.shape), ...Object.keys(BulkMessage.shape)])];
  /** Strings that try to break out of where they are put. */
  const nasty = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.string({
      unit: fc.constantFrom(
        '\r',
        '\n',
        '\0',
        '\t',
        '\x7f',
        '\u0085',
        '\u2028',
        ' ',
        ':',
        '<',
        '>',
        '"',
        '@',
        ',',
        'a',
        'é',
        '.',
      ),
    }),
    fc.constantFrom('a@b.test', 'Ana <a@b.test>', '2026-02-01T00:00:00Z', 'text/plain', base64('x'), 'X-A', 'skip'),
  );
  const nastyObject = fc.dictionary(nasty, nasty, { maxKeys: 4 });
  const value = fc.oneof(
    nasty,
    nastyObject,
    fc.array(nasty, { maxLength: 4 }),
    fc.array(nastyObject, { maxLength: 3 }),
    fc.jsonValue(),
  );
  const body = fc.record(Object.fromEntries(members.map((name) => [name, value])), { requiredKeys: [] });

  const passes = (request: Record<string, unknown>): MessageDraft[] => {
    try {
      const result = checkSend(request, rules);
      return result.kind === 'single'
        ? [result.draft]
        : result.entries.flatMap((entry) => (entry.kind === 'ok' ? [entry.draft] : []));
    } catch (error) {
      assert.ok(error instanceof Problem, String(error));
      return [];
    }
  };

  const BREAKS = /[\r\n\0]/;
  const headerTexts = (one: MessageDraft): string[] => [
    one.subject,
    ...[one.from, one.to, ...one.cc, ...one.bcc, ...one.replyTo].flatMap(({ name, address }) => [name ?? '', address]),
    ...one.headers.flat(),
    ...one.content.attachments.flatMap(({ filename, contentType, contentId }) => [
      filename,
      contentType,
      contentId ?? '',
    ]),
    ...one.tags,
    one.stream ?? '',
  ];

  it('throws nothing but problems', () => {
    fc.assert(
      fc.property(fc.oneof(body, fc.dictionary(fc.string(), fc.jsonValue())), (request) => void passes(request)),
      { numRuns: 3000 },
    );
  });

  it('lets no line break or NUL into anything that goes into a header', () => {
    const some = (name: string): fc.Arbitrary<unknown> => {
      if (name === 'headers') return nastyObject;
      if (name === 'attachments') {
        return fc.array(
          fc.record(
            { filename: nasty, content: fc.constant('aGVsbG8='), content_type: nasty, content_id: nasty },
            { requiredKeys: ['filename', 'content'] },
          ),
          { maxLength: 2 },
        );
      }
      return name === 'cc' || name === 'tags' ? fc.array(nasty, { maxLength: 2 }) : nasty;
    };
    let passed = 0;
    for (const name of ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'headers', 'attachments', 'tags', 'stream']) {
      fc.assert(
        fc.property(some(name), (changed) => {
          for (const request of [
            { ...good, [name]: changed },
            { ...good, to: undefined, recipients: [{ to: 'a@b.test', [name]: changed }] },
          ]) {
            for (const one of passes(request)) {
              passed += 1;
              for (const text of headerTexts(one)) assert.doesNotMatch(text, BREAKS);
            }
          }
        }),
        { numRuns: 300 },
      );
    }
    assert.ok(passed > 500, `only ${passed} requests passed: the property hardly saw any`);
  });
});

describe('the published schema', () => {
  const schema = z.toJSONSchema(z.union([SingleMessage, BulkMessage]), { io: 'input', target: 'draft-2020-12' }) as {
    anyOf: {
      properties: Record<string, { description?: string; anyOf?: Record<string, unknown>[] }>;
      required: string[];
      additionalProperties: boolean;
    }[];
  };
  const [single, bulk] = schema.anyOf;

  it('knows no other members and requires the same ones', () => {
    assert.deepEqual(single?.required, ['from', 'to', 'subject']);
    assert.deepEqual(bulk?.required, ['recipients']);
    assert.deepEqual(
      schema.anyOf.map((form) => form.additionalProperties),
      [false, false],
    );
  });

  it('describes every member', () => {
    for (const form of [single, bulk]) {
      for (const [name, member] of Object.entries(form?.properties ?? {})) assert.ok(member.description, name);
    }
  });

  it('has the limits in it', () => {
    const inner = (name: string): Record<string, unknown> => ({
      ...single?.properties[name],
      ...single?.properties[name]?.anyOf?.[0],
    });
    assert.equal(inner('subject')['maxLength'], 998);
    assert.equal(inner('subject')['minLength'], 1);
    assert.equal(inner('html')['maxLength'], 5 * 1024 * 1024);
    assert.equal(inner('attachments')['maxItems'], 50);
    assert.equal(inner('tags')['maxItems'], 10);
    assert.equal(inner('headers')['maxProperties'], 50);
    assert.equal(inner('metadata')['maxProperties'], 50);
    assert.equal(inner('send_at')['format'], 'date-time');
    assert.equal(inner('stream')['pattern'], '^[a-z][a-z0-9-]{0,31}$');
  });
});
