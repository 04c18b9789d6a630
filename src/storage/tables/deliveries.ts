/** Deliveries, their attempts and holds, and the books. */
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

/** One message to one recipient, the unit of work of the delivery engine. */
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
  /** The name whose mail hosts are looked up: the recipient's domain, or `~simulator`. */
  domain: text(),
  /** Order inside a lane: 0 transactional, 1 broadcast. */
  class: integer(),
  test: integer(),
  status: text<DeliveryStatus>(),
  status_at: integer(),
  /** The time when it needs attention next; null when it is finished. While it is claimed, the end of the lease. */
  due_at: orNull(integer()),
  /** The time when it was to be sent: acceptance, or send_at. */
  queued_at: integer(),
  /** The time when the queue gives up. */
  give_up_at: integer(),
  attempt_count: integer(),
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
  /** The mark of the hold that keeps it back (messages/delivery/holds.ts), or null. */
  held_by: orNull(text()),
  /** The start of the time under an operator's hold that is not yet added to give_up_at. */
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
    /** `none` for acceptance. Rows from `simulated` to `none` count accepted mail that uses up no quota. */
    from_status: text(),
    to_status: text(),
    n: integer(),
  },
  { isParted: true, onConflict: { key: ['account_id', 'day', 'from_status', 'to_status'], adds: ['n'] } },
);
export type CounterRow = RowOf<typeof counters>;

/** The operator's holds and lane limits. */
export const holds = table({
  id: text(),
  kind: text<'hold' | 'limit'>(),
  scope: text<'domain' | 'lane' | 'account' | 'stream' | 'message' | 'source'>(),
  /** A recipient domain, a lane's or source's name, an account's id, a stream's slug, a message's id. */
  target: text(),
  /** The account of the stream or message, or null. */
  account_id: orNull(text()),
  /** 1: mail accepted later is held as well. */
  catches_new: integer(),
  /** The most connections, for a limit. */
  connections: orNull(integer()),
  /** The most mails a minute, for a limit. */
  per_minute: orNull(integer()),
  note: orNull(text()),
  /** The time when it ends by itself, or null. */
  until: orNull(integer()),
  created_at: integer(),
  /** The person who set it, as the audit log names them; null if an older version set it. */
  created_by: orNull(text()),
});
export type HoldRow = RowOf<typeof holds>;
