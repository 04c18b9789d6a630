/** `/v1/messages/{id}/webhook-deliveries`: the calls to webhook endpoints about one message. */
import { z } from 'zod';
import { lastEventsOf } from '../events/event-log.ts';
import type { Database } from '../storage/database.ts';
import { callsForEvents } from '../webhooks/call-store.ts';
import { endpointsNamed } from '../webhooks/endpoint-store.ts';
import { messageId } from './records.ts';
import { jsonResponse, route, type Route } from './route.ts';
import { requireMessage } from './test-mode.ts';
import { deliveryRecords } from './webhook-deliveries.ts';
import { WebhookDelivery } from './webhook-schemas.ts';

const MOST = 200;

const CallList = z
  .object({ object: z.literal('list'), data: z.array(WebhookDelivery).describe('The attempts.') })
  .meta({ id: 'WebhookDeliveryList', description: 'Attempts to tell endpoints of events, oldest first.' });

export function messageWebhookRoutes(deps: { db: Pick<Database, 'reader' | 'prepared'> }): Route[] {
  const { db } = deps;
  return [
    route(
      {
        method: 'GET',
        path: '/v1/messages/{id}/webhook-deliveries',
        operationId: 'listMessageWebhookDeliveries',
        description:
          'The calls to all endpoints for the last 20 events of the message, oldest first: the last 200 calls of the last 30 days.',
        scope: ['webhook:read'],
        params: z.object({ id: messageId() }),
        responses: {
          200: jsonResponse('The attempts.', CallList, 'One that failed'),
        },
      },
      async ({ params: { id }, caller }) => {
        await requireMessage(db, caller, id);
        const sequences = (await lastEventsOf(db.reader, id)).map(({ sequence }) => sequence);
        const lines = await callsForEvents(db.prepared, caller.accountId, sequences, MOST);
        const endpoints = await endpointsNamed({ db }, [...new Set(lines.map((line) => line.webhook_id))]);
        const records = await Promise.all(
          endpoints.map((endpoint) =>
            deliveryRecords(
              { db },
              caller,
              endpoint,
              lines.filter((line) => line.webhook_id === endpoint.id),
            ),
          ),
        );
        const places = new Map(lines.map((line, place) => [line.id, place]));
        const data = records.flat().sort((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0));
        return { status: 200, body: { object: 'list', data } };
      },
    ),
  ];
}
