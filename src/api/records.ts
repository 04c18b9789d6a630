/** The records of messages, attempts and events as schemas: what answers look like, for clients and for the description. */
import { z } from 'zod';
import { allEventTypes } from '../events/event.ts';
import { deliveryStatuses } from '../storage/tables.ts';

const time = () => z.iso.datetime().describe('RFC 3339 in UTC, with milliseconds.');
const nullableTime = () => z.iso.datetime().nullable();

export const messageId = () => z.string().regex(/^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
export const batchId = () => z.string().regex(/^bat_[0-7][0-9a-hjkmnp-tv-z]{25}$/);

const status = () => z.enum(deliveryStatuses).describe('Delivery status; for a message, that of its `to` recipient.');

const messageShape = {
  object: z.literal('message'),
  id: messageId(),
  batch_id: z.string().nullable(),
  status: status(),
  status_at: time(),
  from: z.string(),
  to: z.string(),
  cc: z.array(z.string()),
  bcc: z.array(z.string()),
  reply_to: z.array(z.string()),
  subject: z.string(),
  stream: z.string(),
  template_id: z.string().nullable(),
  template_version: z.int().nullable(),
  tags: z.array(z.string()),
  metadata: z.record(z.string(), z.string()),
  send_at: nullableTime(),
  expires_at: nullableTime(),
  track_opens: z.boolean(),
  track_clicks: z.boolean(),
  test: z.boolean().describe('True where delivery is simulated.'),
  rfc_message_id: z.string().describe('The Message-ID of the mail.'),
  last_event: z.object({ type: z.string(), timestamp: time() }).nullable(),
  engagement: z.object({
    opens: z.int(),
    clicks: z.int(),
    first_opened_at: nullableTime(),
    last_opened_at: nullableTime(),
    first_clicked_at: nullableTime(),
    bot_opens: z.int(),
    bot_clicks: z.int(),
  }),
  created_at: time(),
};

export const Message = z.object(messageShape).meta({ id: 'Message', description: 'A message as it stands now.' });

export const Recipient = z
  .object({
    email: z.string(),
    type: z.enum(['to', 'cc', 'bcc']),
    status: status(),
    status_at: time(),
    attempt_count: z.int(),
    next_attempt_at: nullableTime(),
    smtp: z
      .object({
        code: z.int().nullable(),
        enhanced: z.string().nullable(),
        reply: z.string().nullable(),
        mx: z.string().nullable(),
        tls: z.string().nullable(),
      })
      .nullable()
      .describe('What the other side said last.'),
  })
  .meta({ id: 'Recipient', description: 'One recipient of a message, with a status of its own.' });

const ms = () => z.number().describe('Milliseconds.');

export const Attempt = z
  .object({
    object: z.literal('attempt'),
    id: z.string(),
    recipient: z.string(),
    number: z.int(),
    started_at: time(),
    ended_at: time(),
    mx: z.string().nullable(),
    ip: z.string().nullable(),
    source: z.string().nullable(),
    tls: z.object({ protocol: z.string(), cipher: z.string(), verified: z.boolean(), policy: z.string() }).nullable(),
    timings_ms: z.object({
      dns: ms(),
      connect: ms(),
      banner: ms(),
      tls: ms(),
      mail: ms(),
      rcpt: ms(),
      data: ms(),
      dot: ms(),
    }),
    outcome: z.enum(['accepted', 'deferred', 'refused', 'uncertain']),
    smtp_code: z.int().nullable(),
    enhanced_code: z.string().nullable(),
    smtp_reply: z.string().nullable(),
    class: z.string().nullable(),
    reason: z.string().nullable(),
    next_attempt_at: nullableTime(),
  })
  .meta({ id: 'Attempt', description: 'One SMTP attempt: whom we asked, what was said, how long it took.' });

const details = {
  sent: z.object({ attempt: z.int(), mx: z.string().nullable(), sending_ip: z.string().nullable() }),
  delivered: z.object({
    mx: z.string().nullable(),
    ip: z.string().nullable(),
    smtp_code: z.int().nullable(),
    smtp_reply: z.string().nullable(),
    tls: z.string().nullable(),
    attempt: z.int(),
    queue_ms: z.int(),
    via_relay: z.boolean(),
  }),
  opened: z.object({
    first: z.boolean(),
    ip: z.string().nullable(),
    user_agent: z.string().nullable(),
    client: z.string().nullable(),
    os: z.string().nullable(),
    device: z.string().nullable(),
    is_bot: z.boolean(),
    bot: z.string().nullable(),
  }),
  clicked: z.object({
    first: z.boolean(),
    url: z.string(),
    link_id: z.string(),
    part: z.enum(['html', 'text']),
    ip: z.string().nullable(),
    user_agent: z.string().nullable(),
    is_bot: z.boolean(),
    bot: z.string().nullable(),
  }),
  bounced: z.object({
    class: z.enum(['hard', 'soft', 'block', 'undetermined']),
    reason: z.string(),
    async: z.boolean(),
    smtp_code: z.int().nullable(),
    enhanced_code: z.string().nullable(),
    smtp_reply: z.string().nullable(),
    mx: z.string().nullable(),
    attempts: z.int(),
    suppression_added: z.boolean(),
  }),
  complained: z.object({
    feedback_type: z.string(),
    source: z.string(),
    arrival_date: nullableTime(),
    user_agent: z.string().nullable(),
    suppression_added: z.boolean(),
  }),
  deferred: z.object({
    attempt: z.int(),
    mx: z.string().nullable(),
    smtp_code: z.int().nullable(),
    enhanced_code: z.string().nullable(),
    smtp_reply: z.string().nullable(),
    reason: z.string(),
    next_attempt_at: time(),
  }),
  suppressed: z.object({ reason: z.string(), suppression_id: z.string() }),
  failed: z.object({ reason: z.string(), message: z.string() }),
  unsubscribed: z.object({ stream: z.string(), method: z.enum(['one_click', 'mailto', 'page']) }),
};

export const Event = z
  .object({
    object: z.literal('event'),
    id: z.string(),
    type: z.enum(allEventTypes),
    timestamp: time(),
    sequence: z.int().describe('Ascends in the order in which events became visible; holes are normal.'),
    test: z.boolean(),
    data: z
      .object({
        message_id: messageId(),
        batch_id: z.string().nullable(),
        rfc_message_id: z.string(),
        recipient: z.string(),
        recipient_type: z.enum(['to', 'cc', 'bcc']),
        from: z.string(),
        subject: z.string(),
        template_id: z.string().nullable(),
        stream: z.string(),
        tags: z.array(z.string()),
        metadata: z.record(z.string(), z.string()),
        status: status(),
        ...optional(details),
      })
      .describe('The message and, in the member named after the type, what happened.'),
  })
  .meta({ id: 'Event', description: 'Something that happened to a message. Webhooks carry the same record.' });

/** Exactly one of them is there: the one named after the event's type. */
function optional<Shape extends Record<string, z.ZodType>>(
  shape: Shape,
): { [K in keyof Shape]: z.ZodOptional<Shape[K]> } {
  const entries = Object.entries(shape).map(([name, schema]) => [name, schema.optional()]);
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
      .object({ html: z.string().nullable(), text: z.string().nullable() })
      .optional()
      .describe('With `expand=content`.'),
  })
  .meta({ id: 'MessageDetails', description: 'A message with its recipients, attempts and events.' });

const entryError = z.object({
  code: z.string(),
  message: z.string(),
  field: z.string().nullable(),
  request_id: z.string().nullable(),
});

export const Batch = z
  .object({
    object: z.literal('batch'),
    id: batchId(),
    accepted: z.int(),
    rejected: z.int(),
    created_at: time(),
    data: z.array(
      z.object({
        index: z.int(),
        to: z.string().nullable(),
        id: z.string().nullable(),
        status: z.string(),
        error: entryError.nullable(),
      }),
    ),
  })
  .meta({ id: 'Batch', description: 'The answer to a bulk send: one entry for each of `recipients`, in their order.' });
