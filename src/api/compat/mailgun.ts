/** Requests of programs that were written for Mailgun. */
import { isObject, type JsonObject, type JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import {
  headFields,
  readForm,
  addressesOf,
  addressTo,
  addTo,
  answer,
  bulk,
  check,
  finished,
  ignored,
  mailboxesAs,
  mergeInto,
  objectIn,
  readEach,
  readMembers,
  textOf,
  textsOf,
  timeOf,
  wordsOf,
  wrong,
} from './members.ts';
import { MIME } from './foreign.ts';
import type { ForeignCall, ForeignRequest, Members, Params, Query, Service, Told } from './foreign.ts';
import * as lists from './lists.ts';

/** The fields that may come several times; of others the last counts. */
const SEVERAL = /^(?:to|cc|bcc|o:tag|attachment|inline)$/;
const isYes = (value: JsonValue): boolean => /^(?:yes|true|1|htmlonly)$/i.test(textOf(value));

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
  'o:dkim': (value, _, field) => check(isYes(value), field, 'is always on here'),
  'o:deliverytime': (value, out) => (out['send_at'] = timeOf(value)),
  'o:testmode': (value, out) => (out['test'] = isYes(value)),
  'o:tracking': (value, out) => (out['track_opens'] = out['track_clicks'] = isYes(value)),
  'o:tracking-clicks': (value, out) => (out['track_clicks'] = isYes(value)),
  'o:tracking-opens': (value, out) => (out['track_opens'] = isYes(value)),
  'o:sending-ip': ignored,
  'o:sending-ip-pool': ignored,
  'o:secondary-dkim': ignored,
  'o:secondary-dkim-public': ignored,
  'v:*': (value, out, field) => mergeInto(out, 'metadata', { [field.slice(2)]: value }),
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
  't:variables': (value, out, field) => (out['variables'] = objectIn(value, field)),
  't:text': (value, out) => (out['auto_text'] = isYes(value)),
  'recipient-variables': ignored,
  'h:*': header,
};

/** Their links in a header of the sender's own, which its own link goes without. */
const LINKS = /,?\s*<?%(?:tag_|mailing_list_)?unsubscribe_(?:email|url)%>?/g;

/** The header whose object has the same variables as the fields `v:*`. It is never sent. */
const VARIABLES = 'x-mailgun-variables';

function header(value: JsonValue, out: JsonObject, field: string): void {
  const text = textOf(value);
  const name = field.slice(2);
  const lower = name.toLowerCase();
  const own = text.replaceAll(LINKS, '').replace(/^\s*,\s*/, '');
  if (lower === 'reply-to') out['reply_to'] = addressesOf(text);
  else if (lower === VARIABLES) out[VARIABLES] = objectIn(value, field);
  else if (lower === 'sender') check(text === out['from'], field, 'must be `from`, whose domain signs the mail');
  else if (lower === 'list-unsubscribe' && own !== text && own.trim() === '') out['unsubscribe'] = true;
  else {
    if (lower === 'list-unsubscribe') out['unsubscribe'] = false;
    mergeInto(out, 'headers', { [name]: own });
  }
}

/** Members are read in the order of their names: `h:Sender` is compared with `from`, and `o:tracking-opens` goes before `o:tracking`. */
function readMessage(form: JsonObject, known = members): JsonObject {
  const mail = readMembers(Object.fromEntries(Object.entries(form).sort()), known);
  const { [VARIABLES]: inHeader = {}, ...out } = finished(mail) as Record<string, JsonObject>;
  // Those of a template may be larger than metadata.
  if (out['template_id'] !== undefined) out['variables'] = { ...inHeader, ...out['metadata'], ...out['variables'] };
  else if (mail[VARIABLES] !== undefined) out['metadata'] = { ...textsOf(inHeader, VARIABLES), ...out['metadata'] };
  const to = addressesOf(form['to'] ?? []);
  if (form['recipient-variables'] !== undefined)
    return forEach(out, to, objectIn(form['recipient-variables'], 'recipient-variables'));
  addressTo(out, to);
  return out;
}

const optionNames: Params = { 'deliver-by': 'deliverytime', 'drop-message': 'testmode' };
const optionOf = (name: string): string => `o:${optionNames[name] ?? name.replace(/^track/, 'tracking')}`;

/** Reads a complete mail. The options of the form go before those in its header. */
function readMime({ message = null, ...form }: JsonObject): JsonObject {
  const bytes = isObject(message) ? Buffer.from(textOf(message['content']), 'base64') : Buffer.from(textOf(message));
  const { tag = [], variables = ['{}'], ...others } = headFields(bytes, 'x-mailgun-');
  const values = Object.entries(objectIn(variables.join(), 'X-Mailgun-Variables'));
  const inHeader = [
    ...values.map(([name, value]) => [`v:${name}`, textOf(value)]),
    ...Object.entries(others).map(([name, [value]]) => [optionOf(name), value]),
  ];
  const all = { ...(Object.fromEntries(inHeader) as JsonObject), ...form, 'o:tag': [form['o:tag'] ?? [], tag].flat() };
  return { ...readMessage(all, options), message: bytes.toString('base64') };
}

