/** Webhook endpoints: list, success rates, calls with their answers, settings. */
import { Problem } from '../../base/problem.ts';
import type { Webhook, WebhookDelivery } from '../../client/types.ts';
import { allEventTypes, eventTypes } from '../../events/event.ts';
import { filledIn, definedMembers, fieldItems, fieldNumber, fieldText } from '../forms.ts';
import { chipsOf, pageOf, pagerOf } from '../links.ts';
import {
  get,
  move,
  needs,
  once,
  post,
  view,
  withFault,
  type Page,
  type Shown,
  type View,
  type Visit,
} from '../page.ts';
import { HOUR_MS } from '../../base/time.ts';
import type { DashboardDeps } from '../deps.ts';
import { withPassword } from './proof.ts';
import { refuseStale, seenIn } from '../stale-forms.ts';

const WHERE = '/webhooks';
/** Number of attempts that a success rate is computed from. */
const SAMPLED_ATTEMPTS = 100;
/** Each has its rate. */
const ENDPOINTS_A_PAGE = 20;

export function webhookPages(deps: DashboardDeps): Page[] {
  return [
    get(WHERE, list),
    needs(
      'webhook',
      get(`${WHERE}/new`, (visit) => form(visit, null)),
    ),
    // A secret outlives the session.
    needs('webhook', post(`${WHERE}/new`, withPassword(deps, form, create))),
    get(`${WHERE}/:id`, (visit) => details(visit, null)),
    post(`${WHERE}/:id`, withFault(change, details)),
    post(`${WHERE}/:id/enable`, (visit) => enable(visit, true, 'Resumed. The events since then are delivered now.')),
    post(`${WHERE}/:id/pause`, (visit) => enable(visit, false, 'It is not called until you resume it.')),
    post(`${WHERE}/:id/test`, test),
    secretForm(deps, 'rotate'),
    secretForm(deps, 'secret'),
    post(`${WHERE}/:id/replay`, replay),
    post(`${WHERE}/:id/deliveries/:delivery_id/resend`, async (visit) => {
      await visit.ask('resendWebhookDelivery', { params: visit.params });
      return move(placeOf(visit), 'It is sent again now.');
    }),
    post(`${WHERE}/:id/remove`, async (visit) => {
      await visit.ask('deleteWebhook', { params: visit.params });
      return move(WHERE, 'The endpoint is removed.');
    }),
  ];
}

const placeOf = ({ params }: Visit): string => `${WHERE}/${params['id'] ?? ''}`;

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const endpoints = await visit.ask('listWebhooks', { query: pageOf(query, ENDPOINTS_A_PAGE) });
  const rows = await Promise.all(
    endpoints.data.map(async (endpoint) => ({
      ...endpoint,
      ...healthOf(endpoint, await attemptsOf(visit, endpoint.id), visit.now),
    })),
  );
  return view('webhooks', 'Webhooks', { rows, pager: pagerOf(WHERE, query, endpoints) });
}

const attemptsOf = async (visit: Visit, id: string): Promise<WebhookDelivery[]> =>
  (await visit.ask('listWebhookDeliveries', { params: { id }, query: { limit: String(SAMPLED_ATTEMPTS) } })).data;

/** Returns the success rate of the last attempts, the time of the next one, and until when the endpoint rests. */
export function healthOf(
  { next_attempt_at: nextAt, rests_until: rest }: Pick<Webhook, 'next_attempt_at' | 'rests_until'>,
  attempts: readonly Pick<WebhookDelivery, 'status'>[],
  now: number,
) {
  const ok = attempts.filter(({ status }) => status === 'delivered').length;
  return {
    sampled: attempts.length,
    rate: attempts.length === 0 ? null : ok / attempts.length,
    nextAt,
    restsUntil: isAhead(rest, now) ? rest : null,
  };
}

/** Drops planned retries that have been made already. */
const isAhead = (at: string | null, now: number): at is string => at !== null && Date.parse(at) > now;

const boxes = (ticked: readonly string[]): object[] =>
  allEventTypes.map((name) => ({ name, on: ticked.includes(name) }));

function form(visit: Visit, fault: Problem | null): Shown {
  const { form: fields } = visit;
  const entered = fault === null ? { concurrency: '10' } : filledIn(fields);
  const events = boxes(fault === null ? eventTypes : fields.getAll('events'));
  return view('webhook-new', 'New webhook', { fault, entered, events });
}

/** Converts the form into the API's settings. Empty fields are left out; headers are one a line, `Name: value`. */
function settingsIn(fields: URLSearchParams): object {
  const headers = headersOf(fields.get('headers') ?? '');
  return definedMembers({
    url: fields.get('url')?.trim() ?? '',
    description: fields.get('description')?.trim() ?? '',
    events: fields.getAll('events'),
    streams: fieldItems(fields, 'streams'),
    domains: fieldItems(fields, 'domains'),
    addresses: fieldItems(fields, 'addresses'),
    include_machine_events: fields.get('include_machine_events') !== null,
    include_engagement: fields.get('include_engagement') !== null,
    concurrency: fieldNumber(fields, 'concurrency'),
    headers: fields.get('clear_headers') !== null || Object.keys(headers).length > 0 ? headers : undefined,
  });
}

