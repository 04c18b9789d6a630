/** `/v1/messages`: lists messages, and shows one. send.ts sends them. */
import { z } from 'zod';
import { idTime, MOST_AHEAD_MS } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { DAY_MS } from '../base/time.ts';
import { bounceReasons } from '../config/bounce-rule.ts';
import { messageRecord } from '../messages/store/message.ts';
import { LONGEST_REQUEST_MS, type MessageFilter } from '../messages/list/message-filter.ts';
import { nextTries } from '../messages/delivery/why.ts';
import { reasonsOf } from '../messages/list/message-reasons.ts';
import { countMessages, listMessages } from '../messages/list/message-list.ts';
import { attemptsOf, contentOf, recipientsOf } from '../messages/store/message-store.ts';
import { tagSchema } from '../messages/request/send-schema.ts';
import { lastEventsOf } from '../events/event-log.ts';
import { eventRecord } from '../events/event.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows, scopeChallenge } from '../keys/scopes.ts';
import { soughtDomain } from '../mail/address.ts';
import { deliveryStatuses } from '../storage/tables.ts';
import { templateIdOf } from '../templates/template-store.ts';
import type { StoreContext } from './context.ts';
import { pageParameters } from './page.ts';
import { addressParameter, booleanParameter, listParameter, textsParameter, timeParameter } from './query.ts';
import { batchId, Message, MessageDetails, messageId, samples } from './records.ts';
import { namedRecord } from './record-schema.ts';
import { resource } from './resource.ts';
import { type Call, jsonResponse } from './route.ts';
import { noMessage, requireMessage, testFilter } from './test-mode.ts';

const PATH = '/v1/messages';

export const messages = resource({
  path: PATH,
  params: z.object({ id: messageId() }),
  schema: Message,
  reads: 'message:read',
  changes: 'message:cancel',
  type: 'message',
});

const listQuery = z.strictObject({
  ...pageParameters(),
  status: listParameter(deliveryStatuses).optional().describe('Statuses, separated by commas or one by one.'),
  to: addressParameter().optional().describe('Address of any recipient.'),
  to_start: z.string().min(1).max(320).optional().describe('Beginning of the address of any recipient.'),
  to_domain: z
    .string()
    .min(1)
    .max(253)
    .optional()
    .describe('Domain of any recipient; a name without a dot, such as `yahoo`, stands for all its endings.'),
  to_part: z
    .string()
    .min(2)
    .max(320)
    .optional()
    .describe('A part of the address of any recipient; looks 30 days back unless `created_after` says otherwise.'),
  reason: z
    .enum(bounceReasons)
    .optional()
    .describe('Why the last attempt was refused, of messages that are deferred, bounced or failed.'),
  from: addressParameter().optional().describe('Address of the sender.'),
  subject: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('Beginnings of words of the subject; looks 30 days back unless `created_after` says otherwise.'),
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe(
      'A word: the beginning of the address of a recipient, or of a word of the subject. Looks 30 days back unless `created_after` says otherwise.',
    ),
  id_start: z
    .string()
    .regex(/^msg_[0-7]?[0-9a-hjkmnp-tv-z]{0,25}$/)
    .optional()
    .describe('Beginning of the id of the message.'),
  request_id_start: z
    .string()
    .regex(/^req_[0-7][0-9a-hjkmnp-tv-z]{7,24}$/)
    .optional()
    .describe('Beginning of the id of the request, with 8 characters after `req_` at least.'),
  tag: textsParameter(tagSchema, 10)
    .optional()
    .describe('Tags, separated by commas or one by one, which must all be there.'),
  metadata: z
    .record(z.string().max(64), z.string().max(500))
    .optional()
    .describe('`metadata[order]=17`: exact values.'),
  template_id: z.string().max(64).optional().describe('Messages of this template, by its id or alias.'),
  batch_id: batchId().optional().describe('Messages of this bulk send.'),
  stream: z.string().max(32).optional().describe('Messages of this stream.'),
  domain: z.string().max(253).optional().describe('The sending domain.'),
  key_id: z.string().min(1).max(64).optional().describe('Messages sent with this API key, by API or SMTP.'),
  rfc_message_id: z.string().max(998).optional().describe('The Message-ID of the mail, with its brackets or without.'),
  request_id: z
    .string()
    .max(64)
    .optional()
    .describe('The request that the messages came with, as `X-Request-Id` of its answer names it.'),
  event_id: z.string().max(64).optional().describe('The message of this event.'),
  created_after: timeParameter().optional().describe('From this time on.'),
  created_before: timeParameter().optional().describe('Before this time.'),
  opened: booleanParameter().optional().describe('Whether a person has opened it.'),
  clicked: booleanParameter().optional().describe('Whether a person has followed a link of it.'),
  test: booleanParameter().optional().describe('`true` for simulated mail, `false` for real mail.'),
  sort: z.enum(['-created_at', 'created_at']).optional().describe('Newest first (the default) or oldest first.'),
});

const MessageCount = namedRecord('MessageCount', 'How many messages a list has with some filters.', {
  object: z.literal('message_count'),
  count: z.int().describe('The messages that fit, 10,000 at most.'),
  by_status: z
    .partialRecord(z.enum(deliveryStatuses), z.int())
    .describe('The same by status; a status without a message is left out.'),
  has_more: z.boolean().describe('Whether there may be more: the count is then the least number.'),
});

/** How far back a search in subjects and for parts of addresses goes by default, in milliseconds. */
const SUBJECT_SPAN_MS = 30 * DAY_MS;

