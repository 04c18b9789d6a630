/** `/v1/webhooks/{id}/deliveries` and related paths: the log of calls to an endpoint, that of a message, and repeating calls. */
import { z } from 'zod';
import { Problem, invalid, notFound } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { eventRecord } from '../events/event.ts';
import { eventsNumbered, lastEventsOf, sequenceOf } from '../events/event-log.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { insertRows } from '../storage/rows.ts';
import type { WebhookDeliveryRow, WebhookRow } from '../storage/tables.ts';
import { callsForEvents, findDelivery, pageOfDeliveries, queueCalls } from '../webhooks/call-store.ts';
import { curlOf } from '../webhooks/call.ts';
import { endpointsNamed, findEndpoint } from '../webhooks/endpoint-store.ts';
import { createReplay, pageOfReplays, replayRecord } from '../webhooks/replay.ts';
import { answerChange, rowsOfAnswer, updated, jsonResponse, refOf, type Call, type Reply } from './route.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { pageParameters, wholeList, wholeListResponse } from './page.ts';
import { timeMember } from './query.ts';
import { namedRequest, sampleOf } from './record-schema.ts';
import { messageId, sampleEvent } from './records.ts';
import { reachOf, requireMessage } from './test-mode.ts';
import {
  deliveryMembers,
  eventType,
  PATH,
  WebhookDelivery,
  webhookParams,
  WebhookReplay,
  WebhookResend,
  webhooks,
} from './webhooks.ts';

type WebhookCall<Body> = Call<z.output<typeof webhookParams>, object, Body>;

type DeliveryRecord = ReturnType<typeof deliveryRecord>;

async function deliveryRecords(
  { db }: Pick<StoreContext, 'db'>,
  caller: Caller,
  endpoint: WebhookRow,
  lines: readonly WebhookDeliveryRow[],
): Promise<DeliveryRecord[]> {
  const engagement = endpoint.include_engagement === 1;
  const sequences = lines.flatMap(({ sequence }) => (sequence === null ? [] : [sequence]));
  const events = await eventsNumbered(db.prepared, sequences);
  const bodies = new Map(events.map((event) => [event.sequence, JSON.stringify(eventRecord(event, { engagement }))]));
  const simulated = new Set(events.flatMap(({ sequence, message_test }) => (message_test === 1 ? [sequence] : [])));
  // A test key may not see calls about live mail, nor the answers to them.
  const isShown = ({ sequence }: WebhookDeliveryRow): boolean =>
    !reachOf(caller).onlyTest || sequence === null || simulated.has(sequence);
  return lines.map((line) => {
    const record = deliveryRecord(caller, endpoint, line, bodies.get(line.sequence ?? -1) ?? null);
    return isShown(line) ? record : { ...record, request: null, answer: null };
  });
}

/** `eventBody`: the body that was sent, if the event is still stored. */
function deliveryRecord(caller: Caller, endpoint: WebhookRow, line: WebhookDeliveryRow, eventBody: string | null) {
  // A shortened body would not match the signature.
  const mayShow = endpoint.include_engagement === 0 || scopeAllows(caller.scopes, 'event:engagement');
  const headerNames = JSON.parse(endpoint.header_names_json) as string[];
  const body = line.sample ?? eventBody;
  return deliveryMembers(line, {
    answer: scopeAllows(caller.scopes, 'webhook:read') ? line.answer : null,
    request: body === null || !mayShow ? null : curlOf(line, { url: endpoint.url, headerNames, body }),
  });
}

const list = webhooks.list(
  {
    path: `${PATH}/{id}/deliveries`,
    operationId: 'listWebhookDeliveries',
    description:
      'Every attempt of the last 30 days, newest first: what was sent, what was answered, when it is tried again.',
    params: webhookParams,
    query: z.strictObject({
      ...pageParameters(),
      status: z.enum(['delivered', 'failed']).optional().describe('Only attempts that ended like this.'),
      event_id: z.string().max(64).optional().describe('Only attempts for this event.'),
    }),
    item: WebhookDelivery,
  },
  async (wanted, call, context) => {
    const endpoint = await findEndpoint(context, refOf(call));
    const { status, event_id: eventId } = call.query;
    // An unknown event has no attempts: no event has the number 0.
    const sequence =
      eventId === undefined ? null : ((await sequenceOf(context.db.reader, wanted.accountId, eventId)) ?? NO_EVENT);
    const filter = {
      webhookId: endpoint.id,
      ...(status === undefined ? {} : { status }),
      ...(sequence === null ? {} : { sequence }),
      ...wanted,
    };
    const { rows, ...page } = await pageOfDeliveries(context, filter);
    return { ...page, data: await deliveryRecords(context, call.caller, endpoint, rows) };
  },
);

