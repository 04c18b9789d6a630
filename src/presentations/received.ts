/** Received mail. */
import type { ReceivedMessage } from '../client/types.ts';
import { columns, ofAccount, present, type Presentation } from './presentation.ts';
import { facts, printable } from './table.ts';

type Mailbox = ReceivedMessage['to'][number];

const boxText = ({ email, name }: Mailbox): string => (name === null ? email : `${name} <${email}>`);
const boxesText = (all: readonly Mailbox[]): string => all.map(boxText).join(', ');

/** Returns the results of SPF, DKIM and DMARC in one line. */
const verdictText = ({ spf, dkim, dmarc }: ReceivedMessage): string =>
  [
    ...(spf === null ? [] : [`SPF ${spf.result} (${spf.domain})`]),
    ...dkim.map(({ result, domain }) => `DKIM ${result} (${domain})`),
    ...(dmarc === null ? [] : [`DMARC ${dmarc.result} (${dmarc.domain})`]),
  ].join(', ');

export function receivedLines(mail: ReceivedMessage): string[] {
  const text = mail.reply_text ?? mail.text;
  return [
    ...facts([
      ['id', mail.id],
      ['status', mail.status],
      ['received', mail.at],
      ['from', mail.from === null ? mail.envelope.from : boxText(mail.from)],
      ['to', mail.envelope.to.join(', ')],
      ['cc', boxesText(mail.cc)],
      ['subject', mail.subject],
      ['answers', mail.answers],
      ['checked', verdictText(mail)],
      ['automatic', mail.auto_submitted],
      ...mail.attachments.map(
        ({ index, filename, size }) =>
          [`file ${String(index)}`, `${filename || 'without a name'}, ${String(size)} bytes`] as const,
      ),
    ]),
    ...(text === null ? [] : ['', ...text.split('\n').map(printable)]),
  ];
}

export const received: readonly Presentation[] = [
  {
    command: 'received list',
    operation: 'listReceived',
    input: [
      { flag: '--domain <name>', says: 'only mail to this domain' },
      { flag: '--from <address>', says: 'only mail of this author' },
      { flag: '--answers <id>', says: 'only answers to this message' },
      ofAccount,
    ],
    list: { limit: 50 },
    beyond: '`GET /v1/received` has all, in pages',
    columns: columns<ReceivedMessage>(
      'at',
      'id',
      ['FROM', ({ from, envelope }) => from?.email ?? envelope.from],
      ['TO', ({ envelope }) => envelope.to.join(',')],
      'subject',
      'answers',
    ),
    examples: ['posthorn received list', 'posthorn received list --domain acme.example --json'],
  },
  present<ReceivedMessage>({
    command: 'received show',
    operation: 'getReceived',
    input: [{ flag: '<id>' }],
    lines: receivedLines,
    examples: ['posthorn received show rcv_01jz...', 'posthorn received show rcv_01jz... --json'],
  }),
];
