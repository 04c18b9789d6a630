/** Reports as no RFC has them, notices of systems with forms of their own, and answering machines in thirty languages. */
import assert from 'node:assert/strict';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import type { Finding } from '../../src/inbound/finding.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';

const words = readBounceWords();
const read = (mail: string): Finding => readReport({ words, judge }, Buffer.from(mail));

const fields = [
  'Reporting-MTA: dns; mx.dest.test',
  '',
  'Final-Recipient: rfc822; ana@dest.test',
  'Action: failed',
  'Status: 5.1.1',
  'Diagnostic-Code: smtp; 550 5.1.1 no such user',
  '',
].join('\n');
const STATUS = 'Content-Type: message/delivery-status';
const HEAD = 'From: MAILER-DAEMON@mx.dest.test\nTo: b+x@rp.acme.test\nSubject: Undelivered Mail Returned to Sender\n';
const prose = 'Content-Type: text/plain\n\nYour message could not be delivered.\n';

const parts = (type: string, boundary: string, inside: readonly string[]): string =>
  `MIME-Version: 1.0\nContent-Type: ${type}; boundary=${boundary}\n\n${inside.map((one) => `--${boundary}\n${one}\n`).join('')}--${boundary}--\n`;
const report = (status: string, head = STATUS): string =>
  HEAD + parts('multipart/report; report-type=delivery-status', 'bb', [prose, `${head}\n\n${status}`]);
const text = (head: string, body: string): string => `${head}\nContent-Type: text/plain; charset=utf-8\n\n${body}\n`;
const daemon = (subject: string): string => `Return-Path: <>\nFrom: postmaster@dest.test\nSubject: ${subject}`;

const failures: readonly (readonly [what: string, mail: string, expected?: string])[] = [
  [
    'the status in base64',
    report(Buffer.from(fields).toString('base64'), `${STATUS}\nContent-Transfer-Encoding: base64`),
  ],
  [
    'in quoted-printable',
    report(fields.replace('rfc822;', 'rfc822=3B'), `${STATUS}\nContent-Transfer-Encoding: quoted-printable`),
  ],
  ['under a charset that it is not in', report(fields, `${STATUS}; charset=utf-16`)],
  ['under a charset that nobody knows', report(fields, `${STATUS}; charset="x-nonsense"`)],
  ['without empty lines', report(fields.replaceAll('\n\n', '\n'))],
  ['in upper case', report(fields.toUpperCase())],
  ['with comments', report(fields.replace('5.1.1\n', '5.1.1 (bad mailbox)\n').replace('failed', 'failed (for good)'))],
  [
    'with a source route',
    report(fields.replace('rfc822; ana@dest.test', 'rfc822;<@relay.test,@b.test:ana@dest.test>')),
  ],
  ['of an X.400 name', report(fields.replace('rfc822; ana@dest.test', 'x400; /CN=Ana/O=Dest/C=US/'))],
  [
    'with a disclaimer around it',
    HEAD +
      parts('multipart/mixed', 'oo', [
        parts('multipart/report; report-type=delivery-status', 'bb', [prose, `${STATUS}\n\n${fields}`]),
        'Content-Type: text/plain\n\nDISCLAIMER\n',
      ]),
  ],
  [
    'as an attached text',
    HEAD +
      parts('multipart/mixed', 'bb', [
        prose,
        `Content-Type: text/plain; name=details.txt\nContent-Disposition: attachment; filename=details.txt\n\n${fields}`,
      ]),
  ],
  [
    'as a file of no type',
    HEAD +
      parts('multipart/mixed', 'bb', [
        prose,
        `Content-Type: application/octet-stream\nContent-Disposition: attachment; filename=details.dsn\n\n${fields}`,
      ]),
  ],
  [
    'by Exchange, in prose',
    text(
      `${daemon('Undeliverable: Your order')}\nAuto-Submitted: auto-replied`,
      "Delivery has failed to these recipients or groups:\n\nana@dest.test\nThe email address you entered couldn't be found. Please check the recipient's email address and try to resend the message.\n\nDiagnostic information for administrators:\n\nana@dest.test\nRemote Server returned '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup'",
    ),
  ],
  [
    'by Exchange, of a full mailbox',
    text(
      daemon('Undeliverable: Your order'),
      "Delivery has failed to these recipients or groups:\n\nana@dest.test\nThe recipient's mailbox is full and can't accept messages now.",
    ),
    'soft',
  ],
  [
    'by Gmail',
    text(
      `${daemon('Delivery Status Notification (Failure)')}\nX-Failed-Recipients: ana@dest.test`,
      "** Address not found **\n\nYour message wasn't delivered to ana@dest.test because the address couldn't be found, or is unable to receive mail.",
    ),
  ],
  [
    'by Notes',
    text(
      daemon('DELIVERY FAILURE: User ana (ana@dest.test) not listed in Domino Directory'),
      'Your message\n\n  Subject: Your order\n\nwas not delivered to:\n\n  ana@dest.test\n\nbecause:\n\n  User ana (ana@dest.test) not listed in Domino Directory',
    ),
  ],
  [
    'by GroupWise',
    text(
      daemon('Message status - undeliverable'),
      'The message that you sent was undeliverable to the following:\n\tana@dest.test (user not found)',
    ),
  ],
];

