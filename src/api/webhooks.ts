/** `/v1/webhooks`: endpoints that receive events, and their secrets. The log of calls is in webhook-deliveries.ts. */
import { z } from 'zod';
import { LOCAL_PATTERN } from '../base/address-pattern.ts';
import { Problem, invalid } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { LONGEST_URL } from '../net/safe-url.ts';
import { allEventTypes, type EventType } from '../events/event.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { scopeAllows, scopeChallenge } from '../keys/scopes.ts';
import { parseMailbox } from '../mail/address.ts';
import { webhookDeliveries, type WebhookRow } from '../storage/tables.ts';
import { checkCustomHeaders } from '../webhooks/custom-header.ts';
import { nextDueAt } from '../webhooks/call-store.ts';
import { chosenTypes, webhookMembers, webhookRecord } from '../webhooks/endpoint.ts';
import {
  createEndpoint,
  findEndpoint,
  openSecrets,
  pageOfEndpoints,
  removeEndpoint,
  rotateSecret,
  updateEndpoint,
  type EndpointSettings,
  type WithSecrets,
} from '../webhooks/endpoint-store.ts';
import { writeSecret } from '../webhooks/signature.ts';
import { answerChange, created, rowsOfAnswer, updated, jsonResponse, refOf, type Reply } from './route.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { resource } from './resource.ts';
import { faults } from '../base/check.ts';
import { recordOf } from '../storage/record.ts';
import { replayMembers } from '../webhooks/replay.ts';
import { namedRecord, namedRequest, recordSchema, text, time } from './record-schema.ts';

const Webhook = recordSchema(
  webhookMembers,
  { id: 'Webhook', description: 'An endpoint that receives events.' },
  { events: z.array(z.enum(allEventTypes)) },
);
const CreatedWebhook = Webhook.extend({
  secret: text('Signs the calls. `GET /v1/webhooks/{id}/secret` shows it again.', 'whsec_…'),
}).meta({ id: 'CreatedWebhook', description: 'A new endpoint with its secret.' });

const endpointId = () => text('Id of the endpoint.', 'whk_01jz5w8q3hf2m9d4x6k7c1b0na');

const WebhookSecret = namedRecord('WebhookSecret', 'What the calls of an endpoint are signed with.', {
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
});

export const deliveryMembers = recordOf('webhook_delivery', webhookDeliveries);
export const WebhookDelivery = recordSchema(deliveryMembers, {
  id: 'WebhookDelivery',
  description: 'One attempt to tell an endpoint of an event.',
});

export const WebhookResend = namedRecord('WebhookResend', 'An event that is on its way to an endpoint once more.', {
  object: z.literal('webhook_resend'),
  webhook_id: endpointId(),
  event_id: text('Id of the event.', 'evt_01m7xk7tfpfy8s5b2n6c9d1v3h'),
  event_type: text('Kind of the event.', 'delivered'),
  queued_at: time('When it was queued.', '2026-01-31T10:00:00.000Z'),
});

export const WebhookReplay = recordSchema(replayMembers, {
  id: 'WebhookReplay',
  description: 'Events of a time that are sent to an endpoint again.',
});

const isOne = { code: 'unknown_event_type', says: `must be one of ${allEventTypes.join(', ')}` } as const;

/** A kind of event; `unknown_event_type` for others. */
export const eventType = () => z.enum(allEventTypes).register(faults, isOne);

/** A kind of event, or `*` for the six default kinds. */
const eventTypeOrAll = () =>
  z
    .enum([...allEventTypes, '*'] as [EventType | '*', ...(EventType | '*')[]])
    .register(faults, { ...isOne, says: `${isOne.says}, or *` });

export const PATH = '/v1/webhooks';
const MOST_FILTERS = 100;
const MOST_CONCURRENCY = 10;

