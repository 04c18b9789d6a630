/** Requests of programs that were written for SendGrid. */
import { newId } from '../../base/id.ts';
import { Problem, invalid, missing } from '../../base/problem.ts';
import { quote } from '../../mail/address.ts';
import { isObject, type JsonObject, type JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { ForeignCall, ForeignRequest, Members, Service, Told } from './foreign.ts';
import * as lists from './lists.ts';
import {
  addressTo,
  addTo,
  answer,
  bulk,
  check,
  filesBy,
  finished,
  ignored,
  listAt,
  mergeInto,
  never,
  readEach,
  readMembers,
  textsOf,
  textOf,
  timeOf,
  wordsOf,
  wrong,
} from './members.ts';

/** An address in an object, as one text. Some programs put the name in quotes, as in a header. */
function mailbox(value: JsonValue, field: string): string {
  const { email = '', name } = readMembers(value, { email: 'email', name: 'name' }, field);
  return typeof name === 'string' ? `${quote(name.replace(/^"(.*)"$/, '$1'))} <${textOf(email)}>` : textOf(email);
}

const mailboxes = (value: JsonValue, field: string): string[] =>
  listAt(value, field).map((one, index) => mailbox(one, `${field}[${String(index)}]`));

const attachment: Members = {
  filename: 'filename',
  content: 'content',
  type: 'content_type',
  disposition: 'disposition',
  content_id: 'content_id',
  contentId: 'content_id',
};

/** Members that a mail has, and each of its personalizations too. */
const both: Members = {
  from: (value, out, field) => (out['from'] = mailbox(value, field)),
  subject: 'subject',
  headers: 'headers',
  custom_args: (value, out, field) => mergeInto(out, 'metadata', textsOf(value, field)),
  send_at: (value, out) => (out['send_at'] = timeOf(value)),
};

/** `substitutions` are read apart, since they change the texts of the mail. */
const personalization: Members = {
  ...both,
  to: (value, out, field) => {
    addressTo(out, mailboxes(value, field));
  },
  cc: (value, out, field) => {
    addTo(out, 'cc', mailboxes(value, field));
  },
  bcc: (value, out, field) => (out['bcc'] = mailboxes(value, field)),
  dynamic_template_data: 'variables',
  substitutions: ignored,
};

const enabled = (value: JsonValue): boolean => isObject(value) && value['enable'] === true;

const tracking: Members = {
  click_tracking: (value, out) => (out['track_clicks'] = enabled(value)),
  open_tracking: (value, out) => (out['track_opens'] = enabled(value)),
  subscription_tracking: (value, out, field) => {
    if (isObject(value) && typeof value['substitution_tag'] === 'string')
      throw wrong(`${field}.substitution_tag`, 'has no counterpart here: write `{{unsubscribe_url}}` into the text');
    if (enabled(value)) out['unsubscribe'] = true;
  },
  ganalytics: never('links get no further parameters'),
};

const settings: Members = {
  sandbox_mode: (value, out) => (out['test'] = enabled(value)),
  bypass_list_management: never('the suppression list holds for all mail'),
  bypass_bounce_management: never('the suppression list holds for all mail'),
  bypass_spam_management: never('the suppression list holds for all mail'),
  bypass_unsubscribe_management: never('the suppression list holds for all mail'),
  footer: never('write it into the text'),
  spam_check: never('mail is not rated'),
  bcc: never('give `bcc`'),
};

const types: Readonly<Record<string, string>> = { 'text/plain': 'text', 'text/html': 'html' };

const mail: Members = {
  ...both,
  personalizations: ignored,
  reply_to: (value, out, field) => (out['reply_to'] = mailbox(value, field)),
  reply_to_list: (value, out, field) => (out['reply_to'] = mailboxes(value, field)),
  content: (value, out, field) => {
    for (const { type = '', value: text = '' } of readEach(value, { type: 'type', value: 'value' }, field)) {
      const name = types[textOf(type)];
      if (name === undefined) throw wrong(`${field}.type`, 'must be text/plain or text/html');
      out[name] = text;
    }
  },
  attachments: filesBy(attachment),
  template_id: 'template_id',
  categories: 'tags',
  batch_id: (value, out) => mergeInto(out, 'metadata', { [BATCH]: textOf(value) }),
  asm: (_, out) => (out['unsubscribe'] = true),
  tracking_settings: (value, out, field) => Object.assign(out, readMembers(value, tracking, field)),
  mail_settings: (value, out, field) => Object.assign(out, readMembers(value, settings, field)),
  ip_pool_name: ignored,
};

/** The key of metadata that has the id of a scheduled group. */
const BATCH = 'batch_id';

/** One personalization is a mail; several are a bulk send, of which a faulty entry refuses all, as there. */
function readMail(value: JsonObject): JsonObject {
  const shared = finished(readMembers(value, mail));
  const given = listAt(value['personalizations'] ?? [], 'personalizations');
  if (given.length === 0) throw missing('personalizations', '`personalizations` is missing.');
  const entries = given.map((one, index) => {
    const field = `personalizations[${String(index)}]`;
    const words =
      isObject(one) && one['substitutions'] != null ? textsOf(one['substitutions'], `${field}.substitutions`) : {};
    return {
      out: readMembers(one, personalization, field),
      words: new Map(Object.entries(words) as [string, string][]),
    };
  });
  const all = bulk(shared, entries);
  const [first, ...others] = entries.map(({ out }) => out);
  if (others.length > 0 || first === undefined) return all;
  const whole = { ...shared, ...first };
  for (const name of ['headers', 'metadata'])
    if (shared[name] !== undefined)
      whole[name] = { ...(shared[name] as JsonObject), ...(first[name] as JsonObject | undefined) };
  return whole;
}

const entryOf = (one: Told): object => ({
  created: lists.seconds(one['created_at']),
  email: one['email'],
  reason: one['note'] ?? '',
  status: '',
});

/** The requests of a list whose entries have this reason here. */
const listRequests = (name: string, reason: string): ForeignRequest[] =>
  lists.listRequests(`/v3/suppression/${name}`, reason, {
    async list(call) {
      const { data } = await lists.partOf(call, 'listSuppressions', {
        size: 'limit',
        filters: { email: 'email', start_time: ['created_after', timeOf], end_time: ['created_before', timeOf] },
        filter: { reason },
      });
      return answer(data.map(entryOf));
    },
    shown: (one) => answer(one === null ? [] : [entryOf(one)]),
    removed: () => gone,
  });

/** Cancels the mails of a scheduled group. One that no mail has is refused: its id is most likely a wrong one. */
async function cancel({ ask, body }: ForeignCall): Promise<Reply> {
  const group = body[BATCH] ?? null;
  if (group === null) throw missing(BATCH, '`batch_id` is missing.');
  const filter = { [`metadata[${BATCH}]`]: textOf(group) };
  const { data, hasMore } = await lists.readAll(
    ask,
    'listMessages',
    { ...filter, status: 'scheduled' },
    { most: 1000 },
  );
  if (data.length === 0 && (await lists.pageOf(ask, 'listMessages', { ...filter, limit: '1' })).data.length === 0)
    throw invalid(BATCH, 'No mail has this `batch_id`.');
  for (const { id } of data) await ask('cancelMessage', { params: { id: String(id) } });
  if (hasMore)
    throw new Problem('invalid_state', 'The group has more than 1,000 mails. Cancel it again for the others.');
  return answer({ batch_id: group, status: 'cancel' }, 201);
}

/** The id of a group is any text here, so that none is kept. Who sends may ask for one. */
const group = (id: string, status: number): Promise<Reply> => Promise.resolve(answer({ batch_id: id }, status));

const inWords = wordsOf('personalizations', { tags: 'categories', variables: 'dynamic_template_data' });

const GLOBAL = '/v3/asm/suppressions/global';
const gone: Reply = { status: 204, body: null };

export const sendgrid: Service = {
  name: 'sendgrid',
  authorization: (header) => header('authorization'),
  forms: {
    mail: readMail,
    entries: (value) => ({ ...readMembers(value, { recipient_emails: 'emails' }), reason: 'unsubscribe' }),
    cancel: (value) =>
      readMembers(value, {
        batch_id: BATCH,
        status: (status, _, field) => check(status === 'cancel', field, 'must be `cancel`: a group is not paused here'),
      }),
  },
  requests: [
    {
      method: 'POST',
      path: '/v3/mail/send',
      operation: 'sendMessage',
      form: 'mail',
      reply: ({ id }) => ({ status: 202, body: null, headers: { 'X-Message-Id': String(id) } }),
    },
    {
      method: 'POST',
      path: '/v3/user/scheduled_sends',
      operation: 'cancelMessage',
      form: 'cancel',
      status: 201,
      run: cancel,
    },
    {
      method: 'POST',
      path: '/v3/mail/batch',
      operation: 'getMessage',
      status: 201,
      run: ({ now }) => group(newId('bat', now), 201),
    },
    {
      method: 'GET',
      path: '/v3/mail/batch/{id}',
      operation: 'getMessage',
      run: ({ params }) => group(params['id'] ?? '', 200),
    },
    ...listRequests('bounces', 'hard_bounce'),
    ...listRequests('spam_reports', 'complaint'),
    ...listRequests('unsubscribes', 'unsubscribe'),
    ...lists.listRequests(GLOBAL, 'unsubscribe', {
      added: 201,
      async add({ ask, body }) {
        await ask('createSuppression', { body });
        return answer({ recipient_emails: body['emails'] ?? [] }, 201);
      },
      shown: (one, address) => answer(one === null ? {} : { recipient_email: address }),
      removed: () => gone,
    }),
  ],
  problem({ message, field, status }) {
    const theirs = status === 409 ? 400 : status;
    const fault = { message: inWords(message), field: field === null ? null : inWords(field), help: null };
    return { status: theirs, body: { errors: [fault] } };
  },
};
