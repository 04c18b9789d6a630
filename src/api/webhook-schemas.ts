/** The records of webhooks as schemas, with their examples. */
import { z } from 'zod';
import { faults } from '../base/check.ts';
import { allEventTypes, type EventType } from '../events/event.ts';
import { recordOf } from '../storage/record.ts';
import { webhookDeliveries } from '../storage/tables.ts';
import { webhookMembers } from '../webhooks/endpoint.ts';
import { replayMembers } from '../webhooks/replay.ts';
import { recordSchema, text, time } from './record-schema.ts';

export const Webhook = recordSchema(
  webhookMembers,
  { id: 'Webhook', description: 'An endpoint that receives events.' },
  { events: z.array(z.enum(allEventTypes)) },
);
export const CreatedWebhook = Webhook.extend({
  secret: text('Signs the calls. `GET /v1/webhooks/{id}/secret` shows it again.', 'whsec_…'),
}).meta({ id: 'CreatedWebhook', description: 'A new endpoint with its secret.' });

const endpointId = () => text('Id of the endpoint.', 'whk_01jz5w8q3hf2m9d4x6k7c1b0na');

export const WebhookSecret = z
  .object({
    object: z.literal('webhook_secret'),
    webhook_id: endpointId(),
    secret: text('Signs the calls from now on.', 'whsec_…'),
    previous: z
      .array(
        z.object({
          secret: text('A secret that was replaced.', 'whsec_…'),
          expires_at: time('Until then it signs as well.', '2026-02-01T09:30:00.000Z'),
        }),
      )
      .describe('Secrets that were replaced and still sign beside it.'),
  })
  .meta({ id: 'WebhookSecret', description: 'What the calls of an endpoint are signed with.' });

export const deliveryMembers = recordOf('webhook_delivery', webhookDeliveries);
export const WebhookDelivery = recordSchema(deliveryMembers, {
  id: 'WebhookDelivery',
  description: 'One attempt to tell an endpoint of an event.',
});

export const WebhookResend = z
  .object({
    object: z.literal('webhook_resend'),
    webhook_id: endpointId(),
    event_id: text('Id of the event.', 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h'),
    event_type: text('Kind of the event.', 'delivered'),
    queued_at: time('When it was queued.', '2026-01-31T10:00:00.000Z'),
  })
  .meta({ id: 'WebhookResend', description: 'An event that is on its way to an endpoint once more.' });

export const WebhookReplay = recordSchema(replayMembers, {
  id: 'WebhookReplay',
  description: 'Events of a time that are sent to an endpoint again.',
});

const isOne = { code: 'unknown_event_type', says: `must be one of ${allEventTypes.join(', ')}` } as const;

/** A kind of event; `unknown_event_type` for others. */
export const eventType = () => z.enum(allEventTypes).register(faults, isOne);

/** A kind of event, or `*` for the six default kinds. */
export const eventTypeOrAll = () =>
  z
    .enum([...allEventTypes, '*'] as [EventType | '*', ...(EventType | '*')[]])
    .register(faults, { ...isOne, says: `${isOne.says}, or *` });
