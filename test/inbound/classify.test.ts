/** Mails of our own making in the forms that programs write (test/fixtures/reports), and the rules that tell them apart. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import { findingRecord, type Finding } from '../../src/inbound/finding.ts';
import { complainedBy } from '../../src/messages/delivery/reported.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';

const folder = path.resolve(import.meta.dirname, '../fixtures/reports');
const words = readBounceWords();
const TOKEN = '101jz00000000000000000000070123456789abcdef';
const read = (text: string, recipients: string[] = []): Finding =>
  readReport({ words, judge }, Buffer.from(text), { recipients, sender: null, about: null });
const fixture = (name: string): string => readFileSync(path.join(folder, `${name}.eml`), 'utf8');

type Recipient = readonly [address: string, action: string | null, status: string | null, verdict: string | null];

/** File, kind, has our token, Message-ID, recipients, feedback type. */
const files: readonly (readonly [string, string, boolean, string | null, readonly Recipient[], string?])[] = [
  [
    'dsn-failed',
    'bounce',
    true,
    'msg_01jz0000000000000000000007',
    [['ana@remote.example', 'failed', '5.1.1', 'hard mailbox_not_found']],
  ],
  ['dsn-delayed', 'delay', true, '<a2@shop.example>', [['bo@slow.example', 'delayed', '4.4.1', 'soft network']]],
  ['dsn-delivered', 'other', false, null, [['ok@mx.example', 'delivered', '2.0.0', null]]],
  [
    'dsn-global',
    'bounce',
    false,
    '<g1@shop.example>',
    [['josé@mx.example', 'failed', '5.1.1', 'hard mailbox_not_found']],
  ],
  [
    'dsn-several',
    'bounce',
    false,
    null,
    [
      ['a@gw.example', 'failed', '5.2.2', 'soft mailbox_full'],
      ['b@gw.example', 'delayed', '4.4.7', 'soft expired'],
      ['c@gw.example', 'relayed', '2.0.0', null],
      ['d@gw.example', 'failed', '5.7.1', 'block spam'],
    ],
  ],
  [
    'text-qmail',
    'bounce',
    true,
    '<a3@shop.example>',
    [
      ['carla@old.example', 'failed', '5.1.1', 'hard mailbox_not_found'],
      ['dora@old.example', 'failed', '5.7.1', 'block reputation'],
    ],
  ],
  [
    'text-exim',
    'bounce',
    false,
    '<a4@shop.example>',
    [['ed@exim.example', 'failed', '5.2.1', 'hard mailbox_disabled']],
  ],
  ['text-domino', 'bounce', false, null, [['fay@domino.example', 'failed', '5.1.1', 'hard mailbox_not_found']]],
  ['text-exchange', 'bounce', false, null, [['gil@corp.example', 'failed', '5.1.1', 'hard mailbox_not_found']]],
  ['text-japanese', 'bounce', false, null, [['hana@ja.example', 'failed', '5.2.2', 'soft mailbox_full']]],
  ['text-delay', 'delay', false, null, [['ida@slow.example', 'delayed', '4.4.1', 'soft network']]],
  ['vacation', 'auto_reply', true, null, []],
  ['vacation-plain', 'auto_reply', false, null, []],
  ['challenge', 'auto_reply', false, null, []],
  ['receipt', 'auto_reply', false, null, []],
  ['complaint', 'complaint', true, 'msg_01jz0000000000000000000008', [['olaf@isp.example', null, null, null]], 'abuse'],
  ['complaint-redacted', 'complaint', true, '<a7@shop.example>', [], 'fraud'],
  ['complaint-jmrp', 'complaint', false, '<a8@shop.example>', [['pia@provider.example', null, null, null]], 'abuse'],
  ['report-dmarc', 'report', false, null, []],
  ['report-tls', 'report', false, null, []],
  ['person', 'other', false, null, []],
];

