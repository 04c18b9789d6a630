/** Automatic answers that mention a failure, by their subject, by a date or in what they quote; and bounces that look like answers. */
import assert from 'node:assert/strict';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';

const words = readBounceWords();
const SUBJECT = 'Your parcel could not be delivered';

/** Returns the kind of a mail that comes from the null sender to the return path of our mail to Ana. */
const kindOf = (head: string, text: string, subject = SUBJECT): string =>
  readReport({ words, judge }, Buffer.from(`To: b+x@rp.acme.test\n${head}\n\n${text}\n`), {
    recipients: ['b+x@rp.acme.test'],
    sender: '',
    about: { address: 'ana@dest.test', subject },
  }).kind;

const ANA = 'From: Ana Lang <ana@dest.test>\nAuto-Submitted: auto-replied';
const OTHER = 'From: ana.lang@people.test\nAuto-Submitted: auto-replied';
const UNMARKED = 'From: Ana Lang <ana@dest.test>';
const DAEMON = 'From: Mail Delivery System <MAILER-DAEMON@mx.dest.test>\nAuto-Submitted: auto-replied';
const quoted = '> Final-Recipient: rfc822; bo@else.test\n> Action: failed\n> Status: 5.1.1';

describe('an automatic answer from the null sender is no bounce', () => {
  for (const [what, head, text] of [
    ['with a date', `${ANA}\nSubject: Re: ${SUBJECT}`, 'Ich bin bis 5.1.27 nicht im Büro.'],
    ['with a version', `${ANA}\nSubject: Re: ${SUBJECT}`, 'Sent by Autoresponder, Version 4.1.2'],
    ['with a status code', `${ANA}\nSubject: AW: ${SUBJECT}`, 'We do not serve you. 550 5.1.1 nobody is here'],
    ['from another address', `${OTHER}\nSubject: Auto: ${SUBJECT}`, 'Je suis absente du 4.6.26 au 5.7.26.'],
    ['of a program that leaves the mark out', `${UNMARKED}\nSubject: Re: ${SUBJECT}`, 'Bis 5.1.27 im Urlaub'],
    [
      'of a mailbox that nobody reads',
      `${UNMARKED}\nSubject: Re: ${SUBJECT}`,
      'Your message could not be delivered to me. Write to\n\nbo@dest.test',
    ],
    ['with our subject alone', `${OTHER}\nSubject: ${SUBJECT}`, 'I am away.'],
    ['that quotes a report', `${ANA}\nSubject: Re: ${SUBJECT}`, `I am away.\n\n${quoted}`],
    ['that quotes one, from another address', `${OTHER}\nSubject: Re: ${SUBJECT}`, `I am away.\n\n${quoted}`],
    ['that has one below it', `${OTHER}\nSubject: Re: ${SUBJECT}`, `I am away.\n\n${quoted.replaceAll('> ', '')}`],
    ['that quotes one, without the mark', `${UNMARKED}\nSubject: Re: ${SUBJECT}`, `I am away.\n\n${quoted}`],
    [
      'that quotes a reply',
      `${OTHER}\nSubject: Re: ${SUBJECT}`,
      'I am away.\n\n> Your mail could not be delivered:\n> 550 5.1.1 unknown',
    ],
  ] as const)
    it(what, () => {
      assert.notEqual(kindOf(head, text), 'bounce');
    });
});

const CLOSED = 'Your account has been closed: final statement and refund of your balance for March';