const bare = (address: JsonValue): string => /<([^<>]+)>\s*$/.exec(textOf(address))?.[1] ?? textOf(address);

/** Makes a mail of its own for each addressee, whose values replace `%recipient.name%`. */
function forEach({ cc = [], bcc = [], ...rest }: JsonObject, to: readonly JsonValue[], values: JsonObject): JsonObject {
  const entries = to.map((one) => {
    const own = values[bare(one)] ?? null;
    const words = Object.entries(isObject(own) ? own : {}).map(([name, value]) => [`recipient.${name}`, textOf(value)]);
    const all = [...words, ['recipient', textOf(one)], ['recipient_email', bare(one)]];
    return { out: { to: one, cc, bcc }, words: new Map(all.map(([name = '', value = '']) => [`%${name}%`, value])) };
  });
  return bulk(rest, entries);
}

const events = ['accepted', 'delivered', 'failed', 'opened', 'clicked', 'complained', 'unsubscribed'];
const failures = ['deferred', 'bounced', 'failed', 'suppressed'];
const severityOf = (type: string): string => (type === 'deferred' ? 'temporary' : 'permanent');

/** A pair of angle brackets around the id of a bulk send, as around that of a mail. */
const messageIdOf = ({ batch_id: batch, rfc_message_id: id }: Told): string =>
  String(id)
    .replaceAll(/[<>]/g, '')
    .replace(/^[^@]*/, (own) => (typeof batch === 'string' ? batch : own));