describe('a mail that comes back', () => {
  for (const [name, kind, hasToken, messageId, recipients, type = null] of files) {
    for (const [end, lines] of [
      ['\n', 'LF'],
      ['\r\n', 'CRLF'],
      ['\r', 'CR'],
    ] as const) {
      it(`${name}.eml with ${lines} is ${kind}`, () => {
        const record = findingRecord(read(fixture(name).replaceAll('\n', end)));
        assert.deepEqual(
          {
            kind: record.kind,
            token: record.token,
            id: record.message_id,
            recipients: record.recipients.map((one) => [
              one.address,
              one.action,
              one.status,
              one.class === null ? null : `${one.class} ${String(one.reason)}`,
            ]),
            type: record.feedback_type,
          },
          { kind, token: hasToken ? TOKEN : null, id: messageId, recipients, type },
        );
      });
    }
  }

  it('has all fixtures in the table', () => {
    const there = readdirSync(folder).map((file) => file.replace('.eml', ''));
    assert.deepEqual([...files.map(([name]) => name), 'unsubscribe'].sort(), there.sort());
  });

  it('to the unsubscribe address keeps its token as it is written', () => {
    const { kind, token, recipients } = read(fixture('unsubscribe'));
    assert.deepEqual(
      [kind, token, recipients[0]?.address],
      ['unsubscribe', 'eyJrIjoxfQ.abc_def-123', 'quin@isp.example'],
    );
  });

  it('gives the address we wrote to and the one that was tried', () => {
    assert.equal(read(fixture('dsn-failed')).recipients[0]?.original, 'ana.lang@remote.example');
  });

  it('is well-formed where it is a delivery report with its type', () => {
    assert.ok(read(fixture('dsn-failed')).isWellFormed);
    assert.ok(!read(fixture('dsn-failed').replace('report-type=delivery-status;', '')).isWellFormed);
    assert.ok(!read(fixture('text-qmail')).isWellFormed);
  });

  it('has its token from the session before any header', () => {
    const other = `b+${TOKEN.replace('7', '6')}@rp.shop.example`;
    assert.equal(read(fixture('dsn-failed'), [other]).token, other.slice(2, 45));
  });

  it('says what a complaint was about', () => {
    assert.deepEqual(read(fixture('complaint')).feedback, {
      type: 'abuse',
      source: 'arf',
      userAgent: 'Reports/1.0',
      arrivalDate: 'Mon, 1 Jun 2026 10:00:00 +0000',
    });
  });

  for (const [head, subject, source] of [
    ['X-HmXmrOriginalRecipient: pia@provider.example', 'complaint about message from 192.0.2.1', 'jmrp'],
    ['X-AOL-Recipient: pia@provider.example', 'Email Feedback Report for IP 192.0.2.1', 'other'],
    ['X-Mailer: any', 'abuse report', 'other'],
  ] as const)
    it(`is told of as ${source} by "${head}" under "${subject}"`, () => {
      const jmrp = fixture('complaint-jmrp')
        .replace('complaint about message from 192.0.2.1', subject)
        .replace('X-HmXmrOriginalRecipient: pia@provider.example', head);
      const found = read(jmrp);
      assert.deepEqual([found.kind, found.feedback?.source], ['complaint', source]);
      assert.equal(findingRecord(found).feedback_source, source);
    });

  it('finds no message by the Feedback-ID alone, which many mails share', () => {
    const ids = /^(?:message-id|x-message-id|x-posthorn-delivery):.*\n/gim;
    const { kind, messageId, copy } = read(fixture('complaint').replaceAll(ids, ''), []);
    assert.deepEqual([kind, messageId, copy], ['complaint', null, null]);
  });
});

const notice = (fields: string, text: string): string =>
  `To: hello@shop.example\n${fields}\nContent-Type: text/plain; charset=utf-8\n\n${text}\n`;
const DAEMON = 'Return-Path: <>\nFrom: MAILER-DAEMON@mx.example';

