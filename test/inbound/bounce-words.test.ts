import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { parse } from 'yaml';
import { z } from 'zod';
import { compileWords, foldText, type BounceWords, type WordSource } from '../../src/inbound/bounce-words.ts';
import { statusOfWords } from '../../src/inbound/diagnostic.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';

const empty: WordSource = {
  senders: [],
  nobodies: [],
  senderNames: [],
  failure: [],
  delay: [],
  retrying: [],
  success: [],
  givenUp: [],
  promise: [],
  rejection: [],
  autoReplySubjects: [],
  autoReplyTexts: [],
  challenge: [],
  originalBegins: [],
  statuses: [],
};
const failing = (...failure: string[]): BounceWords => compileWords({ ...empty, failure });

describe('phrases', () => {
  for (const [phrase, text, expected, reason] of [
    ['not delivered', 'It was NOT\n  delivered.', true, 'case and white space do not matter'],
    ["couldn't", 'couldn’t', true, 'nor does the kind of quote'],
    ['user ... unknown', 'user a@b.example is unknown', true, 'a gap'],
    ['user ... unknown', `user ${'x'.repeat(100)} unknown`, false, 'a gap is short'],
    ['user ... unknown', 'unknown user', false, 'in this order'],
    ['a ... b ... c', 'a 1 b 2 c', true, 'two gaps'],
    ['user ... unknown', `user ${'x'.repeat(80)} user unknown`, true, 'the begin may come again'],
    ['.*', 'anything', false, 'no regular expression'],
  ] as const) {
    it(`${JSON.stringify(phrase)} in ${JSON.stringify(text.slice(0, 40))}: ${reason}`, () => {
      assert.equal(failing(phrase).failure(foldText(text)), expected);
    });
  }

  for (const [subject, expected, reason] of [
    ['Out of office', true, 'at the begin'],
    ['Re: [Ticket 5] Out of office: x', true, 'behind marks'],
    ['My out of office reply', false, 'not anywhere'],
  ] as const) {
    it(`of subjects, ${JSON.stringify(subject)}: ${reason}`, () => {
      const words = compileWords({ ...empty, autoReplySubjects: ['out of office'] });
      assert.equal(words.autoReplySubjects(foldText(subject)), expected);
    });
  }

  it('are found in time that grows with the text alone', () => {
    const words = failing('a ... a ... a ... b');
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3000 }), (length) => !words.failure('a '.repeat(length))),
      { numRuns: 20 },
    );
  });
});

describe('config/bounce-words.yaml', () => {
  const words = readBounceWords();

  it('has the form that the program reads, no phrase twice in a group, none too short to mean one thing', () => {
    const phrase = z
      .string()
      .min(2)
      .max(200)
      .refine((text) => text === text.toLowerCase(), 'in lower case');
    const phrases = z
      .array(phrase)
      .min(1)
      .refine((all) => new Set(all).size === all.length, 'none twice');
    const File = z.strictObject({
      senders: phrases,
      nobodies: phrases,
      senderNames: phrases,
      failure: phrases,
      delay: phrases,
      retrying: phrases,
      success: phrases,
      givenUp: phrases,
      promise: phrases,
      rejection: phrases,
      autoReplySubjects: phrases,
      autoReplyTexts: phrases,
      challenge: phrases,
      originalBegins: phrases,
      statuses: z.array(z.strictObject({ status: z.string().regex(/^[45]\.\d{1,2}\.\d{1,2}$/), phrases })),
    });
    const file = path.resolve(import.meta.dirname, '../../config/bounce-words.yaml');
    const { error } = File.safeParse(parse(readFileSync(file, 'utf8')));
    assert.equal(error, undefined, error?.message);
  });

  for (const [text, status] of [
    ['Sorry, no mailbox here by that name', '5.1.1'],
    ['Der Empfänger ist unbekannt: Empfänger unbekannt', '5.1.1'],
    ['Пользователь не найден', '5.1.1'],
    ['宛先不明', '5.1.1'],
    ["jo wasn't found at dest.example.", '5.1.1'],
    ['El buzón está lleno', '5.2.2'],
    ['La boîte aux lettres est pleine', '5.2.2'],
    ['Mailbox exceeded its quota', '5.2.2'],
    ['The account has been disabled', '5.2.1'],
    ['host mx.example not found', '5.1.2'],
    ['Host not found, try again', '4.4.3'],
    ['message too large for this system', '5.3.4'],
    ['too many hops', '5.4.6'],
    ['retry timeout exceeded', '4.4.7'],
    ['your address is on a blacklist; user unknown', '5.7.1'],
    ['Connection refused', '4.4.1'],
    ['the group may not exist or you do not have permission to post', '5.7.1'],
    ['Good morning', null],
  ] as const) {
    it(`takes ${JSON.stringify(text)} for ${String(status)}`, () => {
      assert.equal(statusOfWords(text, words), status);
    });
  }

  for (const text of [
    'Levering til disse modtagere eller grupper mislykkedes:',
    'Kan ikke leveres: Hello',
    'Не вдалося доставити',
    'Kézbesíthetetlen: Hello',
    'Δεν είναι δυνατή η παράδοση: Hello',
    'Không thể gửi thư',
    'تعذر التسليم: Hello',
    'לא ניתן למסירה: Hello',
    'ไม่สามารถส่งได้: Hello',
  ])
    it(`knows that a mail was not delivered by ${JSON.stringify(text)}`, () => {
      assert.ok(words.failure(foldText(text)));
    });

  it('keeps what was refused apart from what is late', () => {
    assert.ok(words.failure(foldText('Undelivered Mail Returned to Sender')));
    assert.ok(!words.failure(foldText('Delayed Mail (still being retried)')));
    assert.ok(words.delay(foldText('Delayed Mail (still being retried)')));
  });
});
