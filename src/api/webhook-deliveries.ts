/** `/v1/webhooks/{id}/deliveries` and related paths: the log of calls to an endpoint, and repeating calls. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { eventRecord } from '../events/event.ts';
import { eventsNumbered, sequenceOf } from '../events/event-log.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows } from '../keys/scopes.ts';
import type { Database } from '../storage/database.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import type { WebhookDeliveryRow, WebhookReplayRow, WebhookRow } from '../storage/tables.ts';
import { findDelivery, pageOfDeliveries, queueCalls } from '../webhooks/call-store.ts';
import { curlOf } from '../webhooks/call.ts';
import type { SampleEvent } from '../webhooks/dispatcher.ts';
import { findEndpoint } from '../webhooks/endpoint-store.ts';
import { createReplay, pageOfReplays, replayRecord } from '../webhooks/replay.ts';
import type { ChangeNotices } from './change-notices.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { timeMember } from './query.ts';
import { sampleOf } from './record-schema.ts';
import { sampleEvent } from './records.ts';
import { type Call, type Reply, jsonResponse, route, type Route } from './route.ts';
import { reachOf } from './test-mode.ts';
import { answerChange, rowsOfAnswer } from './answer-change.ts';
import { deliveryMembers, eventType, WebhookDelivery, WebhookReplay, WebhookResend } from './webhook-schemas.ts';
import { PATH } from './webhooks.ts';

export interface WebhookDeliveriesDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  cursors: Cursors;
  /** Calls the endpoint once with a sample, waits for its answer and writes its line of the log with the rows made of it. */
  testWebhook: (
    row: WebhookRow,
    sample: SampleEvent,
    alsoCommit: (line: WebhookDeliveryRow) => Rows,
  ) => Promise<WebhookDeliveryRow>;
  changes: Pick<ChangeNotices, 'webhookChanged'>;
}

const params = z.object({ id: z.string().max(64).describe('Id of the endpoint.') });
type Params = z.output<typeof params>;

export function webhookDeliveryRoutes(deps: WebhookDeliveriesDeps): Route[] {
  return [listRoute(deps), resendRoute(deps), testRoute(deps), replayRoute(deps), replaysRoute(deps)];
}

const endpointOf = (
  { db }: Pick<WebhookDeliveriesDeps, 'db'>,
  { params: { id }, caller }: Pick<Call<Params, unknown, unknown>, 'params' | 'caller'>,
): Promise<WebhookRow> => findEndpoint({ db }, { accountId: caller.accountId, id });

type DeliveryRecord = ReturnType<typeof deliveryRecord>;

/** Makes the records of calls to one endpoint. */
export async function deliveryRecords(
  { db }: { db: Pick<Database, 'prepared'> },
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

function listRoute(deps: WebhookDeliveriesDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/deliveries`,
      operationId: 'listWebhookDeliveries',
      description:
        'Every attempt of the last 30 days, newest first: what was sent, what was answered, when it is tried again.',
      scope: ['webhook:read'],
      params,
      query: z.strictObject({
        ...pageParameters(),
        status: z.enum(['delivered', 'failed']).optional().describe('Only attempts that ended like this.'),
        event_id: z.string().max(64).optional().describe('Only attempts for this event.'),
      }),
      responses: pageResponse('A page of attempts.', WebhookDelivery, 'One that failed'),
    },
    async (call) => {
      const endpoint = await endpointOf(deps, call);
      const { status, event_id: eventId } = call.query;
      const { accountId } = call.caller;
      // An unknown event has no attempts: no event has the number 0.
      const sequence =
        eventId === undefined ? null : ((await sequenceOf(deps.db.reader, accountId, eventId)) ?? NO_EVENT);
      return answerPage(deps.cursors, `${PATH}/${endpoint.id}/deliveries`, call, async (wanted) => {
        const filter = {
          webhookId: endpoint.id,
          ...(status === undefined ? {} : { status }),
          ...(sequence === null ? {} : { sequence }),
          ...wanted,
        };
        const { rows, ...page } = await pageOfDeliveries(deps, filter);
        return { ...page, data: await deliveryRecords(deps, call.caller, endpoint, rows) };
      });
    },
  );
}

const NO_EVENT = 0;

function resendRoute(deps: WebhookDeliveriesDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/deliveries/{delivery_id}/resend`,
      operationId: 'resendWebhookDelivery',
      description:
        'The event of this attempt, at once and with all attempts before it. Its `webhook-id` stays the same.',
      scope: ['webhook:replay'],
      act: {
        says: 'sent an event again to the webhook endpoint {object}',
        type: 'webhook',
        named: 'webhook_id',
        keeps: ['event_id'],
      },
      params: params.extend({ delivery_id: z.string().max(64).describe('Id of an attempt.') }),
      responses: {
        202: jsonResponse('It is queued.', WebhookResend, 'Queued'),
      },
      problems: ['invalid_state'],
    },
    async (call) => {
      const endpoint = await endpointOf(deps, call);
      const line = await findDelivery(deps, endpoint.id, call.params.delivery_id);
      if (line === null) throw new Problem('not_found', 'There is no such attempt.', { field: 'delivery_id' });
      needActive(endpoint);
      const { sequence } = line;
      if (sequence === null) throw new Problem('invalid_state', 'This was a test: test the endpoint again.');
      if ((await eventsNumbered(deps.db.prepared, [sequence])).length === 0)
        throw new Problem('invalid_state', 'The event is older than what is kept.');
      const body = {
        object: 'webhook_resend',
        webhook_id: endpoint.id,
        event_id: line.event_id,
        event_type: line.event_type,
        queued_at: rfc3339(call.now),
      };
      const reply: Reply = { status: 202, body };
      await deps.db.commit.transact(async (tx) => {
        const now = deps.clock.now();
        await queueCalls(tx, { webhookId: endpoint.id, sequences: [sequence], cause: 'resend', now });
        await insertRows(tx, [rowsOfAnswer(call, reply)]);
      });
      deps.changes.webhookChanged(endpoint.id);
      return reply;
    },
  );
}

