/** Requests of programs that were written for Postmark. */
import addressparser from 'nodemailer/lib/addressparser';
import { Problem, type ProblemCode } from '../../base/problem.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { ForeignCall, Members, Params, Service, Told } from './foreign.ts';
import * as lists from './lists.ts';
import {
  answer,
  bulk,
  check,
  entriesIn,
  filesBy,
  finished,
  ignored,
  mailboxesAs,
  never,
  pairsOf,
  readEach,
  readMembers,
  textOf,
  textsOf,
  wordsOf,
} from './members.ts';

/** Our codes by theirs. */
const codes: Readonly<Record<number, readonly ProblemCode[]>> = {
  10: ['missing_api_key', 'invalid_api_key', 'key_expired', 'key_revoked', 'insufficient_scope'],
  400: ['domain_not_verified', 'domain_not_allowed'],
  402: ['invalid_json'],
  405: ['sending_paused', 'quota_exceeded'],
  406: ['recipient_suppressed'],
  1101: ['unknown_template'],
  1109: ['template_render_failed', 'missing_variable'],
  1226: ['unknown_stream'],
};

const INACTIVE =
  'You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: %. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.';

const capitals = (text: string): string =>
  text.replaceAll(/(?:^|_)([a-z])/g, (_, first: string) => first.toUpperCase());
const names = { html: 'HtmlBody', text: 'TextBody', tags: 'Tag', stream: 'MessageStream', variables: 'TemplateModel' };
const inWords = wordsOf('Messages', names, capitals);
function faultOf(code: ProblemCode, message: string, status: number): { ErrorCode: number; Message: string } {
  const known = Object.keys(codes).find((theirs) => codes[Number(theirs)]?.includes(code));
  const address = code === 'recipient_suppressed' ? /[^\s"`<>]+@[^\s"`<>]*[^\s"`<>.,:]/.exec(message)?.[0] : undefined;
  return {
    ErrorCode: Number(known ?? (status >= 429 ? status : status === 404 ? 701 : 300)),
    Message: address === undefined ? inWords(message) : INACTIVE.replace('%', address),
  };
}

/** The stream that every account there has from the start. */
const streamOf = (theirs: string): string => (theirs === 'outbound' ? 'transactional' : theirs);

const attachment: Members = {
  Name: 'filename',
  Content: 'content',
  ContentType: 'content_type',
  ContentID: (value, out) => (out['content_id'] = textOf(value).replace(/^cid:/i, '')),
  ContentLength: ignored,
};

const email: Members = {
  From: 'from',
  To: mailboxesAs('to'),
  Cc: mailboxesAs('cc'),
  Bcc: mailboxesAs('bcc'),
  ReplyTo: mailboxesAs('reply_to'),
  Subject: 'subject',
  HtmlBody: 'html',
  TextBody: 'text',
  Tag: (value, out) => (out['tags'] = [value]),
  Metadata: (value, out, field) => (out['metadata'] = textsOf(value, field)),
  Headers: (value, out, field) => (out['headers'] = pairsOf(value, 'Name', 'Value', field)),
  TrackOpens: 'track_opens',
  TrackLinks: (value, out, field) => {
    check(value !== 'TextOnly', field, 'is not done here: only links of html are counted');
    out['track_clicks'] = value !== 'None';
  },
  MessageStream: (value, out) => (out['stream'] = streamOf(textOf(value))),
  TemplateId: (value, out) => (out['template_id'] = textOf(value)),
  TemplateAlias: 'template_id',
  TemplateModel: 'variables',
  InlineCss: never('styles are sent as they are'),
  Attachments: filesBy(attachment),
};

/** Mail to an address on the list is refused there. */
const readEmail = (value: JsonValue, where = ''): JsonObject => ({
  on_suppressed: 'reject',
  ...finished(readMembers(value, email, where)),
});

const readBatch = (list: JsonValue): JsonObject =>
  bulk(
    {},
    entriesIn(list, 'Messages', (one, at) => readEmail(one, `Messages${at}`)),
    'skip',
  );

const submitted = (one: Told, at: string): object => ({
  To: one['to'],
  SubmittedAt: at,
  MessageID: one['id'],
  ErrorCode: 0,
  Message: 'OK',
});

const ofBatch = {
  reply: ({ data, created_at: at }: Told) =>
    answer(
      (data as lists.BatchEntry[]).map(({ error, ...one }) => ({
        ...submitted(one, String(at)),
        ...(error === null ? {} : faultOf(error.code, error.message, 400)),
      })),
    ),
};

