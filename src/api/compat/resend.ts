/** Requests of programs that were written for Resend. */
import { idTime, MOST_AHEAD_MS } from '../../base/id.ts';
import { Problem } from '../../base/problem.ts';
import type { ProblemCode } from '../../base/problem.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../base/time.ts';
import { decodeWords } from '../../mail/charset.ts';
import { isObject, type JsonObject, type JsonValue } from '../json.ts';
import type { ForeignBody, ForeignCall, Members, Service, Told } from './foreign.ts';
import {
  addressTo,
  addTo,
  answer,
  bulk,
  entriesIn,
  filesBy,
  finished,
  mergeInto,
  objectIn,
  pairsOf,
  readMembers,
  textOf,
  timeOf,
  wordsOf,
  wrong,
} from './members.ts';
import { numberIn, readAll, refuseOthers, type BatchEntry } from './lists.ts';

const attachment: Members = {
  filename: 'filename',
  content: (value, out) => (out['content'] = isObject(value) ? bytesOf(value) : value),
  path: (_, __, field) => {
    throw wrong(field, 'is an address, and files are not fetched: give `content`');
  },
  content_type: 'content_type',
  contentType: 'content_type',
  type: 'content_type',
  content_id: 'content_id',
  contentId: 'content_id',
  inline_content_id: 'content_id',
};

/** A Buffer of Node.js that became JSON. */
const bytesOf = ({ data }: JsonObject): JsonValue =>
  Array.isArray(data) ? Buffer.from(data as number[]).toString('base64') : '';

/** Some programs encode names as in a header. */
const namesDecoded = (value: JsonValue): JsonValue[] =>
  [value].flat().map((one) => (typeof one === 'string' ? decodeWords(one) : one));

/** Some programs give a header several values, or Reply-To as a header too. */
function headers(value: JsonValue, out: JsonObject, field: string): void {
  for (const [name, one] of Object.entries(objectIn(value, field)))
    if (name.toLowerCase() === 'reply-to') out['reply_to'] ??= one;
    else mergeInto(out, 'headers', { [name]: Array.isArray(one) ? one.map(textOf).join(', ') : one });
}

const email = (now: number): Members => ({
  from: 'from',
  to: (value, out) => addressTo(out, namesDecoded(value)),
  cc: (value, out) => addTo(out, 'cc', namesDecoded(value)),
  bcc: (value, out) => (out['bcc'] = namesDecoded(value)),
  reply_to: 'reply_to',
  replyTo: 'reply_to',
  subject: 'subject',
  html: 'html',
  text: 'text',
  headers,
  attachments: filesBy(attachment),
  tags: (value, out, field) => (out['metadata'] = pairsOf(value, 'name', 'value', field)),
  scheduled_at: (value, out, field) => (out['send_at'] = scheduled(value, now, field)),
  scheduledAt: (value, out, field) => (out['send_at'] = scheduled(value, now, field)),
  template: (value, out, field) => {
    Object.assign(out, readMembers(value, { id: 'template_id', variables: 'variables' }, field));
  },
});

const UNITS = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS } as const;

/** Reads a time, or the service's plain English for one: `in 1 min`. */
function scheduled(value: JsonValue, now: number, field: string): JsonValue {
  const [, count = '', unit = ''] =
    /^in (\d{1,6}|an?|one) (m(?=in)|h(?=our|r)|d(?=ay))/i.exec(textOf(value).trim()) ?? [];
  if (unit === '') {
    if (Number.isNaN(Date.parse(textOf(value)))) throw wrong(field, 'must be a date, or such as `in 2 hours`');
    return timeOf(value);
  }
  const steps = /^\d/.test(count) ? Number(count) : 1;
  return new Date(now + steps * UNITS[unit.toLowerCase() as keyof typeof UNITS]).toISOString();
}

const readEmail = (value: JsonValue, now: number, where = ''): JsonObject =>
  finished(readMembers(value, email(now), where));

function readBatch({ list = [] }: JsonObject, { headers, now }: ForeignBody): JsonObject {
  const entries = entriesIn(list, 'body', (one, at) => readEmail(one, now, at));
  return bulk({}, entries, headers['x-batch-validation'] === 'permissive' ? 'skip' : 'abort');
}

/** Their words for our statuses. */
const lastEvents: Readonly<Record<string, string>> = { deferred: 'delivery_delayed', suppressed: 'suppressed' };

const lastEventOf = ({ status, engagement }: Told): string => {
  const { clicks = 0, opens = 0 } = (engagement ?? {}) as { clicks?: number; opens?: number };
  if (status !== 'delivered') return lastEvents[String(status)] ?? String(status);
  return clicks > 0 ? 'clicked' : opens > 0 ? 'opened' : 'delivered';
};

