/** Messages, and suppressions. */
import { pluralize } from '../base/pluralize.ts';
import type { EventRecord, Message, MessageDetails, Why, ReceivedMessage } from '../client/types.ts';
import type { ResultOf } from '../operator/routes.ts';
import type { SuppressionRecord } from '../suppressions/suppression-store.ts';
import { columns, ofAccount, present, type Presentation, facts, printable, tableOf } from './presentation.ts';

type Recipient = MessageDetails['recipients'][number];
type Attempt = MessageDetails['attempts'][number];

const recipientColumns = columns<Recipient>(
  ['RECIPIENT', ({ email }) => email],
  'type',
  'status',
  ['ATTEMPTS', (one) => one.attempt_count],
  ['NEXT TRY', (one) => one.next_attempt_at],
  ['REPLY', ({ smtp }) => smtp?.reply],
);
const attemptColumns = columns<Attempt>(
  ['ATTEMPT', (one) => one.number],
  ['AT', (one) => one.ended_at],
  'recipient',
  'outcome',
  ['HOST', ({ mx }) => mx],
  ['REPLY', (one) => one.smtp_reply],
);
const eventColumns = columns<EventRecord>(
  ['EVENT', ({ type }) => type],
  ['AT', ({ timestamp }) => timestamp],
  ['RECIPIENT', ({ data }) => data.recipient],
  ['STATUS', ({ data }) => data.status],
  ['REASON', reasonOf],
  'sequence',
);

/** Returns why the event happened, in a word, and of mail that failed here in a sentence. */
function reasonOf({ data: { bounced, deferred, suppressed, failed } }: EventRecord): string | undefined {
  return failed?.message ?? (bounced ?? deferred ?? suppressed)?.reason;
}

const messageLines = (message: MessageDetails): string[] => [
  ...facts([
    ['id', message.id],
    ['status', `${message.status} since ${message.status_at}`],
    ['from', message.from],
    ['to', message.to],
    ['cc', message.cc.join(', ')],
    ['bcc', message.bcc.join(', ')],
    ['subject', message.subject],
    ['stream', message.stream],
    ['created', message.created_at],
    ['send at', message.send_at],
    ['Message-ID', message.rfc_message_id],
    ['simulated', message.test],
  ]),
  '',
  ...tableOf(recipientColumns, message.recipients),
  '',
  ...tableOf(attemptColumns, message.attempts),
  '',
  ...tableOf(eventColumns, message.events),
];

const traceLines = (lines: ResultOf<'messages.trace'>['data']): string[] =>
  lines.map(({ at, what, recipient, text }) =>
    [at, what.padEnd(8), ...(recipient === null ? [] : [printable(recipient)]), printable(text)].join('  '),
  );

export const messages: readonly Presentation[] = [
  {
    command: 'messages list',
    operation: 'listMessages',
    input: [
      { flag: '--status <statuses>', says: 'only these: queued,deferred,...', kind: 'list' },
      { flag: '--from <address>' },
      { flag: '--to <address>', says: 'an address among the recipients' },
      { flag: '--key <id>', says: 'sent with this API key', member: 'key_id' },
      {
        flag: '--request <id>',
        says: 'what this API request made: the `X-Request-Id` of its answer',
        member: 'request_id',
      },
      ofAccount,
    ],
    list: { limit: 50 },
    beyond: '`posthorn export messages` writes all',
    columns: columns<Message>('created_at', 'id', 'status', 'to', 'subject'),
    examples: [
      'posthorn messages list --status deferred,bounced --limit 20',
      'posthorn messages list --to ana@example.net --json',
      'posthorn messages list --key key_01jz...',
      'posthorn messages list --request req_01jz...',
    ],
  },
  present<MessageDetails>({
    command: 'messages show',
    operation: 'getMessage',
    input: [{ flag: '<id>' }],
    lines: messageLines,
    examples: ['posthorn messages show msg_01jz...', 'posthorn messages show msg_01jz... --json'],
  }),
  present<Why>({
    command: 'messages why',
    operation: 'explainMessage',
    input: [{ flag: '<id>' }],
    rows: ({ recipients }) => recipients,
    columns: columns<Why['recipients'][number]>(
      ['RECIPIENT', ({ email }) => email],
      'status',
      'reason',
      'since',
      'until',
      'set_by',
      ['WHY', ({ message }) => message],
    ),
    examples: ['posthorn messages why msg_01jz...'],
  }),
  present<ResultOf<'messages.trace'>>({
    command: 'messages trace',
    operation: 'messages.trace',
    says: 'show what happened to a message, in the order of time, with the SMTP replies',
    input: [{ flag: '<id>' }],
    lines: ({ data }) => traceLines(data),
    examples: ['posthorn messages trace msg_01jz...'],
  }),
];