describe('our subject is no reason', () => {
  const verdict = (subject: string, text: string, ours: string | null): string => {
    const about = ours === null ? null : { address: 'ana@dest.test', subject: ours };
    const mail = `From: MAILER-DAEMON@mx.dest.test\nSubject: ${subject}\nContent-Type: text/plain; charset=utf-8\n\n${text}\n`;
    const { kind, recipients } = readReport({ words, judge }, Buffer.from(mail), { recipients: [], sender: '', about });
    return `${kind} ${String(recipients[0]?.verdict?.class)}`;
  };
  const lost = 'It could not be delivered to <ana@dest.test>.';

  for (const [what, subject, text, ours, expected] of [
    ['the begin', `Undeliverable: ${CLOSED.slice(0, 60)}`, lost, CLOSED, 'undetermined'],
    ['less of it', `Undeliverable: ${CLOSED.slice(0, 40)}...`, lost, CLOSED, 'undetermined'],
    ['in other languages', `Unzustellbar: ${CLOSED.slice(0, 40)}…`, lost, CLOSED, 'undetermined'],
    ['two words', 'Undeliverable: User unknown…', lost, 'User unknown: our new game', 'undetermined'],
    ['without spaces', '退信: 用户不存在时的处理', lost, '用户不存在时的处理方法说明', 'undetermined'],
    ['the whole of it', `Undeliverable: ${CLOSED}`, lost, CLOSED, 'undetermined'],
    ['wrapped', 'failure notice', `"${CLOSED.replace('been', 'been\n')}" ${lost}`, CLOSED, 'undetermined'],
    ['nobody knows what it is', 'Undeliverable: User unknown', lost, null, 'undetermined'],
    ['the host says as much', `Undeliverable: ${CLOSED.slice(0, 60)}`, '<ana@dest.test>: no such user', CLOSED, 'hard'],
    ['only the host says it', 'Returned mail: User unknown', lost, CLOSED, 'hard'],
    [
      'our subject has the address',
      'failure notice',
      '<ana@dest.test>: no such user',
      'For ana@dest.test only',
      'hard',
    ],
  ] as const)
    it(`${what}: ${expected}`, () => {
      assert.equal(verdict(subject, text, ours), `bounce ${expected}`);
    });
});

describe('a bounce that calls itself an answer remains one', () => {
  for (const [what, head, text] of [
    ['of a daemon', `${DAEMON}\nSubject: Undelivered: ${SUBJECT}`, 'It could not be delivered to:\n\nana@dest.test'],
    ['of a daemon that quotes a report', `${DAEMON}\nSubject: Undelivered`, quoted],
    [
      'of a gateway in its own name, with a reply',
      `From: filter@dest.test\nAuto-Submitted: auto-replied\nSubject: Undeliverable: ${SUBJECT}`,
      'mx.dest.test said: 550 5.1.1 unknown',
    ],
    [
      'of a filter that rejects',
      'From: ana@dest.test\nAuto-Submitted: auto-replied (rejected)\nSubject: Automatically rejected mail',
      'Your message to ana@dest.test was automatically rejected:\nno thanks',
    ],
    [
      'with the form of a report',
      `From: ana@dest.test\nAuto-Submitted: auto-replied\nSubject: x\nContent-Type: multipart/report; report-type=delivery-status; boundary=b`,
      '--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; ana@dest.test\nAction: failed\nStatus: 5.1.1\n\n--b--',
    ],
  ] as const)
    it(what, () => {
      assert.equal(kindOf(head, text), 'bounce');
    });

  it('of a program that writes in the name of a person, from the null sender, as the session alone shows', () => {
    const mail = Buffer.from('From: ana@dest.test\nSubject: Delivery failed\n\nIt is lost.\n');
    const kinds = ['', 'ana@dest.test'].map(
      (sender) => readReport({ words, judge }, mail, { recipients: [], sender, about: null }).kind,
    );
    assert.deepEqual(kinds, ['bounce', 'other']);
  });

  for (const mark of [
    '(#5.1.1)',
    'Status: 5.1.1',
    'ERROR_CODE :5.1.1',
    '550: 5.1.1 unknown',
    '5.1.1 <ana@dest.test>...',
    '5.1.1 User unknown',
    'mx.dest.test said: 5.2.2 Mailbox full',
    'error 5.1.1',
  ])
    it(`shows by ${mark} that it is of a server`, () => {
      const head = 'From: filter@dest.test\nSubject: Delivery failed\n\n';
      const read = (text: string): string => readReport({ words, judge }, Buffer.from(`${head}${text}\n`)).kind;
      assert.deepEqual([read(mark), read('since 5.1.27')], ['bounce', 'other']);
    });
});
