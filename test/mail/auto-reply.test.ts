import assert from 'node:assert/strict';
import { isAutoSubmitted, isDispositionNotification, isMarkedAutoReply } from '../../src/mail/auto-reply.ts';
import { readHead, readMail } from '../../src/mail/mime-read.ts';

describe('automatic answers', () => {
  for (const [head, expected, reason] of [
    ['X-Autoreply: yes', true, 'a field of its own'],
    ['X-AutoResponse: x', true, 'another'],
    ['X-Auto-Response-Suppress: OOF', true, 'Exchange, on all that it writes by itself'],
    ['Precedence: auto_reply', true, 'the old way'],
    ['Precedence: bulk', false, 'lists and bounces'],
    ['X-MS-Exchange-Generated-Message-Source: Mailbox Rules Agent', true, 'a rule of a mailbox'],
    ['Return-Path: <auto-reply@x.example>', true, 'by its sender'],
    ['Return-Path: <>', false, 'bounces too'],
    ['Auto-Submitted: auto-replied', false, 'bounces too (RFC 3834 section 5)'],
  ] as const) {
    it(`${head}: ${String(expected)}, ${reason}`, () => {
      assert.equal(isMarkedAutoReply(readHead(head)), expected);
    });
  }

  for (const [head, expected] of [
    ['Auto-Submitted: auto-replied', true],
    ['Auto-Submitted: auto-generated (failure)', true],
    ['Auto-Submitted: No', false],
    ['Auto-Submitted: no; x=y', false],
    ['Auto-Submitted:', false],
    ['Subject: x', false],
  ] as const) {
    it(`${head}: ${expected ? 'submitted by a program' : 'not known to be'}`, () => {
      assert.equal(isAutoSubmitted(readHead(head)), expected);
    });
  }

  for (const [text, expected] of [
    ['Content-Type: multipart/report; report-type=disposition-notification; boundary=b\n\n', true],
    [
      'Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/disposition-notification\n\nx\n--b--\n',
      true,
    ],
    ['Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n', false],
  ] as const) {
    it(`${expected ? 'is' : 'is not'} a receipt: ${JSON.stringify(text)}`, () => {
      assert.equal(isDispositionNotification(readMail(Buffer.from(text))), expected);
    });
  }
});
