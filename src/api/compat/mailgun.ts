/** Requests of programs that were written for Mailgun. */
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import { readForm, takeFields } from './form.ts';
import { MIME, type ForeignCall, type Members, type Params, type Query, type Service, type Told } from './foreign.ts';
import {
  addressesOf,
  addressTo,
  addTo,
  answer,
  mailboxesAs,
  ignored,
  isObject,
  readEach,
  readMembers,
  substitute,
  textOf,
  timeOf,
  withLinks,
  wrong,
} from './members.ts';
import { entryRequests, numberIn, pageOf, reasonOf, refuseOthers, refuseUnlisted, type SeenEvent } from './lists.ts';

/** The fields that may come several times; of others the last counts. */
const SEVERAL = /^(?:to|cc|bcc|o:tag|attachment|inline)$/;
const isYes = (value: JsonValue): boolean => /^(?:yes|true|1|htmlonly)$/i.test(textOf(value));
/** Reads a time, or seconds since the epoch. */
const at = (value: JsonValue): string => timeOf(/^[\d.]+$/.test(textOf(value)) ? Number(value) : value, 1000);

function jsonIn(value: JsonValue, field: string): JsonObject {
  try {
    const read = typeof value === 'string' ? (JSON.parse(value) as JsonValue) : value;
    if (isObject(read)) return read;
  } catch {
    // The fault that follows says what is wrong.
  }
  throw wrong(field, 'must be an object in JSON');
}

const files = (value: JsonValue, out: JsonObject, field: string): void => {
  const given = [value].flat().map((one) => {
    if (!isObject(one)) throw wrong(field, 'must be a file of multipart/form-data');
    return field === 'inline' ? { ...one, content_id: one['filename'] ?? null } : one;
  });
  addTo(out, 'attachments', given);
};

/** The members that go with a complete mail too. */
const options: Members = {
  to: ignored,
  'o:tag': (value, out) => (out['tags'] = [value].flat()),
  'o:dkim': (value, _, field) => {
    if (!isYes(value)) throw wrong(field, 'is always on here');
  },
  'o:deliverytime': (value, out) => (out['send_at'] = at(value)),
  'o:testmode': (value, out) => (out['test'] = isYes(value)),
  'o:tracking': (value, out) => (out['track_opens'] = out['track_clicks'] = isYes(value)),
  'o:tracking-clicks': (value, out) => (out['track_clicks'] = isYes(value)),
  'o:tracking-opens': (value, out) => (out['track_opens'] = isYes(value)),
  'o:sending-ip': ignored,
  'o:sending-ip-pool': ignored,
  'o:secondary-dkim': ignored,
  'o:secondary-dkim-public': ignored,
  'v:*': (value, out, field) => {
    out['metadata'] = { ...(out['metadata'] as JsonObject | undefined), [field.slice(2)]: value };
  },
};

const members: Members = {
  ...options,
  from: 'from',
  cc: mailboxesAs('cc'),
  bcc: mailboxesAs('bcc'),
  subject: 'subject',
  text: 'text',
  html: 'html',
  attachment: files,
  inline: files,
  template: 'template_id',
  't:version': (value, out) => (out['template_version'] = /^\d+$/.test(textOf(value)) ? Number(value) : value),
  't:variables': (value, out, field) => (out['variables'] = jsonIn(value, field)),
  't:text': (value, out) => (out['auto_text'] = isYes(value)),
  'recipient-variables': ignored,
  'h:*': header,
};

/** Their links in a header of the sender's own, which its own link goes without. */
const LINKS = /,?\s*<?%(?:tag_|mailing_list_)?unsubscribe_(?:email|url)%>?/g;

function header(value: JsonValue, out: JsonObject, field: string): void {
  const text = textOf(value);
  const name = field.slice(2);
  const lower = name.toLowerCase();
  const own = text.replaceAll(LINKS, '').replace(/^\s*,\s*/, '');
  if (lower === 'reply-to') out['reply_to'] = addressesOf(text);
  else if (lower === 'sender') {
    if (text !== out['from']) throw wrong(field, 'must be `from`, whose domain signs the mail');
  } else if (lower === 'list-unsubscribe' && own !== text && own.trim() === '') out['unsubscribe'] = true;
  else {
    if (lower === 'list-unsubscribe') out['unsubscribe'] = false;
    out['headers'] = { ...(out['headers'] as JsonObject | undefined), [name]: own };
  }
}