const NO_EVENT = 0;

const resendParams = webhookParams.extend({ delivery_id: z.string().max(64).describe('Id of an attempt.') });

const resend = webhooks.post(
  {
    path: `${PATH}/{id}/deliveries/{delivery_id}/resend`,
    operationId: 'resendWebhookDelivery',
    description: 'The event of this attempt, at once and with all attempts before it. Its `webhook-id` stays the same.',
    scope: ['webhook:replay'],
    says: 'sent an event again to the webhook endpoint {object}',
    named: 'webhook_id',
    keeps: ['event_id'],
    params: resendParams,
    responses: { 202: jsonResponse('It is queued.', WebhookResend, 'Queued') },
    problems: ['invalid_state'],
  },
  async (call, context: ApiContext) => {
    const endpoint = await findEndpoint(context, refOf(call));
    const line = await findDelivery(context, endpoint.id, call.params.delivery_id);
    if (line === null) throw notFound('delivery_id', 'There is no such attempt.');
    needActive(endpoint);
    const { sequence } = line;
    if (sequence === null) throw new Problem('invalid_state', 'This was a test: test the endpoint again.');
    if ((await eventsNumbered(context.db.prepared, [sequence])).length === 0)
      throw new Problem('invalid_state', 'The event is older than what is kept.');
    const body = {
      object: 'webhook_resend',
      webhook_id: endpoint.id,
      event_id: line.event_id,
      event_type: line.event_type,
      queued_at: rfc3339(call.now),
    };
    const reply: Reply = { status: 202, body };
    await context.db.commit.transact(async (tx) => {
      const now = context.clock.now();
      await queueCalls(tx, { webhookId: endpoint.id, sequences: [sequence], cause: 'resend', now });
      await insertRows(tx, [rowsOfAnswer(call, reply)]);
    });
    context.changes.webhookChanged(endpoint.id);
    return reply;
  },
);

function needActive({ status }: WebhookRow): void {
  if (status !== 'active') throw new Problem('invalid_state', `The endpoint is ${status}: enable it first.`);
}

const WebhookTest = namedRequest('WebhookTest', 'Which sample is sent.', {
  type: eventType().optional().describe('`delivered` if not given.'),
});

const test = webhooks.post(
  {
    path: `${PATH}/{id}/test`,
    operationId: 'testWebhook',
    description:
      'Calls it once with a sample event (`test` is true), whatever its status, and answers with the result within 15 seconds. It is not tried again and does not count as a success or a failure.',
    scope: ['webhook:replay'],
    says: 'tried the webhook endpoint {object}',
    named: 'webhook_id',
    keeps: ['event_type', 'status'],
    body: WebhookTest,
    bodyExamples: { bounced: { summary: 'A bounce', value: { type: 'bounced' } } },
    responses: {
      200: jsonResponse('The result, be it good or bad.', WebhookDelivery, 'It is in maintenance', {
        ...sampleOf(WebhookDelivery),
        cause: 'test',
        next_attempt_at: null,
      }),
    },
    problems: ['unknown_event_type', 'invalid_state'],
  },
  async (call: WebhookCall<z.output<typeof WebhookTest>>, context: ApiContext) => {
    const endpoint = await findEndpoint(context, refOf(call));
    const { type = 'delivered' } = call.body;
    const sample = sampleEvent(type, { engagement: endpoint.include_engagement === 1 });
    const record = (line: WebhookDeliveryRow) => deliveryRecord(call.caller, endpoint, line, null);
    return answerChange(call, updated(record), (rowsFor) => context.testWebhook(endpoint, sample, rowsFor));
  },
);