describe('inbound: odd reports', () => {
  for (const [what, mail, expected = 'hard'] of failures)
    it(`reads a failure ${what}`, () => {
      const { kind, recipients } = read(mail);
      assert.deepEqual([kind, recipients[0]?.verdict?.class], ['bounce', expected]);
      if (!what.includes('X.400')) assert.match(recipients[0]?.address ?? '', /(?:^|:)ana@dest\.test$/i);
    });

  for (const [what, kind, mail] of [
    [
      'a delay',
      'delay',
      report(fields.replace('failed', 'delayed').replaceAll('5.1.1', '4.4.1').replace('550', '451')),
    ],
    [
      'good news',
      'other',
      report(fields.replace('failed', 'delivered').replaceAll('5.1.1', '2.1.5').replace('550', '250')),
    ],
    [
      'a notice that a person passes on',
      'other',
      `From: Bo <bo@dest.test>\nSubject: Fwd: Undelivered Mail Returned to Sender\n${parts('multipart/mixed', 'oo', ['Content-Type: text/plain\n\nLook at this.\n', `Content-Type: message/rfc822\n\n${report(fields)}`])}`,
    ],
    ['nothing', 'other', ''],
    ['zeroes', 'other', '\0'.repeat(1000)],
  ] as const)
    it(`takes ${what} for ${kind}`, () => {
      assert.equal(read(mail).kind, kind);
    });

  /** From the null sender, with our mail quoted below, as bounces are. */
  const answer = (subject: string, body: string, head = ''): string =>
    text(
      `Return-Path: <>\nFrom: Ana <ana@dest.test>\nTo: b+x@rp.acme.test\nSubject: ${subject}${head}`,
      `${body}\n\n> From: Acme <hi@acme.test>\n> To: ana@dest.test\n> Subject: Your order`,
    );
  for (const [subject, body, head] of [
    ['Automatic reply: Your order', 'I am out of the office. Your message has not been delivered to anybody else.'],
    [
      'Automatic reply: Your order',
      'I no longer work here; this mailbox is no longer monitored, and its address will not be found.',
    ],
    ['Re: Your order', 'I am away, mail to me is undeliverable until Monday.', '\nAuto-Submitted: auto-replied'],
    ['Abwesenheitsnotiz', 'Ich bin nicht im Büro. Ihre Nachricht konnte nicht zugestellt werden.'],
    ['Bin im Urlaub', 'Ich bin im Urlaub, Ihre Mail wird nicht weitergeleitet.'],
    ['Réponse automatique : Your order', "Je suis absent. Votre message n'a pas pu être remis à un collègue."],
    ['Respuesta automática: Your order', 'Estoy fuera de la oficina.'],
    ['Resposta automática: Your order', 'Estou fora do escritório.'],
    ['Resposta automàtica: Your order', 'Sóc fora.'],
    ['Risposta automatica: Your order', 'Sono fuori ufficio.'],
    ['Automatisch antwoord: Your order', 'Ik ben afwezig.'],
    ['Autosvar: Your order', 'Jag är inte på kontoret.'],
    ['Automatisk svar: Your order', 'Jeg er på ferie.'],
    ['Fraværsmelding', 'Jeg er ikke på kontoret.'],
    ['Automaattinen vastaus: Your order', 'Olen lomalla.'],
    ['Odpowiedź automatyczna: Your order', 'Jestem poza biurem.'],
    ['Automatická odpověď: Your order', 'Jsem mimo kancelář.'],
    ['Automatická odpoveď: Your order', 'Nie som v kancelárii.'],
    ['Samodejni odgovor: Your order', 'Nisem v pisarni.'],
    ['Automatski odgovor: Your order', 'Nisam u uredu.'],
    ['Automatikus válasz: Your order', 'Szabadságon vagyok.'],
    ['Răspuns automat: Your order', 'Sunt plecat.'],
    ['Автоматический ответ: Your order', 'Я в отпуске.'],
    ['Автоматична відповідь: Your order', 'Я у відпустці.'],
    ['Автоматичен отговор: Your order', 'Извън офиса съм.'],
    ['Automatinis atsakymas: Your order', 'Manęs nėra.'],
    ['Automātiska atbilde: Your order', 'Esmu prom.'],
    ['Automaatvastus: Your order', 'Olen puhkusel.'],
    ['Αυτόματη απάντηση: Your order', 'Είμαι εκτός.'],
    ['Otomatik Yanıt: Your order', 'İzindeyim.'],
    ['自動応答: Your order', '不在です。'],
    ['自动回复: Your order', '我不在办公室。'],
    ['자동 회신: Your order', '부재중입니다.'],
    ['رد تلقائي: Your order', 'أنا خارج المكتب'],
    ['מענה אוטומטי: Your order', 'אני בחופשה'],
    ['Trả lời tự động: Your order', 'Tôi đang nghỉ'],
    ['Balasan Otomatis: Your order', 'Saya cuti'],
    ['ตอบกลับอัตโนมัติ: Your order', 'ฉันไม่อยู่'],
    ['Please confirm your message', 'Your message has been held. Please click to verify that you are human.'],
    ['Your message to ana@dest.test awaits approval (Boxbe)', 'Hello'],
    ['[Ticket #4711] We have received your request', 'Thank you for contacting us.', '\nAuto-Submitted: auto-replied'],
  ] as const)
    it(`takes for an answer: ${subject}`, () => {
      assert.equal(read(answer(subject, body, head)).kind, 'auto_reply');
    });

  for (const [what, mail, most] of [
    [
      '20,000 recipients',
      report(
        Array.from(
          { length: 20_000 },
          (_, n) => `Final-Recipient: rfc822; r${String(n)}@dest.test\nAction: failed\nStatus: 5.1.1\n`,
        ).join('\n'),
      ),
      100,
    ],
    ['mails in mails, 20,000 deep', 'Content-Type: message/rfc822\n\n'.repeat(20_000), 0],
    [
      'parts in parts, 5,000 deep',
      Array.from(
        { length: 5000 },
        (_, n) => `Content-Type: multipart/mixed; boundary=b${String(n)}\n\n--b${String(n)}\n`,
      ).join(''),
      0,
    ],
    ['50,000 addresses in a line', text(daemon('failure notice'), 'a@b.test, '.repeat(50_000)), 100],
    ['half a million brackets', text(daemon('failure notice'), '<'.repeat(500_000)), 0],
  ] as const)
    it(`reads a bounded number of recipients: ${what}`, () => {
      const { recipients } = read(mail);
      assert.ok(recipients.length <= most, String(recipients.length));
    });
});