const settings = {
  url: z.string().max(LONGEST_URL).describe('https, on port 443 or from 1024 up, without user name and fragment.'),
  events: z
    .array(eventTypeOrAll())
    .min(1)
    .max(allEventTypes.length + 1)
    .describe('Kinds of event; `*` for the six that everybody gets, which is also what holds if nothing is given.'),
  description: z.string().max(200).describe('For people.'),
  streams: z.array(z.string().max(32)).max(MOST_FILTERS).describe('Only events of these streams; none means all.'),
  domains: z
    .array(z.string().max(253))
    .max(MOST_FILTERS)
    .describe('Only events of mail from these domains; none means all.'),
  addresses: z
    .array(z.string().max(320))
    .max(MOST_FILTERS)
    .describe(
      'Only `received` events of mail to these: `support@acme.example`, `reply+*@acme.example`, `*@acme.example`; none means all.',
    ),
  include_machine_events: z.boolean().describe('Also opens and clicks by machines.'),
  include_engagement: z
    .boolean()
    .describe('Also address and user agent of opens and clicks: needs `event:engagement`.'),
  concurrency: z.int().min(1).max(MOST_CONCURRENCY).describe('Calls at once; with 1 events come strictly in order.'),
  headers: z
    .record(z.string(), z.string())
    .describe('Up to 10 headers for each call. Their values are stored encrypted.'),
  enabled: z.boolean().describe('False pauses it: events of that time are sent afterwards.'),
};

const changes = z.strictObject(settings).partial().shape;
const NewWebhook = namedRequest('NewWebhook', 'An endpoint to register.', { ...changes, url: settings.url });
const WebhookChanges = namedRequest('WebhookChanges', 'The members to change; all others stay the same.', changes);

export const webhookParams = z.object({ id: z.string().max(64).describe('Id of the endpoint.') });
type GivenSettings = z.output<typeof WebhookChanges>;

export const webhooks = resource({
  path: PATH,
  params: webhookParams,
  schema: Webhook,
  made: CreatedWebhook,
  reads: 'webhook:read',
  changes: 'webhook',
  type: 'webhook',
  audited: webhookMembers.audited,
});

const secretAnswer = { 200: jsonResponse('The secret, and those before it.', WebhookSecret, 'After a rotation') };
const faultsOfBody = [
  'invalid_webhook_url',
  'webhook_url_forbidden',
  'unknown_event_type',
  'unknown_stream',
  'invalid_header',
  'header_not_allowed',
  'already_exists',
] as const;

const storeOf = (context: ApiContext) => ({ ...context, changed: context.changes.webhookChanged });

const create = webhooks.create(
  {
    operationId: 'createWebhook',
    description:
      'From now on it is called with each event, signed as Standard Webhooks 1.0 says. It is not called for the registration itself: `POST /v1/webhooks/{id}/test` tries it.',
    says: 'added the webhook endpoint {url}',
    body: NewWebhook,
    bodyExamples: {
      minimal: { summary: 'All six kinds', value: { url: 'https://hooks.acme.example/posthorn' } },
      chosen: {
        summary: 'Some kinds, with a header',
        value: {
          url: 'https://hooks.acme.example/bounces',
          events: ['bounced', 'complained'],
          headers: { 'X-Gateway-Token': 'one' },
        },
      },
    },
    problems: ['invalid_state', ...faultsOfBody],
    secretResponse: true,
  },
  async (call, context: ApiContext) => {
    const { caller, body } = call;
    const record = ({ row, secrets }: WithSecrets) => ({ ...webhookRecord(row, null), secret: newestOf(secrets) });
    const given = await checkedSettings(context, caller, body);
    const whole = { ...given, url: given.url ?? '', accountId: caller.accountId, createdBy: actorOf(caller) };
    return answerChange(call, created(PATH, record), (rowsFor) => createEndpoint(storeOf(context), whole, rowsFor));
  },
);

const newestOf = ([newest]: WithSecrets['secrets']): string => (newest === undefined ? '' : writeSecret(newest.secret));

