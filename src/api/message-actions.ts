/** Further operations on one message or batch: attempts, why, content, cancel, move, resend. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { acceptSingle, type AcceptDeps } from '../messages/accept/accept.ts';
import {
  batchCounts,
  cancelBatch,
  cancelMessage,
  rescheduleMessage,
  type ChangeDeps,
  type StatusCounts,
} from '../messages/delivery/change-message.ts';
import type { HoldOf } from '../messages/delivery/holds.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import { messageRecord } from '../messages/store/message.ts';
import { attachmentsOf, attemptsOf, contentOf } from '../messages/store/message-store.ts';
import { settersOfWaits, waitReasons, whyWaiting } from '../messages/delivery/why.ts';
import { checkSendAt } from '../messages/request/send-time.ts';
import { storedDraft } from '../messages/request/stored-draft.ts';
import type { Database } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import { deliveryStatuses, type BatchRow, type MessageRow } from '../storage/tables.ts';
import type { Cursors } from './cursor.ts';
import { senderOf } from './messages.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { samples } from './record-samples.ts';
import { Attempt, batchId, Message, messageId } from './records.ts';
import { exampleOf, jsonResponse, type Reply, route, type Route } from './route.ts';
import { noMessage, reachOf, requireMessage } from './test-mode.ts';
import { answerChange } from './answer-change.ts';

export interface MessageActionsDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  clock: Clock;
  cursors: Cursors;
  accept: AcceptDeps;
  change: ChangeDeps;
  holdOf: HoldOf;
  /** Returns the state of the lane of a recipient's domain. */
  laneFacts: LaneFactsOf;
  mailViewer: MailViewer;
}

const PATH = '/v1/messages';
const params = z.object({ id: messageId() });
const MOST_ATTEMPTS = 1000;

export function messageActionRoutes(deps: MessageActionsDeps): Route[] {
  return [
    attemptsRoute(deps),
    whyRoute(deps),
    contentRoute(deps),
    cancelRoute(deps),
    moveRoute(deps),
    resendRoute(deps),
    batchListRoute(deps),
    batchRoute(deps),
    batchCancelRoute(deps),
  ];
}

const AttemptList = z
  .object({ object: z.literal('list'), data: z.array(Attempt).describe('The attempts.') })
  .meta({ id: 'AttemptList', description: 'SMTP attempts, oldest first.' });

function attemptsRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/attempts`,
      operationId: 'listMessageAttempts',
      description: 'Every attempt with host, TLS, timings and reply; the last thousand.',
      scope: ['message:read'],
      params,
      responses: {
        200: jsonResponse('The attempts.', AttemptList, 'One attempt', { object: 'list', data: [samples.attempt] }),
      },
    },
    async ({ params: { id }, caller }) => {
      const row = await requireMessage(deps.db, caller, id);
      return { status: 200, body: { object: 'list', data: await attemptsOf(deps.db.reader, row.id, MOST_ATTEMPTS) } };
    },
  );
}

const Why = z
  .object({
    object: z.literal('why'),
    message_id: z.string().describe('Id of the message.'),
    recipients: z
      .array(
        z.object({
          email: z.string().describe('The recipient.'),
          status: z.enum(deliveryStatuses).describe('Status of the recipient.'),
          reason: z.enum(waitReasons).describe('What the recipient waits for.'),
          message: z.string().describe('The same for people.'),
          summary: z.string().describe('The message without the last answer, which the attempts have.'),
          since: z.iso.datetime().nullable().describe('Since when it has waited for that; null where unknown.'),
          until: z.iso
            .datetime()
            .nullable()
            .describe('When it is next considered; null where that depends on something else.'),
          set_by: z
            .enum(settersOfWaits)
            .nullable()
            .describe(
              'Who set it: the receiver by its answers, its DNS, the operator of this server, the server itself (`us`), or the sender; null where nothing waits.',
            ),
        }),
      )
      .describe('One line for each recipient.'),
  })
  .meta({ id: 'Why', description: 'The reason why a message waits, and until when.' });

const whySample: z.output<typeof Why> = {
  object: 'why',
  message_id: samples.accepted.id,
  recipients: [
    {
      email: 'ana@example.net',
      status: 'deferred',
      reason: 'waiting_for_retry',
      message: 'It waits for attempt 2. The last answer was: 451 4.3.2 try again later',
      summary: 'It waits for attempt 2.',
      since: null,
      until: '2026-01-31T09:35:02.481Z',
      set_by: 'receiver',
    },
  ],
};

function whyRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/why`,
      operationId: 'explainMessage',
      description: 'For each recipient, what it waits for and until when.',
      scope: ['message:read'],
      params,
      responses: {
        200: jsonResponse('The reasons.', Why, 'It waits for its next attempt', whySample),
      },
    },
    async ({ params: { id }, caller, now }) => {
      const row = await requireMessage(deps.db, caller, id);
      const recipients = await whyWaiting(deps, row, now);
      return { status: 200, body: { object: 'why', message_id: row.id, recipients } };
    },
  );
}