export const recipients: readonly Presentation[] = [
  present<ResultOf<'recipients.erase'>>({
    command: 'recipients erase',
    operation: 'recipients.erase',
    says: 'erase a person from the mail of all accounts',
    input: [
      { flag: '<email>' },
      { flag: '--account <account>', says: 'only in this account, name or id (default: all)' },
    ],
    isTried: true,
    lines: ({ accounts: names, recipients: n }) => [
      `erased ${pluralize(n, 'recipient')} of mail of ${names.join(', ')}`,
    ],
    examples: ['posthorn recipients erase ana@example.net --dry-run', 'posthorn recipients erase ana@example.net'],
  }),
];

export const suppressions: readonly Presentation[] = [
  present<SuppressionRecord>({
    command: 'suppressions add',
    operation: 'createSuppression',
    says: 'do not mail an address any more',
    input: [
      { flag: '<email>' },
      {
        flag: '--reason <reason>',
        says: 'hard_bounce, complaint, unsubscribe or manual',
        default: 'manual',
      },
      { flag: '--stream <slug>', says: 'only for this stream' },
      { flag: '--note <text>', says: 'a note for others' },
      {
        flag: '--for <duration>',
        says: 'ends after this, such as 90d (default: never)',
        kind: 'until',
        member: 'expires_at',
      },
      ofAccount,
    ],
    lines: ({ email, reason, scope, expires_at: end }) => [
      `${email} is not mailed ${end === null ? 'any more' : `until ${end}`} (${reason}, ${scope})`,
    ],
    tip: ({ expires_at: end }, { for: asked = end }) =>
      asked === end
        ? null
        : 'it was on the list already, and the entry keeps its end: `posthorn suppressions remove` takes it off the list, and it can be added with another end',
    examples: ['posthorn suppressions add old@example.org --note "asked by phone"'],
  }),
  present<{ data: SuppressionRecord[] }>({
    command: 'suppressions list',
    operation: 'listSuppressions',
    input: [
      { flag: '--reason <reason>', says: 'only this: hard_bounce, complaint, unsubscribe or manual' },
      { flag: '--stream <slug>', says: 'only those for this stream' },
      ofAccount,
    ],
    list: { limit: 100 },
    beyond: '`posthorn suppressions export` writes all',
    record: ({ data }) => ({ data }),
    columns: columns<SuppressionRecord>(
      ['ADDRESS', ({ email }) => email],
      'reason',
      'scope',
      ['SINCE', (one) => one.created_at],
      ['UNTIL', (one) => one.expires_at],
      ['BY', (one) => one.created_by],
      'note',
    ),
    examples: ['posthorn suppressions list --reason hard_bounce', 'posthorn suppressions list --json'],
  }),
  present<{ entries: SuppressionRecord[] }>({
    command: 'suppressions remove',
    operation: 'deleteSuppression',
    input: [
      { flag: '<email>' },
      { flag: '--stream <slug>', says: 'only for this stream' },
      { flag: '--force', says: 'also an entry made by a complaint: the recipient must have asked for mail again' },
      { flag: '--note <text>', says: 'why, for the audit' },
      ofAccount,
    ],
    record: ({ entries }) => ({ data: entries }),
    lines: ({ entries }) => entries.map(({ email, scope }) => `${email} is mailed again (${scope})`),
    examples: ['posthorn suppressions remove old@example.org'],
  }),
];

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