const NewReplay = namedRequest('NewWebhookReplay', 'Which events are to be sent again.', {
  since: timeMember().describe('Events from this time on.'),
  until: timeMember().optional().describe('Events before this time; now if not given.'),
  only: z.enum(['failed', 'all']).optional().describe('`failed` if not given.'),
  types: z
    .array(eventType())
    .min(1)
    .max(10)
    .optional()
    .describe('Only these kinds, of those that the endpoint receives.'),
});

const replay = webhooks.post(
  {
    path: `${PATH}/{id}/replay`,
    operationId: 'replayWebhook',
    description:
      'Runs in the background. `failed` takes events that are not delivered so far, still tried or given up; `all` takes all events, also those before the endpoint was registered. An endpoint has at most ten replays that are not finished.',
    scope: ['webhook:replay'],
    says: 'replayed events to the webhook endpoint {object}',
    named: 'webhook_id',
    keeps: ['since', 'until', 'only'],
    body: NewReplay,
    bodyExamples: {
      day: {
        summary: 'What failed on a day',
        value: { since: '2026-01-30T00:00:00Z', until: '2026-01-31T00:00:00Z' },
      },
    },
    responses: { 202: jsonResponse('It has begun.', WebhookReplay, 'Just begun') },
    problems: ['unknown_event_type', 'invalid_state'],
  },
  async (call: WebhookCall<z.output<typeof NewReplay>>, context: ApiContext) => {
    const { body, caller, now } = call;
    const endpoint = await findEndpoint(context, refOf(call));
    needActive(endpoint);
    const [since, until] = [Date.parse(body.since), body.until === undefined ? now : Date.parse(body.until)];
    if (since >= until) throw invalid('since', '`since` must lie before `until`.');
    const request = {
      webhookId: endpoint.id,
      accountId: caller.accountId,
      since,
      until,
      which: body.only ?? 'failed',
      types: body.types ?? [],
    };
    const reply = await answerChange(
      call,
      (row: Parameters<typeof replayRecord>[0]): Reply => ({ status: 202, body: replayRecord(row) }),
      (rowsFor) => createReplay(context, request, rowsFor),
    );
    context.changes.webhookChanged(endpoint.id);
    return reply;
  },
);

const replays = webhooks.list(
  {
    path: `${PATH}/{id}/replays`,
    operationId: 'listWebhookReplays',
    description: 'Newest first, each with its progress.',
    params: webhookParams,
    item: WebhookReplay,
  },
  async (wanted, call, context) => {
    const { id } = await findEndpoint(context, refOf(call));
    const { rows, hasMore } = await pageOfReplays(context, { webhookId: id, ...wanted });
    return { data: rows.map(replayRecord), hasMore };
  },
);

const MOST = 200;

const ofMessage = webhooks.get(
  {
    path: '/v1/messages/{id}/webhook-deliveries',
    operationId: 'listMessageWebhookDeliveries',
    description:
      'The calls to all endpoints for the last 20 events of the message, oldest first: the last 200 calls of the last 30 days.',
    params: z.object({ id: messageId() }),
    responses: wholeListResponse(
      WebhookDelivery,
      { id: 'WebhookDeliveryList', description: 'Attempts to tell endpoints of events, oldest first.' },
      'The attempts.',
      'One that failed',
    ),
  },
  async ({ params: { id }, caller }, { db }) => {
    await requireMessage(db, caller, id);
    const sequences = (await lastEventsOf(db.reader, id)).map(({ sequence }) => sequence);
    const lines = await callsForEvents(db.prepared, caller.accountId, sequences, MOST);
    const endpoints = await endpointsNamed({ db }, [...new Set(lines.map((line) => line.webhook_id))]);
    const records = await Promise.all(
      endpoints.map((endpoint) => {
        const own = lines.filter((line) => line.webhook_id === endpoint.id);
        return deliveryRecords({ db }, caller, endpoint, own);
      }),
    );
    const places = new Map(lines.map((line, place) => [line.id, place]));
    return wholeList(records.flat().sort((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0)));
  },
);

export const webhookDeliveryOperations = [list, resend, test, replay, replays, ofMessage];