/** Checks the given settings and returns them in the form in which they are stored. Throws a Problem. */
async function checkedSettings(deps: ApiContext, caller: Caller, given: GivenSettings): Promise<EndpointSettings> {
  const { url, events, streams, domains, addresses, headers } = given;
  if (given.include_engagement === true) needEngagement(caller, 'include_engagement');
  if (streams !== undefined) await checkStreams(deps, caller.accountId, streams);
  return {
    ...given,
    url: url === undefined ? url : await checkUrl(deps, url),
    events: events && chosenTypes(events, allEventTypes),
    streams: streams && [...new Set(streams)],
    domains: domains && [...new Set(domains.map(checkDomain))],
    addresses: addresses && [...new Set(await Promise.all(addresses.map(addressCheck(deps, caller))))],
    headers: headers && checkCustomHeaders(headers),
  };
}

async function checkUrl({ vetUrl }: ApiContext, text: string): Promise<string> {
  const vetted = await vetUrl(text);
  switch (vetted.kind) {
    case 'ok':
      return vetted.href;
    case 'bad':
      throw new Problem('invalid_webhook_url', `\`url\` ${vetted.why}.`, { field: 'url' });
    case 'forbidden':
      throw new Problem('webhook_url_forbidden', `\`url\`: ${vetted.why}.`, { field: 'url' });
  }
}

async function checkStreams({ findStream }: ApiContext, accountId: string, slugs: readonly string[]): Promise<void> {
  for (const [at, slug] of slugs.entries())
    if ((await findStream(accountId, slug)) === null)
      throw new Problem('unknown_stream', `There is no stream ${JSON.stringify(slug)}.`, {
        field: `streams[${String(at)}]`,
      });
}

function checkDomain(name: string, at: number): string {
  const parsed = parseMailbox(`x@${name}`);
  if (parsed.kind === 'ok') return parsed.mailbox.domain;
  throw invalid(`domains[${String(at)}]`, `Not a domain name: ${parsed.why}.`);
}

/** Returns what checks a pattern of addresses, and gives it with its domain as A-labels: a domain that receives nothing is a mistake. */
const addressCheck =
  ({ db }: ApiContext, { accountId }: Caller) =>
  async (pattern: string, at: number): Promise<string> => {
    const field = `addresses[${String(at)}]`;
    const end = pattern.lastIndexOf('@');
    const parsed = parseMailbox(`x${pattern.slice(end)}`);
    const local = pattern.slice(0, Math.max(0, end)).toLowerCase();
    if (parsed.kind === 'bad' || !LOCAL_PATTERN.test(local)) {
      const forms = '`support@acme.example` or `reply+*@acme.example`';
      throw invalid(field, `Not an address such as ${forms}.`);
    }
    const { domain } = parsed.mailbox;
    const receiving = await db.prepared.all(
      'SELECT 1 FROM domains WHERE account_id = ? AND name = ? AND receiving = 1',
      [accountId, domain],
    );
    if (receiving.length > 0) return `${local}@${domain}`;
    const cure = 'set its `receiving` to true first';
    throw invalid(field, `You have no domain ${domain} that receives mail: ${cure}.`);
  };

/** Only a key that may see personal data may have it sent to an endpoint. */
function needEngagement(caller: Caller, field: string): void {
  if (scopeAllows(caller.scopes, 'event:engagement')) return;
  throw new Problem(
    'insufficient_scope',
    'This key needs the scope event:engagement for an endpoint that receives addresses and user agents.',
    {
      field,
      headers: scopeChallenge('event:engagement'),
    },
  );
}

const list = webhooks.list(
  { operationId: 'listWebhooks', description: 'Newest first, without their secrets.' },
  async (wanted, _, { db }) => {
    const { rows, hasMore } = await pageOfEndpoints({ db }, wanted);
    const next = await nextDueAt(
      { db },
      rows.map(({ id }) => id),
    );
    return { data: rows.map((row) => webhookRecord(row, next.get(row.id) ?? null)), hasMore };
  },
);

