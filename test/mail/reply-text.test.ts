/** Answers as mail programs write them, in ten languages: what their author wrote stays. */
import assert from 'node:assert/strict';
import { replyText } from '../../src/mail/received-mail.ts';

const quoted = '> Your order 17 is on its way.\n>\n> Acme\n';
const said = 'Thank you!\n\nWhen does it come?';

/** The line above a quotation in Gmail, Thunderbird and Apple Mail. */
const introductions: Readonly<Record<string, string>> = {
  'Gmail, English': 'On Sat, Jan 31, 2026 at 10:30 AM Acme <hi@acme.example> wrote:',
  'Gmail, English, wrapped': 'On Sat, Jan 31, 2026 at 10:30 AM Acme Customer Service <\nhi@acme.example> wrote:',
  'Gmail, German': 'Am Sa., 31. Jan. 2026 um 10:30 Uhr schrieb Acme <hi@acme.example>:',
  'Gmail, French': 'Le sam. 31 janv. 2026 à 10:30, Acme <hi@acme.example> a écrit :',
  'Gmail, Spanish': 'El sáb, 31 ene 2026 a las 10:30, Acme (<hi@acme.example>) escribió:',
  'Gmail, Italian': 'Il giorno sab 31 gen 2026 alle ore 10:30 Acme <hi@acme.example> ha scritto:',
  'Gmail, Portuguese': 'Em sáb., 31 de jan. de 2026 às 10:30, Acme <hi@acme.example> escreveu:',
  'Gmail, Dutch': 'Op za 31 jan 2026 om 10:30 schreef Acme <hi@acme.example>:',
  'Gmail, Polish': 'sob., 31 sty 2026 o 10:30 Acme <hi@acme.example> napisał(a):',
  'Gmail, Russian': 'сб, 31 янв. 2026 г. в 10:30, Acme <hi@acme.example>:',
  'Gmail, Japanese': '2026年1月31日(土) 10:30 Acme <hi@acme.example>:',
  'Thunderbird, English': 'On 31/01/2026 10:30, Acme wrote:',
  'Thunderbird, German': 'Am 31.01.26 um 10:30 schrieb Acme:',
  'Thunderbird, French': 'Le 31/01/2026 à 10:30, Acme a écrit :',
  'Thunderbird, Spanish': 'El 31/01/2026 a las 10:30, Acme escribió:',
  'Thunderbird, Italian': 'Il 31/01/2026 10:30, Acme ha scritto:',
  'Thunderbird, Portuguese': 'Em 31/01/2026 10:30, Acme escreveu:',
  'Thunderbird, Dutch': 'Op 31-01-2026 om 10:30 schreef Acme:',
  'Thunderbird, Polish': 'W dniu 31.01.2026 o 10:30, Acme pisze:',
  'Thunderbird, Russian': '31.01.2026 10:30, Acme пишет:',
  'Thunderbird, Japanese': '2026/01/31 10:30、Acme さんが書きました:',
  'Apple Mail, English': '> On 31 Jan 2026, at 10:30, Acme <hi@acme.example> wrote:\n>',
  'Apple Mail, German': '> Am 31.01.2026 um 10:30 schrieb Acme <hi@acme.example>:\n>',
  'Apple Mail, French': '> Le 31 janv. 2026 à 10:30, Acme <hi@acme.example> a écrit :\n>',
};

