/** Requests of programs that were written for Postmark. */
import { Problem, type ProblemCode } from '../../base/problem.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { ForeignCall, Members, Params, Service, Told } from './foreign.ts';
import {
  answer,
  mailboxesAs,
  filesBy,
  ignored,
  listAt,
  mailbox,
  never,
  pairsOf,
  readEach,
  readMembers,
  textOf,
  textsOf,
  withLinks,
  wrong,
} from './members.ts';
import { faultOf } from './postmark-faults.ts';
import { partOf, readAll, refuseOthers, wholeList, type SeenEvent } from './lists.ts';

/** The stream that every account there has from the start. */
const streamOf = (theirs: string): string => (theirs === 'outbound' ? 'transactional' : theirs);

const attachment: Members = {
  Name: 'filename',
  Content: 'content',
  ContentType: 'content_type',
  ContentID: (value, out) => (out['content_id'] = textOf(value).replace(/^cid:/i, '')),
  ContentLength: ignored,
  Disposition: 'disposition',
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
    if (value === 'TextOnly') throw wrong(field, 'is not done here: only links of html are counted');
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
  ...withLinks(readMembers(value, email, where)),
});

const readBatch = (list: JsonValue): JsonObject => ({
  recipients: listAt(list, 'Messages').map((one, index) => readEmail(one, `Messages[${String(index)}]`)),
  allow_duplicates: true,
});

const addresses: Members = {
  Suppressions: (value, out, field) =>
    (out['emails'] = readEach(value, { EmailAddress: 'email' }, field).map((one) => textOf(one['email']))),
};

const submitted = (one: Told, at: string): object => ({
  To: one['to'],
  ...(Array.isArray(one['cc']) && one['cc'].length > 0 ? { Cc: one['cc'].join(', ') } : {}),
  ...(Array.isArray(one['bcc']) && one['bcc'].length > 0 ? { Bcc: one['bcc'].join(', ') } : {}),
  SubmittedAt: at,
  MessageID: one['id'],
  ErrorCode: 0,
  Message: 'OK',
});

const ofBatch = {
  reply: ({ data, created_at: at }: Told) =>
    answer(
      (data as { to: string | null; id: string; error: { code: ProblemCode; message: string } | null }[]).map((one) =>
        one.error === null
          ? submitted(one, String(at))
          : { ...(one.to === null ? {} : { To: one.to }), ...faultOf(one.error.code, one.error.message, 400) },
      ),
    ),
  refused(problem: Problem, { body: { recipients } }: { body: JsonObject }): Reply | null {
    if (problem.code !== 'no_valid_recipients' || !Array.isArray(recipients) || recipients.length === 0) return null;
    return answer(recipients.map(() => faultOf('invalid_field', problem.message, 400)));
  },
};

/** The members that records of a mail and of a bounce have. */
const common = (one: Told): object => ({
  MessageID: one['id'],
  Tag: (one['tags'] as string[])[0] ?? '',
  From: one['from'],
  Subject: one['subject'],
  MessageStream: one['stream'] === 'transactional' ? 'outbound' : one['stream'],
});

const shown = (one: Told): object => {
  const [to, cc, bcc] = [[one['to']], one['cc'], one['bcc']] as unknown[][];
  return {
    ...common(one),
    To: to?.map(mailbox),
    Cc: cc?.map(mailbox),
    Bcc: bcc?.map(mailbox),
    Recipients: [...(to ?? []), ...(cc ?? []), ...(bcc ?? [])],
    ReceivedAt: one['created_at'],
    Attachments: [],
    Status: one['status'] === 'queued' || one['status'] === 'scheduled' ? 'Queued' : 'Sent',
    TrackOpens: one['track_opens'],
    TrackLinks: one['track_clicks'] === true ? 'HtmlOnly' : 'None',
    Metadata: one['metadata'],
    Sandboxed: one['test'],
  };
};

/** Their words for events, if they are others than ours. */
const eventNames: Params = {
  deferred: 'Transient',
  clicked: 'LinkClicked',
  complained: 'SpamComplaint',
  unsubscribed: 'SubscriptionChanged',
};

/** Acceptance of a mail is not an event there. */
const eventOf = ({ type, timestamp, data }: SeenEvent): object[] =>
  type === 'sent'
    ? []
    : [
        {
          Recipient: data['recipient'],
          Type: eventNames[type] ?? type.replace(/^./, (first) => first.toUpperCase()),
          ReceivedAt: timestamp,
          Details: data[type] ?? {},
        },
      ];