export function headersOf(text: string): Record<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      if (colon < 1)
        throw new Problem('invalid_header', 'write headers as `Name: value`, one a line', { field: 'headers' });
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    }),
  );
}

async function create(visit: Visit): Promise<Shown> {
  const made = await visit.ask('createWebhook', { body: settingsIn(visit.form) });
  const data = { endpoint: made, secret: made.secret, isNew: true };
  return once('webhook-secret', 'Your new webhook', data, `${WHERE}/${made.id}`);
}

async function details(visit: Visit, fault: Problem | null, tried: object | null = null): Promise<View> {
  const { params, query, form: fields, now } = visit;
  const isChange = fault !== null && fields.has('url');
  const [status, eventId] = [query.get('status'), query.get('event_id')];
  const [endpoint, last, attempts, replays] = await Promise.all([
    visit.ask('getWebhook', { params }),
    attemptsOf(visit, params['id'] ?? ''),
    visit.ask('listWebhookDeliveries', { params, query: { status, event_id: eventId, ...pageOf(query, 25) } }),
    visit.ask('listWebhookReplays', { params, query: { limit: '5' } }),
  ]);
  const entered = isChange
    ? filledIn(fields)
    : {
        ...endpoint,
        streams: endpoint.streams.join(' '),
        domains: endpoint.domains.join(' '),
        addresses: endpoint.addresses.join(' '),
      };
  const health = healthOf(endpoint, last, now);
  const data = {
    endpoint,
    seen: seenIn(fields, fault, changeable(endpoint)),
    eventId,
    ...health,
    attempts: attempts.data.map((one) => {
      const { next_attempt_at: next } = one;
      // In a rest nothing is tried again.
      const at = next !== null && health.restsUntil !== null && next < health.restsUntil ? health.restsUntil : next;
      return { ...one, next_attempt_at: at, isPlanned: isAhead(next, now) };
    }),
    chips: chipsOf(placeOf(visit), query, 'status', [
      ['delivered', 'delivered'],
      ['failed', 'failed'],
    ]),
    pager: pagerOf(placeOf(visit), query, attempts),
    replays: replays.data,
    since: new Date(now - 24 * HOUR_MS).toISOString().slice(0, 16),
    until: new Date(now).toISOString().slice(0, 16),
    types: allEventTypes,
    received: allEventTypes.filter((name) => endpoint.events.includes(name)),
    events: boxes(isChange ? fields.getAll('events') : endpoint.events),
    entered,
    fault,
    tried,
  };
  return view('webhook', endpoint.description || endpoint.url, data);
}

/** Returns what the form changes. */
const changeable = (endpoint: Webhook): unknown => {
  const { url, description, events, streams, domains, addresses, concurrency, header_names: headers } = endpoint;
  const { include_machine_events: machines, include_engagement: engagement } = endpoint;
  return [url, description, events, streams, domains, addresses, machines, engagement, concurrency, headers];
};

async function change(visit: Visit): Promise<Shown> {
  refuseStale(visit.form, changeable(await visit.ask('getWebhook', { params: visit.params })));
  await visit.ask('updateWebhook', { params: visit.params, body: settingsIn(visit.form) });
  return move(placeOf(visit), 'Changed.');
}

async function enable(visit: Visit, enabled: boolean, said: string): Promise<Shown> {
  await visit.ask('updateWebhook', { params: visit.params, body: { enabled } });
  return move(placeOf(visit), said);
}

/** Sends a test and shows its outcome. */
async function test(visit: Visit): Promise<Shown> {
  const type = allEventTypes.find((one) => one === visit.form.get('type')) ?? 'delivered';
  const tried = await visit.ask('testWebhook', { params: visit.params, body: { type } });
  return { ...(await details(visit, null, tried)), again: placeOf(visit) };
}

function secretForm(deps: DashboardDeps, path: 'rotate' | 'secret'): Page {
  const isRotated = path === 'rotate';
  const act = async (visit: Visit): Promise<Shown> => {
    const endpoint = await visit.ask('getWebhook', { params: visit.params });
    const operation = isRotated ? 'rotateWebhookSecret' : 'getWebhookSecret';
    const { secret, previous } = await visit.ask(operation, { params: visit.params });
    const data = { endpoint, secret, previous, isRotated };
    return once('webhook-secret', isRotated ? 'New secret' : 'Secret', data, placeOf(visit));
  };
  return needs('webhook:secret', post(`${WHERE}/:id/${path}`, withPassword(deps, details, act)));
}

/** Reads the times of the form, which are UTC. */
async function replay(visit: Visit): Promise<Shown> {
  const { form: fields, params } = visit;
  const [since, until] = [momentOf(fields, 'since'), momentOf(fields, 'until')];
  const only = fields.get('only') === 'all' ? 'all' : 'failed';
  const ticked = fields.getAll('types');
  const types = ticked.length === 0 ? undefined : ticked;
  await visit.ask('replayWebhook', { params, body: definedMembers({ since: since ?? '', until, only, types }) });
  return move(placeOf(visit), 'The replay has begun and continues in the background.');
}

/** Converts the value of a date field, `2026-01-31T09:30`, into a time of the API. */
function momentOf(fields: URLSearchParams, name: string): string | undefined {
  const text = fieldText(fields, name);
  return text !== undefined && /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? `${text}:00Z` : text;
}
