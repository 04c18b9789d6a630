/** One order confirmation and its delivery: the examples of messages, attempts, events and bulk sends in the description. */

const ID = 'msg_01jz5w8q3hf2m9d4x6k7c1b0na';
const ACCEPTED = '2026-01-31T09:30:02.171Z';
const DELIVERED = '2026-01-31T09:30:02.481Z';

const accepted = {
  object: 'message',
  id: ID,
  batch_id: null,
  status: 'queued',
  status_at: ACCEPTED,
  from: 'Acme <hi@acme.example>',
  to: 'ana@example.net',
  cc: [],
  bcc: [],
  reply_to: [],
  subject: 'Your order',
  stream: 'transactional',
  template_id: null,
  template_version: null,
  tags: ['order'],
  metadata: { order: '17' },
  send_at: null,
  expires_at: null,
  track_opens: false,
  track_clicks: false,
  test: false,
  rfc_message_id: `<${ID}@acme.example>`,
  last_event: null,
  engagement: {
    opens: 0,
    clicks: 0,
    first_opened_at: null,
    last_opened_at: null,
    first_clicked_at: null,
    bot_opens: 0,
    bot_clicks: 0,
  },
  created_at: ACCEPTED,
};

const delivered = {
  ...accepted,
  status: 'delivered',
  status_at: DELIVERED,
  last_event: { type: 'delivered', timestamp: DELIVERED },
};

const attempt = {
  object: 'attempt',
  id: 'att_01jz5w8q3hf2m9d4x6k7c1b0na',
  recipient: 'ana@example.net',
  number: 1,
  started_at: '2026-01-31T09:30:02.180Z',
  ended_at: DELIVERED,
  mx: 'mx1.example.net',
  ip: '203.0.113.9',
  source: null,
  tls: { protocol: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true, policy: 'opportunistic' },
  timings_ms: { dns: 0, connect: 21.4, banner: 44.8, tls: 63.1, mail: 22, rcpt: 0.1, data: 0.1, dot: 148.9 },
  outcome: 'accepted',
  smtp_code: 250,
  enhanced_code: '2.0.0',
  smtp_reply: '2.0.0 OK',
  class: null,
  reason: null,
  next_attempt_at: null,
};

const event = {
  object: 'event',
  id: 'evt_01jz5w8q3hf2m9d4x6k7c1b0na',
  type: 'delivered',
  timestamp: DELIVERED,
  sequence: 184_467,
  test: false,
  data: {
    message_id: ID,
    batch_id: null,
    rfc_message_id: `<${ID}@acme.example>`,
    recipient: 'ana@example.net',
    recipient_type: 'to',
    from: 'hi@acme.example',
    subject: 'Your order',
    template_id: null,
    stream: 'transactional',
    tags: ['order'],
    metadata: { order: '17' },
    status: 'delivered',
    delivered: {
      mx: 'mx1.example.net',
      ip: '203.0.113.9',
      smtp_code: 250,
      smtp_reply: '2.0.0 OK',
      tls: 'TLSv1.3',
      attempt: 1,
      queue_ms: 310,
      via_relay: false,
    },
  },
};

const recipient = {
  email: 'ana@example.net',
  type: 'to',
  status: 'delivered',
  status_at: DELIVERED,
  attempt_count: 1,
  next_attempt_at: null,
  smtp: { code: 250, enhanced: '2.0.0', reply: '2.0.0 OK', mx: 'mx1.example.net', tls: 'TLSv1.3' },
};

const batchHead = {
  object: 'batch',
  id: 'bat_01jz5w8q3hf2m9d4x6k7c1b0na',
  accepted: 1,
  rejected: 1,
  created_at: ACCEPTED,
};

export const samples = {
  accepted,
  delivered,
  attempt,
  event,
  details: {
    ...delivered,
    request_id: 'req_01jz5w8q3hf2m9d4x6k7c1b0na',
    recipients: [recipient],
    attempts: [attempt],
    events: [event],
  },
  scheduled: { ...accepted, status: 'scheduled', send_at: '2026-02-01T07:00:00.000Z' },
  canceled: {
    ...accepted,
    status: 'canceled',
    status_at: '2026-01-31T09:31:40.020Z',
    send_at: '2026-02-01T07:00:00.000Z',
  },
  batch: {
    ...batchHead,
    data: [
      { index: 0, to: 'ana@example.net', id: ID, status: 'queued', error: null },
      {
        index: 1,
        to: 'bo@',
        id: null,
        status: 'rejected',
        error: {
          code: 'invalid_recipient',
          message: '`recipients[1].to` does not match the address format rule: nothing after the @.',
          field: 'recipients[1].to',
          request_id: 'req_01jz5w8q3hf2m9d4x6k7c1b0na',
        },
      },
    ],
  },
  batchStatus: {
    ...batchHead,
    counts: {
      scheduled: 0,
      queued: 0,
      sent: 0,
      deferred: 0,
      delivered: 1,
      bounced: 0,
      complained: 0,
      suppressed: 0,
      failed: 0,
      canceled: 0,
    },
  },
  batchLine: { ...batchHead, counts: null },
};