const nextDueOf = async (context: StoreContext, id: string): Promise<number | null> =>
  (await nextDueAt(context, [id])).get(id) ?? null;

const get = webhooks.get(
  {
    operationId: 'getWebhook',
    description: 'Its settings, its status, and when a call last succeeded and failed.',
  },
  async (call, context) => {
    const row = await findEndpoint(context, refOf(call));
    return webhookRecord(row, await nextDueOf(context, row.id));
  },
);

const update = webhooks.update(
  {
    operationId: 'updateWebhook',
    description:
      'Only what is given changes; `headers` are replaced as a whole. `enabled: true` also brings back an endpoint that was disabled. Events of the time in which it was not called are sent then, oldest first.',
    says: 'changed the webhook endpoint {url}',
    body: WebhookChanges,
    bodyExamples: { pause: { summary: 'Pause it', value: { enabled: false } } },
    problems: faultsOfBody,
  },
  async (call, context: ApiContext) => {
    const { caller, body } = call;
    const before = await findEndpoint(context, refOf(call));
    const keepsEngagement = before.include_engagement === 1 && body.include_engagement !== false;
    if (keepsEngagement && body.url !== undefined) needEngagement(caller, 'url');
    const wanted = await checkedSettings(context, caller, body);
    const nextDue = await nextDueOf(context, before.id);
    const record = (row: WebhookRow) => webhookRecord(row, nextDue);
    return answerChange(call, updated(record, record(before)), (rowsFor) =>
      updateEndpoint(storeOf(context), refOf(call), wanted, rowsFor),
    );
  },
);

const remove = webhooks.remove(
  {
    operationId: 'deleteWebhook',
    description: 'Takes effect at once: its waiting calls are dropped. The events themselves stay in `GET /v1/events`.',
    says: 'removed the webhook endpoint {url}',
  },
  async (call, context: ApiContext) => {
    const before = webhookRecord(await findEndpoint(context, refOf(call)), null);
    const reply: Reply = { status: 204, body: null, before };
    await removeEndpoint(storeOf(context), refOf(call), () => rowsOfAnswer(call, reply));
    return reply;
  },
);

function secretRecord({ keyring }: ApiContext, row: WebhookRow, now: number): z.output<typeof WebhookSecret> {
  const secrets = openSecrets(keyring, row);
  return {
    object: 'webhook_secret',
    webhook_id: row.id,
    secret: newestOf(secrets),
    previous: secrets.flatMap(({ secret, until }) =>
      until === null || until <= now ? [] : [{ secret: writeSecret(secret), expires_at: rfc3339(until) }],
    ),
  };
}

const secret = webhooks.get(
  {
    path: `${PATH}/{id}/secret`,
    operationId: 'getWebhookSecret',
    description: 'With it the receiver verifies that a call comes from here.',
    scope: ['webhook:secret'],
    touches: 'secret',
    responses: secretAnswer,
  },
  async (call, context: ApiContext) => secretRecord(context, await findEndpoint(context, refOf(call)), call.now),
);

const rotate = webhooks.post(
  {
    path: `${PATH}/{id}/secret/rotate`,
    operationId: 'rotateWebhookSecret',
    description:
      'For 24 hours calls carry a signature of each secret, so that the receiver can change over at any time.',
    scope: ['webhook:secret'],
    says: 'replaced the secret of the webhook endpoint {object}',
    named: 'webhook_id',
    keeps: [],
    responses: secretAnswer,
    problems: ['invalid_state'],
    secretResponse: true,
  },
  (call, context: ApiContext) => {
    const record = ({ row }: WithSecrets) => secretRecord(context, row, call.now);
    return answerChange(call, updated(record), (rowsFor) => rotateSecret(storeOf(context), refOf(call), rowsFor));
  },
);

export const webhookOperations = [create, update, remove, secret, rotate];
export const webhookReads = [list, get];
