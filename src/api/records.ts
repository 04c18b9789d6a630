/** The records of messages, attempts, events and received mails as schemas: what answers look like, for clients and for the description. */
import { z } from 'zod';
import { allEventTypes, withoutPerson, type EventType } from '../events/event.ts';
import { messageMembers } from '../messages/store/message.ts';
import { attemptMembers, recipientMembers } from '../messages/store/message-store.ts';
import { deliveryStatuses } from '../storage/tables.ts';
import {
  flag,
  idSchema,
  map,
  maybe,
  maybeTime,
  maybeWhole,
  namedRecord,
  recordSchema,
  sampleOf,
  shows,
  text,
  texts,
  time,
  whole,
} from './record-schema.ts';
import { receivedMembers } from '../messages/received/received-store.ts';

const MESSAGE_ID = 'msg_01jz5w8q3hf2m9d4x6k7c1b0na';
const REQUEST_ID = 'req_01jz5w8q3hf2m9d4x6k7c1b0na';
const DELIVERED = '2026-01-31T09:30:02.481Z';

export const messageId = () => idSchema('msg', 'Id of the message.');
export const batchId = () => idSchema('bat', 'Id of the bulk send.');

export const Message = recordSchema(
  messageMembers,
  { id: 'Message', description: 'A message as it is now.' },
  {
    id: messageId(),
    last_event: z.object({
      type: text('Kind of the event.'),
      timestamp: time('RFC 3339 in UTC, with milliseconds.'),
    }),
    engagement: z.object({
      opens: whole('Times that a person opened it.'),
      clicks: whole('Times that a person followed a link in it.'),
      first_opened_at: maybeTime('When it was opened first; null for never.'),
      last_opened_at: maybeTime('When it was opened last; null for never.'),
      first_clicked_at: maybeTime('When a link was followed first; null for never.'),
      bot_opens: whole('Times that a machine opened it, such as the image proxy of a mail provider.'),
      bot_clicks: whole('Times that a machine followed a link, such as a scanner.'),
    }),
  },
);

export const Recipient = recordSchema(
  recipientMembers,
  { id: 'Recipient', description: 'One recipient of a message, with a status of its own.' },
  {
    smtp: z.object({
      code: maybeWhole('Reply code, such as 250.', 250),
      enhanced: maybe('Enhanced status code (RFC 3463), such as 2.0.0.', '2.0.0'),
      reply: maybe('Text of the reply.', '2.0.0 OK'),
      mx: maybe('Host that replied.', 'mx1.example.net'),
      tls: maybe('Version of TLS; null for a connection without.', 'TLSv1.3'),
    }),
  },
);

export const receivedId = () => idSchema('rcv', 'Id of the mail.');

const mailbox = z.object({
  email: text('The address.', 'ana@example.net'),
  name: maybe('The name before it.', 'Ana'),
});
const result = (values: string) => text(`One of ${values}.`, 'pass');
const domain = () => text('The domain that it is about.', 'example.net');

export const ReceivedMessage = recordSchema(
  receivedMembers,
  { id: 'ReceivedMessage', description: 'A mail that came to a domain that receives.' },
  {
    id: receivedId(),
    envelope: z.object({
      from: text('Sender; empty for the null sender.', 'ana@example.net'),
      to: z.array(z.string()).describe('Recipients at this domain.'),
    }),
    from: mailbox,
    to: z.array(mailbox),
    cc: z.array(mailbox),
    reply_to: z.array(mailbox),
    attachments: z.array(
      z.object({
        index: whole('Its place, from 0.'),
        filename: text('Its name; empty without one.', 'photo.jpg'),
        content_type: text('Media type, as the mail says.', 'image/jpeg'),
        size: whole('Bytes.', 48_213),
        content_id: maybe('What `cid:` in the html calls it.'),
      }),
    ),
    spf: z.object({
      result: result('pass, fail, softfail, neutral, none, permerror, temperror'),
      domain: domain(),
    }),
    dkim: z.array(
      z.object({
        result: result('pass, fail, temperror'),
        domain: domain(),
        selector: text('Name of the key in DNS, before `._domainkey`.', 's1'),
      }),
    ),
    dmarc: z.object({
      result: result('pass, fail, none, temperror'),
      domain: domain(),
      policy: maybe(
        'What the domain asks for if mail fails: none, quarantine or reject; null without a policy.',
        'reject',
      ),
    }),
  },
);

