/** Requests of programs that were written for Mailgun. */
import { decodeWords } from '../../mail/charset.ts';
import { parseHeaders } from '../../mail/header.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import {
  addressesOf,
  addressTo,
  addTo,
  answer,
  ignored,
  isObject,
  readEach,
  readMembers,
  substitute,
  textOf,
  timeOf,
  withLinks,
  wrong,
  type Members,
  type Params,
  type Service,
  type Told,
} from './foreign.ts';
import { add, entry, entryAt, entryOf, list, listEvents } from './mailgun-lists.ts';
import { readForm } from './form.ts';

/** Values of a form come in lists. */
const last = (value: JsonValue): JsonValue => (Array.isArray(value) ? (value.at(-1) ?? null) : value);
const lasts = (form: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(form).map(([name, value]) => [name, last(value)]));
const isYes = (value: JsonValue): boolean => /^(?:yes|true|1|htmlonly)$/i.test(textOf(last(value)));
const as =
  (name: string) =>
  (value: JsonValue, out: JsonObject): void => {
    out[name] = last(value);
  };

function jsonIn(value: JsonValue, field: string): JsonObject {
  const text = last(value);
  try {
    const read = typeof text === 'string' ? (JSON.parse(text) as JsonValue) : text;
    if (isObject(read)) return read;
  } catch {
    // The fault that follows says what is wrong.
  }
  throw wrong(field, 'must be an object in JSON');
}

const files =
  (kind: 'attachment' | 'inline') =>
  (value: JsonValue, out: JsonObject, field: string): void => {
    const given = (Array.isArray(value) ? value : [value]).map((one) => {
      if (!isObject(one)) throw wrong(field, 'must be a file of multipart/form-data');
      return kind === 'inline' ? { ...one, content_id: one['filename'] ?? null } : one;
    });
    addTo(out, 'attachments', given);
  };

const members: Members = {
  from: as('from'),
  to: ignored,
  cc: (value, out) => {
    addTo(out, 'cc', addressesOf(value));
  },
  bcc: (value, out) => (out['bcc'] = addressesOf(value)),
  subject: as('subject'),
  text: as('text'),
  html: as('html'),
  attachment: files('attachment'),
  inline: files('inline'),
  template: as('template_id'),
  't:version': (value, out) =>
    (out['template_version'] = /^\d+$/.test(textOf(last(value))) ? Number(last(value)) : last(value)),
  't:variables': (value, out, field) => (out['variables'] = jsonIn(value, field)),
  't:text': (value, out) => (out['auto_text'] = isYes(value)),
  'o:tag': (value, out) => (out['tags'] = Array.isArray(value) ? value : [value]),
  'o:dkim': (value, _, field) => {
    if (!isYes(value)) throw wrong(field, 'is always on here');
  },
  'o:deliverytime': (value, out) =>
    (out['send_at'] = timeOf(/^\d+$/.test(textOf(last(value))) ? Number(last(value)) : last(value), 1000)),
  'o:testmode': (value, out) => (out['test'] = isYes(value)),
  'o:tracking': (value, out) => {
    out['track_opens'] ??= isYes(value);
    out['track_clicks'] ??= isYes(value);
  },
  'o:tracking-clicks': (value, out) => (out['track_clicks'] = isYes(value)),
  'o:tracking-opens': (value, out) => (out['track_opens'] = isYes(value)),
  'o:sending-ip': ignored,
  'o:sending-ip-pool': ignored,
  'o:secondary-dkim': ignored,
  'o:secondary-dkim-public': ignored,
  'recipient-variables': ignored,
};

/** Their links in a header of the sender's own, which its own link goes without. */
const LINKS = /,?\s*<?%(?:tag_|mailing_list_)?unsubscribe_(?:email|url)%>?/g;

function header(out: JsonObject, name: string, value: JsonValue, field: string): void {
  const text = textOf(last(value));
  const lower = name.toLowerCase();
  if (lower === 'reply-to') out['reply_to'] = addressesOf(text);
  else if (lower === 'sender') {
    if (text !== out['from']) throw wrong(field, 'must be `from`, whose domain signs the mail');
  } else if (lower === 'list-unsubscribe' && LINKS.test(text) && text.replaceAll(LINKS, '').trim() === '')
    out['unsubscribe'] = true;
  else {
    if (lower === 'list-unsubscribe') out['unsubscribe'] = false;
    out['headers'] = {
      ...(out['headers'] as JsonObject | undefined),
      [name]: text.replaceAll(LINKS, '').replace(/^\s*,\s*/, ''),
    };
  }
}