/** The members that records of a mail and of a bounce have. */
const common = (one: Told): object => ({
  MessageID: one['id'],
  Tag: (one['tags'] as string[])[0] ?? '',
  From: one['from'],
  Subject: one['subject'],
  MessageStream: one['stream'] === 'transactional' ? 'outbound' : one['stream'],
});

const mailboxes = (texts: unknown): object[] =>
  addressparser(String(texts), { flatten: true }).map(({ address, name }) => ({ Email: address, Name: name }));

const shown = (one: Told): object => ({
  ...common(one),
  To: mailboxes(one['to']),
  Cc: mailboxes(one['cc']),
  Bcc: mailboxes(one['bcc']),
  Recipients: [one['to'], one['cc'], one['bcc']].flat(),
  ReceivedAt: one['created_at'],
  Attachments: [],
  Status: one['status'] === 'queued' || one['status'] === 'scheduled' ? 'Queued' : 'Sent',
  TrackOpens: one['track_opens'],
  TrackLinks: one['track_clicks'] === true ? 'HtmlOnly' : 'None',
  Metadata: one['metadata'],
  Sandboxed: one['test'],
});

const bounceTypes: Readonly<Record<string, readonly [type: string, code: number, words: string]>> = {
  hard: ['HardBounce', 1, 'Hard bounce'],
  soft: ['SoftBounce', 4096, 'Soft bounce'],
  block: ['Blocked', 100006, 'ISP block'],
  complained: ['SpamComplaint', 100001, 'Spam complaint'],
};

/** Their words for other events, if they are others than ours. */
const eventNames: Params = { deferred: 'Transient', clicked: 'LinkClicked', unsubscribed: 'SubscriptionChanged' };

const eventOf = ({ type, timestamp, data }: lists.SeenEvent): object => ({
  Recipient: data['recipient'],
  Type: bounceTypes[type]?.[0] ?? eventNames[type] ?? capitals(type),
  ReceivedAt: timestamp,
  Details: data[type] ?? {},
});

/** Acceptance of a mail is not an event there. */
const details = (one: Told): Reply => {
  const events = (one['events'] as lists.SeenEvent[]).filter(({ type }) => type !== 'sent');
  return answer({ ...shown(one), MessageEvents: events.map(eventOf) });
};

async function listMessages(call: ForeignCall): Promise<Reply> {
  const { data, total } = await lists.partOf(call, 'listMessages', {
    size: 'count',
    filters: {
      recipient: 'to',
      fromEmail: 'from',
      tag: 'tag',
      subject: 'subject',
      messageStream: ['stream', streamOf],
    },
  });
  return answer({ TotalCount: total, Messages: data.map(shown) });
}

const nothing: Told = {};

/** A mail that bounced has one bounce, which goes by the mail's id. */
async function bounceOf({ ask }: ForeignCall, one: Told): Promise<object> {
  const filter = { message_id: String(one['id']), type: 'bounced,complained', after: 'start' };
  const [event] = (await lists.readAll(ask, 'listEvents', filter, { most: 1 })).data as unknown as lists.SeenEvent[];
  const { type, timestamp, data } = event ?? { type: 'bounced', timestamp: one['status_at'], data: nothing };
  const detail = (data[type] ?? {}) as Told;
  const [name, code, words] = bounceTypes[textOf(detail['class'] ?? type)] ?? ['Unknown', 2048, 'Undetermined'];
  return {
    ...common(one),
    RecordType: 'Bounce',
    ID: one['id'],
    Type: name,
    TypeCode: code,
    Name: words,
    Description: detail['reason'] ?? '',
    Details: detail['smtp_reply'] ?? '',
    Email: data['recipient'] ?? one['to'],
    BouncedAt: timestamp,
    DumpAvailable: false,
    Inactive: detail['suppression_added'] ?? false,
    CanActivate: type !== 'complained',
  };
}

async function listBounces(call: ForeignCall): Promise<Reply> {
  const { data, total } = await lists.partOf(call, 'listMessages', {
    size: 'count',
    filters: { emailFilter: 'to', tag: 'tag' },
    filter: { status: 'bounced,complained' },
  });
  const found: object[] = [];
  for (const one of data) found.push(await bounceOf(call, one));
  return answer({ TotalCount: total, Bounces: found });
}

