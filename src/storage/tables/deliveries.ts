/** Deliveries, their attempts, what holds them, and the books. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

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

/** One message to one recipient: what the delivery engine works on. */
export const deliveries = table({
  id: text(),
  message_id: text(),
  account_id: text(),
  type: text<'to' | 'cc' | 'bcc'>(),
  /** 1 for the recipient whose status the message shows: `to`, or the first envelope recipient of a submitted mail. */
  lead: integer(),
  name: orNull(text()),
  address: text(),
  address_key: text(),
  /** What is looked up to deliver it: the recipient's domain, or `~simulator`. */
  domain: text(),
  /** Order inside a lane: 0 transactional, 1 broadcast. */
  class: integer(),
  test: integer(),
  status: text<DeliveryStatus>(),
  status_at: integer(),
  /** When it needs attention next; null when nothing is left to do. While claimed, the end of the lease. */
  due_at: orNull(integer()),
  /** When it was to be sent: acceptance, or send_at. */
  queued_at: integer(),
  /** When the queue gives up. */
  give_up_at: integer(),
  attempt_count: integer(),
  /** The process that holds the claim, or null. Outcomes apply only for the same epoch and attempt. */
  claim_epoch: orNull(integer()),
  /** Look-ups in a row that said the domain does not exist, and when the first of them was. */
  no_domain_count: integer(),
  no_domain_since: orNull(integer()),
  smtp_code: orNull(integer()),
  enhanced_code: orNull(text()),
  smtp_reply: orNull(text()),
  mx: orNull(text()),
  tls: orNull(text()),
  /** What of ours keeps it back (messages/delivery/holds.ts), or null. */
  held_by: orNull(text()),
  /** From when on the time that an operator's hold takes has not been given back yet. */
  held_at: orNull(integer()),
});
export type DeliveryRow = RowOf<typeof deliveries>;

export const attempts = table({
  id: text(),
  delivery_id: text(),
  message_id: text(),
  number: integer(),
  started_at: integer(),
  ended_at: integer(),
  mx: orNull(text()),
  ip: orNull(text()),
  source: orNull(text()),
  tls_json: orNull(text()),
  timings_json: text(),
  outcome: text<'accepted' | 'deferred' | 'refused' | 'uncertain'>(),
  smtp_code: orNull(integer()),
  enhanced_code: orNull(text()),
  smtp_reply: orNull(text()),
  class: orNull(text()),
  reason: orNull(text()),
  next_attempt_at: orNull(integer()),
});
export type AttemptRow = RowOf<typeof attempts>;

/** The books: how many recipients went from one status to another, per account and UTC day. They outlive retention. */
export const counters = table(
  {
    account_id: text(),
    /** UTC day, `2026-01-31`. */
    day: text(),
    /** `none` for acceptance. */
    from_status: text(),
    to_status: text(),
    n: integer(),
  },
  { onConflict: 'ON CONFLICT (account_id, day, from_status, to_status) DO UPDATE SET n = counters.n + excluded.n' },
);
export type CounterRow = RowOf<typeof counters>;

/** What the operator has set for part of the queue: mail held back, or a lane slowed down. */
export const holds = table({
  id: text(),
  kind: text<'hold' | 'limit'>(),
  scope: text<'domain' | 'lane' | 'account' | 'stream' | 'message' | 'source'>(),
  /** A recipient domain, a lane's or source's name, an account's id, a stream's slug, a message's id. */
  target: text(),
  /** The account that is concerned, where there is one. */
  account_id: orNull(text()),
  /** 1: mail accepted later is held as well. */
  catches_new: integer(),
  /** Of a limit: connections at most. */
  connections: orNull(integer()),
  /** Of a limit: mails a minute at most. */
  per_minute: orNull(integer()),
  note: orNull(text()),
  /** When it ends by itself, or null. */
  until: orNull(integer()),
  created_at: integer(),
  /** Who set it, as the audit log names them; null where an older version set it. */
  created_by: orNull(text()),
});
export type HoldRow = RowOf<typeof holds>;

/** A bounced delivery whose mail was sent again. */
export const resends = table({
  /** The message that bounced. */
  message_id: text(),
  delivery_id: text(),
  /** The new message. */
  resent_as: text(),
  at: integer(),
});
export type ResendRow = RowOf<typeof resends>;