const details = (one: Told): Reply =>
  answer({ ...shown(one), MessageEvents: (one['events'] as SeenEvent[]).flatMap(eventOf) });

const page = { size: 'count', usual: 100, most: 500 };

async function listMessages(call: ForeignCall): Promise<Reply> {
  refuseOthers(call.query, ['count', 'offset', 'recipient', 'fromEmail', 'tag', 'subject', 'messageStream']);
  const { recipient: to, fromEmail: from, tag, subject, messageStream: theirs } = call.query;
  const filter = { to, from, tag, subject, stream: theirs === undefined ? theirs : streamOf(theirs) };
  const { data, total } = await partOf(call, 'listMessages', filter, page);
  return answer({ TotalCount: total, Messages: data.map(shown) });
}

const bounceTypes: Readonly<Record<string, readonly [type: string, code: number, words: string]>> = {
  hard: ['HardBounce', 1, 'Hard bounce'],
  soft: ['SoftBounce', 4096, 'Soft bounce'],
  block: ['Blocked', 100006, 'ISP block'],
  complained: ['SpamComplaint', 100001, 'Spam complaint'],
};

const BOUNCE = { type: 'bounced', data: {} };

/** A mail that bounced has one bounce, which goes by the mail's id. */
async function bounceOf({ ask }: ForeignCall, one: Told): Promise<object> {
  const filter = { message_id: String(one['id']), type: 'bounced,complained', after: 'start' };
  const [event] = (await readAll(ask, 'listEvents', filter, { most: 1 })).data as unknown as SeenEvent[];
  const { type, timestamp, data }: SeenEvent = event ?? { ...BOUNCE, timestamp: String(one['status_at']) };
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
  refuseOthers(call.query, ['count', 'offset', 'emailFilter', 'tag']);
  const filter = { status: 'bounced,complained', to: call.query['emailFilter'], tag: call.query['tag'] };
  const { data, total } = await partOf(call, 'listMessages', filter, page);
  const found: object[] = [];
  for (const one of data) found.push(await bounceOf(call, one));
  return answer({ TotalCount: total, Bounces: found });
}

const getBounce = async (call: ForeignCall): Promise<Reply> =>
  answer(await bounceOf(call, await call.ask('getMessage', { params: call.params })));

const reasons: Params = { hard_bounce: 'HardBounce', complaint: 'SpamComplaint' };

async function dump({ ask, query, params: { stream = '' } }: ForeignCall): Promise<Reply> {
  refuseOthers(query, ['count', 'offset', 'emailAddress']);
  const wanted = ({ scope }: Told): boolean => scope === 'account' || scope === `stream:${streamOf(stream)}`;
  const data = await wholeList(ask, 'listSuppressions', { email: query['emailAddress'] }, wanted);
  return answer({
    Suppressions: data.map((one) => ({
      EmailAddress: one['email'],
      SuppressionReason: reasons[String(one['reason'])] ?? 'ManualSuppression',
      Origin: one['created_by'] === 'recipient' || one['reason'] === 'complaint' ? 'Recipient' : 'Customer',
      CreatedAt: one['created_at'],
    })),
  });
}

/** The result for one address. */
const changed = (email: string, done: string, why: string | null): object => ({
  EmailAddress: email,
  Status: why === null ? done : 'Failed',
  Message: why,
});

async function suppress({ ask, body, params: { stream = '' } }: ForeignCall): Promise<Reply> {
  const { data } = await ask('createSuppression', { body: { ...body, stream: streamOf(stream) } });
  return answer({
    Suppressions: (data as { email: string; error: { message: string } | null }[]).map((one) =>
      changed(one.email, 'Suppressed', one.error?.message ?? null),
    ),
  });
}

/** Reactivates addresses: entries of the whole account are removed as well, since a bounce makes one. */
async function reactivate({ ask, body }: ForeignCall): Promise<Reply> {
  const done: object[] = [];
  for (const email of (body['emails'] ?? []) as string[]) {
    const why = await ask('deleteSuppression', { params: { email } }).catch((error: unknown) => {
      if (error instanceof Problem && error.status < 500) return error;
      throw error;
    });
    done.push(changed(email, 'Deleted', why instanceof Problem && why.code !== 'not_found' ? why.message : null));
  }
  return answer({ Suppressions: done });
}

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
    addresses: (value) => readMembers(value, addresses),
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