function needActive({ status }: WebhookRow): void {
  if (status !== 'active') throw new Problem('invalid_state', `The endpoint is ${status}: enable it first.`);
}

function testRoute(deps: WebhookDeliveriesDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/test`,
      operationId: 'testWebhook',
      description:
        'Calls it once with a sample event (`test` is true), whatever its status, and answers with the result within 15 seconds. It is not tried again and does not count as a success or a failure.',
      scope: ['webhook:replay'],
      act: {
        says: 'tried the webhook endpoint {object}',
        type: 'webhook',
        named: 'webhook_id',
        keeps: ['event_type', 'status'],
      },
      params,
      body: z
        .strictObject({ type: eventType().optional().describe('`delivered` if not given.') })
        .meta({ id: 'WebhookTest', description: 'Which sample is sent.' }),
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
    async (call) => {
      const endpoint = await endpointOf(deps, call);
      const replyOf = (line: WebhookDeliveryRow): Reply => ({
        status: 200,
        body: deliveryRecord(call.caller, endpoint, line, null),
      });
      const { type = 'delivered' } = call.body;
      const sample = sampleEvent(type, { engagement: endpoint.include_engagement === 1 });
      return answerChange(call, replyOf, (rowsFor) => deps.testWebhook(endpoint, sample, rowsFor));
    },
  );
}

function replayRoute(deps: WebhookDeliveriesDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/replay`,
      operationId: 'replayWebhook',
      description:
        'Runs in the background. `failed` takes events that are not delivered so far, still tried or given up; `all` takes all events, also those before the endpoint was registered. An endpoint has at most ten replays that are not finished.',
      scope: ['webhook:replay'],
      act: {
        says: 'replayed events to the webhook endpoint {object}',
        type: 'webhook',
        named: 'webhook_id',
        keeps: ['since', 'until', 'only'],
      },
      params,
      body: z
        .strictObject({
          since: timeMember().describe('Events from this time on.'),
          until: timeMember().optional().describe('Events before this time; now if not given.'),
          only: z.enum(['failed', 'all']).optional().describe('`failed` if not given.'),
          types: z
            .array(eventType())
            .min(1)
            .max(10)
            .optional()
            .describe('Only these kinds, of those that the endpoint receives.'),
        })
        .meta({ id: 'NewWebhookReplay', description: 'Which events are to be sent again.' }),
      bodyExamples: {
        day: {
          summary: 'What failed on a day',
          value: { since: '2026-01-30T00:00:00Z', until: '2026-01-31T00:00:00Z' },
        },
      },
      responses: {
        202: jsonResponse('It has begun.', WebhookReplay, 'Just begun'),
      },
      problems: ['unknown_event_type', 'invalid_state'],
    },
    async (call) => {
      const { body, caller, now } = call;
      const endpoint = await endpointOf(deps, call);
      needActive(endpoint);
      const [since, until] = [Date.parse(body.since), body.until === undefined ? now : Date.parse(body.until)];
      if (since >= until) throw new Problem('invalid_field', '`since` must lie before `until`.', { field: 'since' });
      const request = {
        webhookId: endpoint.id,
        accountId: caller.accountId,
        since,
        until,
        which: body.only ?? 'failed',
        types: body.types ?? [],
      };
      const replyOf = (row: WebhookReplayRow): Reply => ({ status: 202, body: replayRecord(row) });
      const reply = await answerChange(call, replyOf, (rowsFor) => createReplay(deps, request, rowsFor));
      deps.changes.webhookChanged(endpoint.id);
      return reply;
    },
  );
}

function replaysRoute(deps: WebhookDeliveriesDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/replays`,
      operationId: 'listWebhookReplays',
      description: 'Newest first, each with its progress.',
      scope: ['webhook:read'],
      params,
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of replays.', WebhookReplay, 'One replay'),
    },
    async (call) => {
      const endpoint = await endpointOf(deps, call);
      return answerPage(deps.cursors, `${PATH}/${endpoint.id}/replays`, call, async (wanted) => {
        const { rows, hasMore } = await pageOfReplays(deps, { webhookId: endpoint.id, ...wanted });
        return { data: rows.map(replayRecord), hasMore };
      });
    },
  );
}
