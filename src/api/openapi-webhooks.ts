/** The `webhooks` section of the OpenAPI document: what an endpoint of a customer is called with. Made from the event record and its samples. */
import { eventRecord, eventTypes, type EventType } from '../events/event.ts';
import { sampleEvent } from '../webhooks/sample-event.ts';
import type { Json, Schemas } from './openapi-schemas.ts';
import { Event } from './records.ts';

const words: Readonly<Record<(typeof eventTypes)[number], string>> = {
  sent: 'The first attempt to deliver a mail begins',
  delivered: 'A mail host took a mail',
  opened: 'A mail was opened',
  clicked: 'A link in a mail was followed',
  bounced: 'A mail was refused for good',
  complained: 'A recipient reported a mail as unwanted',
};

const header = (name: string, description: string, type: 'string' | 'integer' = 'string'): Json => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type },
});

/** The headers that every call has. */
const parameters: readonly Json[] = [
  header('webhook-id', 'Id of the event, the same in every attempt.'),
  header('webhook-timestamp', 'When this attempt was made, in Unix seconds.', 'integer'),
  header('webhook-signature', 'Signatures as Standard Webhooks 1.0 says: `v1,` and base64, separated by spaces.'),
  header('webhook-attempt', 'Number of the attempt, from 1.', 'integer'),
];

const SAMPLE_ID = 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h';
const SAMPLE_AT = Date.parse('2026-01-31T09:30:02.481Z');

/** One entry for each of the six kinds that everybody gets. */
export function webhookSection(schemas: Schemas): Json {
  return Object.fromEntries(eventTypes.map((type) => [type, { post: callOf(type, schemas) }]));
}

function callOf(type: (typeof eventTypes)[number], schemas: Schemas): Json {
  return {
    operationId: `on${type.charAt(0).toUpperCase()}${type.slice(1)}`,
    summary: words[type],
    description: 'A call of a webhook endpoint. Answer with 2xx within 15 seconds; anything else is tried again.',
    tags: ['webhooks'],
    security: [],
    parameters,
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: schemas.of(Event, 'output'),
          examples: { [type]: { summary: words[type], value: sampleOf(type) } },
        },
      },
    },
    responses: {
      204: { description: 'The event was taken.' },
      410: { description: 'No more calls: the endpoint is disabled.' },
    },
  };
}

const sampleOf = (type: EventType): Json =>
  eventRecord({ ...sampleEvent(type, SAMPLE_ID, SAMPLE_AT), sequence: 184_467, test: 0 }, { engagement: false });
