/** `/v1/webhooks`: endpoints that receive events, and their secrets. The log of calls is in webhook-deliveries.ts. */
import { z } from 'zod';
import { LOCAL_PATTERN } from '../base/address-pattern.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { LONGEST_URL } from '../net/safe-url.ts';
import type { SafeFetch } from '../net/safe-fetch.ts';
import { allEventTypes } from '../events/event.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { scopeAllows, scopeChallenge } from '../keys/scopes.ts';
import { parseMailbox } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import type { WebhookRow } from '../storage/tables.ts';
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
  type EndpointDeps,
  type EndpointSettings,
  type WithSecrets,
} from '../webhooks/endpoint-store.ts';
import { writeSecret } from '../webhooks/signature.ts';
import type { ChangeNotices } from './change-notices.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { sampleOf } from './record-schema.ts';
import { jsonResponse, refOf, type Reply, route, type Route } from './route.ts';
import { answerChange, createdReply, rowsOfAnswer } from './answer-change.ts';
import { CreatedWebhook, eventTypeOrAll, Webhook, WebhookSecret } from './webhook-schemas.ts';

export interface WebhooksDeps {
  db: Pick<Database, 'commit' | 'prepared' | 'reader'>;
  clock: Clock;
  keyring: Keyring;
  /** Checks whether a URL may be called. */
  vetUrl: SafeFetch['vet'];
  changes: Pick<ChangeNotices, 'webhookChanged'>;
  /** Returns the stream with this slug, or null. */
  findStream: (accountId: string, slug: string) => Promise<unknown>;
}

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

const NewWebhook = z
  .strictObject({ ...z.strictObject(settings).partial().shape, url: settings.url })
  .meta({ id: 'NewWebhook', description: 'An endpoint to register.' });
const WebhookChanges = z
  .strictObject(settings)
  .partial()
  .meta({ id: 'WebhookChanges', description: 'The members to change; all others stay the same.' });

const params = z.object({ id: z.string().max(64).describe('Id of the endpoint.') });
type GivenSettings = z.output<typeof WebhookChanges>;

const answer = (description: string) => jsonResponse(description, Webhook, 'An endpoint');
const secretAnswer = (description: string) => jsonResponse(description, WebhookSecret, 'After a rotation');
const faultsOfBody = [
  'invalid_webhook_url',
  'webhook_url_forbidden',
  'unknown_event_type',
  'unknown_stream',
  'invalid_header',
  'header_not_allowed',
  'already_exists',
] as const;

export function webhookRoutes(deps: WebhooksDeps): Route[] {
  return [createRoute(deps), changeRoute(deps), removeRoute(deps), secretRoute(deps), rotateRoute(deps)];
}

export interface WebhookReadDeps {
  db: Pick<Database, 'prepared' | 'reader'>;
  cursors: Cursors;
}

export const webhookReadRoutes = (deps: WebhookReadDeps): Route[] => [listRoute(deps), readRoute(deps)];

const storeOf = ({ db, clock, keyring, changes }: WebhooksDeps): EndpointDeps => ({
  db,
  clock,
  keyring,
  changed: changes.webhookChanged,
});

function createRoute(deps: WebhooksDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createWebhook',
      description:
        'From now on it is called with each event, signed as Standard Webhooks 1.0 says. It is not called for the registration itself: `POST /v1/webhooks/{id}/test` tries it.',
      scope: ['webhook'],
      act: { says: 'added the webhook endpoint {url}', type: 'webhook', keeps: webhookMembers.audited },
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
      responses: {
        201: {
          description: 'The new endpoint with its secret.',
          schema: CreatedWebhook,
          headers: { Location: 'Path of the endpoint.' },
          examples: { webhook: { summary: 'A new endpoint', value: sampleOf(CreatedWebhook) } },
        },
      },
      problems: ['invalid_state', ...faultsOfBody],
      secretResponse: true,
    },
    async (call) => {
      const { caller, body } = call;
      const replyOf = ({ row, secrets }: WithSecrets): Reply =>
        createdReply(PATH, { ...webhookRecord(row, null), secret: newestOf(secrets) });
      const given = await checkedSettings(deps, caller, body);
      const whole = { ...given, url: given.url ?? '', accountId: caller.accountId, createdBy: actorOf(caller) };
      return answerChange(call, replyOf, (rowsFor) => createEndpoint(storeOf(deps), whole, rowsFor));
    },
  );
}

const newestOf = ([newest]: WithSecrets['secrets']): string => (newest === undefined ? '' : writeSecret(newest.secret));

