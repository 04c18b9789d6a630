/** Further operations on one message: attempts, why, content, cancel, move, resend. */
import { z } from 'zod';
import { scopeAllows } from '../keys/scopes.ts';
import { acceptSingle } from '../messages/accept/accept.ts';
import { cancelMessage, rescheduleMessage } from '../messages/delivery/change-message.ts';
import { settersOfWaits, waitReasons, whyWaiting } from '../messages/delivery/why.ts';
import { checkSendAt } from '../messages/request/send-time.ts';
import { mailboxOf } from '../messages/request/message-draft.ts';
import { address } from '../messages/request/send-schema.ts';
import { addressedTo, storedDraft } from '../messages/request/stored-draft.ts';
import { messageRecord } from '../messages/store/message.ts';
import { attemptsOf } from '../messages/store/message-store.ts';
import { deliveryStatuses, type MessageRow } from '../storage/tables.ts';
import { answerChange, updated } from './answer-change.ts';
import type { ApiContext } from './context.ts';
import { messages } from './messages.ts';
import { maybeTime, shows, text } from './record-schema.ts';
import { Attempt, Message, samples } from './records.ts';
import { jsonResponse, type Call, type Reply } from './route.ts';
import { senderOf } from './send.ts';
import { noMessage, requireMessage } from './test-mode.ts';

type MessageCall<Body = undefined> = Call<{ id: string }, object, Body>;

const PATH = '/v1/messages';
const MOST_ATTEMPTS = 1000;

const AttemptList = z
  .object({ object: z.literal('list'), data: z.array(Attempt).describe('The attempts.') })
  .meta({ id: 'AttemptList', description: 'SMTP attempts, oldest first.' });

const attempts = messages.at(
  'GET',
  `${PATH}/{id}/attempts`,
  {
    operationId: 'listMessageAttempts',
    description: 'Every attempt with host, TLS, timings and reply; the last thousand.',
    responses: { 200: jsonResponse('The attempts.', AttemptList, 'One attempt') },
  },
  async ({ params: { id }, caller }, { db }: ApiContext) => {
    const row = await requireMessage(db, caller, id);
    return { status: 200, body: { object: 'list', data: await attemptsOf(db.reader, row.id, MOST_ATTEMPTS) } };
  },
);

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

const explain = messages.at(
  'GET',
  `${PATH}/{id}/why`,
  {
    operationId: 'explainMessage',
    description: 'For each recipient, what it waits for and until when.',
    responses: { 200: jsonResponse('The reasons.', Why, 'It waits for its next attempt') },
  },
  async ({ params: { id }, caller, now }, context: ApiContext) => {
    const row = await requireMessage(context.db, caller, id);
    const recipients = await whyWaiting(context, row, now);
    return { status: 200, body: { object: 'why', message_id: row.id, recipients } };
  },
);

const record = (row: MessageRow) => messageRecord(row);

const cancel = messages.at(
  'POST',
  `${PATH}/{id}/cancel`,
  {
    operationId: 'cancelMessage',
    description: 'Cancels the recipients that have not been sent to and are not being sent to right now.',
    says: 'canceled the message {object}',
    keeps: ['status'],
    touches: 'mail',
    responses: { 200: jsonResponse('The message.', Message, 'A canceled message', samples.canceled) },
    problems: ['invalid_state'],
  },
  async (call: MessageCall, { db, change }: ApiContext) => {
    const row = await requireMessage(db, call.caller, call.params.id);
    return answerChange(call, updated(record, record(row)), (rowsFor) => cancelMessage(change, row.id, rowsFor));
  },
);

const Move = z
  .strictObject({
    send_at: z
      .string()
      .max(40)
      .meta({ format: 'date-time' })
      .describe('The new time, with offset, at most 30 days ahead.'),
  })
  .meta({ id: 'MessageChange', description: 'Another time of sending.' });

const move = messages.update(
  {
    operationId: 'updateMessage',
    description: 'For a message without an attempt so far. A time up to five minutes in the past means now.',
    says: 'moved the message {object} to {send_at}',
    keeps: ['status', 'send_at'],
    touches: 'mail',
    body: Move,
    bodyExamples: { later: { summary: 'Another time', value: { send_at: '2026-02-01T08:00:00+01:00' } } },
    responses: { 200: jsonResponse('The message.', Message, 'A message that waits for its time', samples.scheduled) },
    problems: ['invalid_send_at', 'invalid_state'],
  },
  async (call, { db, change }: ApiContext) => {
    const row = await requireMessage(db, call.caller, call.params.id);
    const sendAt = checkSendAt(call.body.send_at, call.now, 'send_at');
    return answerChange(call, updated(record, record(row)), (rowsFor) =>
      rescheduleMessage(change, row, sendAt, rowsFor),
    );
  },
);

const Resend = z.strictObject({
  to: address('The recipient, in the place of all that the message had.').nullish(),
});

const resend = messages.at(
  'POST',
  `${PATH}/{id}/resend`,
  {
    operationId: 'resendMessage',
    description:
      'A new message with the stored content, to the same recipients or to another one alone, now. A mail that was submitted by SMTP is sent unchanged, with a new Date and Message-ID. A key without `message:read` can resend only what it sent itself.',
    scope: ['send'],
    says: 'sent a message again: {object}',
    touches: 'mail',
    body: Resend,
    isBodyOptional: true,
    bodyExamples: { another: { summary: 'To another address', value: { to: 'Ana <ana@example.net>' } } },
    responses: {
      202: {
        ...jsonResponse('The new message.', Message, 'The new message'),
        headers: { Location: 'Path of the new message.' },
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
  async (call: MessageCall<z.output<typeof Resend>>, context: ApiContext) => {
    const row = await requireMessage(context.db, call.caller, call.params.id);
    // The same rule as for reading, since the answer shows the message.
    if (!scopeAllows(call.caller.scopes, 'message:read') && row.key_id !== call.caller.keyId) throw noMessage();
    const replyOf = (body: { id: string }): Reply => ({
      status: 202,
      body,
      headers: { Location: `${PATH}/${body.id}` },
    });
    const stored = await storedDraft(context.db, row, call.now);
    const to = mailboxOf(call.body.to, context, 'to', 'invalid_recipient');
    const draft = to === null ? stored : addressedTo(stored, to);
    return answerChange(call, replyOf, (rowsFor) => acceptSingle(context.accept, senderOf(call), draft, rowsFor));
  },
);

export const messageActions = [attempts, explain, cancel, move, resend];