/** Members are read in the order of their names: `h:Sender` is compared with `from`, and `o:tracking-opens` goes before `o:tracking`. */
function readMessage(form: JsonObject, known = members): JsonObject {
  const out = withLinks(readMembers(Object.fromEntries(Object.entries(form).sort()), known));
  const to = addressesOf(form['to'] ?? []);
  if (form['recipient-variables'] !== undefined)
    return forEach(out, to, jsonIn(form['recipient-variables'], 'recipient-variables'));
  addressTo(out, to);
  return out;
}

const optionNames: Params = { 'deliver-by': 'deliverytime', 'drop-message': 'testmode', track: 'tracking' };

/** Reads a complete mail. The options of the form go before those in its header. */
function readMime({ message = null, ...form }: JsonObject): JsonObject {
  const bytes = isObject(message) ? Buffer.from(textOf(message['content']), 'base64') : Buffer.from(textOf(message));
  const { taken, rest } = takeFields(bytes, /^x-mailgun-/i);
  for (const [name, value] of taken) {
    const option = name.slice('x-mailgun-'.length).toLowerCase();
    const member = `o:${optionNames[option] ?? option.replace(/^track-/, 'tracking-')}`;
    if (option === 'variables')
      for (const [key, one] of Object.entries(jsonIn(value, name))) form[`v:${key}`] ??= textOf(one);
    else if (member === 'o:tag') form[member] = [form[member] ?? [], value].flat();
    else form[member] ??= value;
  }
  return { ...readMessage(form, options), message: rest.toString('base64') };
}

const bare = (address: JsonValue): string => /<([^<>]+)>\s*$/.exec(textOf(address))?.[1] ?? textOf(address);

/** Makes a mail of its own for each addressee, whose values replace `%recipient.name%`. */
function forEach({ cc, bcc, ...rest }: JsonObject, to: readonly JsonValue[], values: JsonObject): JsonObject {
  const entries = to.map((one) => {
    const own = values[bare(one)];
    const words = Object.entries(isObject(own) ? own : {}).map(([name, value]): [string, string] => [
      `%recipient.${name}%`,
      textOf(value),
    ]);
    const out: JsonObject = { to: one, ...(cc === undefined ? {} : { cc }), ...(bcc === undefined ? {} : { bcc }) };
    return { out, words: new Map([...words, ['%recipient%', textOf(one)], ['%recipient_email%', bare(one)]]) };
  });
  substitute(rest, entries);
  return { ...rest, recipients: entries.map(({ out }) => out), on_error: 'abort', allow_duplicates: true };
}

const lists: Params = { bounces: 'hard_bounce', complaints: 'complaint', unsubscribes: 'unsubscribe' };

const entryOf = (one: Told): object => ({
  address: one['email'],
  ...(one['reason'] === 'hard_bounce' ? { code: '550', error: one['note'] ?? '' } : {}),
  ...(one['reason'] === 'unsubscribe' ? { tags: ['*'] } : {}),
  created_at: new Date(String(one['created_at'])).toUTCString(),
});

async function list({ ask, query, params, base }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['limit', 'page', 'address']);
  const limit = String(Math.min(100, numberIn(query, 'limit', 100, 1000)));
  const after = query['page'] === 'next' ? query['address'] : undefined;
  const { data, next } = await pageOf(ask, 'listSuppressions', { reason: reasonOf(lists, params), limit, after });
  const url = (page: string, address = ''): string =>
    `${base}/v3/${params['domain'] ?? ''}/${params['list'] ?? ''}?page=${page}&address=${encodeURIComponent(address)}&limit=${limit}`;
  const first = url('first');
  const paging = { first, next: url('next', next ?? ''), previous: first, last: first };
  return answer({ items: data.map(entryOf), paging });
}

const all = (value: JsonValue, _: JsonObject, field: string): void => {
  if (![value].flat().every((one) => one === '*')) throw wrong(field, 'must be `*`: an entry is for all tags');
};
const entry: Members = { address: 'email', code: ignored, error: 'note', tag: all, tags: all, created_at: ignored };

