/** Notices of mail systems in prose, in the forms that each of them writes: what is late, what was sent back, and why. */
import assert from 'node:assert/strict';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import { findingRecord, type FindingRecord } from '../../src/inbound/finding.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';

const words = readBounceWords();
const record = (mail: string): FindingRecord => findingRecord(readReport({ words, judge }, Buffer.from(mail)));
const daemon = (subject: string, body: string, from = 'Mail Delivery System <MAILER-DAEMON@mx.dest.test>'): string =>
  `Return-Path: <>\nFrom: ${from}\nTo: b+x@rp.acme.test\nSubject: ${subject}\nContent-Type: text/plain; charset=utf-8\n\n${body}\n`;
const original =
  '\n--- The header of the original message follows. ---\n\nReceived: from a by b\nMessage-ID: <1@acme.test>\nFrom: shop@acme.test\nTo: ana@dest.test\n';

/** Author, subject and text. All are about ana@dest.test. */
const delays: readonly (readonly [who: string, subject: string, body: string])[] = [
  [
    'Exim',
    'Warning: message 1abCdE-0001Xy-2z delayed 24 hours',
    `This message was created automatically by mail delivery software.\nA message that you sent has not yet been delivered to one or more of its\nrecipients after more than 24 hours on the queue on mx.acme.test.\n\nThe address to which the message has not yet been delivered is:\n\n  ana@dest.test\n    host mx.dest.test [192.0.2.7]\n    Delay reason: Connection timed out\n\nNo action is required on your part. Delivery attempts will continue for\nsome time, and this warning may be repeated at intervals if the message\nremains undelivered. Eventually the mail delivery software will give up,\nand when that happens, the message will be returned to you.${original}`,
  ],
  [
    'Exim with a reply',
    'Warning: message delayed 2 days',
    'A message that you sent has not yet been delivered to one or more of\nits recipients after 2 days.\n\n  <ana@dest.test>\n\nhost mx.dest.test[192.0.2.7]:\n451 4.7.1 please try again later\n\nEventually the mail delivery software will give up, and when that happens, the message will be returned to you.',
  ],
  [
    'Sendmail',
    'Warning: could not send message for past 4 hours',
    '    **********************************************\n    **      THIS IS A WARNING MESSAGE ONLY      **\n    **  YOU DO NOT NEED TO RESEND YOUR MESSAGE  **\n    **********************************************\n\nThe original message was received at Mon, 1 Jun 2026 10:00:00 +0200\nfrom mx.acme.test [192.0.2.1]\n\n   ----- The following addresses had transient non-fatal errors -----\n<ana@dest.test>\n\n   ----- Transcript of session follows -----\n<ana@dest.test>... Deferred: Connection refused by mx.dest.test.\nWarning: message still undelivered after 4 hours\nWill keep trying until message is 5 days old',
  ],
  [
    'Postfix',
    'Delayed Mail (still being retried)',
    'This is the mail system at host mx.acme.test.\n\n####################################################################\n# THIS IS A WARNING ONLY.  YOU DO NOT NEED TO RESEND YOUR MESSAGE. #\n####################################################################\n\nYour message could not be delivered for more than 4 hour(s).\nIt will be retried until it is 5 day(s) old.\n\n                   The mail system\n\n<ana@dest.test>: connect to mx.dest.test[192.0.2.7]:25: Connection timed out',
  ],
  [
    'Zimbra',
    'Warning: your message is delayed',
    'Your message could not be delivered for more than 1 hour.\nIt will be retried until it is 2 days old. If it cannot be delivered by then, it will be returned to you.\n\n<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 452 4.2.2 mailbox full (in reply to RCPT TO command)',
  ],
  [
    'Exchange',
    'Delivery delayed: Your order',
    'Delivery is delayed to these recipients or groups:\n\nana@dest.test (ana@dest.test)\n\nSubject: Your order\n\nThis message hasn’t been delivered yet. Delivery will continue to be attempted.\n\nThe server will keep trying to deliver this message for the next 1 days, 19 hours and 58 minutes. You’ll be notified if the message can’t be delivered by that time.',
  ],
  [
    'Gmail',
    'Delivery Status Notification (Delay)',
    '** Delivery incomplete **\n\nThere was a temporary problem delivering your message to ana@dest.test. Gmail will retry for 45 more hours. You’ll be notified if the delivery fails permanently.\n\nThe response was:\n\nThe recipient server did not accept our requests to connect.',
  ],
  [
    'OpenSMTPD',
    'Delayed mail report',
    'Hi!\n\nThis is the MAILER-DAEMON, please DO NOT REPLY to this email.\n\nA message is delayed for more than 4 hours for the following list of recipients:\n\nana@dest.test: Network error on destination MXs\n\nPlease note that this is only a temporary failure report.\nThe message is kept in the queue for up to 4 days.\nYou DO NOT NEED to re-send the message to these recipients.',
  ],
  [
    'Courier',
    'NOTICE: mail delivery status.',
    'This is a delivery status notification from mx.acme.test,\nrunning the Courier mail server, version 1.\n\nThe original message was received on Mon, 1 Jun 2026 10:00:00 +0200\n\n                           DELAYED MAIL\n\nYour message to the following recipients has been delayed:\n\n<ana@dest.test>:\n     mx.dest.test [192.0.2.7]:\n <<< 450 Service temporarily unavailable.\n\nYour message will be retried. You do not need to resend it.',
  ],
  [
    'a patched qmail',
    'delay notice',
    "Hi. This is the qmail-send program at mx.acme.test.\nI'm afraid I haven't been able to deliver your message to the following addresses so far.\nThis is only a delay notice: I'll keep trying. If I give up, the message will be returned to you.\n\n<ana@dest.test>:\nCNAME lookup failed temporarily. (#4.4.3)",
  ],
  [
    'MDaemon',
    'Warning: ana@dest.test - Delivery delayed',
    'The attached message had temporary non-fatal delivery problems and has not been delivered yet.\n\nNo action is required on your part. Further delivery attempts will be made until it is 5 days old.\n\nFailed address: ana@dest.test',
  ],
  [
    'CommuniGate Pro',
    'Message delivery delayed',
    "Message delivery to 'ana@dest.test' delayed\nSMTP module(domain dest.test) reports:\n host mx.dest.test says:\n 451 Temporary local problem\n\nThe message remains in the queue and delivery will be attempted again.",
  ],
  [
    'Domino',
    'Delivery delay: Your order',
    'Your message\n\n  Subject: Your order\n\nhas not yet been delivered to:\n\n  ana@dest.test\n\nThe server is still trying. If it cannot be delivered within 24 hours, it will be returned to you.',
  ],
  [
    'a gateway under a subject of failure',
    'Delivery failure notification',
    'Your message could not be delivered to the following recipients:\n\nana@dest.test\n\nPlease do not resend your original message.\n\nDelivery attempts will continue to be made for 5 day(s).',
  ],
  [
    'a German host',
    'Zustellung verzögert',
    'Ihre Nachricht konnte noch nicht zugestellt werden an:\n\nana@dest.test\n\nWeitere Zustellversuche folgen. Falls diese scheitern, wird die Nachricht endgültig nicht zugestellt und geht an Sie zurück.',
  ],
  [
    'a French host',
    'Votre message est retardé',
    "Votre message n'a pas encore été remis à :\n\nana@dest.test\n\nLe serveur continuera d'essayer. Si la remise échoue, le message vous sera retourné.",
  ],
  [
    'a Spanish host',
    'Aviso de retraso',
    'Su mensaje todavía no se ha entregado a:\n\nana@dest.test\n\nEl servidor seguirá intentando la entrega. Cuando se agote el plazo, el mensaje le será devuelto.',
  ],
];

