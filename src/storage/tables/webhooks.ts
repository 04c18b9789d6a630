/** Webhook endpoints, the calls that wait, and the log of calls. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

/** The cause of a call: the event happened, a person asked for it again, or it is a test. */
export type WebhookCause = 'event' | 'resend' | 'replay' | 'test';

/** An endpoint of a customer that gets events. */
export const webhooks = table(
  {
    id: text(),
    account_id: text(),
    url: text(),
    description: text(),
    events_json: text(),
    /** Only events of these streams and sending domains; none means all. */
    streams_json: text(),
    domains_json: text(),
    include_machine_events: integer(),
    /** 1 if events have the address and user agent of opens and clicks. */
    include_engagement: integer(),
    /** Calls at once; 1 keeps the order. */
    concurrency: integer(),
    header_names_json: text(),
    /** Custom headers `[name, value][]` under AES-256-GCM (base/keyring.ts). */
    headers_sealed: orNull(text()),
    /** Secrets with their ends, newest first, likewise sealed. */
    secrets_sealed: text(),
    status: text<'active' | 'paused' | 'disabled'>(),
    disabled_reason: orNull(text()),
    /** Every event up to here was delivered, is not for this endpoint, or has a row in webhook_calls. */
    cursor: integer(),
    /** Failures since the last success, and the time of the first of them. */
    failures: integer(),
    failing_since: orNull(integer()),
    warned_at: orNull(integer()),
    /** Until when it asked not to be called, which may be over; null after a success. */
    rests_until: orNull(integer()),
    last_success_at: orNull(integer()),
    last_failure_at: orNull(integer()),
    created_at: integer(),
    created_by: text(),
    updated_at: integer(),
  },
  { isReferredTo: true },
);
export type WebhookRow = RowOf<typeof webhooks>;

/**
 * An event that must still be sent to an endpoint: its call failed, it is to be sent again, or it was on the wire when another node began to
 * call the endpoint.
 */
export const webhookCalls = table({
  webhook_id: text(),
  sequence: integer(),
  cause: text<WebhookCause>(),
  attempts: integer(),
  /** Null if all attempts are used up: then only a resend or a replay sends it. */
  due_at: orNull(integer()),
  created_at: integer(),
});
export type WebhookCallRow = RowOf<typeof webhookCalls>;

/** One attempt of a call: a line of the delivery log. */
export const webhookDeliveries = table({
  id: text(),
  webhook_id: text(),
  event_id: text(),
  event_type: text(),
  /** The event's number in the log; null for a test. */
  sequence: orNull(integer()),
  cause: text<WebhookCause>(),
  attempt: integer(),
  at: integer(),
  ms: integer(),
  status: text<'delivered' | 'failed'>(),
  status_code: orNull(integer()),
  error: orNull(text()),
  /** The first 4 KiB. */
  answer: orNull(text()),
  /** The header as it was sent; its timestamp is the second of `at`. */
  signature: text(),
  /** The body of a test; the body of a real event is in the event log. */
  sample: orNull(text()),
  next_attempt_at: orNull(integer()),
});
export type WebhookDeliveryRow = RowOf<typeof webhookDeliveries>;

/** A request to send the events of a time to an endpoint again. */
export const webhookReplays = table({
  id: text(),
  webhook_id: text(),
  account_id: text(),
  since: integer(),
  until: integer(),
  which: text<'failed' | 'all'>(),
  types_json: text(),
  status: text<'running' | 'done'>(),
  /** Done up to here in the event log, out of `end_position`. */
  position: integer(),
  end_position: integer(),
  queued: integer(),
  created_at: integer(),
  finished_at: orNull(integer()),
});
export type WebhookReplayRow = RowOf<typeof webhookReplays>;