const getBounce = async (call: ForeignCall): Promise<Reply> =>
  answer(await bounceOf(call, await call.ask('getMessage', { params: call.params })));

const reasons: Params = { hard_bounce: 'HardBounce', complaint: 'SpamComplaint' };

async function dump(call: ForeignCall): Promise<Reply> {
  const scopes = ['account', `stream:${streamOf(call.params['stream'] ?? '')}`];
  const part = { size: 'count', most: 10_000, filters: { emailAddress: 'email' } } as const;
  const { data, total } = await lists.partOf(call, 'listSuppressions', part);
  if (total > data.length) throw new Problem('invalid_state', 'The list is too long: read it with the API, in pages.');
  const wanted = data.filter(({ scope }) => scopes.includes(String(scope)));
  return answer({
    Suppressions: wanted.map((one) => ({
      EmailAddress: one['email'],
      SuppressionReason: reasons[String(one['reason'])] ?? 'ManualSuppression',
      Origin: one['created_by'] === 'recipient' || one['reason'] === 'complaint' ? 'Recipient' : 'Customer',
      CreatedAt: one['created_at'],
    })),
  });
}

/** Changes the entries of addresses one by one, and says what became of each. */
async function changed({ body }: ForeignCall, done: string, change: (email: string) => Promise<Told>): Promise<Reply> {
  const results: object[] = [];
  for (const email of (body['emails'] ?? []) as string[]) {
    const fault = await change(email).catch((error: unknown) => {
      if (error instanceof Problem && error.status < 500) return error;
      throw error;
    });
    const why = fault instanceof Problem && fault.code !== 'not_found' ? fault.message : null;
    results.push({ EmailAddress: email, Status: why === null ? done : 'Failed', Message: why });
  }
  return answer({ Suppressions: results });
}

const suppress = (call: ForeignCall): Promise<Reply> => {
  const stream = streamOf(call.params['stream'] ?? '');
  return changed(call, 'Suppressed', (email) => call.ask('createSuppression', { body: { email, stream } }));
};

/** Entries of the whole account are removed as well, since a bounce makes one. */
const reactivate = (call: ForeignCall): Promise<Reply> =>
  changed(call, 'Deleted', (email) => call.ask('deleteSuppression', { params: { email } }));

const LIST = '/message-streams/{stream}/suppressions';
const ofEmail = { reply: (one: Told) => answer(submitted(one, String(one['created_at']))) };
const send = { method: 'POST', operation: 'sendMessage' } as const;

export const postmark: Service = {
  name: 'postmark',
  authorization: (header) => header('x-postmark-server-token')?.replace(/^/, 'Bearer '),
  forms: {
    email: (value) => readEmail(value),
    batch: ({ list = [] }) => readBatch(list),
    templates: ({ Messages = [] }) => readBatch(Messages),
    addresses: ({ Suppressions = [] }) => ({
      emails: readEach(Suppressions, { EmailAddress: 'email' }, 'Suppressions').map(({ email: one }) => textOf(one)),
    }),
  },
  requests: [
    { ...send, path: '/email', form: 'email', ...ofEmail },
    { ...send, path: '/email/withTemplate', form: 'email', ...ofEmail },
    { ...send, path: '/email/batch', form: 'batch', ...ofBatch },
    { ...send, path: '/email/batchWithTemplates', form: 'templates', ...ofBatch },
    { method: 'GET', path: '/messages/outbound', operation: 'listMessages', run: listMessages },
    { method: 'GET', path: '/messages/outbound/{id}/details', operation: 'getMessage', reply: details },
    { method: 'GET', path: '/bounces', operation: 'listMessages', run: listBounces },
    { method: 'GET', path: '/bounces/{id}', operation: 'getMessage', run: getBounce },
    { method: 'GET', path: `${LIST}/dump`, operation: 'listSuppressions', run: dump },
    { method: 'POST', path: LIST, operation: 'createSuppression', form: 'addresses', run: suppress },
    { method: 'POST', path: `${LIST}/delete`, operation: 'deleteSuppression', form: 'addresses', run: reactivate },
  ],
  problem({ code, message, status }) {
    const theirs = status === 403 || status === 409 || (status === 400 && code !== 'invalid_json') ? 422 : status;
    return { status: code === 'insufficient_scope' ? 401 : theirs, body: faultOf(code, message, status) };
  },
};