describe('formats finding 1: a delay warning in any words is a delay', () => {
  for (const [who, subject, body] of delays)
    it(`by ${who}`, () => {
      const { kind, recipients } = record(daemon(subject, body));
      assert.deepEqual([kind, recipients.map(({ address }) => address)], ['delay', ['ana@dest.test']]);
      assert.notEqual(recipients[0]?.class, 'hard');
    });

  for (const [what, subject, body] of [
    [
      'that tells how long it was tried',
      'Returned mail: Cannot send message within 5 days',
      '   ----- The following addresses had permanent fatal errors -----\n<ana@dest.test>\n\nMessage could not be delivered for 5 days\nMessage will be deleted from queue',
    ],
    [
      'that was delayed before',
      'Mail delivery failed: returning message to sender',
      'Your message was delayed for 4 days. It could not be delivered and is returned to you now.\n\n  ana@dest.test\n    retry timeout exceeded',
    ],
    [
      'by qmail after a week',
      'failure notice',
      "I'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a permanent error; I've given up. Sorry it didn't work out.\n\n<ana@dest.test>:\nI'm not going to try again; this message has been in the queue too long.",
    ],
    [
      'that rules out further tries',
      'Message delivery has failed',
      'Unable to deliver message to: <ana@dest.test>\n\nThis has been a permanent failure. No further delivery attempts will be made.',
    ],
    [
      'that speaks of the next mail',
      'Undeliverable mail',
      'Your message to ana@dest.test could not be delivered. It will not be retried. If you send it again and it is delayed, ask us.',
    ],
  ] as const)
    it(`and a failure ${what} stays one`, () => {
      const { kind, recipients } = record(daemon(subject, body));
      assert.deepEqual([kind, recipients[0]?.address], ['bounce', 'ana@dest.test']);
    });
});

