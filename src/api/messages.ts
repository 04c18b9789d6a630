/** `/v1/messages`: send one mail or many, read one, list them. */
import { z } from 'zod';
import { idTime, MOST_AHEAD_MS } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { yieldToEventLoop } from '../base/slices.ts';
import type { Database } from '../storage/database.ts';
import { acceptBulk, acceptSingle, type AcceptDeps } from '../messages/accept/accept.ts';
import type { Sender } from '../messages/accept/may-send.ts';
import { messageRecord } from '../messages/store/message.ts';
import { LONGEST_REQUEST_MS, type MessageFilter } from '../messages/list/message-filter.ts';
import { countMessages, listMessages } from '../messages/list/message-list.ts';
import { attemptsOf, contentOf, recipientsOf } from '../messages/store/message-store.ts';
import { checkSendGently, type MessageDraft, type SendRules } from '../messages/request/send-request.ts';
import type { SendDraft } from '../messages/request/send-draft.ts';
import { isTemplated } from '../messages/request/template-members.ts';
import { expandSend } from '../messages/request/templated-send.ts';
import type { Renderer } from '../templates/renderer.ts';
import type { SendLimits } from '../messages/request/send-limits.ts';
import { sendSchemas } from '../messages/request/send-schema.ts';
import { lastEventsOf } from '../events/event-log.ts';
import { eventRecord } from '../events/event.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { soughtAddress, soughtDomain } from '../mail/address.ts';
import { deliveryStatuses } from '../storage/tables.ts';
import type { Cursors } from './cursor.ts';
import { roundedProblem } from './json-numbers.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { booleanParameter, listParameter, textsParameter, timeParameter } from './query.ts';
import { samples } from './record-samples.ts';
import { Batch, batchId, Message, MessageDetails, messageId } from './records.ts';
import { answerChange } from './answer-change.ts';
import { type Call, jsonResponse, type Reply, route, type Route } from './route.ts';
import { draftFrom } from './send-check.ts';
import { noMessage, requireMessage, testFilter } from './test-mode.ts';

export interface MessagesDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  renderer: Renderer;
  accept: AcceptDeps;
  limits: SendLimits;
  smtputf8: boolean;
}

const PATH = '/v1/messages';

export const sendRoutes = (deps: MessagesDeps): Route[] => [sendRoute(deps)];

export interface MessageReadDeps {
  db: Pick<Database, 'reader'>;
  cursors: Cursors;
}

export const messageReadRoutes = (deps: MessageReadDeps): Route[] => [
  listRoute(deps),
  countRoute(deps),
  readRoute(deps),
];

const minimal = {
  from: 'Acme <hi@acme.example>',
  to: 'ana@example.net',
  subject: 'Welcome',
  html: '<p>Good to see you.</p>',
};

function sendRoute(deps: MessagesDeps): Route {
  const { SingleMessage, BulkMessage } = sendSchemas(deps.limits);
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'sendMessage',
      description:
        'The single form has `to`; the bulk form has `recipients`, each of which is a message of its own and may override any shared member. A 202 means that the mail is stored durably and will be delivered or reported.',
      scope: ['send', 'campaign'],
      act: { says: 'sent {object}', type: 'message' },
      touches: 'mail',
      scopeFor: (body) => (body['recipients'] == null ? 'send' : 'campaign'),
      body: z.union([
        SingleMessage.partial({ from: true, subject: true }).meta({
          id: 'SingleMessage',
          description: 'One message to one recipient. `from` and `subject` are required unless the template has them.',
        }),
        BulkMessage.meta({ id: 'BulkMessage' }),
      ]),
      bodyByHandler: true,
      sendRules: (now) => rulesOf(deps, now),
      bodyExamples: {
        minimal: { summary: 'The least there is', value: minimal },
        attachment: {
          summary: 'With an attachment',
          value: { ...minimal, attachments: [{ filename: 'hello.txt', content: 'aGVsbG8=' }] },
        },
        template: {
          summary: 'With a template',
          value: { from: minimal.from, to: minimal.to, template_id: 'welcome', variables: { name: 'Ana' } },
        },
        bulk: {
          summary: 'The same to several people',
          value: {
            from: minimal.from,
            subject: 'News',
            html: '<p>It is here.</p>',
            recipients: [{ to: 'ana@example.net' }, { to: 'bo@example.net' }],
          },
        },
      },
      responses: {
        202: {
          description: 'Accepted: the message, or for the bulk form the batch.',
          schema: z.union([Message, Batch]),
          headers: { Location: 'Path of the message; absent for the bulk form.' },
          examples: {
            message: { summary: 'One message', value: samples.accepted },
            batch: { summary: 'A bulk send, of which one entry was refused', value: samples.batch },
          },
        },
      },
      problems: [
        'mutually_exclusive_fields',
        'invalid_recipient',
        'too_many_recipients',
        'duplicate_recipient',
        'no_valid_recipients',
        'invalid_sender',
        'invalid_address',
        'missing_content',
        'unknown_template',
        'template_syntax_error',
        'template_render_failed',
        'missing_variable',
        'invalid_header',
        'header_not_allowed',
        'invalid_attachment',
        'attachment_type_not_allowed',
        'unknown_stream',
        'invalid_send_at',
        'domain_not_verified',
        'domain_not_allowed',
        'recipient_suppressed',
        'message_too_large',
        'sending_paused',
        'quota_exceeded',
      ],
    },
    (call) => send(deps, call),
  );
}

