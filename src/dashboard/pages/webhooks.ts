/** Webhook endpoints: list, success rates, calls with their answers, settings. */
import { Problem } from '../../base/problem.ts';
import type { Webhook, WebhookDelivery } from '../../client/types.ts';
import { allEventTypes, eventTypes } from '../../events/event.ts';
import { chipsOf, pageOf, pagerOf } from '../links.ts';
import { get, move, once, post, view, type Page, type Shown, type Visit } from '../page.ts';
import { HOUR_MS } from '../../base/time.ts';
import { resource } from '../resource.ts';

const WHERE = '/webhooks';
const SECRET = 'webhook-secret';
/** Number of attempts that a success rate is computed from. */
const SAMPLED_ATTEMPTS = 100;
/** Each has its rate. */
const ENDPOINTS_A_PAGE = 20;

const reads = {
  /** One a line, `Name: value`. */
  headers({ form }: Visit) {
    const headers = headersOf(form.get('headers') ?? '');
    return form.has('clear_headers') || Object.keys(headers).length > 0 ? { headers } : {};
  },
  types: ({ form }: Visit) => (form.has('types') ? { types: form.getAll('types') } : {}),
};

export const webhookPages: readonly Page[] = [
  get(WHERE, list),
  ...resource({
    path: `${WHERE}/new`,
    view: 'webhook-new',
    title: 'New webhook',
    scope: 'webhook',
    load: () => ({ events: eventTypes, concurrency: 10, types: allEventTypes }),
    reads,
    acts: {
      async [`${WHERE}/new`](visit, body) {
        const made = await visit.ask('createWebhook', { body });
        return once(SECRET, 'Your new webhook', { endpoint: made, secret: made.secret, isNew: true }, placeOf(made));
      },
    },
  }),
  ...resource({
    path: `${WHERE}/:id`,
    view: 'webhook',
    title: ({ endpoint }) => endpoint.url,
    load: details,
    reads,
    acts: {
      /** Sends a test and shows its outcome. */
      async [`${WHERE}/:id/test`](visit, body, show) {
        const tried = await visit.ask('testWebhook', { params: visit.params, body });
        return { ...(await show({ tried })), again: placeOf(visit.params) };
      },
      [`${WHERE}/:id/secret`]: (visit) => secretShown(visit, false),
      [`${WHERE}/:id/rotate`]: (visit) => secretShown(visit, true),
    },
  }),
  post(`${WHERE}/:id/deliveries/:delivery_id/resend`, async (visit) => {
    await visit.ask('resendWebhookDelivery', { params: visit.params });
    return move(placeOf(visit.params), 'It is sent again now.');
  }),
];

const placeOf = ({ id = '' }: { id?: string }): string => `${WHERE}/${id}`;

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

async function details(visit: Visit) {
  const { params, query, now } = visit;
  const [status, eventId] = [query.get('status'), query.get('event_id')];
  const [endpoint, last, attempts, replays] = await Promise.all([
    visit.ask('getWebhook', { params }),
    attemptsOf(visit, params['id'] ?? ''),
    visit.ask('listWebhookDeliveries', { params, query: { status, event_id: eventId, ...pageOf(query, 25) } }),
    visit.ask('listWebhookReplays', { params, query: { limit: '5' } }),
  ]);
  const health = healthOf(endpoint, last, now);
  return {
    endpoint,
    // The names of its headers are among what the form changes.
    record: { ...endpoint, clear_headers: endpoint.header_names },
    resuming: endpoint.status === 'disabled' ? 'Enable' : 'Resume',
    clearing: `Remove the headers it has (${endpoint.header_names.join(', ')})`,
    eventId,
    ...health,
    attempts: attempts.data.map((one) => {
      const { next_attempt_at: next } = one;
      // In a rest nothing is tried again.
      const at = next !== null && health.restsUntil !== null && next < health.restsUntil ? health.restsUntil : next;
      return { ...one, next_attempt_at: at, isPlanned: isAhead(next, now) };
    }),
    chips: chipsOf(placeOf(params), query, 'status', [
      ['delivered', 'delivered'],
      ['failed', 'failed'],
    ]),
    pager: pagerOf(placeOf(params), query, attempts),
    replays: replays.data,
    since: new Date(now - 24 * HOUR_MS).toISOString().slice(0, 16),
    until: new Date(now).toISOString().slice(0, 16),
    types: allEventTypes,
    received: allEventTypes.filter((name) => endpoint.events.includes(name)),
  };
}

async function secretShown({ ask, params }: Visit, isRotated: boolean): Promise<Shown> {
  const endpoint = await ask('getWebhook', { params });
  const { secret, previous } = await ask(isRotated ? 'rotateWebhookSecret' : 'getWebhookSecret', { params });
  const data = { endpoint, secret, previous, isRotated };
  return once(SECRET, isRotated ? 'New secret' : 'Secret', data, placeOf(params));
}