describe('prose', () => {
  for (const [fields, text, kind, reason] of [
    [`${DAEMON}\nSubject: hello`, 'x@y.example was not delivered', 'bounce', 'a program says so'],
    [`${DAEMON}\nSubject: hello`, '<x@y.example>: 550 5.1.1 no', 'bounce', 'a program quotes a reply'],
    [`${DAEMON}\nSubject: hello`, 'Good morning', 'other', 'a program says nothing of the kind'],
    [`${DAEMON}\nSubject: Return receipt`, 'Your mail was successfully delivered to x@y.example', 'other', 'good news'],
    [`${DAEMON}\nSubject: failure notice`, 'x@y.example: delayed too long, given up', 'bounce', 'late, and over'],
    [`${DAEMON}\nSubject: hello`, 'x@y.example has not been delivered yet, will retry', 'delay', 'late, and not over'],
    [`${DAEMON}\nSubject: Automatic reply: x`, 'not delivered', 'auto_reply', 'an answering machine that has no name'],
    ['From: ann@y.example\nSubject: Undelivered mail', 'what is this?', 'other', 'a person asks about a bounce'],
    [
      'From: ann@y.example\nSubject: hi',
      'My parcel was not delivered. 550 euros!',
      'other',
      'a person complains of something else',
    ],
    [
      'Return-Path: <>\nFrom: ann@y.example\nSubject: hi\nAuto-Submitted: auto-replied',
      'Mail to bob@y.example could not be delivered',
      'auto_reply',
      'an answer by itself, whatever it says',
    ],
    [
      'Return-Path: <>\nFrom: gateway@y.example\nSubject: Delivery failed',
      '<x@y.example>: 550 5.1.1 unknown',
      'bounce',
      'a gateway under another name',
    ],
    [
      'From: noreply@y.example\nSubject: Notice',
      'Could not be delivered to <x@y.example>: 550 5.1.1 unknown',
      'bounce',
      'nobody, with a reply',
    ],
    ['From: noreply@y.example\nSubject: Notice', 'Your parcel could not be delivered', 'other', 'nobody, without'],
    [
      `${DAEMON}\nSubject: hello`,
      'Please confirm that you are human so that your mail is not undelivered',
      'auto_reply',
      'a challenge by a program',
    ],
    ['From: ann@y.example\nSubject: x\nX-Failed-Recipients: x@y.example', 'x', 'bounce', 'a field that only says this'],
    [
      'Return-Path: <ann@y.example>\nFrom: ann@y.example\nSubject: Fwd: Returned mail',
      'What?\n\n> Final-Recipient: rfc822; x@y.example\n> Action: failed\n> Status: 5.1.1',
      'other',
      'a person passes a report on',
    ],
    ['From: ann@y.example\nSubject: Re: Delivery failed', 'It was not. 550 5.1.1', 'other', 'a person asks about one'],
    ['From: <>', "You sent mail to x@y.example. That's not a valid user here.", 'bounce', 'nobody writes'],
    [
      `${DAEMON}\nSubject: hi`,
      'Your message to x@y.example was rejected',
      'bounce',
      'who it was for between the words',
    ],
    ['From: ann@y.example\nSubject: unsubscribe', '', 'unsubscribe', 'a mail program asks for its user'],
  ] as const) {
    it(`${kind}: ${reason}`, () => {
      assert.equal(read(notice(fields, text)).kind, kind);
    });
  }

  for (const [text, expected, reason] of [
    ['<x@y.example>: 550 5.1.1 no\nhelp: support@y.example', ['x@y.example'], 'at the begin of a line'],
    ['undeliverable\n1. x@y.example\n2. z@y.example', ['x@y.example', 'z@y.example'], 'a list'],
    ['undeliverable\n>>> RCPT TO:<x@y.example>\n<<< 550 unknown', ['x@y.example'], 'in a transcript'],
    [
      'We could not deliver mail to x@y.example, ask help@y.example',
      ['x@y.example', 'help@y.example'],
      'in a sentence that says why',
    ],
    [
      'undeliverable\nAsk help@y.example\n\n--- original message ---\nTo: x@y.example\nMessage-ID: <1@y>',
      ['x@y.example'],
      'whom the mail was for',
    ],
    ['undeliverable: hello@shop.example', ['hello@shop.example'], 'mail to oneself'],
    ['undeliverable', [], 'nobody'],
  ] as const) {
    it(`names ${JSON.stringify(expected)}: ${reason}`, () => {
      const found = read(notice(`${DAEMON}\nSubject: failure notice`, text)).recipients;
      assert.deepEqual(
        found.map(({ address }) => address),
        expected,
      );
    });
  }

  for (const [text, verdict, reason] of [
    ['<x@y.example>:\nhost said: 550 5.7.1 spam', 'block spam', 'a reply of its own'],
    ['<x@y.example>:\nUtilisateur inconnu', 'hard mailbox_not_found', 'words of another language'],
    ['<x@y.example>: 550 Utilisateur inconnu', 'hard mailbox_not_found', 'a code with words of another language'],
    ['<x@y.example>: Host not found, try again', 'soft network', 'a name server that could not answer'],
    ['<x@y.example>: kaputt', 'undetermined other', 'words that nobody knows'],
    ['<x@y.example>: 450 Utilisateur inconnu', 'soft', 'final or not, its code says'],
    ['<x@y.example>: 450 4.2.2 over quota', 'soft mailbox_full', 'a passing state'],
    ['<x@y.example>: address rejected', 'undetermined other', 'words that say little'],
    ['<x@y.example>: given up after 5 days', 'soft expired', 'time'],
    ['Unable to find user: <x@y.example>', 'hard mailbox_not_found', 'the address behind the words'],
    ['Recipient x@y.example was not found.', 'hard mailbox_not_found', 'the address between them'],
  ] as const) {
    it(`${JSON.stringify(text)} is ${verdict}: ${reason}`, () => {
      const [one] = findingRecord(read(notice(`${DAEMON}\nSubject: failure notice`, text))).recipients;
      assert.ok(
        `${String(one?.class)} ${String(one?.reason)}`.startsWith(verdict),
        `${String(one?.class)} ${String(one?.reason)}`,
      );
    });
  }
});