const rulesOf = ({ smtputf8, limits }: MessagesDeps, now: number): SendRules => ({ now, smtputf8, limits });

async function send(deps: MessagesDeps, call: Call<object, object, unknown>): Promise<Reply> {
  const draft = await draftOf(deps, call);
  const sender = senderOf(call);
  const replyOf = (body: { id: string; object: string }): Reply => {
    const headers = body.object === 'message' ? { Location: `${PATH}/${body.id}` } : undefined;
    return { status: 202, body, ...(headers === undefined ? {} : { headers }) };
  };
  return answerChange(call, replyOf, (rowsFor) =>
    draft.kind === 'bulk'
      ? acceptBulk(deps.accept, sender, draft, rowsFor)
      : acceptSingle(deps.accept, sender, draft.draft, rowsFor),
  );
}

async function draftOf(deps: MessagesDeps, call: Call<object, object, unknown>): Promise<SendDraft> {
  const rules = rulesOf(deps, call.now);
  const { checked } = call;
  if (checked !== null && checked.kind !== 'templated') return draftFrom(checked);
  const json = checked === null ? call.json : checked.body;
  if (!isTemplated(json)) return checkSendGently(json, rules, yieldToEventLoop);
  const { accountId } = call.caller;
  const monotonic = (): number => deps.accept.clock.monotonic();
  const mostEntries = deps.limits.bulkRecipients;
  const faulty = new Map(call.rounded.map((one) => [one.entry, roundedProblem(one)]));
  const options = { accountId, now: call.now, mostEntries, dataFaults: faulty, monotonic, yieldToEventLoop };
  const { body, refused, templates } = await expandSend(deps, json, options);
  const draft = await checkSendGently(body, { ...rules, refused }, yieldToEventLoop);
  const name = (index: number, one: MessageDraft): void => {
    const template = templates.get(index);
    if (template !== undefined) one.template = template;
  };
  if (draft.kind === 'single') name(-1, draft.draft);
  else for (const entry of draft.entries) if (entry.kind === 'ok') name(entry.index, entry.draft);
  return draft;
}

export const senderOf = ({ caller, requestId }: Call<object, object, unknown>): Sender => ({
  accountId: caller.accountId,
  keyId: caller.isOperator === true ? null : caller.keyId,
  mode: caller.mode,
  // The operator sends whatever the plan says.
  ...(caller.isOperator === true ? {} : { plan: caller.plan, paused: caller.paused }),
  domains: caller.domains,
  requestId,
});

const listQuery = z.strictObject({
  ...pageParameters(),
  status: listParameter(deliveryStatuses).optional().describe('Statuses, separated by commas or one by one.'),
  to: z.string().max(320).optional().describe('Address of any recipient.'),
  to_start: z.string().min(1).max(320).optional().describe('Beginning of the address of any recipient.'),
  to_domain: z
    .string()
    .min(1)
    .max(253)
    .optional()
    .describe('Domain of any recipient; a name without a dot, such as `yahoo`, stands for all its endings.'),
  from: z.string().max(320).optional().describe('Address of the sender.'),
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
  tag: textsParameter(z.string().max(128), 10)
    .optional()
    .describe('Tags, separated by commas or one by one, which must all be there.'),
  metadata: z
    .record(z.string().max(64), z.string().max(500))
    .optional()
    .describe('`metadata[order]=17`: exact values.'),
  template_id: z.string().max(64).optional().describe('Messages of this template, by its id.'),
  batch_id: batchId().optional().describe('Messages of this bulk send.'),
  stream: z.string().max(32).optional().describe('Messages of this stream.'),
  domain: z.string().max(253).optional().describe('The sending domain.'),
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

const MessageCount = z
  .object({
    object: z.literal('message_count'),
    count: z.int().describe('The messages that fit, 10,000 at most.'),
    by_status: z
      .partialRecord(z.enum(deliveryStatuses), z.int())
      .describe('The same by status; a status without a message is left out.'),
    has_more: z.boolean().describe('Whether there may be more: the count is then the least number.'),
  })
  .meta({ id: 'MessageCount', description: 'How many messages a list has with some filters.' });

/** How far back a search in subjects goes by default, in milliseconds. */
const SUBJECT_SPAN_MS = 30 * 86_400_000;

function listRoute({ db, cursors }: MessageReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listMessages',
      description: 'Newest first, without bodies. All filters must hold together.',
      scope: ['message:read'],
      query: listQuery,
      responses: pageResponse('A page of messages.', Message, 'One message', samples.delivered),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const newestFirst = call.query.sort !== 'created_at';
        const filter = filterOf(call.now, call.caller, call.query);
        const { messages, ...page } = await listMessages(db.reader, filter, { newestFirst, ...wanted });
        return { ...page, data: messages.map(messageRecord) };
      }),
  );
}

