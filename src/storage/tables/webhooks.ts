/** Webhook endpoints, the calls that wait, and the log of calls. */
import { computed, flag, integer, orNull, table, text, texts, time, type RowOf } from '../table.ts';

/** The cause of a call: the event happened, a person asked for it again, or it is a test. */
const causes = ['event', 'resend', 'replay', 'test'] as const;
export type WebhookCause = (typeof causes)[number];

const WEBHOOK_ID = 'whk_01jz5w8q3hf2m9d4x6k7c1b0na';
const endpointId = () => text().says('Id of the endpoint.', WEBHOOK_ID);

export const webhooks = table(
  {
    id: endpointId(),
    account_id: text(),
    url: text().says('Where it is called.', 'https://hooks.acme.example/posthorn').audited(),
    description: text().says('For people.', 'Order service'),
    events_json: texts().says('Kinds of event that it receives.', ['delivered', 'bounced', 'complained']).audited(),
    streams_json: texts().says('Only events of these streams; none means all.').audited(),
    domains_json: texts().says('Only events of mail from these domains; none means all.').audited(),
    addresses_json: texts()
      .says(
        'Only `received` events of mail to these addresses, such as `support@acme.example`, `reply+*@acme.example` or `*@acme.example`; none means all.',
      )
      .audited(),
    include_machine_events: flag().says('Whether it receives opens and clicks by machines.'),
    include_engagement: flag().says('Whether it receives address and user agent of opens and clicks.').audited(),
    concurrency: integer().says('Calls at once; with 1 events come strictly in order.', 10).audited(),
    header_names_json: texts().says('Names of the custom headers. Their values are shown nowhere.', [
      'X-Gateway-Token',
    ]),
    /** Custom headers `[name, value][]` under AES-256-GCM (base/keyring.ts). */
    headers_sealed: orNull(text()),
    /** Secrets with their ends, newest first, likewise sealed. */
    secrets_sealed: text(),
    status: text('active', 'paused', 'disabled').says('`disabled`: by us, see `disabled_reason`.').audited(),
    disabled_reason: orNull(text()).says('Why it was disabled; null unless it is.'),
    /** Every event up to here was delivered, is not for this endpoint, or has a row in webhook_calls. */
    cursor: integer(),
    failures: integer(),
    failing_since: orNull(time()).says('When the first of the calls that failed since the last success was made.'),
    warned_at: orNull(time()),
    rests_until: orNull(time()).says(
      'Until when it gets no call, since it answered 429, or 503 with `Retry-After`; may be over. Null without a rest, and after a success.',
    ),
    next_attempt_at: computed(
      orNull(time()).says(
        'When the first of the calls that wait is made again; null if none waits, and for an endpoint that is not called.',
      ),
    ),
    last_success_at: orNull(time()).says('When a call was answered with 2xx last.', '2026-01-31T09:30:02.981Z'),
    last_failure_at: orNull(time()).says('When a call failed last.'),
    created_at: time().says('When it was registered.', '2026-01-30T08:00:00.000Z'),
    created_by: text(),
    updated_at: time().says('When its settings were changed last.', '2026-01-30T08:00:00.000Z'),
  },
  { isReferredTo: true },
);
export type WebhookRow = RowOf<typeof webhooks>;

/** An event that must still be sent to an endpoint: its call failed, or it is to be sent again. */
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
  id: text().says('Id of the attempt.', 'whd_01m7xk7tjq3n8r5c1b0nam9d4x'),
  webhook_id: endpointId(),
  event_id: text().says('Id of the event; also the `webhook-id` of the call.', 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h'),
  event_type: text().says('Kind of the event.', 'delivered'),
  /** The event's number in the log; null for a test. */
  sequence: orNull(integer()),
  cause: text(...causes).says('Why it was called: an event, or a request to repeat it.'),
  attempt: integer().says('The first attempt is 1.', 1),
  at: time().says('When it was called.', '2026-01-31T09:30:02.781Z'),
  ms: integer().says('How long the call took.', 84),
  status: text('delivered', 'failed').says('`delivered` for an answer with 2xx.', 'failed'),
  status_code: orNull(integer()).says('Null if there was no answer.', 503),
  error: orNull(text()).says('What failed; null for a success.', 'the endpoint answered 503'),
  answer: orNull(text()).says('The first 4 KiB of the answer; null without the scope `webhook:read`.', 'maintenance'),
  /** The header as it was sent; its timestamp is the second of `at`. */
  signature: text(),
  /** The body of a test; the body of a real event is in the event log. */
  sample: orNull(text()),
  next_attempt_at: orNull(time()).says('When it is tried again; null if it is not.', '2026-01-31T09:30:07.702Z'),
  request: computed(
    orNull(text()).says(
      'The signed request as a curl command; that of a received mail has neither its text nor the signature. Null if the event is no longer stored, and if it holds what needs `event:engagement`.',
      "curl 'https://hooks.acme.example/posthorn' -H 'Content-Type: application/json' …",
    ),
  ),
});
export type WebhookDeliveryRow = RowOf<typeof webhookDeliveries>;

/** A request to send the events of a time to an endpoint again. */
export const webhookReplays = table({
  id: text().says('Id of the replay.', 'whr_01m7xk9d4x6k7c1b0na8q3hf2m'),
  webhook_id: endpointId(),
  account_id: text(),
  since: time().says('Events from this time on.', '2026-01-30T00:00:00.000Z'),
  until: time().says('Events before this time.', '2026-01-31T00:00:00.000Z'),
  which: text('failed', 'all'),
  only: computed(text('failed', 'all').says('`failed` for what was not delivered, `all` for everything.')),
  types_json: texts().says('None means all that the endpoint receives.'),
  status: text('running', 'done').says('`done`: all of it is queued.'),
  /** Done up to here in the event log, out of `end_position`. */
  position: integer(),
  end_position: integer(),
  queued: integer().says('Events queued so far.'),
  created_at: time().says('When it was asked for.', '2026-01-31T10:00:00.000Z'),
  finished_at: orNull(time()).says('When all of it was queued; null before.'),
});
export type WebhookReplayRow = RowOf<typeof webhookReplays>;