const ms = (of: string, example: number) => shows(z.number().describe(`Milliseconds for ${of}.`), example);

export const Attempt = recordSchema(
  attemptMembers,
  { id: 'Attempt', description: 'One SMTP attempt: the host, its reply, and the duration of each step.' },
  {
    tls: z.object({
      protocol: text('Version of TLS.'),
      cipher: text('Cipher suite.'),
      verified: flag('Whether the certificate was good for the host.'),
      policy: text('What the domain asks for: opportunistic, MTA-STS or DANE.'),
    }),
    timings_ms: z.object({
      dns: ms('looking up the host', 0),
      connect: ms('the connection', 21.4),
      banner: ms('the greeting', 44.8),
      tls: ms('the TLS handshake', 63.1),
      mail: ms('MAIL FROM', 22),
      rcpt: ms('RCPT TO', 0.1),
      data: ms('DATA', 0.1),
      dot: ms('the mail, up to the answer to its final dot', 148.9),
    }),
  },
);

const smtp = {
  smtp_code: maybeWhole('Reply code of the receiving host.', 550),
  enhanced_code: maybe('Enhanced status code (RFC 3463).', '5.1.1'),
  smtp_reply: maybe('Text of the reply.', '5.1.1 no such user'),
};
const hit = {
  first: flag('Whether it is the first of this recipient.', true),
  ip: maybe('Address that it came from; null without the scope `event:engagement`.', '203.0.113.9'),
  user_agent: maybe('Program that it came from; null without the scope `event:engagement`.', 'Mozilla/5.0'),
};
const machine = {
  is_bot: flag('Whether a machine did it and not a person.'),
  bot: maybe('Which machine; null for a person.'),
};
const MX = 'mx1.example.net';