/** Checks the given settings and returns them in the form in which they are stored. Throws a Problem. */
async function checkedSettings(deps: WebhooksDeps, caller: Caller, given: GivenSettings): Promise<EndpointSettings> {
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

async function checkUrl({ vetUrl }: WebhooksDeps, text: string): Promise<string> {
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

async function checkStreams({ findStream }: WebhooksDeps, accountId: string, slugs: readonly string[]): Promise<void> {
  for (const [at, slug] of slugs.entries())
    if ((await findStream(accountId, slug)) === null)
      throw new Problem('unknown_stream', `There is no stream ${JSON.stringify(slug)}.`, {
        field: `streams[${String(at)}]`,
      });
}

function checkDomain(name: string, at: number): string {
  const parsed = parseMailbox(`x@${name}`);
  if (parsed.kind === 'ok') return parsed.mailbox.domain;
  throw new Problem('invalid_field', `Not a domain name: ${parsed.why}.`, { field: `domains[${String(at)}]` });
}

/** Returns what checks a pattern of addresses, and gives it with its domain as A-labels: a domain that receives nothing is a mistake. */
const addressCheck =
  ({ db }: WebhooksDeps, { accountId }: Caller) =>
  async (pattern: string, at: number): Promise<string> => {
    const field = `addresses[${String(at)}]`;
    const end = pattern.lastIndexOf('@');
    const parsed = parseMailbox(`x${pattern.slice(end)}`);
    const local = pattern.slice(0, Math.max(0, end)).toLowerCase();
    if (parsed.kind === 'bad' || !LOCAL_PATTERN.test(local)) {
      const forms = '`support@acme.example` or `reply+*@acme.example`';
      throw new Problem('invalid_field', `Not an address such as ${forms}.`, { field });
    }
    const { domain } = parsed.mailbox;
    const receiving = await db.prepared.all(
      'SELECT 1 FROM domains WHERE account_id = ? AND name = ? AND receiving = 1',
      [accountId, domain],
    );
    if (receiving.length > 0) return `${local}@${domain}`;
    const cure = 'set its `receiving` to true first';
    throw new Problem('invalid_field', `You have no domain ${domain} that receives mail: ${cure}.`, { field });
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

function listRoute({ db, cursors }: WebhookReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listWebhooks',
      description: 'Newest first, without their secrets.',
      scope: ['webhook:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of endpoints.', Webhook, 'One endpoint'),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const { rows, hasMore } = await pageOfEndpoints({ db }, wanted);
        const next = await nextDueAt(
          { db },
          rows.map(({ id }) => id),
        );
        return { data: rows.map((row) => webhookRecord(row, next.get(row.id) ?? null)), hasMore };
      }),
  );
}

const nextDueOf = async (deps: Pick<WebhookReadDeps, 'db'>, id: string): Promise<number | null> =>
  (await nextDueAt(deps, [id])).get(id) ?? null;

function readRoute({ db }: WebhookReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getWebhook',
      description: 'Its settings, its status, and when a call last succeeded and failed.',
      scope: ['webhook:read'],
      params,
      responses: { 200: answer('The endpoint.') },
    },
    async (call) => {
      const row = await findEndpoint({ db }, refOf(call));
      return { status: 200, body: webhookRecord(row, await nextDueOf({ db }, row.id)) };
    },
  );
}

function changeRoute(deps: WebhooksDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateWebhook',
      description:
        'Only what is given changes; `headers` are replaced as a whole. `enabled: true` also brings back an endpoint that was disabled. Events of the time in which it was not called are sent then, oldest first.',
      scope: ['webhook'],
      act: { says: 'changed the webhook endpoint {url}', type: 'webhook', keeps: webhookMembers.audited },
      params,
      body: WebhookChanges,
      bodyExamples: { pause: { summary: 'Pause it', value: { enabled: false } } },
      responses: { 200: answer('The endpoint as it is now.') },
      problems: faultsOfBody,
    },
    async (call) => {
      const { caller, body } = call;
      const before = await findEndpoint(deps, refOf(call));
      const keepsEngagement = before.include_engagement === 1 && body.include_engagement !== false;
      if (keepsEngagement && body.url !== undefined) needEngagement(caller, 'url');
      const changes = await checkedSettings(deps, caller, body);
      const nextDue = await nextDueOf(deps, before.id);
      const replyOf = (row: WebhookRow): Reply => ({
        status: 200,
        body: webhookRecord(row, nextDue),
        before: webhookRecord(before, nextDue),
      });
      return answerChange(call, replyOf, (rowsFor) => updateEndpoint(storeOf(deps), refOf(call), changes, rowsFor));
    },
  );
}

function removeRoute(deps: WebhooksDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'deleteWebhook',
      description:
        'Takes effect at once: its waiting calls are dropped. The events themselves stay in `GET /v1/events`.',
      scope: ['webhook'],
      act: { says: 'removed the webhook endpoint {url}', type: 'webhook', keeps: webhookMembers.audited },
      params,
      responses: { 204: { description: 'Removed.' } },
    },
    async (call) => {
      const before = webhookRecord(await findEndpoint(deps, refOf(call)), null);
      const reply: Reply = { status: 204, body: null, before };
      await removeEndpoint(storeOf(deps), refOf(call), () => rowsOfAnswer(call, reply));
      return reply;
    },
  );
}

function secretRecord({ keyring }: WebhooksDeps, row: WebhookRow, now: number): z.output<typeof WebhookSecret> {
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

function secretRoute(deps: WebhooksDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/secret`,
      operationId: 'getWebhookSecret',
      description: 'With it the receiver verifies that a call comes from here.',
      scope: ['webhook:secret'],
      touches: 'secret',
      params,
      responses: { 200: secretAnswer('The secret.') },
    },
    async (call) => ({ status: 200, body: secretRecord(deps, await findEndpoint(deps, refOf(call)), call.now) }),
  );
}

function rotateRoute(deps: WebhooksDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/secret/rotate`,
      operationId: 'rotateWebhookSecret',
      description:
        'For 24 hours calls carry a signature of each secret, so that the receiver can change over at any time.',
      scope: ['webhook:secret'],
      act: { says: 'replaced the secret of the webhook endpoint {object}', type: 'webhook', named: 'webhook_id' },
      params,
      responses: { 200: secretAnswer('The new secret, and those before it.') },
      problems: ['invalid_state'],
      secretResponse: true,
    },
    async (call) => {
      const replyOf = ({ row }: WithSecrets): Reply => ({ status: 200, body: secretRecord(deps, row, call.now) });
      return answerChange(call, replyOf, (rowsFor) => rotateSecret(storeOf(deps), refOf(call), rowsFor));
    },
  );
}