const shown = (one: Told): object => ({
  id: one['id'],
  message_id: one['rfc_message_id'],
  to: [one['to']],
  from: one['from'],
  created_at: one['created_at'],
  subject: one['subject'],
  bcc: one['bcc'],
  cc: one['cc'],
  reply_to: one['reply_to'],
  last_event: lastEventOf(one),
  scheduled_at: one['send_at'],
});

const whole = (one: Told): object => ({
  object: 'email',
  ...shown(one),
  html: null,
  text: null,
  tags: Object.entries(one['metadata'] as Record<string, string>).map(([name, value]) => ({ name, value })),
});

/** Lists mails, newest first. Ids say where a page begins; those of one millisecond are passed over one by one. */
async function list({ query, ask }: ForeignCall) {
  const { after, before, limit, ...others } = query;
  refuseOthers(others);
  const most = numberIn({ limit }, 'limit', 20, 100);
  const from = before ?? after;
  const at = from === undefined ? null : idTime(from);
  if (from !== undefined && at === null)
    throw new Problem('invalid_parameter', 'This is not the id of a mail.', {
      field: before === undefined ? 'after' : 'before',
    });
  const place =
    at === null
      ? {}
      : before === undefined
        ? { created_before: new Date(at + 1).toISOString() }
        : // Ids may run ahead of the clock.
          { created_after: new Date(at - MOST_AHEAD_MS).toISOString(), sort: 'created_at' };
  const { data, hasMore } = await readAll(ask, 'listMessages', place, {
    most,
    wanted: ({ id }) => from === undefined || (before === undefined ? String(id) < from : String(id) > from),
  });
  return answer({ object: 'list', has_more: hasMore, data: (before === undefined ? data : data.reverse()).map(shown) });
}

const names: Partial<Record<ProblemCode, string>> = {
  missing_api_key: 'missing_api_key',
  invalid_api_key: 'invalid_api_key',
  key_expired: 'invalid_api_key',
  key_revoked: 'invalid_api_key',
  insufficient_scope: 'restricted_api_key',
  domain_not_verified: 'invalid_from_address',
  domain_not_allowed: 'invalid_access',
  invalid_sender: 'invalid_from_address',
  missing_field: 'missing_required_field',
  missing_content: 'missing_required_field',
  invalid_parameter: 'invalid_parameter',
  invalid_attachment: 'invalid_attachment',
  not_found: 'not_found',
  method_not_allowed: 'method_not_allowed',
  rate_limited: 'rate_limit_exceeded',
  quota_exceeded: 'daily_quota_exceeded',
  invalid_idempotency_key: 'invalid_idempotency_key',
  idempotency_key_reused: 'invalid_idempotent_request',
  idempotency_in_progress: 'concurrent_idempotent_requests',
  internal_error: 'application_error',
  service_unavailable: 'application_error',
};

const inWords = wordsOf('', { send_at: 'scheduled_at', template_id: 'template.id', variables: 'template.variables' });

const ofEmail = { reply: ({ id }: Told) => answer({ object: 'email', id }) };

export const resend: Service = {
  name: 'resend',
  authorization: (header) => header('authorization'),
  forms: {
    email: (value, { now }) => readEmail(value, now),
    batch: readBatch,
    move: (value, { now }) =>
      readMembers(value, { scheduled_at: (at, out, field) => (out['send_at'] = scheduled(at, now, field)) }),
  },
  requests: [
    { method: 'POST', path: '/emails', operation: 'sendMessage', form: 'email', reply: ({ id }) => answer({ id }) },
    {
      method: 'POST',
      path: '/emails/batch',
      operation: 'sendMessage',
      form: 'batch',
      reply({ data }, { body }) {
        const entries = data as BatchEntry[];
        const errors = entries.flatMap(({ index, error }) =>
          error === null ? [] : [{ index, message: inWords(error.message) }],
        );
        const sent = { data: entries.flatMap(({ id }) => (id === null ? [] : [{ id }])) };
        return answer(body['on_error'] === 'abort' ? sent : { ...sent, errors });
      },
    },
    { method: 'GET', path: '/emails', operation: 'listMessages', run: list },
    { method: 'GET', path: '/emails/{id}', operation: 'getMessage', reply: (one) => answer(whole(one)) },
    { method: 'PATCH', path: '/emails/{id}', operation: 'updateMessage', form: 'move', ...ofEmail },
    { method: 'POST', path: '/emails/{id}/cancel', operation: 'cancelMessage', ...ofEmail },
  ],
  onMismatch: 'error',
  problem({ code, message, status }) {
    const name = names[code] ?? (status < 500 ? 'validation_error' : 'application_error');
    const theirs = status === 400 && !code.startsWith('invalid_idempotency') ? 422 : status;
    return { status: theirs, body: { statusCode: theirs, message: inWords(message), name } };
  },
};
