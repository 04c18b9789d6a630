/** Further operations on one message: attempts, why, content, cancel, move, resend. */
import { z } from 'zod';
import { scopeAllows } from '../keys/scopes.ts';
import { acceptSingle, type AcceptDeps } from '../messages/accept/accept.ts';
import { cancelMessage, rescheduleMessage, type ChangeDeps } from '../messages/delivery/change-message.ts';
import type { HoldOf } from '../messages/delivery/holds.ts';
import { settersOfWaits, waitReasons, whyWaiting, type LaneFactsOf } from '../messages/delivery/why.ts';
import { checkSendAt } from '../messages/request/send-time.ts';
import { mailboxOf } from '../messages/request/message-draft.ts';
import { address } from '../messages/request/send-schema.ts';
import { addressedTo, storedDraft } from '../messages/request/stored-draft.ts';
import { messageRecord } from '../messages/store/message.ts';
import { attemptsOf } from '../messages/store/message-store.ts';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { deliveryStatuses, type MessageRow } from '../storage/tables.ts';
import { answerChange } from './answer-change.ts';
import { messageContentRoute, type MessageContentDeps } from './message-content.ts';
import { maybeTime, sampleOf, shows, text } from './record-schema.ts';
import { Attempt, Message, messageId, samples } from './records.ts';
import { type Call, exampleOf, jsonResponse, type Reply, route, type Route } from './route.ts';
import { senderOf } from './send.ts';
import { noMessage, requireMessage } from './test-mode.ts';

export interface MessageActionsDeps extends MessageContentDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  clock: Clock;
  accept: AcceptDeps;
  change: ChangeDeps;
  holdOf: HoldOf;
  /** Returns the state of the lane of a recipient's domain. */
  laneFacts: LaneFactsOf;
  /** True if local parts of new addresses may have non-ASCII characters. */
  smtputf8: boolean;
}

const PATH = '/v1/messages';
const params = z.object({ id: messageId() });
const MOST_ATTEMPTS = 1000;

export function messageActionRoutes(deps: MessageActionsDeps): Route[] {
  return [
    attemptsRoute(deps),
    whyRoute(deps),
    messageContentRoute(deps),
    cancelRoute(deps),
    moveRoute(deps),
    resendRoute(deps),
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
        200: jsonResponse('The attempts.', AttemptList, 'One attempt'),
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
    message_id: text('Id of the message.', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
    recipients: z
      .array(
        z.object({
          email: text('The recipient.', 'ana@example.net'),
          status: shows(z.enum(deliveryStatuses).describe('Status of the recipient.'), 'deferred'),
          reason: shows(z.enum(waitReasons).describe('What the recipient waits for.'), 'waiting_for_retry'),
          message: text(
            'The same for people.',
            'It waits for attempt 2. The last answer was: 451 4.3.2 try again later',
          ),
          summary: text('The message without the last answer, which the attempts have.', 'It waits for attempt 2.'),
          since: maybeTime('Since when it has waited for that; null if unknown.'),
          until: maybeTime(
            'When it is next considered; null if that depends on something else.',
            '2026-01-31T09:35:02.481Z',
          ),
          set_by: shows(
            z
              .enum(settersOfWaits)
              .nullable()
              .describe(
                'Who set it: the receiver by its answers, its DNS, the operator of this server, the server itself (`us`), or the sender; null if nothing waits.',
              ),
            'receiver',
          ),
        }),
      )
      .describe('One line for each recipient.'),
  })
  .meta({ id: 'Why', description: 'The reason why a message waits, and until when.' });

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
        200: jsonResponse('The reasons.', Why, 'It waits for its next attempt'),
      },
    },
    async ({ params: { id }, caller, now }) => {
      const row = await requireMessage(deps.db, caller, id);
      const recipients = await whyWaiting(deps, row, now);
      return { status: 200, body: { object: 'why', message_id: row.id, recipients } };
    },
  );
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

const Resend = z.strictObject({
  to: address('The recipient, in the place of all that the message had.').nullish(),
});

function resendRoute(deps: MessageActionsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/resend`,
      operationId: 'resendMessage',
      description:
        'A new message with the stored content, to the same recipients or to another one alone, now. A mail that was submitted by SMTP is sent unchanged, with a new Date and Message-ID. A key without `message:read` can resend only what it sent itself.',
      scope: ['send'],
      act: { says: 'sent a message again: {object}', type: 'message' },
      touches: 'mail',
      params,
      body: Resend,
      isBodyOptional: true,
      bodyExamples: { another: { summary: 'To another address', value: { to: 'Ana <ana@example.net>' } } },
      responses: {
        202: {
          description: 'The new message.',
          schema: Message,
          headers: { Location: 'Path of the new message.' },
          examples: exampleOf('The new message', sampleOf(Message)),
        },
      },
      problems: [
        'invalid_state',
        'invalid_recipient',
        'domain_not_verified',
        'domain_not_allowed',
        'sending_paused',
        'recipient_suppressed',
        'unknown_stream',
        'quota_exceeded',
      ],
    },
    async (call: Call<z.output<typeof params>, object, z.output<typeof Resend>>) => {
      const row = await requireMessage(deps.db, call.caller, call.params.id);
      // The same rule as for reading, since the answer shows the message.
      if (!scopeAllows(call.caller.scopes, 'message:read') && row.key_id !== call.caller.keyId) throw noMessage();
      const replyOf = (body: { id: string }): Reply => ({
        status: 202,
        body,
        headers: { Location: `${PATH}/${body.id}` },
      });
      const stored = await storedDraft(deps.db, row, call.now);
      const to = mailboxOf(call.body.to, deps, 'to', 'invalid_recipient');
      const draft = to === null ? stored : addressedTo(stored, to);
      return answerChange(call, replyOf, (rowsFor) => acceptSingle(deps.accept, senderOf(call), draft, rowsFor));
    },
  );
}
