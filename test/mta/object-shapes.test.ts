/**
 * V8 11 (Node.js 20) gives each object of a literal that begins with a spread a shape of its own if members are added after it, so that reads of its
 * members miss the caches, which took a fifth of the main loop's time for a mail. What is made for each mail has one shape.
 */
import assert from 'node:assert/strict';
import v8 from 'node:v8';
import vm from 'node:vm';
import { systemClock } from '../../src/base/clock.ts';
import { FreshMails } from '../../src/messages/store/fresh-mails.ts';
import { outcomeOfTransfer, type EndedTransfer } from '../../src/mta/attempt/outcome.ts';
import { noTimings } from '../../src/mta/connection/phases.ts';
import { composeKnown } from '../../src/mta/prepare/compose.ts';
import { contentRow, deliveryRow, messageRow } from '../support/harness/mail-rows.ts';

v8.setFlagsFromString('--allow-natives-syntax');
// Compiled at the first call, so the flag stays set.
const haveSameShape = vm.runInThisContext('(a, b) => %HaveSameMap(a, b)') as (a: object, b: object) => boolean;

const frame = { startedAt: 1000, endedAt: 1300, retryAt: 61_000, viaRelay: false };
const place = { mx: 'mx1.dest.test', ip: '192.0.2.25', source: null };
const reply = { code: 250, enhanced: null, lines: ['ok'], text: 'ok' };
const raw = Buffer.from('Subject: hi\r\n\r\nhi\r\n');

function freshMail() {
  const fresh = new FreshMails(systemClock);
  const delivery = deliveryRow();
  fresh.add({ message: messageRow(), delivery, content: contentRow(), attachments: [], facts: null });
  const mail = fresh.take(delivery.id);
  assert.ok(mail);
  return mail;
}

function accepted() {
  const transfer: EndedTransfer = {
    kind: 'accepted',
    ...{ reply, refusedRecipients: [], timings: noTimings(), tls: null, earlier: 0 },
  };
  return outcomeOfTransfer(frame, place, transfer);
}

describe('mta object shapes', () => {
  for (const [name, make] of [
    ['the facts of an attempt', () => accepted().facts],
    ['a mail that was just accepted', freshMail],
    ['a submitted mail', () => composeKnown(raw, { bodyHash: 'x', eightBit: false })],
  ] as const)
    it(`are the same for each mail: ${name}`, () => {
      const made = Array.from({ length: 50 }, () => make());
      const [last, other] = [made.at(-1), made.at(-2)];
      assert.ok(last !== undefined && other !== undefined && haveSameShape(last, other));
    });
});
