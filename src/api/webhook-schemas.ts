/** The records of webhooks as schemas, with their examples. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { allEventTypes, type EventType } from '../events/event.ts';

const nullableTime = () => z.iso.datetime().nullable();

const endpointId = () => z.string().describe('Id of the endpoint.');

const webhookShape = {
  object: z.literal('webhook'),
  id: z.string().describe('Id of the endpoint.'),
  url: z.string().describe('Where it is called.'),
  description: z.string().describe('For people.'),
  events: z.array(z.enum(allEventTypes)).describe('Kinds of event that it receives.'),
  streams: z.array(z.string()).describe('Only events of these streams; none means all.'),
  domains: z.array(z.string()).describe('Only events of mail from these domains; none means all.'),
  include_machine_events: z.boolean().describe('Whether it receives opens and clicks by machines.'),
  include_engagement: z.boolean().describe('Whether it receives address and user agent of opens and clicks.'),
  concurrency: z.int().describe('Calls at once; with 1 events come strictly in order.'),
  header_names: z.array(z.string()).describe('Names of the custom headers. Their values are shown nowhere.'),
  status: z.enum(['active', 'paused', 'disabled']).describe('`disabled`: by us, see `disabled_reason`.'),
  disabled_reason: z.string().nullable().describe('Why it was disabled; null unless it is.'),
  failing_since: nullableTime().describe('When the first of the calls that failed since the last success was made.'),
  rests_until: nullableTime().describe(
    'Until when it gets no call, since it answered 429, or 503 with `Retry-After`; may be over. Null without a rest, and after a success.',
  ),
  next_attempt_at: nullableTime().describe(
    'When the first of the calls that wait is made again; null where none waits, and for an endpoint that is not called.',
  ),
  last_success_at: nullableTime().describe('When a call was answered with 2xx last.'),
  last_failure_at: nullableTime().describe('When a call failed last.'),
  created_at: z.iso.datetime().describe('When it was registered.'),
  updated_at: z.iso.datetime().describe('When its settings were changed last.'),
};

export const Webhook = z.object(webhookShape).meta({ id: 'Webhook', description: 'An endpoint that receives events.' });

export const CreatedWebhook = z
  .object({
    ...webhookShape,
    secret: z.string().describe('Signs the calls. `GET /v1/webhooks/{id}/secret` shows it again.'),
  })
  .meta({ id: 'CreatedWebhook', description: 'A new endpoint with its secret.' });

export const WebhookSecret = z
  .object({
    object: z.literal('webhook_secret'),
    webhook_id: endpointId(),
    secret: z.string().describe('Signs the calls from now on.'),
    previous: z
      .array(
        z.object({
          secret: z.string().describe('A secret that was replaced.'),
          expires_at: z.iso.datetime().describe('Until then it signs as well.'),
        }),
      )
      .describe('Secrets that were replaced and still sign beside it.'),
  })
  .meta({ id: 'WebhookSecret', description: 'What the calls of an endpoint are signed with.' });

export const WebhookDelivery = z
  .object({
    object: z.literal('webhook_delivery'),
    id: z.string().describe('Id of the attempt.'),
    webhook_id: endpointId(),
    event_id: z.string().describe('Id of the event; also the `webhook-id` of the call.'),
    event_type: z.string().describe('Kind of the event.'),
    cause: z
      .enum(['event', 'resend', 'replay', 'test'])
      .describe('Why it was called: an event, or a request to repeat it.'),
    attempt: z.int().describe('The first attempt is 1.'),
    at: z.iso.datetime().describe('When it was called.'),
    ms: z.int().describe('How long the call took.'),
    status: z.enum(['delivered', 'failed']).describe('`delivered` for an answer with 2xx.'),
    status_code: z.int().nullable().describe('Null where there was no answer.'),
    error: z.string().nullable().describe('What failed; null for a success.'),
    answer: z.string().nullable().describe('The first 4 KiB of the answer; null without the scope `webhook:read`.'),
    next_attempt_at: nullableTime().describe('When it is tried again; null where it is not.'),
    request: z
      .string()
      .nullable()
      .describe(
        'The signed request as a curl command. Null where the event is no longer stored, and where it holds what needs `event:engagement`.',
      ),
  })
  .meta({ id: 'WebhookDelivery', description: 'One attempt to tell an endpoint of an event.' });

export const WebhookResend = z
  .object({
    object: z.literal('webhook_resend'),
    webhook_id: endpointId(),
    event_id: z.string().describe('Id of the event.'),
    event_type: z.string().describe('Kind of the event.'),
    queued_at: z.iso.datetime().describe('When it was queued.'),
  })
  .meta({ id: 'WebhookResend', description: 'An event that is on its way to an endpoint once more.' });

export const WebhookReplay = z
  .object({
    object: z.literal('webhook_replay'),
    id: z.string().describe('Id of the replay.'),
    webhook_id: endpointId(),
    since: z.iso.datetime().describe('Events from this time on.'),
    until: z.iso.datetime().describe('Events before this time.'),
    only: z.enum(['failed', 'all']).describe('`failed` for what was not delivered, `all` for everything.'),
    types: z.array(z.string()).describe('None means all that the endpoint receives.'),
    status: z.enum(['running', 'done']).describe('`done`: all of it is queued.'),
    queued: z.int().describe('Events queued so far.'),
    created_at: z.iso.datetime().describe('When it was asked for.'),
    finished_at: nullableTime().describe('When all of it was queued; null before.'),
  })
  .meta({ id: 'WebhookReplay', description: 'Events of a time that are sent to an endpoint again.' });

const isOne = { code: 'unknown_event_type', says: `must be one of ${allEventTypes.join(', ')}` } as const;

/** A kind of event; `unknown_event_type` for others. */
export const eventType = () => z.enum(allEventTypes).register(faults, isOne);