export const attachedFiles = () =>
  z
    .array(
      z.object({
        filename: z.string().describe('Name of the file.'),
        content_type: z.string().describe('Media type.'),
        content_id: z.string().nullable().describe('What `cid:` in the html calls it.'),
        disposition: z.enum(['attachment', 'inline']).describe('Whether it is shown within the mail.'),
        size: z.int().describe('Bytes.'),
      }),
    )
    .describe('The attached files.');

const Content = z
  .object({
    object: z.literal('content'),
    message_id: z.string().describe('Id of the message.'),
    stored: z
      .enum(['parts', 'mail', 'nothing'])
      .describe(
        '`parts`: what the request gave. `mail`: the mail as SMTP submitted it; html, text and attachments are read from it, and are empty where it cannot be parsed. `nothing`: the content is not stored any more.',
      ),
    html: z.string().nullable().describe('HTML body.'),
    text: z.string().nullable().describe('Plain text body; one that is derived from the html is not stored.'),
    attachments: attachedFiles(),
  })
  .meta({ id: 'Content', description: 'The stored body of a message, without the bytes of its attachments.' });

const contentSample: z.output<typeof Content> = {
  object: 'content',
  message_id: samples.accepted.id,
  stored: 'parts',
  html: '<p>Thank you.</p>',
  text: 'Thank you.',
  attachments: [
    {
      filename: 'invoice.pdf',
      content_type: 'application/pdf',
      content_id: null,
      disposition: 'attachment',
      size: 48_213,
    },
  ],
};

function contentRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/content`,
      operationId: 'getMessageContent',
      description: 'The body as it was accepted or, with a template, rendered.',
      scope: ['message:content'],
      params,
      responses: {
        200: jsonResponse('The body.', Content, 'A body with a file', contentSample),
      },
    },
    async ({ params: { id }, caller }) => {
      const row = await requireMessage(deps.db, caller, id);
      return { status: 200, body: { object: 'content', message_id: row.id, ...(await contentRecord(deps, row)) } };
    },
  );
}

type ContentRecord = Omit<z.output<typeof Content>, 'object' | 'message_id'>;

/** A mail submitted by SMTP is parsed for each answer: only people who look at a message ask for it. */
async function contentRecord({ db, mailViewer }: MessageActionsDeps, row: MessageRow): Promise<ContentRecord> {
  const content = await contentOf(db.reader, row.content_id);
  if (content?.raw != null) {
    const { html = null, text = null, attachments = [] } = (await mailViewer.view(content.raw)) ?? {};
    return { stored: 'mail', html, text, attachments };
  }
  const files = await attachmentsOf(db.reader, row.content_id);
  const { html = null, text = null } = content ?? {};
  return {
    stored: html === null && text === null && files.length === 0 ? 'nothing' : 'parts',
    html,
    text,
    attachments: files.map(({ filename, content_type, cid, disposition, bytes }) => ({
      filename,
      content_type,
      content_id: cid,
      disposition,
      size: bytes.length,
    })),
  };
}

const changedFrom =
  (before: MessageRow) =>
  (row: MessageRow): Reply => ({ status: 200, body: messageRecord(row), before: messageRecord(before) });

function cancelRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/cancel`,
      operationId: 'cancelMessage',
      description: 'Cancels the recipients that have not been sent to and are not being sent to right now.',
      scope: ['message:cancel'],
      act: { says: 'canceled the message {object}', type: 'message', keeps: ['status'] },
      touches: 'mail',
      params,
      responses: {
        200: jsonResponse('The message.', Message, 'A canceled message', samples.canceled),
      },
      problems: ['invalid_state'],
    },
    async (call) => {
      const row = await requireMessage(deps.db, call.caller, call.params.id);
      return answerChange(call, changedFrom(row), (rowsFor) => cancelMessage(deps.change, row.id, rowsFor));
    },
  );
}

const Move = z
  .strictObject({
    send_at: z
      .string()
      .max(40)
      .meta({ format: 'date-time' })
      .describe('The new time, with offset, at most 30 days ahead.'),
  })
  .meta({ id: 'MessageChange', description: 'Another time of sending.' });

function moveRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateMessage',
      description: 'For a message without an attempt so far. A time up to five minutes in the past means now.',
      scope: ['message:cancel'],
      act: { says: 'moved the message {object} to {send_at}', type: 'message', keeps: ['status', 'send_at'] },
      touches: 'mail',
      params,
      body: Move,
      bodyExamples: { later: { summary: 'Another time', value: { send_at: '2026-02-01T08:00:00+01:00' } } },
      responses: {
        200: jsonResponse('The message.', Message, 'A message that waits for its time', samples.scheduled),
      },
      problems: ['invalid_send_at', 'invalid_state'],
    },
    async (call) => {
      const row = await requireMessage(deps.db, call.caller, call.params.id);
      const sendAt = checkSendAt(call.body.send_at, call.now, 'send_at');
      return answerChange(call, changedFrom(row), (rowsFor) => rescheduleMessage(deps.change, row, sendAt, rowsFor));
    },
  );
}

function resendRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/resend`,
      operationId: 'resendMessage',
      description:
        'A new message with the stored content, to the same recipients, now. A mail that was submitted by SMTP is sent unchanged, with a new Date and Message-ID. A key without `message:read` can resend only what it sent itself.',
      scope: ['send'],
      act: { says: 'sent a message again, as {object}', type: 'message' },
      touches: 'mail',
      params,
      responses: {
        202: {
          description: 'The new message.',
          schema: Message,
          headers: { Location: 'Path of the new message.' },
          examples: exampleOf('The new message', samples.accepted),
        },
      },
      problems: [
        'invalid_state',
        'domain_not_verified',
        'domain_not_allowed',
        'sending_paused',
        'recipient_suppressed',
        'unknown_stream',
        'quota_exceeded',
      ],
    },
    async (call) => {
      const row = await requireMessage(deps.db, call.caller, call.params.id);
      // The same rule as for reading, since the answer shows the message.
      if (!scopeAllows(call.caller.scopes, 'message:read') && row.key_id !== call.caller.keyId) throw noMessage();
      const replyOf = (body: { id: string }): Reply => ({
        status: 202,
        body,
        headers: { Location: `${PATH}/${body.id}` },
      });
      const draft = await storedDraft(deps.db, row, call.now);
      return answerChange(call, replyOf, (rowsFor) => acceptSingle(deps.accept, senderOf(call), draft, rowsFor));
    },
  );
}

const BatchStatus = z
  .object({
    object: z.literal('batch'),
    id: batchId(),
    accepted: z.int().describe('Entries that are messages.'),
    rejected: z.int().describe('Entries that were refused.'),
    created_at: z.iso.datetime().describe('When it was accepted.'),
    counts: z.record(z.string(), z.int()).nullable().describe('Messages by status; null in lists.'),
  })
  .meta({ id: 'BatchStatus', description: 'A bulk send, with its messages by status.' });

const BATCHES = '/v1/batches';
const batchParams = z.object({ id: batchId() });

async function batchOf({ db }: MessageActionsDeps, caller: Caller, id: string): Promise<BatchRow> {
  const { accountId, onlyTest } = reachOf(caller);
  const [row] = await db.prepared.all<BatchRow>('SELECT * FROM batches WHERE id = ? AND account_id = ?', [
    id,
    accountId,
  ]);
  if (row === undefined || (onlyTest && row.test === 0))
    throw new Problem('not_found', 'There is no such batch.', { field: 'id' });
  return row;
}

function batchStatus(row: BatchRow, found: StatusCounts): z.output<typeof BatchStatus> {
  const none = Object.fromEntries(deliveryStatuses.map((status) => [status, 0]));
  const counts = { ...none, ...Object.fromEntries(found.map(({ status, n }) => [status, n])) };
  return { ...batchHead(row), counts };
}

const batchHead = ({ id, accepted, rejected, created_at }: BatchRow) =>
  ({ object: 'batch', id, accepted, rejected, created_at: rfc3339(created_at) }) as const;

function batchListRoute({ db, cursors }: MessageActionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: BATCHES,
      operationId: 'listBatches',
      description: 'Newest first, without counts.',
      scope: ['campaign:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of batches.', BatchStatus, 'One bulk send', samples.batchLine),
    },
    (call) =>
      answerPage(cursors, BATCHES, call, async (wanted) => {
        const asked = db.reader<BatchRow>('batches').where({ account_id: wanted.accountId });
        if (reachOf(call.caller).onlyTest) asked.andWhere({ test: 1 });
        const { rows, hasMore } = await readPage<BatchRow>(asked, wanted);
        return { data: rows.map((row) => ({ ...batchHead(row), counts: null })), hasMore };
      }),
  );
}

function batchRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${BATCHES}/{id}`,
      operationId: 'getBatch',
      description: 'With its messages counted by status.',
      scope: ['campaign:read'],
      params: batchParams,
      responses: {
        200: jsonResponse('The batch.', BatchStatus, 'A bulk send', samples.batchStatus),
      },
    },
    async ({ params: { id }, caller }) => {
      const row = await batchOf(deps, caller, id);
      return { status: 200, body: batchStatus(row, await batchCounts(deps.db.prepared, row.id)) };
    },
  );
}

function batchCancelRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${BATCHES}/{id}/cancel`,
      operationId: 'cancelBatch',
      description:
        'Cancels its messages that have not been sent yet. Messages being sent right now and finished ones are unchanged.',
      scope: ['message:cancel'],
      act: { says: 'canceled the bulk send {object}', type: 'batch', keeps: ['counts'] },
      touches: 'mail',
      params: batchParams,
      responses: {
        200: jsonResponse('The batch.', BatchStatus, 'A bulk send', samples.batchStatus),
      },
      problems: ['invalid_state'],
    },
    async (call) => {
      const row = await batchOf(deps, call.caller, call.params.id);
      const replyOf = (counts: StatusCounts): Reply => ({ status: 200, body: batchStatus(row, counts) });
      return answerChange(call, replyOf, async (rowsFor) => {
        if ((await cancelBatch(deps.change, row.id, rowsFor)) === 0)
          throw new Problem('invalid_state', 'No message of this batch can be canceled any more.');
      });
    },
  );
}