const list = messages.list(
  {
    operationId: 'listMessages',
    description:
      'Newest first, without bodies. All filters must hold together. `Accept: text/csv` or `application/x-ndjson` sends the whole list.',
    query: listQuery,
    whole: 'messages',
  },
  async (wanted, call: Call<object, z.output<typeof listQuery>, undefined>, { db }) => {
    const newestFirst = call.query.sort !== 'created_at';
    const filter = await filterOf(db, call);
    const { rows, ...page } = await listMessages(db.reader, filter, { newestFirst, ...wanted });
    const reasons = await reasonsOf(db.reader, rows);
    return { ...page, data: rows.map((row) => messageRecord(row, reasons.get(row.id))) };
  },
);

const countQuery = listQuery.omit({ limit: true, after: true, before: true, sort: true });

const count = messages.get(
  {
    path: `${PATH}/count`,
    operationId: 'getMessageCount',
    description:
      'How many messages the list has with these filters, in all and by status. It looks at 10,000 messages at most, the newest: `has_more` says whether there are more, which may fit as well.',
    query: countQuery,
    responses: {
      200: jsonResponse('The count.', MessageCount, 'All were counted', {
        object: 'message_count',
        count: 217,
        by_status: { delivered: 210, bounced: 7 },
        has_more: false,
      }),
    },
  },
  async (call, { db }) => {
    const { byStatus, isMore } = await countMessages(db.reader, await filterOf(db, call));
    return {
      object: 'message_count',
      count: byStatus.reduce((sum, one) => sum + one.count, 0),
      by_status: Object.fromEntries(byStatus.map(({ status, count }) => [status, count])),
      has_more: isMore,
    };
  },
);

const ID_LETTERS = 26;

/** Returns the times in which messages of this request, or of requests whose ids begin like this, were accepted. */
function requestTimes(start: string | undefined): { from: number; until: number } | null {
  if (start === undefined) return null;
  const timeOf = (letter: string): number =>
    idTime(start.padEnd('req_'.length + ID_LETTERS, letter)) ?? Number.MAX_SAFE_INTEGER;
  return { from: timeOf('0') - MOST_AHEAD_MS, until: timeOf('z') + LONGEST_REQUEST_MS };
}

async function filterOf(
  db: StoreContext['db'],
  { now, caller, query }: { now: number; caller: Caller; query: z.output<typeof countQuery> },
): Promise<MessageFilter> {
  const { accountId } = caller;
  const { subject, q, to_part, to_domain, domain, template_id } = query;
  const requested = requestTimes(query.request_id ?? query.request_id_start);
  const isSearch = [subject, q, to_part].some((one) => one !== undefined);
  const usual = requested?.from ?? (isSearch ? now - SUBJECT_SPAN_MS : undefined);
  return {
    ...query,
    accountId,
    to_domain: to_domain === undefined ? undefined : soughtDomain(to_domain),
    domain: domain === undefined ? undefined : soughtDomain(domain),
    template_id:
      template_id === undefined ? undefined : await templateIdOf({ db }, { accountId, idOrAlias: template_id }),
    // Mail programs show it with or without its angle brackets.
    rfc_message_id: query.rfc_message_id?.replace(/^[^<].*$/, '<$&>'),
    created_after: query.created_after ?? usual,
    created_before: query.created_before ?? requested?.until,
    test: testFilter(caller, query.test),
  };
}

const get = messages.get(
  {
    operationId: 'getMessage',
    description:
      'With its recipients, last attempts and last events. A key with only `send` or `campaign` reads what it sent itself.',
    scope: ['message:read', 'send', 'campaign'],
    query: z.strictObject({
      expand: z
        .literal('content')
        .optional()
        .describe('`content` adds the stored body; needs the scope `message:content`.'),
    }),
    responses: { 200: jsonResponse('The message.', MessageDetails, 'A delivered message', samples.details) },
  },
  async ({ params, query, caller, now }, { db, laneFacts }) => {
    const row = await requireMessage(db, caller, params.id);
    // A message of another key or account is answered as if it did not exist.
    if (!scopeAllows(caller.scopes, 'message:read') && row.key_id !== caller.keyId) throw noMessage();
    const [recipients, attempts, events, reasons] = await Promise.all([
      recipientsOf(db.reader, row.id, {
        nextTries: laneFacts === undefined ? undefined : (rows) => nextTries(laneFacts, rows, now),
      }),
      attemptsOf(db.reader, row.id),
      lastEventsOf(db.reader, row.id),
      reasonsOf(db.reader, [row]),
    ]);
    const engagement = scopeAllows(caller.scopes, 'event:engagement');
    const body = {
      ...messageRecord(row, reasons.get(row.id)),
      request_id: row.request_id,
      recipients,
      attempts,
      events: events.map((event) => eventRecord(event, { engagement })),
    };
    return query.expand === undefined ? body : { ...body, content: await expanded(db, caller.scopes, row.content_id) };
  },
);

export const messageReads = [list, count, get];

async function expanded(
  { reader: read }: Pick<StoreContext['db'], 'reader'>,
  scopes: readonly string[],
  contentId: string,
): Promise<{ html: string | null; text: string | null }> {
  if (!scopeAllows(scopes, 'message:content')) {
    throw new Problem('insufficient_scope', '`expand=content` needs the scope message:content.', {
      headers: scopeChallenge('message:content'),
    });
  }
  const content = await contentOf(read, contentId);
  return { html: content?.html ?? null, text: content?.text ?? null };
}
