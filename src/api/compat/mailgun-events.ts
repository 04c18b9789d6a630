/** The events of programs that were written for Mailgun. */
import { Problem } from '../../base/problem.ts';
import type { JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { Ask, ForeignCall, Params, Query, Told } from './foreign.ts';
import { numberIn, pageOf, refuseOthers, type SeenEvent } from './lists.ts';
import { answer, textOf, timeOf } from './members.ts';

/** Reads a time, or seconds since the epoch. */
export const at = (value: JsonValue): string => timeOf(/^[\d.]+$/.test(textOf(value)) ? Number(value) : value, 1000);

const events: Params = {
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
  const { type, data } = one as unknown as SeenEvent;
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
const wordsOf = (text: string, between: RegExp): string[] => text.split(between).filter((one) => one !== '');

const refuse = (field: string, why: string): Problem =>
  new Problem('invalid_parameter', `\`${field}\` ${why}.`, { field });

/** The types of ours that failures of a severity have. */
const severities: Readonly<Record<string, readonly string[]>> = {
  temporary: ['deferred'],
  permanent: ['bounced', 'failed', 'suppressed'],
};

/** Returns the types of ours that are asked for. Throws `invalid_parameter`. */
function typesOf({ event = Object.keys(events).join(','), severity }: Query): string[] {
  const words = wordsOf(event, /\s+OR\s+|\s*,\s*/);
  const unknown = words.find((one) => !Object.hasOwn(events, one));
  if (unknown !== undefined)
    throw refuse('event', `has \`${unknown}\`, which is none of ${Object.keys(events).join(', ')}`);
  const types = words.flatMap((one) => events[one]?.split(',') ?? []);
  if (severity === undefined) return types;
  const wanted = Object.hasOwn(severities, severity) ? severities[severity] : undefined;
  if (wanted === undefined) throw refuse('severity', 'must be `temporary` or `permanent`');
  const found = types.filter((type) => wanted.includes(type));
  if (found.length === 0) throw refuse('severity', 'goes with the event `failed`');
  return found;
}

/** Returns the filter for the Message-ID of a mail, or of a bulk send, as `messageIdOf` shows it; null if there is no such mail. */
async function ofMessage(ask: Ask, id: string | undefined): Promise<Query | null> {
  if (id === undefined) return {};
  const text = id.replaceAll(/[<>]/g, '');
  const own = /^(bat|msg)_\w+(?=@)/.exec(text)?.[0];
  if (own !== undefined) return own.startsWith('bat_') ? { batch_id: own } : { message_id: own };
  const [found] = (await pageOf(ask, 'listMessages', { rfc_message_id: text, limit: '1' })).data;
  return found === undefined ? null : { message_id: String(found['id']) };
}

const known = ['event', 'begin', 'end', 'ascending', 'limit', 'recipient', 'tags', 'message-id', 'severity'];

/** Newest first, unless a beginning is given. The page says in which direction it goes on. */
export async function listEvents({ ask, query, params, base }: ForeignCall): Promise<Reply> {
  refuseOthers(query, known);
  const { begin, end, recipient, tags = '' } = query;
  const { page = '', domain = '' } = params;
  const isAscending =
    page === '' ? (query['ascending'] ?? (begin === undefined ? 'no' : 'yes')) === 'yes' : page.startsWith('a');
  if (/\sOR\s/.test(tags)) throw refuse('tags', 'cannot have `OR`: ask for each of them');
  const [tag, ...others] = wordsOf(tags, /\s+AND\s+|\s*,\s*/);
  const mail = await ofMessage(ask, query['message-id']);
  const filter: Query = {
    type: typesOf(query).join(','),
    recipient,
    tag,
    ...mail,
    occurred_after: begin === undefined ? begin : at(begin),
    occurred_before: end === undefined ? end : at(end),
    limit: String(numberIn(query, 'limit', 100, 300)),
    ...(isAscending ? { after: page.slice(1) || 'start' } : { before: page.slice(1) || 'end' }),
  };
  const { data, next, previous } =
    mail === null ? { data: [], next: null, previous: null } : await pageOf(ask, 'listEvents', filter);
  const found = data.filter(({ data: of }) => others.every((one) => ((of as Told)['tags'] as string[]).includes(one)));
  const items = (isAscending ? found : found.reverse()).map(eventOf);
  const url = (id: string): string => `${base}/v3/${domain}/events/${id}`;
  const [later, earlier] = [url(`a${next ?? ''}`), url(`d${previous ?? ''}`)];
  const ways = isAscending ? { next: later, previous: earlier } : { next: earlier, previous: later };
  return answer({ items, paging: { ...ways, first: url('a'), last: url('d') } });
}