const details = {
  sent: z.object({
    attempt: whole('Number of the attempt.', 1),
    mx: maybe('Host that is asked; null if that is not known yet.', MX),
    sending_ip: maybe('Address that it is sent from; null if that is not known yet.', '192.0.2.10'),
  }),
  delivered: z.object({
    mx: maybe('Host that took it.', MX),
    ip: maybe('Address of that host.', '203.0.113.9'),
    smtp_code: maybeWhole('Reply code of that host.', 250),
    smtp_reply: maybe('Text of its reply.', '2.0.0 OK'),
    tls: maybe('Version of TLS; null for a connection without.', 'TLSv1.3'),
    attempt: whole('Number of the attempt.', 1),
    queue_ms: whole('Milliseconds from acceptance to delivery.', 310),
    via_relay: flag('Whether a smarthost took it, which delivers it further.'),
  }),
  opened: z.object({
    ...hit,
    client: maybe('Mail program, if it can be recognized.', 'Thunderbird'),
    os: maybe('Operating system, if it can be recognized.', 'Linux'),
    device: maybe('Kind of device, if it can be recognized.', 'desktop'),
    ...machine,
  }),
  clicked: z.object({
    first: hit.first,
    url: text('Where the link leads.', 'https://acme.example/order/17'),
    link_id: text('Place of the link in the mail.', '1'),
    part: z.enum(['html', 'text']).describe('Part of the mail that has the link.'),
    ip: hit.ip,
    user_agent: hit.user_agent,
    ...machine,
  }),
  bounced: z.object({
    class: z
      .enum(['hard', 'soft', 'block', 'undetermined'])
      .describe(
        '`hard`: the address is bad; `soft`: it was full or away for too long; `block`: the mail or its sender is not wanted.',
      ),
    reason: text('Why, in one word.', 'mailbox_not_found'),
    async: flag('Whether it came later, by mail.'),
    ...smtp,
    mx: maybe('Host that refused it.', MX),
    attempts: whole('Attempts that were made.', 1),
    suppression_added: flag('Whether the address is on the suppression list for it.'),
  }),
  complained: z.object({
    feedback_type: text('What kind of report it is, such as `abuse` (RFC 5965).', 'abuse'),
    source: text('Form of the report: `arf` (RFC 5965), `jmrp` (as Microsoft sends the mail back) or `other`.', 'arf'),
    arrival_date: maybeTime('When the mail arrived, as the report says.'),
    user_agent: maybe('Program that made the report.'),
    suppression_added: flag('Whether the address is on the suppression list for it.'),
  }),
  deferred: z.object({
    attempt: whole('Number of the attempt.', 1),
    mx: maybe('Host that was asked.', MX),
    smtp_code: shows(smtp.smtp_code.clone(), 451),
    enhanced_code: shows(smtp.enhanced_code.clone(), '4.7.1'),
    smtp_reply: shows(smtp.smtp_reply.clone(), '4.7.1 try again later'),
    reason: text('Why, in one word.', 'rate_limited'),
    next_attempt_at: maybeTime(
      'When the next attempt is made; null if the time of the mail is over before.',
      '2026-01-31T09:35:00.000Z',
    ),
  }),
  suppressed: z.object({
    reason: text('Why the address is on the suppression list.', 'hard_bounce'),
    suppression_id: text('Id of the entry.', 'sup_01jz5w8q3hf2m9d4x6k7c1b0na'),
  }),
  failed: z.object({
    reason: text('Why, in one word.', 'other'),
    message: text('Why, for people.', 'The message could not be built.'),
  }),
  unsubscribed: z.object({
    stream: text('Slug of the stream that the recipient has left.', 'broadcast'),
    method: z
      .enum(['one_click', 'mailto', 'page'])
      .describe('How: the button of a mail program (RFC 8058), a mail, or our page.'),
  }),
  received: ReceivedMessage,
};

export const Event = namedRecord('Event', 'Something that happened to a message. Webhooks carry the same record.', {
  object: z.literal('event'),
  id: text(
    'Id of the event: the same in every place, so that duplicates can be dropped.',
    'evt_01jz5w8q3hf2m9d4x6k7c1b0na',
  ),
  type: shows(z.enum(allEventTypes).describe('Kind of the event.'), 'delivered'),
  timestamp: time('When it happened.', DELIVERED),
  sequence: whole('Ascends in the order in which events became visible; holes are normal.', 184_467),
  test: flag('True for simulated mail.'),
  data: z
    .object({
      message_id: shows(
        idSchema(
          '(?:msg|rcv)',
          'Id of the message; of a `received` mail the one that it answers, or its own if it answers none.',
        ),
        MESSAGE_ID,
      ),
      batch_id: maybe('Id of the bulk send that the message came with; null for a single message.'),
      rfc_message_id: text('The Message-ID of the mail.', `<${MESSAGE_ID}@acme.example>`),
      recipient: text('The address that it happened to.', 'ana@example.net'),
      recipient_type: z.enum(['to', 'cc', 'bcc']).describe('The member of the request that named it.'),
      from: text('Address of the sender.', 'hi@acme.example'),
      subject: text('Subject line of the message.', 'Your order'),
      template_id: maybe('Id of the template of the message; null if there was none.'),
      stream: text('Slug of the stream of the message.', 'transactional'),
      tags: texts('Tags of the message.', ['order']),
      metadata: map('Metadata of the message.', { order: '17' }),
      status: shows(z.enum(deliveryStatuses).describe('Status of the recipient after the event.'), 'delivered'),
      ...optional(details),
    })
    .describe('The message and, in the member named after the type, what happened.'),
});

