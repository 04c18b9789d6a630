/** Deliveries, their attempts, and the books. */
import { computed, integer, json, orNull, table, text, time, type RowOf } from '../table.ts';

/** The ten statuses of a delivery, in the order of its life. */
export const deliveryStatuses = [
  'scheduled',
  'queued',
  'sent',
  'deferred',
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
] as const;

export type DeliveryStatus = (typeof deliveryStatuses)[number];

export const deliveryStatus = (example: DeliveryStatus) =>
  text(...deliveryStatuses).says('Delivery status; for a message, that of its `to` recipient.', example);

const DELIVERED = '2026-01-31T09:30:02.481Z';

/** One message to one recipient, the unit of work of the delivery engine. */
export const deliveries = table({
  id: text(),
  message_id: text(),
  account_id: text(),
  email: computed(text().says('The address.', 'ana@example.net')),
  type: text('to', 'cc', 'bcc').says('The member of the request that named it.'),
  /** 1 for the recipient whose status the message shows: `to`, or the first envelope recipient of a submitted mail. */
  lead: integer(),
  name: orNull(text()),
  address: text(),
  address_key: text(),
  /** The name whose mail hosts are looked up: the recipient's domain, or `~simulator`. */
  domain: text(),
  /** Order inside a lane: 0 transactional, 1 broadcast. */
  class: integer(),
  test: integer(),
  status: deliveryStatus('delivered'),
  status_at: time().says('Since when it has this status.', DELIVERED),
  /** The time when it needs attention next; null when it is finished. While it is claimed, the end of the lease. */
  due_at: orNull(integer()),
  /** The time when it was to be sent: acceptance, or send_at. */
  queued_at: integer(),
  /** The time when the queue gives up. */
  give_up_at: integer(),
  attempt_count: integer().says('Attempts so far.', 1),
  next_attempt_at: computed(
    orNull(time()).says(
      'When it is tried next at the earliest; null if nothing is planned. In the past it waits for what `GET /v1/messages/{id}/why` says, such as a free connection.',
    ),
  ),
  /** The process that holds the claim, or null. Outcomes apply only for the same epoch and attempt. */
  claim_epoch: orNull(integer()),
  /** Consecutive look-ups that said the domain does not exist, and the time of the first of them. */
  no_domain_count: integer(),
  no_domain_since: orNull(integer()),
  smtp_code: orNull(integer()),
  enhanced_code: orNull(text()),
  smtp_reply: orNull(text()),
  mx: orNull(text()),
  tls: orNull(text()),
  smtp: computed(orNull(json<object>()).says('The last reply of the receiving host.')),
  /** The mark of the hold that keeps it back (messages/delivery/holds.ts), or null. */
  held_by: orNull(text()),
  /** The start of the time under an operator's hold that is not yet added to give_up_at. */
  held_at: orNull(integer()),
});
export type DeliveryRow = RowOf<typeof deliveries>;

export const attempts = table({
  id: text().says('Id of the attempt.', 'att_01jz5w8q3hf2m9d4x6k7c1b0na'),
  delivery_id: text(),
  message_id: text(),
  recipient: computed(text().says('The address that it was made for.', 'ana@example.net')),
  number: integer().says('The first attempt is 1.', 1),
  started_at: time().says('When it began.', '2026-01-31T09:30:02.180Z'),
  ended_at: time().says('When it was over.', DELIVERED),
  mx: orNull(text()).says('Host that was asked; null if none was reached.', 'mx1.example.net'),
  ip: orNull(text()).says('Address of that host.', '203.0.113.9'),
  source: orNull(text()).says('Name of the source that it was sent from, if sources have names.'),
  tls_json: orNull(json<{ protocol: string; cipher: string; verified: boolean; policy: string }>()).says(
    'How the connection was encrypted; null if it was not.',
    { protocol: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true, policy: 'opportunistic' },
  ),
  timings_json: text(),
  timings_ms: computed(json<object>().says('How long each step took.')),
  outcome: text('accepted', 'deferred', 'refused', 'uncertain').says(
    '`uncertain`: the connection broke between the final dot and the answer.',
  ),
  smtp_code: orNull(integer()).says('Reply code; null if there was no reply.', 250),
  enhanced_code: orNull(text()).says('Enhanced status code (RFC 3463).', '2.0.0'),
  smtp_reply: orNull(text()).says('Text of the reply.', '2.0.0 OK'),
  class: orNull(text()).says('What kind of refusal it is; null for an accepted mail.'),
  reason: orNull(text()).says('Why it was refused, in one word.'),
  next_attempt_at: orNull(time()).says('When the next attempt is made; null for none.'),
});
export type AttemptRow = RowOf<typeof attempts>;

/** The books: how many recipients went from one status to another, per account and UTC day. They outlive retention. */
export const counters = table(
  {
    account_id: text(),
    /** UTC day, `2026-01-31`. */
    day: text(),
    /** `none` for acceptance. Rows from `simulated` to `none` count accepted mail that uses up no quota. */
    from_status: text(),
    to_status: text(),
    n: integer(),
  },
  { isParted: true, onConflict: { key: ['account_id', 'day', 'from_status', 'to_status'], adds: ['n'] } },
);
export type CounterRow = RowOf<typeof counters>;

/** The operator's holds and lane limits. */
