/** The `webhooks:` section of the OpenAPI document: the calls that a registered endpoint receives, by kind of event. */
import { z } from 'zod';
import { allEventTypes, optInEventTypes, type EventType } from '../events/event.ts';
import type { Json, Schemas } from './openapi-schemas.ts';
import { Event, sampleEvent } from './records.ts';

const header = (name: string, description: string, example: string): Json => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

/** Standard Webhooks 1.0. */
const signatureHeaders = [
  header(
    'webhook-id',
    'The id of the event, the same at every try: drop what you have seen.',
    'evt_01jz5w8q3hf2m9d4x6k7c1b0na',
  ),
  header(
    'webhook-timestamp',
    'When this try was made, in Unix seconds: refuse what is older than five minutes.',
    '1769851802',
  ),
  header(
    'webhook-signature',
    '`v1,` and the base64 HMAC-SHA256 of `webhook-id.webhook-timestamp.body` under the secret of the endpoint; several, separated by spaces, while the secret is being rotated.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
];

/** A sentence for each kind. */
const told: Readonly<Record<EventType, string>> = {
  sent: 'Delivery has begun',
  delivered: 'The mail host of the recipient has taken it',
  opened: 'It was opened',
  clicked: 'A link in it was followed',
  bounced: 'It cannot be delivered',
  complained: 'The recipient has complained about it',
  deferred: 'A try has failed; there will be another',
  suppressed: 'It was not sent, because the address is on the suppression list',
  failed: 'It was not sent, by a fault on our side',
  unsubscribed: 'The recipient wants no more mail of this stream',
  received: 'A mail came to a domain that receives',
};

/** One entry for each kind of event, by its name. */
export function webhookSection(schemas: Schemas): Json {
  // Inside another schema the record is a reference, and becomes a component.
  const { items } = schemas.of(z.array(Event), 'output');
  return Object.fromEntries(allEventTypes.map((type) => [type, { post: callOf(type, items as Json) }]));
}

function callOf(type: EventType, event: Json): Json {
  const summary = told[type];
  const isOptIn = (optInEventTypes as readonly EventType[]).includes(type);
  const when = isOptIn
    ? 'Only for endpoints that name this kind.'
    : 'Every endpoint gets this kind, unless it names others.';
  return {
    operationId: `on${type.charAt(0).toUpperCase()}${type.slice(1)}`,
    summary,
    description: `${when} Answer with any 2xx within 15 seconds. Anything else is tried again, ten times over about three days; 410 ends the calls to this endpoint. Calls may come twice and in another order.`,
    tags: ['webhooks'],
    security: [],
    parameters: signatureHeaders,
    requestBody: {
      required: true,
      description: 'The event, byte for byte as `GET /v1/events` shows it; `received` with text and html besides.',
      content: {
        'application/json': {
          schema: event,
          examples: { [type]: { summary, value: sampleEvent(type, { engagement: false }) } },
        },
      },
    },
    responses: {
      '2XX': { description: 'The event is taken.' },
      410: { description: 'The endpoint is gone: it is disabled.' },
    },
  };
}
