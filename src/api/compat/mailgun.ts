/** Requests of programs that were written for Mailgun. */
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import { readForm, takeFields } from './form.ts';
import {
  MIME,
  type ForeignCall,
  type ForeignRequest,
  type Members,
  type Params,
  type Service,
  type Told,
} from './foreign.ts';
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
  replaced,
  substitute,
  textOf,
  textsOf,
  withLinks,
  wordsOf,
  wrong,
} from './members.ts';
import { entryRequests, numberIn, pageOf, refuseOthers, refuseUnlisted } from './lists.ts';
import { at, listEvents } from './mailgun-events.ts';

/** The fields that may come several times; of others the last counts. */
const SEVERAL = /^(?:to|cc|bcc|o:tag|attachment|inline)$/;
const isYes = (value: JsonValue): boolean => /^(?:yes|true|1|htmlonly)$/i.test(textOf(value));

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

/** The header whose object has the same variables as the fields `v:*`. It is never sent. */
const VARIABLES = 'x-mailgun-variables';

function header(value: JsonValue, out: JsonObject, field: string): void {
  const text = textOf(value);
  const name = field.slice(2);
  const lower = name.toLowerCase();
  const own = text.replaceAll(LINKS, '').replace(/^\s*,\s*/, '');
  if (lower === 'reply-to') out['reply_to'] = addressesOf(text);
  else if (lower === VARIABLES) return;
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
  const [inHeader] = Object.entries(form).filter(([name]) => name.toLowerCase() === `h:${VARIABLES}`);
  const fromHeader = inHeader === undefined ? {} : jsonIn(inHeader[1], inHeader[0]);
  // Those of a template may be larger than metadata.
  const [target, values] =
    out['template_id'] === undefined
      ? ['metadata', textsOf(fromHeader, VARIABLES)]
      : ['variables', { ...fromHeader, ...(out['metadata'] as JsonObject | undefined) }];
  if (Object.keys(values).length > 0) out[target] = { ...values, ...(out[target] as JsonObject | undefined) };
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

/** Makes a mail of its own for each addressee, whose values replace `%recipient.name%`, in variables and metadata too. */
function forEach({ cc, bcc, ...rest }: JsonObject, to: readonly JsonValue[], values: JsonObject): JsonObject {
  const shared = Object.fromEntries(
    Object.entries(rest).filter(
      ([name, value]) => /^(?:variables|metadata)$/.test(name) && JSON.stringify(value).includes('%recipient'),
    ),
  );
  const copies = { ...(cc === undefined ? {} : { cc }), ...(bcc === undefined ? {} : { bcc }) };
  const entries = to.map((one) => {
    const own = values[bare(one)];
    const words = new Map([
      ...Object.entries(isObject(own) ? own : {}).map(
        ([name, value]) => [`%recipient.${name}%`, textOf(value)] as const,
      ),
      ['%recipient%', textOf(one)],
      ['%recipient_email%', bare(one)],
    ]);
    return { out: { to: one, ...copies, ...(replaced(shared, words) as JsonObject) }, words };
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

async function listEntries({ ask, query, params, base }: ForeignCall, name: string, reason: string): Promise<Reply> {
  refuseOthers(query, ['limit', 'page', 'address']);
  const limit = String(Math.min(100, numberIn(query, 'limit', 100, 1000)));
  const after = query['page'] === 'next' ? query['address'] : undefined;
  const { data, next } = await pageOf(ask, 'listSuppressions', { reason, limit, after });
  const url = (page: string, address = ''): string =>
    `${base}/v3/${params['domain'] ?? ''}/${name}?page=${page}&address=${encodeURIComponent(address)}&limit=${limit}`;
  const first = url('first');
  const paging = { first, next: url('next', next ?? ''), previous: first, last: first };
  return answer({ items: data.map(entryOf), paging });
}

const all = (value: JsonValue, _: JsonObject, field: string): void => {
  if (![value].flat().every((one) => one === '*')) throw wrong(field, 'must be `*`: an entry is for all tags');
};
const entry: Members = { address: 'email', code: ignored, error: 'note', tag: all, tags: all, created_at: ignored };

async function addEntries({ ask, body }: ForeignCall, name: string, reason: string): Promise<Reply> {
  const entries = body['entries'] as JsonObject[];
  for (const one of entries) await ask('createSuppression', { body: { ...one, reason } });
  return answer({ message: `${String(entries.length)} addresses have been added to the ${name} table` });
}

const inWords = wordsOf('to', { send_at: 'o:deliverytime', tags: 'o:tag', template_id: 'template' });

const send = {
  method: 'POST',
  operation: 'sendMessage',
  reply: ({ object, id, rfc_message_id: messageId }: Told, { params }: { params: Params }) =>
    answer({
      id: object === 'batch' ? `<${String(id)}@${params['domain'] ?? ''}>` : messageId,
      message: 'Queued. Thank you.',
    }),
} as const;

/** The requests of one list. Another name in its place is another request, which has no counterpart. */
function requestsOf([name, reason]: [name: string, reason: string]): ForeignRequest[] {
  const path = `/v3/{domain}/${name}`;
  return [
    { method: 'GET', path, operation: 'listSuppressions', run: (call) => listEntries(call, name, reason) },
    {
      method: 'POST',
      path,
      operation: 'createSuppression',
      form: 'entries',
      run: (call) => addEntries(call, name, reason),
    },
    ...entryRequests(
      `${path}/{address}`,
      { '': reason },
      (one) => answer(entryOf(one ?? refuseUnlisted())),
      (address) => answer({ message: 'The address has been removed', address }),
    ),
  ];
}

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
    ...Object.entries(lists).flatMap(requestsOf),
  ],
  problem: ({ message, status }) => ({ status: status === 409 ? 400 : status, body: { message: inWords(message) } }),
};