async function add({ ask, params, body }: ForeignCall): Promise<Reply> {
  const entries = body['entries'] as JsonObject[];
  for (const one of entries) await ask('createSuppression', { body: { ...one, reason: reasonOf(lists, params) } });
  const message = `${String(entries.length)} addresses have been added to the ${params['list'] ?? ''} table`;
  return answer({ message });
}

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
const wordsOf = (text = ''): string[] => text.split(/\s+(?:OR|AND)\s+|\s*,\s*/).filter((one) => one !== '');

/** Newest first, unless a beginning is given. The page says in which direction it goes on. */
async function listEvents({ ask, query, params, base }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['event', 'begin', 'end', 'ascending', 'limit', 'recipient', 'tags']);
  const { event = Object.keys(events).join(','), begin, end, recipient, tags } = query;
  const { page = '', domain = '' } = params;
  const isAscending =
    page === '' ? (query['ascending'] ?? (begin === undefined ? 'no' : 'yes')) === 'yes' : page.startsWith('a');
  const [tag, ...others] = wordsOf(tags);
  const types = wordsOf(event).map((one) => events[one] ?? one);
  const filter: Query = {
    type: types.join(','),
    recipient,
    tag,
    occurred_after: begin === undefined ? begin : at(begin),
    occurred_before: end === undefined ? end : at(end),
    limit: String(numberIn(query, 'limit', 100, 300)),
    ...(isAscending ? { after: page.slice(1) || 'start' } : { before: page.slice(1) || 'end' }),
  };
  const { data, next, previous } = await pageOf(ask, 'listEvents', filter);
  const found = data.filter(({ data: of }) => others.every((one) => ((of as Told)['tags'] as string[]).includes(one)));
  const items = (isAscending ? found : found.reverse()).map(eventOf);
  const url = (id: string): string => `${base}/v3/${domain}/events/${id}`;
  const [later, earlier] = [url(`a${next ?? ''}`), url(`d${previous ?? ''}`)];
  const ways = isAscending ? { next: later, previous: earlier } : { next: earlier, previous: later };
  return answer({ items, paging: { ...ways, first: url('a'), last: url('d') } });
}

const send = {
  method: 'POST',
  operation: 'sendMessage',
  reply: ({ object, id, rfc_message_id: messageId }: Told, { params }: { params: Params }) =>
    answer({
      id: object === 'batch' ? `<${String(id)}@${params['domain'] ?? ''}>` : messageId,
      message: 'Queued. Thank you.',
    }),
} as const;

const LIST = '/v3/{domain}/{list}';

export const mailgun: Service = {
  name: 'mailgun',
  authorization: (of) =>
    of('authorization')?.replace(/^basic +([\w+/=-]+)$/i, (_, basic: string) =>
      Buffer.from(basic, 'base64')
        .toString()
        .replace(/^(?:[^:]*:)?/, 'Bearer '),
    ),
  forms: {
    message: (form) => readMessage(form),
    [MIME]: readMime,
    entries: (form) => ({
      entries: Array.isArray(form['list']) ? readEach(form['list'], entry, 'list') : [readMembers(form, entry)],
    }),
  },
  readForm: (bytes, type) => readForm(bytes, type, SEVERAL),
  requests: [
    { ...send, path: '/v3/{domain}/messages', form: 'message' },
    { ...send, path: '/v3/{domain}/messages.mime', form: MIME },
    { method: 'GET', path: '/v3/{domain}/events', operation: 'listEvents', run: listEvents },
    { method: 'GET', path: '/v3/{domain}/events/{page}', operation: 'listEvents', run: listEvents },
    { method: 'GET', path: LIST, operation: 'listSuppressions', run: list },
    { method: 'POST', path: LIST, operation: 'createSuppression', form: 'entries', run: add },
    ...entryRequests(
      `${LIST}/{address}`,
      lists,
      (one) => answer(entryOf(one ?? refuseUnlisted())),
      (address) => answer({ message: 'The address has been removed', address }),
    ),
  ],
  problem: ({ message, status }) => ({ status: status === 409 ? 400 : status, body: { message } }),
};