describe('delivery reports that say little', () => {
  const report = (fields: string, prose = ''): Finding =>
    read(
      `${DAEMON}\nSubject: notice\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\n${prose}\n--b\nContent-Type: message/delivery-status\n\nFinal-Recipient: rfc822; x@y.example\n${fields}\n--b--\n`,
    );

  for (const [fields, prose, kind, verdict, reason] of [
    [
      'Action: failed\nStatus: 5.0.0',
      '<x@y.example>: 550 5.1.1 unknown',
      'bounce',
      'hard mailbox_not_found',
      'the prose knows more',
    ],
    [
      'Action: failed\nStatus: 5.0.0',
      '<z@y.example>: 552 5.2.2 full\n\n<x@y.example>: 550 5.1.1 unknown',
      'bounce',
      'hard mailbox_not_found',
      'its own lines of the prose',
    ],
    [
      'Action: failed\nStatus: 5.4.4',
      'x@y.example: host not found',
      'bounce',
      'hard domain_not_found',
      'no route, for want of a domain',
    ],
    ['Action: failed\nStatus: 4.0.0', 'x@y.example: NXDOMAIN', 'bounce', 'soft', 'not final by its own status'],
    ['Action: failed\nStatus: 4.4.7', '', 'bounce', 'soft expired', 'grew too old'],
    ['Action: failed\nStatus: 5.0.0', '', 'bounce', 'undetermined other', 'nobody knows'],
    ['Status: 4.4.1', '', 'delay', 'soft network', 'no action: what has not failed is no bounce'],
    ['Status: 2.1.5', '', 'other', 'null null', 'no action: success'],
    ['Status: 5.1.1', '', 'bounce', 'hard mailbox_not_found', 'no action: failure'],
    ['Action: expanded\nStatus: 2.0.0', '', 'other', 'null null', 'handed on'],
    ['Action: delay', '', 'delay', 'soft other', 'late, in another form of the word'],
    ['Action: dealyed', '', 'other', 'null null', 'an unknown action and nothing else'],
    ['X-Queue: 1', '', 'other', 'null null', 'no action, no status'],
    ['Diagnostic-Code: smtp; 250 2.0.0 queued', '', 'other', 'null null', 'no action: the reply is of success'],
    ['Diagnostic-Code: smtp; 451 later', '', 'delay', 'soft other', 'no action: the reply is temporary'],
    ['Diagnostic-Code: smtp; 550 5.1.1 x', '', 'bounce', 'hard mailbox_not_found', 'no action: the reply is permanent'],
    ['X-Queue: 1', 'Your message could not be delivered.', 'bounce', 'undetermined other', 'the prose says failure'],
    [
      'X-Queue: 1',
      'Your message is delayed. Delivery attempts will continue.',
      'delay',
      'soft other',
      'the prose says delay',
    ],
  ] as const) {
    it(`${JSON.stringify(fields)} with ${JSON.stringify(prose)}: ${reason}`, () => {
      const found = report(fields, prose);
      const [one] = findingRecord(found).recipients;
      assert.equal(found.kind, kind);
      assert.ok(`${String(one?.class)} ${String(one?.reason)}`.startsWith(verdict), String(one?.reason));
    });
  }

  it('are found in the text as well', () => {
    const found = read(
      notice(`${DAEMON}\nSubject: x`, '> Final-Recipient: rfc822; x@y.example\n> Action: delayed\n> Status: 4.4.1'),
    );
    assert.deepEqual([found.kind, found.recipients[0]?.address], ['delay', 'x@y.example']);
  });
});

