/** Requests of programs that were written for Postmark. */
import type { Problem } from '../../base/problem.ts';
import type { ProblemCode } from '../../base/problem.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import {
  addressesOf,
  addressTo,
  addTo,
  answer,
  ignored,
  listAt,
  never,
  pairsOf,
  readEach,
  readMembers,
  textOf,
  textsOf,
  withLinks,
  wrong,
  type Members,
  type Service,
  type Told,
} from './foreign.ts';
import {
  bounceOf,
  details,
  dump,
  listBounces,
  listMessages,
  reactivate,
  streamOf,
  suppress,
} from './postmark-lists.ts';

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
  To: (value, out) => {
    addressTo(out, addressesOf(value));
  },
  Cc: (value, out) => {
    addTo(out, 'cc', addressesOf(value));
  },
  Bcc: (value, out) => (out['bcc'] = addressesOf(value)),
  ReplyTo: (value, out) => (out['reply_to'] = addressesOf(value)),
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
  Attachments: (value, out, field) => (out['attachments'] = readEach(value, attachment, field)),
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

const codes: Partial<Record<ProblemCode, number>> = {
  missing_api_key: 10,
  invalid_api_key: 10,
  key_expired: 10,
  key_revoked: 10,
  insufficient_scope: 10,
  recipient_suppressed: 406,
  domain_not_verified: 400,
  domain_not_allowed: 400,
  sending_paused: 405,
  quota_exceeded: 405,
  unknown_template: 1101,
  template_render_failed: 1109,
  missing_variable: 1109,
  unknown_stream: 1226,
  invalid_json: 402,
  rate_limited: 429,
};

const INACTIVE =
  'You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: %. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.';

/** Their code and text of a fault. */
function faultOf(code: ProblemCode, message: string, status: number): { ErrorCode: number; Message: string } {
  const usual = status >= 500 ? status : status === 404 ? 701 : 300;
  const address = code === 'recipient_suppressed' ? /[^\s"`<>]+@[^\s"`<>]*[^\s"`<>.,:]/.exec(message)?.[0] : undefined;
  return {
    ErrorCode: codes[code] ?? usual,
    Message: address === undefined ? message : INACTIVE.replace('%', address),
  };
}

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

const LIST = '/message-streams/{stream}/suppressions';
const ofEmail = { reply: (one: Told) => answer(submitted(one, String(one['created_at']))) };
const send = { method: 'POST', operation: 'sendMessage' } as const;

export const postmark: Service = {
  name: 'postmark',
  authorization(header) {
    const token = header('x-postmark-server-token');
    return token === undefined ? undefined : `Bearer ${token}`;
  },
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
    {
      method: 'GET',
      path: '/bounces/{id}',
      operation: 'getMessage',
      run: async (call) => {
        const reply = await call.ask('getMessage', { params: call.params });
        return answer(await bounceOf(call, ('body' in reply ? reply.body : {}) as Told));
      },
    },
    { method: 'GET', path: `${LIST}/dump`, operation: 'listSuppressions', run: dump },
    { method: 'POST', path: LIST, operation: 'createSuppression', form: 'addresses', run: suppress },
    { method: 'POST', path: `${LIST}/delete`, operation: 'deleteSuppression', form: 'addresses', run: reactivate },
  ],
  problem({ code, message, status }) {
    const theirs = status === 403 || status === 409 || (status === 400 && code !== 'invalid_json') ? 422 : status;
    return { status: code === 'insufficient_scope' ? 401 : theirs, body: faultOf(code, message, status) };
  },
};
