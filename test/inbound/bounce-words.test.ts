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
    ['[Out of office] x', true, 'in a mark'],
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
    ["L'indirizzo di posta elettronica immesso non è stato trovato.", '5.1.1'],
    ['Não foi possível encontrar o endereço de email inserido.', '5.1.1'],
    ['Det gick inte att hitta e-postadressen du angav.', '5.1.1'],
    ['Den mailadresse, du har angivet, blev ikke fundet.', '5.1.1'],
    ['Finner ikke e-postadressen du skrev inn.', '5.1.1'],
    ['Antamaasi sähköpostiosoitetta ei löytynyt.', '5.1.1'],
    ['Nie można odnaleźć podanego adresu e-mail.', '5.1.1'],
    ['Zadanou e-mailovou adresu nelze najít.', '5.1.1'],
    ['لم يتم العثور على عنوان البريد الإلكتروني', '5.1.1'],
    ['Η διεύθυνση ηλεκτρονικού ταχυδρομείου δεν βρέθηκε.', '5.1.1'],
    ['Не удалось найти введенный адрес электронной почты.', '5.1.1'],
    ['Adresa de e-mail nu a putut fi găsită.', '5.1.1'],
    ['La cassetta postale del destinatario è piena.', '5.2.2'],
    ['Mottagarens postlåda är full.', '5.2.2'],
    ['Modtagerens postkasse er fuld.', '5.2.2'],
    ['Vastaanottajan postilaatikko on täynnä.', '5.2.2'],
    ['A címzett postaládája megtelt.', '5.2.2'],
    ['Căsuța poștală a destinatarului este plină.', '5.2.2'],
    ['Το γραμματοκιβώτιο του παραλήπτη είναι πλήρες.', '5.2.2'],
    ['صندوق بريد المستلم ممتلئ', '5.2.2'],
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
    'Не удается доставить: Hello',
    '无法传递: Hello',
    '無法傳遞: Hello',
    'Nu se poate livra: Hello',
    'Recapito non riuscito per i seguenti destinatari o gruppi:',
    'Não é possível entregar: Hello',
    'Kan inte levereras: Hello',
    'Ei voida toimittaa: Hello',
    'Doručení následujícím příjemcům nebo skupinám se nezdařilo:',
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