/** Members with a prefix are read last: a header is compared with `from`. */
function readMessage(form: JsonObject): JsonObject {
  const isPrefixed = (name: string): boolean => /^[hv]:/i.test(name);
  const names = Object.keys(form);
  const out = readMembers(
    Object.fromEntries(names.filter((one) => !isPrefixed(one)).map((one) => [one, form[one] ?? null])),
    members,
  );
  for (const name of names.filter(isPrefixed)) {
    const value = form[name] ?? null;
    if (/^h:/i.test(name)) header(out, name.slice(2), value, name);
    else out['metadata'] = { ...(out['metadata'] as JsonObject | undefined), [name.slice(2)]: last(value) };
  }
  withLinks(out);
  const to = addressesOf(form['to'] ?? []);
  if (form['recipient-variables'] === undefined) {
    addressTo(out, to);
    return out;
  }
  return forEach(out, to, jsonIn(form['recipient-variables'], 'recipient-variables'));
}

/** Options that a mail has in its header, and the members of a form that mean the same. */
const fields: Readonly<Record<string, string>> = {
  'x-mailgun-tag': 'o:tag',
  'x-mailgun-deliver-by': 'o:deliverytime',
  'x-mailgun-drop-message': 'o:testmode',
  'x-mailgun-track': 'o:tracking',
  'x-mailgun-track-clicks': 'o:tracking-clicks',
  'x-mailgun-track-opens': 'o:tracking-opens',
};
const MAIL_MEMBERS = /^(?:to|message|o:.+|v:.+)$/;

/** Reads a complete mail. Its options leave the header, since they are for the service. */
function readMime({ message = null, ...form }: JsonObject): JsonObject {
  const other = Object.keys(form).find((name) => !MAIL_MEMBERS.test(name));
  if (other !== undefined) readMembers({ [other]: '-' }, {});
  const file = last(message);
  const bytes = isObject(file) ? Buffer.from(textOf(file['content']), 'base64') : Buffer.from(textOf(file));
  const text = bytes.toString('latin1', 0, MOST_HEAD);
  const [line = ''] = /\r?\n(?=\r?\n)/.exec(text) ?? [];
  const end = line === '' ? 0 : text.search(/\r?\n\r?\n/) + line.length;
  let head = text.slice(0, end);
  for (const { name, value, raw } of parseHeaders(head)) {
    if (!/^x-mailgun-/i.test(name)) continue;
    head = head.replace(raw, '');
    const member = fields[name.toLowerCase()];
    const decoded = decodeWords(value);
    if (/-variables$/i.test(name))
      for (const [key, one] of Object.entries(jsonIn(decoded, name))) form[`v:${key}`] ??= textOf(one);
    else if (member === undefined) readMembers({ [name]: value }, {});
    else if (member === 'o:tag') form[member] = [form[member] ?? [], decoded].flat();
    else form[member] ??= value;
  }
  const whole = Buffer.concat([Buffer.from(head, 'latin1'), bytes.subarray(end)]);
  return { ...readMessage(form), message: whole.toString('base64') };
}

const MOST_HEAD = 64 * 1024;

const bare = (address: JsonValue): string => /<([^<>]+)>\s*$/.exec(textOf(address))?.[1] ?? textOf(address);

/** Makes a mail of its own for each addressee, whose values replace `%recipient.name%`. */
function forEach(shared: JsonObject, to: readonly JsonValue[], values: JsonObject): JsonObject {
  const { cc, bcc, ...rest } = shared;
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
  authorization(header) {
    const basic = /^basic +([\w+/=-]+)$/i.exec(header('authorization') ?? '')?.[1];
    if (basic === undefined) return header('authorization');
    return `Bearer ${Buffer.from(basic, 'base64')
      .toString()
      .replace(/^[^:]*:/, '')}`;
  },
  forms: {
    message: readMessage,
    mime: readMime,
    entries: (form) => ({
      entries: Array.isArray(form['list']) ? readEach(form['list'], entry, 'list') : [readMembers(lasts(form), entry)],
    }),
  },
  readForm,
  requests: [
    { ...send, path: '/v3/{domain}/messages', form: 'message' },
    { ...send, path: '/v3/{domain}/messages.mime', form: 'mime' },
    { method: 'GET', path: '/v3/{domain}/events', operation: 'listEvents', run: listEvents },
    { method: 'GET', path: '/v3/{domain}/events/{page}', operation: 'listEvents', run: listEvents },
    { method: 'GET', path: LIST, operation: 'listSuppressions', run: list },
    { method: 'POST', path: LIST, operation: 'createSuppression', form: 'entries', run: add },
    {
      method: 'GET',
      path: `${LIST}/{address}`,
      operation: 'listSuppressions',
      run: async (call) => answer(entryOf(await entryAt(call))),
    },
    {
      method: 'DELETE',
      path: `${LIST}/{address}`,
      operation: 'deleteSuppression',
      run: async (call) => {
        const { email } = await entryAt(call);
        await call.ask('deleteSuppression', { params: { email: String(email) } });
        return answer({ message: 'The address has been removed', address: email });
      },
    },
  ],
  problem: ({ message, status }) => ({ status: status === 409 ? 400 : status, body: { message } }),
};