/** Exim's delay warning about a mail with this subject. */
const warning = (subject: string, reason = 'Connection timed out'): readonly [string, string] => [
  'Warning: message 1abCdE-0001Xy-2z delayed 24 hours',
  `A message that you sent has not yet been delivered to one or more of its\nrecipients after more than 24 hours on the queue on mx.acme.test.\n\nThe message identifier is:     1abCdE-0001Xy-2z\nThe subject of the message is: ${subject}\nThe date of the message is:    Mon, 01 Jun 2026 10:00:00 +0200\n\nThe address to which the message has not yet been delivered is:\n\n  ana@dest.test\n    host mx.dest.test [192.0.2.7]\n    Delay reason: ${reason}\n\nNo action is required on your part. Delivery attempts will continue for\nsome time, and this warning may be repeated at intervals if the message\nremains undelivered. Eventually the mail delivery software will give up,\nand when that happens, the message will be returned to you.`,
];

describe('what is not said by the notice itself does not end a delay', () => {
  for (const [what, [subject, body]] of [
    ['our subject', warning('Your account will be permanently deleted')],
    ['our subject in another mail', warning('Your deposit was returned to you')],
    [
      'the reply of the remote server',
      warning(
        'Hello',
        'SMTP error from remote mail server after RCPT TO:<ana@dest.test>:\n    451 4.3.0 delivery backend gave up, try later',
      ),
    ],
    [
      'its reply in a wrapped line',
      [
        'Delayed Mail (still being retried)',
        'Your message could not be delivered for more than 4 hour(s).\nIt will be retried until it is 5 day(s) old.\n\n<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 451 4.3.0 the backend of this\n    host gave up (in reply to RCPT TO command)',
      ],
    ],
    [
      'our subject between quotation marks, wrapped',
      [
        'Warning: your message is delayed',
        `Your message "Your account is closed\npermanently" to ana@dest.test is late. It will be retried.${original}Subject: Your account is closed permanently\n`,
      ],
    ],
    [
      'a denial',
      [
        'Delivery delayed',
        'Your message to ana@dest.test is late.\n\nWe have not given up yet. The server keeps trying.',
      ],
    ],
    [
      'another denial',
      [
        'Delivery delayed',
        'Your message to ana@dest.test is late.\n\nThis is not a permanent error. Delivery attempts will continue.',
      ],
    ],
  ] as const)
    it(what, () => {
      const { kind, recipients } = record(daemon(subject, body));
      assert.deepEqual([kind, recipients[0]?.address, recipients[0]?.class], ['delay', 'ana@dest.test', 'soft']);
    });
});