/** A kind of event, or `*` for the six default kinds. */
export const eventTypeOrAll = () =>
  z
    .enum([...allEventTypes, '*'] as [EventType | '*', ...(EventType | '*')[]])
    .register(faults, { ...isOne, says: `${isOne.says}, or *` });

const id = 'whk_01jz5w8q3hf2m9d4x6k7c1b0na';
const eventId = 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h';

export const samples = {
  webhook: {
    object: 'webhook',
    id,
    url: 'https://hooks.acme.example/posthorn',
    description: 'Order service',
    events: ['delivered', 'bounced', 'complained'],
    streams: [],
    domains: [],
    include_machine_events: false,
    include_engagement: false,
    concurrency: 10,
    header_names: ['X-Gateway-Token'],
    status: 'active',
    disabled_reason: null,
    failing_since: null,
    rests_until: null,
    next_attempt_at: null,
    last_success_at: '2026-01-31T09:30:02.981Z',
    last_failure_at: null,
    created_at: '2026-01-30T08:00:00.000Z',
    updated_at: '2026-01-30T08:00:00.000Z',
  },
  secret: {
    object: 'webhook_secret',
    webhook_id: id,
    secret: 'whsec_…',
    previous: [{ secret: 'whsec_…', expires_at: '2026-02-01T09:30:00.000Z' }],
  },
  delivery: {
    object: 'webhook_delivery',
    id: 'whd_01m7xk7tjq3n8r5c1b0nam9d4x',
    webhook_id: id,
    event_id: eventId,
    event_type: 'delivered',
    cause: 'event',
    attempt: 1,
    at: '2026-01-31T09:30:02.781Z',
    ms: 84,
    status: 'failed',
    status_code: 503,
    error: 'the endpoint answered 503',
    answer: 'maintenance',
    next_attempt_at: '2026-01-31T09:30:07.702Z',
    request: "curl 'https://hooks.acme.example/posthorn' -H 'Content-Type: application/json' …",
  },
  resend: {
    object: 'webhook_resend',
    webhook_id: id,
    event_id: eventId,
    event_type: 'delivered',
    queued_at: '2026-01-31T10:00:00.000Z',
  },
  replay: {
    object: 'webhook_replay',
    id: 'whr_01m7xk9d4x6k7c1b0na8q3hf2m',
    webhook_id: id,
    since: '2026-01-30T00:00:00.000Z',
    until: '2026-01-31T00:00:00.000Z',
    only: 'failed',
    types: [],
    status: 'running',
    queued: 0,
    created_at: '2026-01-31T10:00:00.000Z',
    finished_at: null,
  },
};