/** The fields above an unmarked quotation in Outlook. */
const fields: Readonly<Record<string, string>> = {
  English:
    '________________________________\nFrom: Acme <hi@acme.example>\nSent: Saturday, January 31, 2026 10:30 AM\nTo: Ana\nSubject: Your order',
  'English, plain':
    '-----Original Message-----\nFrom: Acme <hi@acme.example>\nSent: Saturday, January 31, 2026 10:30 AM',
  German:
    '________________________________\nVon: Acme <hi@acme.example>\nGesendet: Samstag, 31. Januar 2026 10:30\nAn: Ana\nBetreff: Ihre Bestellung',
  'German, plain':
    '-----Ursprüngliche Nachricht-----\nVon: Acme <hi@acme.example>\nGesendet: Samstag, 31. Januar 2026 10:30',
  French: 'De : Acme <hi@acme.example>\nEnvoyé : samedi 31 janvier 2026 10:30\nÀ : Ana\nObjet : Votre commande',
  Spanish: 'De: Acme <hi@acme.example>\nEnviado: sábado, 31 de enero de 2026 10:30\nPara: Ana\nAsunto: Su pedido',
  Italian: 'Da: Acme <hi@acme.example>\nInviato: sabato 31 gennaio 2026 10:30\nA: Ana\nOggetto: Ordine',
  Portuguese: 'De: Acme <hi@acme.example>\nEnviado: sábado, 31 de janeiro de 2026 10:30\nPara: Ana\nAssunto: Pedido',
  Dutch: 'Van: Acme <hi@acme.example>\nVerzonden: zaterdag 31 januari 2026 10:30\nAan: Ana\nOnderwerp: Bestelling',
  Polish: 'Od: Acme <hi@acme.example>\nWysłano: sobota, 31 stycznia 2026 10:30\nDo: Ana\nTemat: Zamówienie',
  Russian: 'От: Acme <hi@acme.example>\nОтправлено: 31 января 2026 г. 10:30\nКому: Ana\nТема: Заказ',
  Japanese: '差出人: Acme <hi@acme.example>\n送信日時: 2026年1月31日 10:30\n宛先: Ana\n件名: 注文',
};

const additions = [
  'Sent from my iPhone',
  'Get Outlook for Android<https://aka.ms/x>',
  'Von meinem iPhone gesendet',
  'Envoyé de mon iPhone',
  'Enviado desde mi iPhone',
  'Inviato da iPhone',
  'Enviado do meu iPhone',
  'Verstuurd vanaf mijn iPhone',
  'Wysłane z iPhone’a',
  'Отправлено с iPhone',
  'iPhoneから送信',
];