describe('nor does it make a delay of a failure', () => {
  for (const [what, subject, body] of [
    [
      'our subject in a notice of an old Exchange',
      'Undeliverable: Your payment failed and will be retried',
      'Your message\n\n  To:      ana@dest.test\n  Subject: Your payment failed and will be retried\n  Sent:    Mon, 1 Jun 2026 10:00:00 +0200\n\ndid not reach the following recipient(s):\n\nana@dest.test on Mon, 1 Jun 2026 10:00:00 +0200\n    Unknown Recipient',
    ],
    [
      'our subject in the text of Domino',
      'Delivery report',
      'Your message\n\n  Subject: Renewal: no action\n           is needed\n\nwas not delivered to:\n\n  ana@dest.test\n\nbecause:\n\n  User ana (ana@dest.test) not listed in Domino Directory',
    ],
    [
      'our subject in theirs alone',
      'Mail delivery failed: Your payment will be retried',
      'Your message could not be delivered.\n\n  ana@dest.test\n    550 5.1.1 no such user',
    ],
    [
      'our subject, where theirs says nothing else',
      'Your payment will be retried',
      'ana@dest.test: 550 5.1.1 no such user',
    ],
    [
      'the reply',
      'Undelivered Mail Returned to Sender',
      'Your message could not be delivered to one or more recipients.\n\n<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 550 5.1.1 unknown user,\n    do not resend your message (in reply to RCPT TO command)',
    ],
  ] as const)
    it(what, () => {
      const { kind, recipients } = record(daemon(subject, body));
      assert.deepEqual([kind, recipients[0]?.address, recipients[0]?.class], ['bounce', 'ana@dest.test', 'hard']);
    });
});

const mdn = (
  { text, disposition = 'automatic-action/MDN-sent-automatically; deleted' }: { text: string; disposition?: string },
  head = 'Auto-Submitted: auto-replied (rejected)\nSubject: Automatically rejected mail',
): string =>
  `Return-Path: <>\nFrom: Mail Delivery Subsystem <postmaster@dest.test>\nTo: b+x@rp.acme.test\n${head}\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\n\n${text}\n--b\nContent-Type: message/disposition-notification\n\nReporting-UA: mx.dest.test; Dovecot Mail Delivery Agent\nFinal-Recipient: rfc822; ana@dest.test\nOriginal-Message-ID: <1@acme.test>\nDisposition: ${disposition}\n\n--b\nContent-Type: message/rfc822\n\nFrom: shop@acme.test\nTo: ana@dest.test\nMessage-ID: <1@acme.test>\n\nHello\n--b--\n`;