describe('complaints', () => {
  const complaint = (fields: string, original: string): Finding =>
    read(
      `From: fbl@isp.example\nSubject: x\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\n${fields}\n--b\nContent-Type: text/rfc822-headers\n\n${original}\n--b--\n`,
    );

  const changeOf = (feedback: Finding['feedback']) =>
    complainedBy(feedback ?? { type: null, source: 'arf', userAgent: null, arrivalDate: null });

  for (const [fields, original, type, isComplaint, complainants, reason] of [
    [
      'Feedback-Type: abuse',
      'To: a@b.example',
      'abuse',
      true,
      ['a@b.example'],
      'who complained stands in the mail alone',
    ],
    [
      'Feedback-Type: abuse\nOriginal-Rcpt-To: a@b.example',
      'To: c@d.example',
      'abuse',
      true,
      ['a@b.example'],
      'the report comes first',
    ],
    ['', 'To: a@b.example', 'abuse', true, ['a@b.example'], 'no type'],
    [
      'Feedback-Type: auth-failure',
      'To: a@b.example',
      'auth-failure',
      false,
      ['a@b.example'],
      'about DMARC, by no person',
    ],
    ['Feedback-Type: not-spam', 'To: a@b.example', 'not-spam', false, ['a@b.example'], 'the contrary of a complaint'],
    [
      'Feedback-Type: abuse',
      'To: redacted@b.example',
      'abuse',
      true,
      ['redacted@b.example'],
      'redacted: shown as it is',
    ],
    ['Feedback-Type: abuse', 'Subject: y', 'abuse', true, [], 'nobody'],
  ] as const) {
    it(`${reason}: ${type}`, () => {
      const { kind, feedback, recipients } = complaint(fields, original);
      assert.deepEqual(
        [kind, feedback?.type, changeOf(feedback) !== null, recipients.map(({ address }) => address)],
        ['complaint', type, isComplaint, complainants],
      );
    });
  }
});

