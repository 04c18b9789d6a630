/** The `webhooks:` section of the OpenAPI document: what a registered endpoint is called with, kind by kind. */
import { z } from 'zod';
import { allEventTypes, optInEventTypes, type EventType } from '../events/event.ts';
import type { Json, Schemas } from './openapi-schemas.ts';
import { Event } from './records.ts';

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
  header('webhook-id', 'The id of the event, the same at every try: drop what you have seen.', 'evt_01jz5w8q3hf2m9d4x6k7c1b0na'),
  header('webhook-timestamp', 'When this try was made, in Unix seconds: refuse what is older than five minutes.', '1769851802'),
  header('webhook-signature', '`v1,` and the base64 HMAC-SHA256 of `webhook-id.webhook-timestamp.body` under the secret of the endpoint; several, separated by spaces, while the secret is being rotated.', 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4='),
]; // prettier-ignore

interface Told {
  summary: string;
  status: string;
  detail: Json;
}

/** A sentence and a sample for each kind. */
const told: Readonly<Record<EventType, Told>> = {
  sent: { summary: 'Delivery has begun', status: 'sent', detail: { attempt: 1, mx: null, sending_ip: null } },
  delivered: { summary: 'The mail host of the recipient has taken it', status: 'delivered', detail: { mx: 'mx1.example.net', ip: '203.0.113.9', smtp_code: 250, smtp_reply: '2.0.0 OK', tls: 'TLSv1.3', attempt: 1, queue_ms: 310, via_relay: false } },
  opened: { summary: 'It was opened', status: 'delivered', detail: { first: true, ip: null, user_agent: null, client: 'Thunderbird', os: 'Linux', device: 'desktop', is_bot: false, bot: null } },
  clicked: { summary: 'A link in it was followed', status: 'delivered', detail: { first: true, url: 'https://acme.example/welcome', link_id: '1', part: 'html', ip: null, user_agent: null, is_bot: false, bot: null } },
  bounced: { summary: 'It cannot be delivered', status: 'bounced', detail: { class: 'hard', reason: 'mailbox_not_found', async: false, smtp_code: 550, enhanced_code: '5.1.1', smtp_reply: '5.1.1 no such user', mx: 'mx1.example.net', attempts: 1, suppression_added: true } },
  complained: { summary: 'The recipient has complained about it', status: 'complained', detail: { feedback_type: 'abuse', source: 'arf', arrival_date: '2026-01-31T09:41:00.000Z', user_agent: 'SomeGenerator/1.0', suppression_added: true } },
  deferred: { summary: 'A try has failed; there will be another', status: 'deferred', detail: { attempt: 1, mx: 'mx1.example.net', smtp_code: 451, enhanced_code: '4.7.1', smtp_reply: '4.7.1 try again later', reason: 'rate_limited', next_attempt_at: '2026-01-31T09:31:02.000Z' } },
  suppressed: { summary: 'It was not sent, because the address is on the suppression list', status: 'suppressed', detail: { reason: 'hard_bounce', suppression_id: 'sup_01jz5w8q3hf2m9d4x6k7c1b0na' } },
  failed: { summary: 'It was not sent, by a fault on our side', status: 'failed', detail: { reason: 'expired', message: 'It was held until its time was over.' } },
  unsubscribed: { summary: 'The recipient wants no more mail of this stream', status: 'delivered', detail: { stream: 'broadcast', method: 'one_click' } },
}; // prettier-ignore

/** One entry for each kind of event, by its name. */
export function webhookSection(schemas: Schemas): Json {
  // As a part of something the record is a reference, and becomes a component.
  const { items } = schemas.of(z.array(Event), 'output');
  return Object.fromEntries(allEventTypes.map((type) => [type, { post: callOf(type, items as Json) }]));
}

function callOf(type: EventType, event: Json): Json {
  const { summary, status, detail } = told[type];
  const isOptIn = (optInEventTypes as readonly EventType[]).includes(type);
  const when = isOptIn ? 'Only for endpoints that name this kind.' : 'Every endpoint gets this kind, unless it names others.'; // prettier-ignore
  return {
    operationId: `on${type.charAt(0).toUpperCase()}${type.slice(1)}`,
    summary,
    description: `${when} Answer with any 2xx within 15 seconds. Anything else is tried again, ten times over about three days; 410 ends the calls to this endpoint. Calls may come twice and in another order.`,
    tags: ['webhooks'],
    security: [],
    parameters: signatureHeaders,
    requestBody: {
      required: true,
      description: 'The event, byte for byte as `GET /v1/events` shows it.',
      content: { 'application/json': { schema: event, examples: { [type]: { summary, value: sample(type, status, detail) } } } }, // prettier-ignore
    },
    responses: {
      '2XX': { description: 'The event is taken.' },
      410: { description: 'Nobody is there any more: the endpoint is disabled.' },
    },
  };
}

const sample = (type: EventType, status: string, detail: Json): Json => ({
  object: 'event',
  id: 'evt_01jz5w8q3hf2m9d4x6k7c1b0na',
  type,
  timestamp: '2026-01-31T09:30:02.481Z',
  sequence: 184_467,
  test: false,
  data: {
    message_id: 'msg_01jz5w8q3hf2m9d4x6k7c1b0na',
    batch_id: null,
    rfc_message_id: '<01jz5w8q3hf2m9d4x6k7c1b0na@acme.example>',
    recipient: 'ana@example.net',
    recipient_type: 'to',
    from: 'hi@acme.example',
    subject: 'Welcome',
    template_id: null,
    stream: 'transactional',
    tags: [],
    metadata: { order: '17' },
    status,
    [type]: detail,
  },
});