describe('formats finding 2: what Sieve and delivery agents send back is a bounce', () => {
  const plain = (head: string, text: string): string =>
    `Return-Path: <>\n${head}\nTo: b+x@rp.acme.test\nContent-Type: text/plain; charset=utf-8\n\n${text}\n`;
  for (const [what, mail, verdict, said] of [
    [
      'of Dovecot, of a full mailbox',
      mdn({
        text: 'Your message to <ana@dest.test> was automatically rejected:\nQuota exceeded (mailbox for user is full)',
      }),
      'soft mailbox_full',
      /Quota exceeded/,
    ],
    [
      'of Pigeonhole, of a user',
      mdn({
        text: 'Your message to <ana@dest.test> was automatically rejected:\nThis user is no longer available here',
      }),
      'hard mailbox_disabled',
      /no longer/,
    ],
    [
      'of a person',
      mdn({
        text: "The message was refused by the recipient's mail filtering program. The reason given was as follows:\n\nPlease do not write to me again.",
      }),
      'block policy',
      /Please do not write/,
    ],
    [
      'of Cyrus',
      mdn({
        text: 'Your message was automatically rejected by Sieve, a mail filtering language.\n\nThe following reason was given:\nMessages of this kind are unwanted',
      }),
      'block policy',
      /unwanted/,
    ],
    [
      'with characters that turn the writing around',
      mdn({
        text: 'Your message to <ana@dest.test> was automatically rejected:\nPlease \u0000do\u001b[2J not\u202e write',
      }),
      'block policy',
      /^Please do \[2J not write$/,
    ],
    [
      'in plain text',
      plain(
        'From: Mail Sieve Subsystem <postmaster@dest.test>\nSubject: Automatically rejected mail\nAuto-Submitted: auto-replied (rejected)',
        'Your message to ana@dest.test was automatically rejected:\nQuota exceeded',
      ),
      'soft mailbox_full',
      /Quota/,
    ],
    [
      'in the name of the recipient',
      plain(
        'From: Ana <ana@dest.test>\nSubject: Rejected: Your order\nAuto-Submitted: auto-replied (rejected)',
        'Your message to ana@dest.test was rejected. Reason:\nI have enough of these.',
      ),
      'block policy',
      /enough of these/,
    ],
  ] as const)
    it(what, () => {
      const { kind, recipients } = record(mail);
      const [one] = recipients;
      assert.deepEqual(
        [kind, one?.address, one?.action, `${String(one?.class)} ${String(one?.reason)}`],
        ['bounce', 'ana@dest.test', 'failed', verdict],
      );
      assert.match(one?.diagnostic ?? '', said);
    });

  for (const [what, mail] of [
    [
      'a read receipt',
      mdn(
        { text: 'Your message was read on Monday.', disposition: 'manual-action/MDN-sent-manually; displayed' },
        'Subject: Read: Your order',
      ),
    ],
    [
      'a mail that nobody opened',
      mdn(
        {
          text: 'Your message was deleted without being read.',
          disposition: 'automatic-action/MDN-sent-automatically; deleted',
        },
        'Subject: Not read: Your order',
      ),
    ],
    [
      'a mail that nobody opened, of a subject about a refusal',
      mdn({ text: 'Your message was deleted without being read.' }, 'Subject: Not read: Your payment was rejected'),
    ],
    [
      'the same with our subject in its text',
      mdn(
        {
          text: 'Your message\n\n  To: ana@dest.test\n  Subject: Your payment was rejected\n  Sent: Monday\n\nwas deleted without being read.',
        },
        'Subject: Not read: Your payment was rejected',
      ),
    ],
    [
      'the same with our subject in a sentence',
      mdn(
        { text: 'Your message "Your payment was rejected" was deleted without being read.' },
        'Subject: Not read: Your payment was rejected',
      ),
    ],
    [
      'a receipt that was deleted by hand',
      mdn(
        { text: 'The mail was rejected by me as spam.', disposition: 'manual-action/MDN-sent-manually; deleted' },
        'Subject: Your order',
      ),
    ],
    [
      'a vacation reply',
      plain(
        'From: Ana <ana@dest.test>\nSubject: Auto: Your order\nAuto-Submitted: auto-replied (vacation)',
        'I am away. Mail is automatically rejected until Monday.',
      ),
    ],
  ] as const)
    it(`and ${what} is none`, () => {
      assert.deepEqual([record(mail).kind, record(mail).recipients], ['auto_reply', []]);
    });
});

const report = (fields: string, prose = 'could not be delivered'): string =>
  `Return-Path: <>\nFrom: Mailer-Daemon@mx.dest.test\nSubject: Mail delivery failed: returning message to sender\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\nContent-Type: text/plain\n\n${prose}\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.dest.test\n\nFinal-Recipient: rfc822;ana@dest.test\n${fields}\n--b--\n`;

describe('formats finding 4: the status is the one that the report says', () => {
  const deliveryAttempts =
    'A message that you sent could not be delivered.\n\nThe following text was generated during the delivery attempts:\n\n------ ana@dest.test\n\nsomething odd happened';
  for (const [what, mail, status, from, verdict] of [
    [
      'Exim says 5.0.0 of a host that did not answer',
      report('Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; all hosts have been failing for a long time'),
      '5.0.0',
      'report',
      'soft expired',
    ],
    [
      'Exim says 5.0.0 and quotes 5.1.1',
      report('Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 5.1.1 no such user'),
      '5.1.1',
      'report',
      'hard mailbox_not_found',
    ],
    [
      'Exim gave up after a temporary refusal',
      report('Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 450 4.2.2 over quota'),
      '5.0.0',
      'report',
      'soft mailbox_full',
    ],
    [
      'a call back was refused for good',
      report(
        'Action: failed\nStatus: 4.4.7\nDiagnostic-Code: smtp; 450-Callout verification failed for <ana@dest.test>: 450 550 5.1.1 User unknown',
      ),
      '4.4.7',
      'report',
      'soft expired',
    ],
    [
      'Postfix quotes what another host said',
      report(
        'Action: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 450 <ana@dest.test>: Recipient address rejected: unverified address: host mx.dest.test said: 550 5.1.1 <ana@dest.test>: User unknown',
      ),
      '5.0.0',
      'report',
      'soft other',
    ],
    [
      'the same stands in the text alone',
      daemon(
        'Undelivered Mail Returned to Sender',
        '<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 450 <ana@dest.test>: unverified address: host a.dest.test said: 550 5.1.1 User unknown',
      ),
      '4.1.1',
      'words',
      'soft other',
    ],
    [
      'the report calls it temporary, without more',
      report('Action: failed\nStatus: 4.0.0\nDiagnostic-Code: smtp; 550 no such user here'),
      '4.0.0',
      'report',
      'soft other',
    ],
    [
      'the report calls it temporary',
      report('Action: failed\nStatus: 4.2.0\nDiagnostic-Code: smtp; 550 no such user here'),
      '4.2.0',
      'report',
      'soft other',
    ],
    [
      'Exim speaks of delivery attempts',
      report('Action: failed\nStatus: 5.0.0', deliveryAttempts),
      '5.0.0',
      'report',
      'undetermined other',
    ],
    [
      'qmail has given up',
      daemon(
        'failure notice',
        "This is a permanent error; I've given up. Sorry it didn't work out.\n\n<ana@dest.test>:\nkaputt",
      ),
      null,
      null,
      'undetermined other',
    ],
    [
      'a time is told',
      daemon('failure notice', '<ana@dest.test>:\ngiven up after 5 days'),
      '4.4.7',
      'words',
      'soft expired',
    ],
    [
      'words alone tell it',
      daemon('failure notice', '<ana@dest.test>:\nmailbox is full'),
      '5.2.2',
      'words',
      'soft mailbox_full',
    ],
    [
      'the address of a page has a number at its end',
      daemon(
        '[Postmaster] Email Delivery Failure',
        'an email could not be delivered to\n-- ana@dest.test\n\n-- 554 Email rejected due to security policies - https://help.dest.test/docs/1369#554',
      ),
      '5.7.1',
      'words',
      'block policy',
    ],
    [
      'a content filter stopped it',
      daemon(
        'BANNED contents from you',
        'Our content checker found\n    banned name: setup.exe\nin email presumably from you to the following recipient:\n-> ana@dest.test\n\nDelivery of the email was stopped!',
      ),
      '5.7.1',
      'words',
      'block reputation',
    ],
    [
      'German words tell it',
      daemon('Unzustellbar', 'An: ana@dest.test\nGrund: Der Empfänger ist unbekannt.'),
      '5.1.1',
      'words',
      'hard mailbox_not_found',
    ],
  ] as const)
    it(`where ${what}`, () => {
      const [one] = record(mail).recipients;
      assert.deepEqual(
        [one?.status, one?.status_from, `${String(one?.class)} ${String(one?.reason)}`],
        [status, from, verdict],
      );
    });
});

describe('formats finding 5: an address in a wrapped line belongs to the recipient above', () => {
  for (const [what, body] of [
    [
      'by Postfix',
      '<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 550 5.7.1\n    <ana@dest.test>: Recipient address rejected: User unknown in virtual mailbox\n    table (in reply to RCPT TO command)',
    ],
    [
      'by Postfix, of another spelling',
      '<ana@dest.test>: host mx.dest.test[192.0.2.7] said: 554 5.7.1\n    <ana@mail.dest.test>: Recipient address rejected: User unknown (in reply to\n    RCPT TO command)',
    ],
    [
      'by Exim',
      '  ana@dest.test\n    host mx.dest.test [192.0.2.7]\n    SMTP error from remote mail server after RCPT TO:<ana@dest.test>:\n    550 5.7.1\n      <ana@dest.test>: Recipient address rejected: User unknown',
    ],
  ] as const)
    it(what, () => {
      const { recipients } = record(
        daemon(
          'Undelivered Mail Returned to Sender',
          `I'm sorry to have to inform you that your message could not be delivered.\n\n${body}`,
        ),
      );
      assert.deepEqual(
        recipients.map(({ address, class: bounceClass }) => [address, bounceClass]),
        [['ana@dest.test', 'hard']],
      );
    });

  it('also where the notice is quoted, whose reply goes on behind the wrap', () => {
    const body =
      '> <ana@dest.test>: host mx.dest.test[192.0.2.7] said: 550 5.1.1\n>     <ana@dest.test>: Recipient address rejected: User unknown in\n>     table (in reply to RCPT TO command)';
    const { recipients } = record(daemon('Undelivered Mail Returned to Sender', `Sorry, this came back:\n\n${body}`));
    assert.deepEqual(
      recipients.map(({ address, diagnostic }) => [address, diagnostic]),
      [
        [
          'ana@dest.test',
          '550 5.1.1 <ana@dest.test>: Recipient address rejected: User unknown in table (in reply to RCPT TO command)',
        ],
      ],
    );
  });

  it('and a list of recipients stays a list', () => {
    const { recipients } = record(
      daemon(
        'Undelivered Mail Returned to Sender',
        'These failed:\n\n  <ana@dest.test>: 550 5.1.1 unknown\n  <bo@dest.test>: 552 5.2.2 full',
      ),
    );
    assert.deepEqual(
      recipients.map(({ address, reason }) => [address, reason]),
      [
        ['ana@dest.test', 'mailbox_not_found'],
        ['bo@dest.test', 'mailbox_full'],
      ],
    );
  });
});

describe('formats finding 6: what the remote server returned outweighs the sentence about it', () => {
  const exchange = (sentence: string, reply: string): string =>
    daemon(
      'Undeliverable: Your order',
      `Delivery has failed to these recipients or groups:\n\nana@dest.test (ana@dest.test)\n${sentence}\n\nDiagnostic information for administrators:\n\nGenerating server: gw.mail.dest.test\n\nana@dest.test\n${reply}`,
      'Microsoft Outlook <postmaster@dest.test>',
    );
  for (const [reply, verdict] of [
    [
      "Remote Server returned '550 5.4.1 Recipient address rejected: Access denied. AS(201806281)'",
      'hard mailbox_not_found',
    ],
    [
      "Remote Server returned '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup'",
      'hard mailbox_not_found',
    ],
    ['mx.dest.test #550 5.7.1 Message rejected as spam by Content Filtering ##', 'block spam'],
  ] as const)
    it(reply, () => {
      const sentence = "Your message wasn't delivered because the recipient's email provider rejected it.";
      const { recipients } = record(exchange(sentence, reply));
      assert.deepEqual(
        recipients.map((one) => `${one.address} ${String(one.class)} ${String(one.reason)}`),
        [`ana@dest.test ${verdict}`],
      );
    });
});

describe('notices in unusual forms', () => {
  for (const line of [
    '(generated from bo@dest.test)',
    '(ultimately generated from bo@dest.test)',
    '(expanded from: <bo@dest.test>)',
  ])
    it(`tell whom the mail was for: ${line}`, () => {
      for (const mail of [
        daemon('Mail delivery failed', `These failed:\n\n  ana@dest.test\n    ${line}\n    550 5.1.1 unknown`),
        report('Action: failed\nStatus: 5.1.1', `These failed:\n\n  ana@dest.test\n    ${line}\n    550 5.1.1 unknown`),
      ])
        assert.equal(record(mail).recipients[0]?.original, 'bo@dest.test');
    });

  it('formats finding 9: no control character is in a diagnostic', () => {
    for (const mail of [
      report('Action: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\u0000such\u0007 user'),
      daemon('failure notice', '<ana@dest.test>:\n550 5.1.1 no\u0000such\u001b user'),
    ])
      assert.equal(record(mail).recipients[0]?.diagnostic, '550 5.1.1 no such user');
  });

  for (const [what, mail, kind, address] of [
    [
      'a report inside of a mail without words',
      `Return-Path: <>\nFrom: scanner@dest.test\nSubject: Delivery Status Notification (Failure)\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: message/rfc822\n\n${report('Action: failed\nStatus: 5.1.1')}\n--o--\n`,
      'bounce',
      'ana@dest.test',
    ],
    [
      'a report inside of a mail of the same sender, with a disclaimer',
      `Return-Path: <>\nFrom: Mailer-Daemon@mx.dest.test\nSubject: Delivery Status Notification (Failure)\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: message/rfc822\n\n${report('Action: failed\nStatus: 5.1.1')}\n--o\n\nThis e-mail is confidential.\n--o--\n`,
      'bounce',
      'ana@dest.test',
    ],
    [
      'a report without a From and with an empty status part',
      'Return-Path: <mailer-daemon@gw.dest.test>\nSubject: =?utf-8?q?Utilisateur_inconnu?=\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\nA message could not be delivered to:\nana@dest.test\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: gw.dest.test\n--b--\n',
      'bounce',
      'ana@dest.test',
    ],
    [
      'a sentence that was wrapped before the cause',
      daemon(
        'Mail delivery failure',
        "A message that you sent could not be delivered to all of its recipients.\n\nThe following message, addressed to 'ana@dest.test',\nfailed because it has not been collected after 30 days",
      ),
      'bounce',
      'ana@dest.test',
    ],
    [
      'an X.400 name beside the address that we wrote to',
      report('Action: failed\nStatus: 5.1.1').replace(
        'rfc822;ana@dest.test',
        'x400; /S=ana/O=dest/C=GB/\nOriginal-Recipient: rfc822; ana@dest.test',
      ),
      'bounce',
      'ana@dest.test',
    ],
    [
      'a person who forwards a notice',
      `From: Bo <bo@dest.test>\nSubject: Fwd: Undelivered Mail\n\nLook:\n\nYour message could not be delivered to\nana@dest.test\n`,
      'other',
      undefined,
    ],
  ] as const)
    it(`${what}: ${kind}`, () => {
      const found = record(mail);
      assert.deepEqual([found.kind, found.recipients[0]?.address], [kind, address]);
    });
});