const countQuery = listQuery.omit({ limit: true, after: true, before: true, sort: true });

function countRoute({ db }: MessageReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/count`,
      operationId: 'getMessageCount',
      description:
        'How many messages the list has with these filters, in all and by status. It looks at 10,000 messages at most, the newest: `has_more` says whether there are more, which may fit as well.',
      scope: ['message:read'],
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
    async (call) => {
      const { byStatus, isMore } = await countMessages(db.reader, filterOf(call.now, call.caller, call.query));
      const body = {
        object: 'message_count' as const,
        count: byStatus.reduce((sum, one) => sum + one.count, 0),
        by_status: Object.fromEntries(byStatus.map(({ status, count }) => [status, count])),
        has_more: isMore,
      };
      return { status: 200, body };
    },
  );
}

/** Letters of an id after its prefix. */
const ID_LETTERS = 26;

/** Returns the times in which messages of this request, or of requests whose ids begin like this, were accepted. */
function requestTimes(start: string | undefined): { from: number; until: number } | null {
  if (start === undefined) return null;
  const timeOf = (letter: string): number =>
    idTime(start.padEnd('req_'.length + ID_LETTERS, letter)) ?? Number.MAX_SAFE_INTEGER;
  return { from: timeOf('0') - MOST_AHEAD_MS, until: timeOf('z') + LONGEST_REQUEST_MS };
}

function filterOf(now: number, caller: Caller, query: z.output<typeof countQuery>): MessageFilter {
  const { created_after, subject, q: text } = query;
  const requested = requestTimes(query.request_id ?? query.request_id_start);
  const came = requested?.from ?? null;
  const usual = came ?? (subject === undefined && text === undefined ? undefined : now - SUBJECT_SPAN_MS);
  const createdAfter = created_after ?? usual;
  const createdBefore = query.created_before ?? requested?.until;
  const wanted = {
    status: query.status,
    to: query.to === undefined ? undefined : soughtAddress(query.to),
    toStart: query.to_start,
    toDomain: query.to_domain === undefined ? undefined : soughtDomain(query.to_domain),
    text,
    idStart: query.id_start,
    requestStart: query.request_id_start,
    from: query.from === undefined ? undefined : soughtAddress(query.from),
    subject,
    tags: query.tag,
    metadata: query.metadata,
    templateId: query.template_id,
    batchId: query.batch_id,
    stream: query.stream,
    domain: query.domain === undefined ? undefined : soughtDomain(query.domain),
    // Mail programs show it with or without its angle brackets.
    rfcMessageId: query.rfc_message_id?.replace(/^[^<].*$/, '<$&>'),
    createdAfter,
    createdBefore,
    requestId: query.request_id,
    eventId: query.event_id,
    opened: query.opened,
    clicked: query.clicked,
    test: testFilter(caller, query.test),
  };
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined)) as Omit<
    MessageFilter,
    'accountId'
  >;
  return { accountId: caller.accountId, ...given };
}

function readRoute({ db }: MessageReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getMessage',
      description:
        'With its recipients, last attempts and last events. A key with only `send` or `campaign` reads what it sent itself.',
      scope: ['message:read', 'send', 'campaign'],
      params: z.object({ id: messageId() }),
      query: z.strictObject({
        expand: z
          .literal('content')
          .optional()
          .describe('`content` adds the stored body; needs the scope `message:content`.'),
      }),
      responses: {
        200: jsonResponse('The message.', MessageDetails, 'A delivered message', samples.details),
      },
    },
    async ({ params, query, caller }) => {
      const row = await requireMessage(db, caller, params.id);
      // A message of another key or account is answered as if it did not exist.
      if (!scopeAllows(caller.scopes, 'message:read') && row.key_id !== caller.keyId) throw noMessage();
      const [recipients, attempts, events] = await Promise.all([
        recipientsOf(db.reader, row.id),
        attemptsOf(db.reader, row.id),
        lastEventsOf(db.reader, row.id),
      ]);
      const engagement = scopeAllows(caller.scopes, 'event:engagement');
      const body = {
        ...messageRecord(row),
        request_id: row.request_id,
        recipients,
        attempts,
        events: events.map((event) => eventRecord(event, { engagement })),
      };
      return {
        status: 200,
        body:
          query.expand === undefined ? body : { ...body, content: await expanded(db, caller.scopes, row.content_id) },
      };
    },
  );
}

async function expanded(
  { reader: read }: Pick<Database, 'reader'>,
  scopes: readonly string[],
  contentId: string,
): Promise<{ html: string | null; text: string | null }> {
  if (!scopeAllows(scopes, 'message:content')) {
    throw new Problem('insufficient_scope', '`expand=content` needs the scope message:content.', {
      headers: { 'WWW-Authenticate': 'Bearer realm="api", error="insufficient_scope", scope="message:content"' },
    });
  }
  const content = await contentOf(read, contentId);
  return { html: content?.html ?? null, text: content?.text ?? null };
}