describe("a provider's field in the mail that comes back", () => {
  const bringing = (head: string, prose: string, original: string): string => {
    const { kind, recipients } = read(
      `To: x@shop.example\n${head}\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n${prose}\n--b\nContent-Type: message/rfc822\n\n${original}\n\nHello\n--b--\n`,
    );
    return [kind, ...recipients.map(({ address }) => address)].join(' ');
  };
  const trace = 'Received: from shop.example by mx.dest.example';
  const mail = 'From: shop@shop.example\nTo: ana@dest.example\nSubject: Hello';

  for (const field of ['X-Complaint-To', 'X-Original-Rcpt-To', 'X-AOL-Recipient', 'X-HmXmrOriginalRecipient']) {
    const mark = `${field}: abuse@shop.example`;

    it(`${field}: above the trace it makes a complaint`, () => {
      const returned = `${mark}\n${trace}\n${mail}`;
      assert.equal(bringing('From: fbl@isp.example\nSubject: FW: Hello', '', returned), 'complaint abuse@shop.example');
    });

    for (const [what, head, prose, returned, expected] of [
      [
        'a bounce is one',
        `${DAEMON}\nSubject: failure notice`,
        '<ana@dest.example>:\n550 5.1.1 unknown',
        `${mark}\n${mail}`,
        'bounce ana@dest.example',
      ],
      [
        'a delay is one',
        `${DAEMON}\nSubject: Warning: message delayed`,
        'Delivery attempts will continue:\n\nana@dest.example',
        `${trace}\n${mark}\n${mail}`,
        'delay ana@dest.example',
      ],
      [
        'an answer is one',
        'From: ana@dest.example\nAuto-Submitted: auto-replied\nSubject: Re: Hello',
        'I am away.',
        `${mark}\n${mail}`,
        'auto_reply',
      ],
      [
        'a letter is none',
        'From: ana@dest.example\nSubject: Re: Hello',
        'Thank you.',
        `${trace}\n${mail}\n${mark}`,
        'other',
      ],
    ] as const)
      it(`${field} of the sender: ${what}`, () => {
        assert.equal(bringing(head, prose, returned), expected);
      });
  }
});

describe('a delivery report', () => {
  const returning = (returned: string): Finding =>
    read(
      fixture('dsn-failed').replace(
        /Content-Type: text\/rfc822-headers\n\n[^]*?\n\n/,
        `Content-Type: message/rfc822\n\n${returned}\n\n`,
      ),
    );

  for (const [returned, reason] of [
    [fixture('complaint'), 'a complaint'],
    [fixture('complaint-jmrp'), 'a complaint of a provider'],
    ['X-HmXmrOriginalRecipient: x@y.example\nSubject: abuse report\n\nx', 'a head of a complaint'],
    [fixture('vacation'), 'an automatic answer'],
    [fixture('dsn-delayed'), 'a delay notice'],
  ] as const) {
    it(`is a bounce, though what came back is ${reason}`, () => {
      const { kind, recipients } = returning(returned);
      assert.deepEqual([kind, recipients[0]?.address], ['bounce', 'ana@remote.example']);
    });
  }
});

describe('hostile mails', () => {
  it('never make it throw', () => {
    const piece = fc.oneof(
      fc
        .constantFrom(...Object.values(Object.fromEntries(files.map(([name]) => [name, fixture(name)]))))
        .map((text) => text.slice(0, 600)),
      fc.constantFrom(
        'From: MAILER-DAEMON@x.example\n',
        'Content-Type: message/delivery-status\n',
        '\n',
        '\n\n',
        '--b\n',
        '<a@b.example>:',
        '550 5.1.1 ',
        'b+',
        'unsub+',
        '=?utf-8?q?',
      ),
      fc.string({ unit: 'binary', maxLength: 30 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        const { recipients } = read(pieces.join(''));
        assert.ok(recipients.length <= 100 && recipients.every(({ address }) => address !== ''));
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2000 }), (bytes) => {
        assert.equal(typeof readReport({ words, judge }, bytes).kind, 'string');
      }),
    );
  });
});