/** Returns an event that never happened: the example of its type, and what an endpoint is tried with. */
export function sampleEvent(type: EventType, { engagement }: { engagement: boolean }) {
  const { data, ...event } = sampleOf(Event);
  const status = deliveryStatuses.find((one) => one === type) ?? 'delivered';
  const detail = sampleOf<z.ZodObject>(details[type]);
  return { ...event, type, data: { ...data, status, [type]: engagement ? detail : withoutPerson(detail) } };
}

/** Makes all members optional: an event has only the one named after its type. */
function optional<Shape extends Record<string, z.ZodType>>(
  shape: Shape,
): { [K in keyof Shape]: z.ZodOptional<Shape[K]> } {
  const entries = Object.entries(shape).map(([name, schema]) => [
    name,
    schema.optional().describe(`What happened, if \`type\` is \`${name}\`.`),
  ]);
  // fromEntries forgets the names; they are those of `shape`.
  return Object.fromEntries(entries) as { [K in keyof Shape]: z.ZodOptional<Shape[K]> };
}

export const MessageDetails = Message.extend({
  request_id: maybe('Of the request that it came with, as the audit log names it.', REQUEST_ID),
  recipients: z.array(Recipient).describe('The first 20.'),
  attempts: z.array(Attempt).describe('The last 20.'),
  events: shows(z.array(Event).describe('The last 20, opt-in kinds included.'), [
    sampleEvent('delivered', { engagement: false }),
  ]),
  content: z
    .object({ html: maybe('HTML body.'), text: maybe('Plain text body.') })
    .optional()
    .describe('With `expand=content`.'),
}).meta({ id: 'MessageDetails', description: 'A message with its recipients, attempts and events.' });

export const entryError = z.object({
  code: text('Code of the error catalogue.'),
  message: text('What is wrong, for people.'),
  field: maybe('The member at fault, from the top of the request.'),
  request_id: maybe('Id of the request.'),
});

export const Batch = namedRecord(
  'Batch',
  'The answer to a bulk send: one entry for each of `recipients`, in their order.',
  {
    object: z.literal('batch'),
    id: shows(batchId(), 'bat_01jz5w8q3hf2m9d4x6k7c1b0na'),
    accepted: whole('Entries that are messages now.', 1),
    rejected: whole('Entries that were refused.', 1),
    created_at: time('When it was accepted.', '2026-01-31T09:30:02.171Z'),
    data: shows(
      z
        .array(
          z.object({
            index: whole('Place of the entry in `recipients`, from 0.'),
            to: maybe('The recipient; null if the entry has none that can be read.'),
            id: maybe('Id of the message; null for a refused entry.'),
            status: text('Status of the message, or `rejected`.'),
            error: entryError.nullable().describe('Why the entry was refused; null for a message.'),
          }),
        )
        .describe('One line for each entry, in the order of the request.'),
      [
        { index: 0, to: 'ana@example.net', id: MESSAGE_ID, status: 'queued', error: null },
        {
          index: 1,
          to: 'bo@',
          id: null,
          status: 'rejected',
          error: {
            code: 'invalid_recipient',
            message: '`recipients[1].to` does not match the address format rule: nothing after the @.',
            field: 'recipients[1].to',
            request_id: REQUEST_ID,
          },
        },
      ],
    ),
  },
);

const send_at = '2026-02-01T07:00:00.000Z';
const arrived = {
  status: 'delivered',
  status_at: DELIVERED,
  last_event: { type: 'delivered', timestamp: DELIVERED },
};

/** The message of the examples at other times. */
export const samples = {
  delivered: { ...sampleOf(Message), ...arrived },
  details: { ...sampleOf(MessageDetails), ...arrived },
  scheduled: { ...sampleOf(Message), status: 'scheduled', send_at },
  canceled: { ...sampleOf(Message), status: 'canceled', status_at: '2026-01-31T09:31:40.020Z', send_at },
};