function eventOf(one: Told): object {
  const { type, data } = one as unknown as lists.SeenEvent;
  const detail = (data[type] ?? {}) as Told;
  const isFailure = failures.includes(type);
  return {
    id: one['id'],
    event: isFailure ? 'failed' : type === 'sent' ? 'accepted' : type,
    timestamp: Date.parse(String(one['timestamp'])) / 1000,
    recipient: data['recipient'],
    'recipient-domain': String(data['recipient']).split('@')[1] ?? '',
    tags: data['tags'],
    'user-variables': data['metadata'],
    ...(isFailure ? { severity: severityOf(type), reason: detail['class'] ?? type } : {}),
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

/** Returns the types of ours that are asked for. Throws `invalid_parameter`. */
function typesOf({ event = events.join(), severity }: Query): string {
  const words = event.split(/\s+OR\s+|\s*,\s*/);
  const unknown = words.find((one) => !events.includes(one));
  if (unknown !== undefined)
    lists.refuseParameter('event', `has \`${unknown}\`, which is none of ${events.join(', ')}`);
  const isWanted = (one: string): boolean => failures.includes(one) && severityOf(one) === severity;
  const types = words.flatMap((one) => (one === 'failed' ? failures : [one === 'accepted' ? 'sent' : one]));
  const found = severity === undefined ? types : types.filter(isWanted);
  if (found.length > 0) return found.join();
  return lists.refuseParameter('severity', 'must be `temporary` or `permanent`, with the event `failed`');
}

/** Returns the filter for the Message-ID of a mail, or of a bulk send, as `messageIdOf` shows it. */
async function mailOf({ ask }: ForeignCall, id: string): Promise<Query> {
  const text = id.replaceAll(/[<>]/g, '');
  const own = /^(bat|msg)_\w+(?=@)/.exec(text)?.[0];
  if (own !== undefined) return own.startsWith('bat_') ? { batch_id: own } : { message_id: own };
  const [found] = (await lists.pageOf(ask, 'listMessages', { rfc_message_id: text, limit: '1' })).data;
  return { message_id: textOf(found?.['id'] ?? `msg_${'0'.repeat(26)}`) };
}

/** Newest first, unless a beginning is given. The name of a page that follows has the query with which it goes on. */
async function listEvents(call: ForeignCall): Promise<Reply> {
  const { page = '', domain = '' } = call.params;
  const goesOn = Object.fromEntries(new URLSearchParams(Buffer.from(page, 'base64url').toString()));
  const { after = 'start', before = 'end', ...asked } = { ...call.query, ...goesOn };
  const { begin, end, ascending, limit, recipient, tags = '', event, severity, 'message-id': id, ...others } = asked;
  lists.refuseOthers(others);
  if (/\sOR\s/.test(tags)) lists.refuseParameter('tags', 'cannot have `OR`: ask for each of them');
  const isAscending = (ascending ?? (begin === undefined ? 'no' : 'yes')) === 'yes';
  const [tag = '', ...more] = tags.split(/\s+AND\s+|\s*,\s*/);
  const found = await lists.pageOf(call.ask, 'listEvents', {
    type: typesOf({ event, severity }),
    recipient,
    tag: tag === '' ? undefined : tag,
    ...(id === undefined ? {} : await mailOf(call, id)),
    occurred_after: begin === undefined ? begin : timeOf(begin),
    occurred_before: end === undefined ? end : timeOf(end),
    limit: String(lists.numberIn({ limit }, 'limit', 100, 300)),
    ...(isAscending ? { after } : { before }),
  });
  const seen = found.data.filter(({ data }) => more.every((one) => ((data as Told)['tags'] as string[]).includes(one)));
  const url = (place: Record<string, string>): string =>
    `${call.base}/v3/${domain}/events/${Buffer.from(new URLSearchParams({ ...asked, ...place }).toString()).toString('base64url')}`;
  const later = url({ ascending: 'yes', after: found.next_cursor ?? after });
  const earlier = url({ ascending: 'no', before: found.previous_cursor ?? before });
  const [next, previous] = isAscending ? [later, earlier] : [earlier, later];
  const paging = { next, previous, first: url({ ascending: 'yes' }), last: url({ ascending: 'no' }) };
  return answer({ items: (isAscending ? seen : seen.reverse()).map(eventOf), paging });
}

const entryOf = (one: Told): object => ({
  address: one['email'],
  ...(one['reason'] === 'hard_bounce' ? { code: '550', error: one['note'] ?? '' } : {}),
  ...(one['reason'] === 'unsubscribe' ? { tags: ['*'] } : {}),
  created_at: new Date(String(one['created_at'])).toUTCString(),
});

const all = (value: JsonValue, _: JsonObject, field: string): void =>
  check(textOf([value].flat()[0] ?? '*') === '*', field, 'must be `*`: an entry is for all tags');
const entry: Members = { address: 'email', code: ignored, error: 'note', tag: all, tags: all, created_at: ignored };

const inWords = wordsOf('to', { send_at: 'o:deliverytime', tags: 'o:tag', template_id: 'template' });

const send = {
  method: 'POST',
  operation: 'sendMessage',
  reply: ({ object, id, rfc_message_id: own }: Told, { params: { domain = '' } }: Pick<ForeignCall, 'params'>) =>
    answer({ id: object === 'batch' ? `<${String(id)}@${domain}>` : own, message: 'Queued. Thank you.' }),
} as const;

async function listEntries(call: ForeignCall, name: string, reason: string): Promise<Reply> {
  const { page, address, limit: most, ...others } = call.query;
  lists.refuseOthers(others);
  const limit = String(Math.min(100, lists.numberIn({ limit: most }, 'limit', 100, 1000)));
  const after = page === 'next' ? address : undefined;
  const { data, next_cursor: last } = await lists.pageOf(call.ask, 'listSuppressions', { reason, limit, after });
  const url = (place: Params): string =>
    `${call.base}/v3/${call.params['domain'] ?? ''}/${name}?${new URLSearchParams({ ...place, limit }).toString()}`;
  const first = url({ page: 'first' });
  const next = url({ page: 'next', address: last ?? '' });
  return answer({ items: data.map(entryOf), paging: { first, next, previous: first, last: first } });
}

async function addEntries({ ask, body }: ForeignCall, name: string, reason: string): Promise<Reply> {
  const entries = body['entries'] as JsonObject[];
  for (const one of entries) await ask('createSuppression', { body: { ...one, reason } });
  return answer({ message: `${String(entries.length)} addresses have been added to the ${name} table` });
}

/** The requests of one list. Another name in its place is another request, which has no counterpart. */
const listRequests = (name: string, reason: string): ForeignRequest[] =>
  lists.listRequests(`/v3/{domain}/${name}`, reason, {
    list: (call) => listEntries(call, name, reason),
    add: (call) => addEntries(call, name, reason),
    shown: (one) => answer(entryOf(one ?? lists.refuseUnlisted())),
    removed: (address) => answer({ message: 'The address has been removed', address }),
  });

export const mailgun: Service = {
  name: 'mailgun',
  authorization: (of) =>
    of('authorization')?.replace(
      /^basic +([\w+/=-]+)$/i,
      (_, basic: string) => `Bearer ${String(Buffer.from(basic, 'base64')).replace(/^[^:]*:/, '')}`,
    ),
  forms: {
    message: (form) => readMessage(form),
    [MIME]: readMime,
    entries: (form) => ({ entries: readEach([form['list'] ?? form].flat(), entry, 'list') }),
  },
  readForm: (bytes, type) => readForm(bytes, type, SEVERAL),
  requests: [
    { ...send, path: '/v3/{domain}/messages', form: 'message' },
    { ...send, path: '/v3/{domain}/messages.mime', form: MIME },
    { method: 'GET', path: '/v3/{domain}/events', operation: 'listEvents', run: listEvents },
    { method: 'GET', path: '/v3/{domain}/events/{page}', operation: 'listEvents', run: listEvents },
    ...listRequests('bounces', 'hard_bounce'),
    ...listRequests('complaints', 'complaint'),
    ...listRequests('unsubscribes', 'unsubscribe'),
  ],
  problem: ({ message, status }) => ({ status: status === 409 ? 400 : status, body: { message: inWords(message) } }),
};