describe('replyText', () => {
  for (const [what, introduction] of Object.entries(introductions))
    it(`leaves out the quotation of ${what}`, () => {
      assert.equal(replyText(`${said}\n\n${introduction}\n\n${quoted}`, null), said);
    });

  for (const [what, above] of Object.entries(fields))
    it(`leaves out the unmarked quotation of Outlook, ${what}`, () => {
      assert.equal(replyText(`${said}\r\n\r\n${above}\r\n\r\nYour order 17 is on its way.\r\n`, null), said);
    });

  for (const line of additions)
    it(`leaves out "${line}"`, () => {
      assert.equal(
        replyText(`${said}\n\n${line}\n\n${introductions['Thunderbird, English'] ?? ''}\n${quoted}`, null),
        said,
      );
    });

  it('leaves out a signature', () => {
    assert.equal(replyText(`${said}\n\n-- \nAna Example\n+1 555 0100\n`, null), said);
  });

  it('keeps answers below and between quotations', () => {
    const text = `On 31/01/2026 10:30, Acme wrote:\n> Is it red?\nYes.\n> Is it large?\nNo.\n`;
    assert.equal(replyText(text, null), 'Yes.\nNo.');
  });

  it('keeps what only looks like a quotation', () => {
    const text = 'From: here it goes to you.\nOn Monday I wrote:\nnothing - and she wrote: much more 5\n-----\nA -> B';
    assert.equal(replyText(text, null), text);
  });

  for (const [what, html] of [
    [
      'Gmail',
      '<div dir="ltr">Thank you!<div><br></div><div>When does it come?</div></div><br><div class="gmail_quote"><div dir="ltr">On Sat, Jan 31 Acme wrote:<br></div><blockquote>Your order</blockquote></div>',
    ],
    [
      'Outlook',
      '<div>Thank you!</div><br><div>When does it come?</div><hr><div id="divRplyFwdMsg"><b>From:</b> Acme<br></div><div>Your order</div>',
    ],
    [
      'Apple Mail',
      '<div>Thank you!</div><div><br></div><div>When does it come?</div><br><div><blockquote type="cite"><div>On 31 Jan 2026, at 10:30, Acme wrote:</div>Your order</blockquote></div>',
    ],
    [
      'Thunderbird',
      '<p>Thank you!</p><p>When does it come?</p><div class="moz-cite-prefix">On 31/01/2026, Acme wrote:<br></div><blockquote type="cite">Your order</blockquote>',
    ],
  ] as const)
    it(`leaves out the quotation of an html of ${what}`, () => {
      assert.deepEqual(replyText(null, html)?.split(/\n+/), said.split(/\n+/));
    });

  const cite = '<div class="moz-cite-prefix">On 29.11.26 09:19, Shop wrote:<br></div>';
  const dear =
    '<blockquote type="cite"><p>Dear customer,</p><blockquote><p>older</p></blockquote><p>Shop</p></blockquote>';
  for (const [what, html, expected] of [
    ['Thunderbird below', `${cite}${dear}<p>VA below</p>`, 'VA below'],
    [
      'Thunderbird below with a signature',
      `${cite}${dear}<p>VA below</p><pre class="moz-signature" cols="72">-- \nAna</pre>`,
      'VA below',
    ],
    [
      'Thunderbird between a signature above and below',
      `<p>hello</p><div class="moz-signature">-- <br>Ana</div>${cite}${dear}<p>VA below</p>`,
      'hello\n\nVA below',
    ],
    [
      'a plain introduction',
      '<p>On 29.11.26 09:19, Shop wrote:</p><blockquote><p>Dear customer,</p></blockquote><p>VA below</p>',
      'VA below',
    ],
    [
      'Gmail below',
      '<div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">Na 29.11. Shop:<br></div><blockquote class="gmail_quote" style="border-left:1px solid">Dear customer,</blockquote><div>VA below</div></div>',
      'VA below',
    ],
    [
      'Gmail, passed on',
      '<div>See this</div><div class="gmail_quote"><div class="gmail_attr">---------- Forwarded message ---------<br>From: Shop</div>Dear <blockquote>customer</blockquote> Ana</div>',
      'See this',
    ],
    [
      'Apple Mail below',
      '<div><blockquote type="cite"><div>On 29 Nov 2026, at 09:19, Shop wrote:</div><br><div>Dear customer,</div></blockquote></div><div>VA below</div>',
      'VA below',
    ],
    ['words between', `<p>hello</p>${cite}${dear}<p>one</p>${dear}<p>two</p>`, 'hello\n\none\n\ntwo'],
    [
      'Yahoo',
      '<div>VA</div><div id="y" class="yahoo_quoted"><div>On 1 x wrote:</div><div>Dear</div></div><p>VB</p>',
      'VA\n\nVB',
    ],
    [
      'indented words',
      '<blockquote style="margin:0 0 0 40px;border:none">VA</blockquote><!-- <blockquote> --><p>VB</p>',
      'VA\n\nVB',
    ],
    ['a quotation without an end', '<p>VA</p><blockquote><p>Dear customer,</p>', 'VA'],
    ['Outlook, whatever is below', '<p>VA</p><div id="appendonsend"></div><hr><p>From: x</p><p>VB</p>', 'VA'],
  ] as const)
    it(`keeps the words of an html: ${what}`, () => {
      assert.equal(replyText(null, html), expected);
    });

  it('takes a time that grows with the html, whatever is in it', () => {
    for (const piece of [
      '<div class="',
      '<blockquote ',
      '<blockquote>',
      '<!-- ',
      '<div class="gmail_quote"><blockquote>x</blockquote>',
    ]) {
      const began = performance.now();
      replyText(null, piece.repeat(Math.floor(262_144 / piece.length)));
      assert.ok(performance.now() - began < 3000, piece);
    }
  });

  it('has nothing for a mail without text', () => {
    assert.equal(replyText(null, null), null);
    assert.equal(replyText('> all of it is quoted\n', null), '');
  });

  it('takes a time that grows with the text, whatever is in it', () => {
    for (const line of [
      'On 1 wrote',
      `On ${'1 '.repeat(300)}wrote:`,
      'From: x',
      '-'.repeat(190),
      `Am ${'schrieb '.repeat(40)}`,
    ]) {
      const began = performance.now();
      replyText(`${line}\n`.repeat(Math.floor(262_144 / line.length)), null);
      assert.ok(performance.now() - began < 3000, line.slice(0, 40));
    }
  });
});
