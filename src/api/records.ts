/** The records of messages, attempts and events as schemas: what answers look like, for clients and for the description. */
import { z } from 'zod';
import { allEventTypes } from '../events/event.ts';
import { deliveryStatuses } from '../storage/tables.ts';

const time = () => z.iso.datetime().describe('RFC 3339 in UTC, with milliseconds.');
const nullableTime = () => z.iso.datetime().nullable();
const text = (says: string) => z.string().describe(says);
const maybe = (says: string) => z.string().nullable().describe(says);
const whole = (says: string) => z.int().describe(says);
const maybeWhole = (says: string) => z.int().nullable().describe(says);
const flag = (says: string) => z.boolean().describe(says);
const texts = (says: string) => z.array(z.string()).describe(says);

export const messageId = () =>
  z
    .string()
    .regex(/^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    .describe('Id of the message.');
export const batchId = () =>
  z
    .string()
    .regex(/^bat_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    .describe('Id of the bulk send.');

const status = () => z.enum(deliveryStatuses).describe('Delivery status; for a message, that of its `to` recipient.');

const messageShape = {
  object: z.literal('message'),
  id: messageId(),
  batch_id: maybe('Id of the bulk send that it came with; null for a single message.'),
  status: status(),
  status_at: z.iso.datetime().describe('Since when it has this status.'),
  from: text('Sender, with its display name where it has one.'),
  to: text('The one main recipient.'),
  cc: texts('Further recipients, named in the mail.'),
  bcc: texts('Further recipients, not named in the mail.'),
  reply_to: texts('Where answers go; empty means to the sender.'),
  subject: text('Subject line, as rendered.'),
  stream: text('Slug of the stream that it was sent on.'),
  template_id: maybe('Id of the template that it was rendered from; null where there was none.'),
  template_version: maybeWhole('Version of that template.'),
  tags: texts('Tags of the request, in their order.'),
  metadata: z.record(z.string(), z.string()).describe('Metadata of the request.'),
  send_at: nullableTime().describe('When it is to leave; null for at once.'),
  expires_at: nullableTime().describe('When delivery is given up; null means after the time that the server allows.'),
  track_opens: flag('Whether opening it is counted.'),
  track_clicks: flag('Whether following its links is counted.'),
  test: flag('True where delivery is simulated.'),
  rfc_message_id: text('The Message-ID of the mail.'),
  last_event: z
    .object({ type: text('Kind of the event.'), timestamp: time() })
    .nullable()
    .describe('The newest event; null before there is one.'),
  engagement: z
    .object({
      opens: whole('Times that a person opened it.'),
      clicks: whole('Times that a person followed a link in it.'),
      first_opened_at: nullableTime().describe('When it was opened first; null for never.'),
      last_opened_at: nullableTime().describe('When it was opened last; null for never.'),
      first_clicked_at: nullableTime().describe('When a link was followed first; null for never.'),
      bot_opens: whole('Times that a machine opened it, such as the image proxy of a mail provider.'),
      bot_clicks: whole('Times that a machine followed a link, such as a scanner.'),
    })
    .describe('Opens and clicks. They change no status.'),
  created_at: z.iso.datetime().describe('When it was accepted.'),
};

export const Message = z.object(messageShape).meta({ id: 'Message', description: 'A message as it is now.' });

export const Recipient = z
  .object({
    email: text('The address.'),
    type: z.enum(['to', 'cc', 'bcc']).describe('The member of the request that named it.'),
    status: status(),
    status_at: z.iso.datetime().describe('Since when it has this status.'),
    attempt_count: whole('Attempts so far.'),
    next_attempt_at: nullableTime().describe(
      'When it is tried next at the earliest; null where nothing is planned. In the past it waits for what `GET /v1/messages/{id}/why` says, such as a free connection.',
    ),
    smtp: z
      .object({
        code: maybeWhole('Reply code, such as 250.'),
        enhanced: maybe('Enhanced status code (RFC 3463), such as 2.0.0.'),
        reply: maybe('Text of the reply.'),
        mx: maybe('Host that replied.'),
        tls: maybe('Version of TLS; null for a connection without.'),
      })
      .nullable()
      .describe('The last reply of the receiving host.'),
  })
  .meta({ id: 'Recipient', description: 'One recipient of a message, with a status of its own.' });

const ms = (of: string) => z.number().describe(`Milliseconds for ${of}.`);

export const Attempt = z
  .object({
    object: z.literal('attempt'),
    id: text('Id of the attempt.'),
    recipient: text('The address that it was made for.'),
    number: whole('The first attempt is 1.'),
    started_at: z.iso.datetime().describe('When it began.'),
    ended_at: z.iso.datetime().describe('When it was over.'),
    mx: maybe('Host that was asked; null where none was reached.'),
    ip: maybe('Address of that host.'),
    source: maybe('Name of the source that it was sent from, where sources have names.'),
    tls: z
      .object({
        protocol: text('Version of TLS.'),
        cipher: text('Cipher suite.'),
        verified: flag('Whether the certificate was good for the host.'),
        policy: text('What the domain asks for: opportunistic, MTA-STS or DANE.'),
      })
      .nullable()
      .describe('How the connection was encrypted; null where it was not.'),
    timings_ms: z
      .object({
        dns: ms('looking up the host'),
        connect: ms('the connection'),
        banner: ms('the greeting'),
        tls: ms('the TLS handshake'),
        mail: ms('MAIL FROM'),
        rcpt: ms('RCPT TO'),
        data: ms('DATA'),
        dot: ms('the mail, up to the answer to its final dot'),
      })
      .describe('How long each step took.'),
    outcome: z
      .enum(['accepted', 'deferred', 'refused', 'uncertain'])
      .describe('`uncertain`: the connection broke between the final dot and the answer.'),
    smtp_code: maybeWhole('Reply code; null where there was no reply.'),
    enhanced_code: maybe('Enhanced status code (RFC 3463).'),
    smtp_reply: maybe('Text of the reply.'),
    class: maybe('What kind of refusal it is; null for an accepted mail.'),
    reason: maybe('Why it was refused, in one word.'),
    next_attempt_at: nullableTime().describe('When the next attempt is made; null for none.'),
  })
  .meta({ id: 'Attempt', description: 'One SMTP attempt: the host, its reply, and the duration of each step.' });

const smtp = {
  smtp_code: maybeWhole('Reply code of the receiving host.'),
  enhanced_code: maybe('Enhanced status code (RFC 3463).'),
  smtp_reply: maybe('Text of the reply.'),
};
const hit = {
  first: flag('Whether it is the first of this recipient.'),
  ip: maybe('Address that it came from; null without the scope `event:engagement`.'),
  user_agent: maybe('Program that it came from; null without the scope `event:engagement`.'),
};
const machine = {
  is_bot: flag('Whether a machine did it and not a person.'),
  bot: maybe('Which machine; null for a person.'),
};

const details = {
  sent: z.object({
    attempt: whole('Number of the attempt.'),
    mx: maybe('Host that is asked; null where that is not known yet.'),
    sending_ip: maybe('Address that it is sent from; null where that is not known yet.'),
  }),
  delivered: z.object({
    mx: maybe('Host that took it.'),
    ip: maybe('Address of that host.'),
    smtp_code: maybeWhole('Reply code of that host.'),
    smtp_reply: maybe('Text of its reply.'),
    tls: maybe('Version of TLS; null for a connection without.'),
    attempt: whole('Number of the attempt.'),
    queue_ms: whole('Milliseconds from acceptance to delivery.'),
    via_relay: flag('Whether a smarthost took it, which delivers it further.'),
  }),
  opened: z.object({
    ...hit,
    client: maybe('Mail program, where it can be recognized.'),
    os: maybe('Operating system, where it can be recognized.'),
    device: maybe('Kind of device, where it can be recognized.'),
    ...machine,
  }),
  clicked: z.object({
    first: hit.first,
    url: text('Where the link leads.'),
    link_id: text('Place of the link in the mail.'),
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
    reason: text('Why, in one word.'),
    async: flag('Whether it came later, by mail.'),
    ...smtp,
    mx: maybe('Host that refused it.'),
    attempts: whole('Attempts that were made.'),
    suppression_added: flag('Whether the address is on the suppression list for it.'),
  }),
  complained: z.object({
    feedback_type: text('What kind of report it is, such as `abuse` (RFC 5965).'),
    source: text('Form of the report: `arf` (RFC 5965), `jmrp` (as Microsoft sends the mail back) or `other`.'),
    arrival_date: nullableTime().describe('When the mail arrived, as the report says.'),
    user_agent: maybe('Program that made the report.'),
    suppression_added: flag('Whether the address is on the suppression list for it.'),
  }),
  deferred: z.object({
    attempt: whole('Number of the attempt.'),
    mx: maybe('Host that was asked.'),
    ...smtp,
    reason: text('Why, in one word.'),
    next_attempt_at: nullableTime().describe(
      'When the next attempt is made; null where the time of the mail is over before.',
    ),
  }),
  suppressed: z.object({
    reason: text('Why the address is on the suppression list.'),
    suppression_id: text('Id of the entry.'),
  }),
  failed: z.object({ reason: text('Why, in one word.'), message: text('Why, for people.') }),
  unsubscribed: z.object({
    stream: text('Slug of the stream that the recipient has left.'),
    method: z
      .enum(['one_click', 'mailto', 'page'])
      .describe('How: the button of a mail program (RFC 8058), a mail, or our page.'),
  }),
};

export const Event = z
  .object({
    object: z.literal('event'),
    id: text('Id of the event: the same in every place, so that duplicates can be dropped.'),
    type: z.enum(allEventTypes).describe('Kind of the event.'),
    timestamp: z.iso.datetime().describe('When it happened.'),
    sequence: z.int().describe('Ascends in the order in which events became visible; holes are normal.'),
    test: flag('True for simulated mail.'),
    data: z
      .object({
        message_id: messageId(),
        batch_id: maybe('Id of the bulk send that the message came with; null for a single message.'),
        rfc_message_id: text('The Message-ID of the mail.'),
        recipient: text('The address that it happened to.'),
        recipient_type: z.enum(['to', 'cc', 'bcc']).describe('The member of the request that named it.'),
        from: text('Address of the sender.'),
        subject: text('Subject line of the message.'),
        template_id: maybe('Id of the template of the message; null where there was none.'),
        stream: text('Slug of the stream of the message.'),
        tags: texts('Tags of the message.'),
        metadata: z.record(z.string(), z.string()).describe('Metadata of the message.'),
        status: z.enum(deliveryStatuses).describe('Status of the recipient after the event.'),
        ...optional(details),
      })
      .describe('The message and, in the member named after the type, what happened.'),
  })
  .meta({ id: 'Event', description: 'Something that happened to a message. Webhooks carry the same record.' });

/** Makes all members optional: an event has only the one named after its type. */
function optional<Shape extends Record<string, z.ZodType>>(
  shape: Shape,
): { [K in keyof Shape]: z.ZodOptional<Shape[K]> } {
  const entries = Object.entries(shape).map(([name, schema]) => [
    name,
    schema.optional().describe(`What happened, where \`type\` is \`${name}\`.`),
  ]);
  // fromEntries forgets the names; they are those of `shape`.
  return Object.fromEntries(entries) as { [K in keyof Shape]: z.ZodOptional<Shape[K]> };
}

export const MessageDetails = z
  .object({
    ...messageShape,
    request_id: z.string().nullable().describe('Of the request that it came with, as the audit log names it.'),
    recipients: z.array(Recipient).describe('The first 20.'),
    attempts: z.array(Attempt).describe('The last 20.'),
    events: z.array(Event).describe('The last 20, opt-in kinds included.'),
    content: z
      .object({ html: maybe('HTML body.'), text: maybe('Plain text body.') })
      .optional()
      .describe('With `expand=content`.'),
  })
  .meta({ id: 'MessageDetails', description: 'A message with its recipients, attempts and events.' });

/** The reason why an entry of a request for many was refused. */
export const entryError = z.object({
  code: text('Code of the error catalogue.'),
  message: text('What is wrong, for people.'),
  field: maybe('The member at fault, from the top of the request.'),
  request_id: maybe('Id of the request.'),
});

export const Batch = z
  .object({
    object: z.literal('batch'),
    id: batchId(),
    accepted: whole('Entries that are messages now.'),
    rejected: whole('Entries that were refused.'),
    created_at: z.iso.datetime().describe('When it was accepted.'),
    data: z
      .array(
        z.object({
          index: whole('Place of the entry in `recipients`, from 0.'),
          to: maybe('The recipient; null where the entry has none that can be read.'),
          id: maybe('Id of the message; null for a refused entry.'),
          status: text('Status of the message, or `rejected`.'),
          error: entryError.nullable().describe('Why the entry was refused; null for a message.'),
        }),
      )
      .describe('One line for each entry, in the order of the request.'),
  })
  .meta({ id: 'Batch', description: 'The answer to a bulk send: one entry for each of `recipients`, in their order.' });
