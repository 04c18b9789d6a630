/** Lists of Mailgun: events, and the three parts of the suppression list. */
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import { answer, ignored, timeOf, wrong, type ForeignCall, type Members, type Query, type Told } from './foreign.ts';
import { notListed, numberIn, pageOf, reasonOf, refuseOthers, suppressionOf } from './lists.ts';

const lists: Readonly<Record<string, string>> = {
  bounces: 'hard_bounce',
  complaints: 'complaint',
  unsubscribes: 'unsubscribe',
};

export const entryOf = (one: Told): object => ({
  address: one['email'],
  ...(one['reason'] === 'hard_bounce' ? { code: '550', error: one['note'] ?? '' } : {}),
  ...(one['reason'] === 'unsubscribe' ? { tags: ['*'] } : {}),
  created_at: new Date(String(one['created_at'])).toUTCString(),
});

export async function list({ ask, query, params, base }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['limit', 'page', 'address']);
  const limit = Math.min(100, numberIn(query, 'limit', 100, 1000));
  const after = query['page'] === 'next' ? query['address'] : undefined;
  const { data, next } = await pageOf(ask, 'listSuppressions', {
    reason: reasonOf(lists, params),
    limit: String(limit),
    after,
  });
  const at = (page: string, address = ''): string =>
    `${base}/v3/${params['domain'] ?? ''}/${params['list'] ?? ''}?page=${page}&address=${encodeURIComponent(address)}&limit=${String(limit)}`;
  const paging = { first: at('first'), next: at('next', next ?? ''), previous: at('first'), last: at('first') };
  return answer({ items: data.map(entryOf), paging });
}

export async function entryAt({ ask, params }: ForeignCall): Promise<Told> {
  const found = await suppressionOf(ask, reasonOf(lists, params), params['address']);
  if (found === null) throw notListed();
  return found;
}

const onlyAll = (value: JsonValue, _: JsonObject, field: string): void => {
  if (![value].flat().every((one) => one === '*')) throw wrong(field, 'must be `*`: an entry is for all tags');
};

export const entry: Members = {
  address: 'email',
  code: ignored,
  error: 'note',
  tag: onlyAll,
  tags: onlyAll,
  created_at: ignored,
};

export async function add({ ask, params, body }: ForeignCall): Promise<Reply> {
  const entries = body['entries'] as JsonObject[];
  for (const one of entries) await ask('createSuppression', { body: { ...one, reason: reasonOf(lists, params) } });
  return answer({
    message: `${String(entries.length)} addresses have been added to the ${params['list'] ?? ''} table`,
  });
}

const events: Readonly<Record<string, string>> = {
  accepted: 'sent',
  delivered: 'delivered',
  failed: 'bounced,deferred,failed,suppressed',
  opened: 'opened',
  clicked: 'clicked',
  complained: 'complained',
  unsubscribed: 'unsubscribed',
};
const theirEvent = (type: string): string =>
  Object.keys(events).find((one) => events[one]?.split(',').includes(type)) ?? type;

/** A pair of angle brackets around the id of a bulk send, as around that of a mail. */
const messageIdOf = ({ batch_id: batch, rfc_message_id: id }: Told): string => {
  const text = String(id).replaceAll(/[<>]/g, '');
  return typeof batch === 'string' ? `${batch}@${text.split('@')[1] ?? ''}` : text;
};

function eventOf(one: Told): object {
  const { type, data } = one as { type: string; data: Told };
  const detail = (data[type] ?? {}) as Told;
  const severity = type === 'deferred' ? 'temporary' : 'permanent';
  return {
    id: one['id'],
    event: theirEvent(type),
    timestamp: Date.parse(String(one['timestamp'])) / 1000,
    recipient: data['recipient'],
    'recipient-domain': String(data['recipient']).split('@')[1] ?? '',
    tags: data['tags'],
    'user-variables': data['metadata'],
    ...(theirEvent(type) === 'failed' ? { severity, reason: detail['class'] ?? type } : {}),
    ...(type === 'clicked' ? { url: detail['url'] } : {}),
    'client-info': { 'user-agent': detail['user_agent'] ?? null },
    'delivery-status': {
      code: detail['smtp_code'] ?? 0,
      'enhanced-code': detail['enhanced_code'] ?? '',
      message: detail['smtp_reply'] ?? '',
      description: detail['reason'] ?? '',
    },
    message: { headers: { 'message-id': messageIdOf(data), to: data['recipient'] } },
    flags: { 'is-test-mode': one['test'] },
  };
}

/** Reads the words of a filter such as `opened OR clicked`. */
const wordsOf = (text: string | undefined): string[] =>
  (text ?? '').split(/\s+(?:OR|AND)\s+|\s*,\s*/).filter((one) => one !== '');

/** Newest first, unless a beginning is given. The page says in which direction it goes on. */
export async function listEvents({ ask, query, params, base }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['event', 'begin', 'end', 'ascending', 'limit', 'recipient', 'tags']);
  const { event, begin, end, recipient, tags } = query;
  const page = params['page'] ?? '';
  const isAscending =
    page === '' ? (query['ascending'] ?? (begin === undefined ? 'no' : 'yes')) === 'yes' : page.startsWith('a');
  const at = (time: string | undefined): string | undefined =>
    time === undefined ? undefined : timeOf(/^[\d.]+$/.test(time) ? Number(time) : time, 1000);
  const [tag, ...others] = wordsOf(tags);
  const cursor = page.slice(1);
  const filter: Query = {
    type: wordsOf(event ?? Object.keys(events).join(','))
      .map((one) => events[one] ?? one)
      .join(','),
    recipient,
    tag,
    occurred_after: at(begin),
    occurred_before: at(end),
    limit: String(Math.min(300, numberIn(query, 'limit', 100, 300))),
    ...(isAscending ? { after: cursor || 'start' } : { before: cursor || 'end' }),
  };
  const { data, next, previous } = await pageOf(ask, 'listEvents', filter);
  const found = data.filter(({ data: of }) => others.every((one) => ((of as Told)['tags'] as string[]).includes(one)));
  const url = (id: string): string => `${base}/v3/${params['domain'] ?? ''}/events/${id}`;
  const on = isAscending ? `a${next ?? ''}` : `d${previous ?? ''}`;
  return answer({
    items: (isAscending ? found : found.reverse()).map(eventOf),
    paging: {
      next: url(on),
      previous: url(isAscending ? `d${previous ?? ''}` : `a${next ?? ''}`),
      first: url('a'),
      last: url('d'),
    },
  });
}
