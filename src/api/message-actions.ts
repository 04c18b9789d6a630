/** Further operations on one message: attempts, why, its content and source, the mails that came back for it, cancel, move, resend, erase. */
import { z } from 'zod';
import { Problem, notFound } from '../base/problem.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { acceptSingle } from '../messages/accept/accept.ts';
import { cancelMessage, rescheduleMessage } from '../messages/delivery/change-message.ts';
import { settersOfWaits, waitReasons, whyWaiting } from '../messages/delivery/why.ts';
import { checkSendAt } from '../messages/request/send-time.ts';
import { mailboxOf } from '../messages/request/message-draft.ts';
import { address } from '../messages/request/send-schema.ts';
import { addressedTo, storedDraft } from '../messages/request/stored-draft.ts';
import { eraseContent, erasePerson } from '../messages/store/erase.ts';
import { messageRecord } from '../messages/store/message.ts';
import {
  attachmentsOf,
  attemptsOf,
  contentOf,
  rawReport,
  reportMembers,
  reportsOf,
} from '../messages/store/message-store.ts';
import { deliveryStatuses, type MessageRow } from '../storage/tables.ts';
import {
  answerChange,
  rowsOfAnswer,
  updated,
  jsonResponse,
  mailReply,
  mailResponse,
  type Call,
  type Reply,
} from './route.ts';
import type { ApiContext } from './context.ts';
import { messages } from './messages.ts';
import { wholeList, wholeListResponse } from './page.ts';
import {
  idSchema,
  maybe,
  maybeTime,
  namedRecord,
  namedRequest,
  recordSchema,
  shows,
  text,
  whole,
} from './record-schema.ts';
import { Attempt, Message, messageId, samples } from './records.ts';
import { senderOf } from './send.ts';
import { noMessage, reachOf, requireMessage } from './test-mode.ts';

type MessageCall<Body = undefined> = Call<{ id: string }, object, Body>;

const PATH = '/v1/messages';
const MOST_ATTEMPTS = 1000;
const LONGEST_ADDRESS = 1000;

const messageOf = ({ db }: ApiContext, { caller, params }: Pick<MessageCall, 'caller' | 'params'>) =>
  requireMessage(db, caller, params.id);

const attempts = messages.get(
  {
    path: `${PATH}/{id}/attempts`,
    operationId: 'listMessageAttempts',
    description: 'Every attempt with host, TLS, timings and reply; the last thousand.',
    responses: wholeListResponse(
      Attempt,
      { id: 'AttemptList', description: 'SMTP attempts, oldest first.' },
      'The attempts.',
      'One attempt',
    ),
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    return wholeList(await attemptsOf(context.db.reader, row.id, MOST_ATTEMPTS));
  },
);

const Why = namedRecord('Why', 'The reason why a message waits, and until when.', {
  object: z.literal('why'),
  message_id: text('Id of the message.', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
  recipients: z
    .array(
      z.object({
        email: text('The recipient.', 'ana@example.net'),
        status: shows(z.enum(deliveryStatuses).describe('Status of the recipient.'), 'deferred'),
        reason: shows(z.enum(waitReasons).describe('What the recipient waits for.'), 'waiting_for_retry'),
        message: text('The same for people.', 'It waits for attempt 2. The last answer was: 451 4.3.2 try again later'),
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
});

const explain = messages.get(
  {
    path: `${PATH}/{id}/why`,
    operationId: 'explainMessage',
    description: 'For each recipient, what it waits for and until when.',
    responses: { 200: jsonResponse('The reasons.', Why, 'It waits for its next attempt') },
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    return { object: 'why', message_id: row.id, recipients: await whyWaiting(context, row, call.now) };
  },
);

const record = (row: MessageRow) => messageRecord(row);

const cancel = messages.post(
  {
    path: `${PATH}/{id}/cancel`,
    operationId: 'cancelMessage',
    description: 'Cancels the recipients that have not been sent to and are not being sent to right now.',
    says: 'canceled the message {object}',
    keeps: ['status'],
    touches: 'mail',
    responses: { 200: jsonResponse('The message.', Message, 'A canceled message', samples.canceled) },
    problems: ['invalid_state'],
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    return answerChange(call, updated(record, record(row)), (rowsFor) => cancelMessage(context, row.id, rowsFor));
  },
);

const Move = namedRequest('MessageChange', 'Another time of sending.', {
  send_at: z
    .string()
    .max(40)
    .meta({ format: 'date-time' })
    .describe('The new time, with offset, at most 30 days ahead.'),
});

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
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    const sendAt = checkSendAt(call.body.send_at, call.now, 'send_at');
    return answerChange(call, updated(record, record(row)), (rowsFor) =>
      rescheduleMessage(context, row, sendAt, rowsFor),
    );
  },
);

const Resend = z.strictObject({
  to: address('The recipient, in the place of all that the message had.').nullish(),
});

const resend = messages.post(
  {
    path: `${PATH}/{id}/resend`,
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
    const row = await messageOf(context, call);
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

const attachedFiles = () =>
  z
    .array(
      z.object({
        filename: text('Name of the file.', 'invoice.pdf'),
        content_type: text('Media type.', 'application/pdf'),
        content_id: maybe('What `cid:` in the html calls it.'),
        disposition: z.enum(['attachment', 'inline']).describe('Whether it is shown within the mail.'),
        size: whole('Bytes.', 48_213),
      }),
    )
    .describe('The attached files.');

const Content = namedRecord('Content', 'The stored body of a message, without the bytes of its attachments.', {
  object: z.literal('content'),
  message_id: text('Id of the message.', 'msg_01jz5w8q3hf2m9d4x6k7c1b0na'),
  stored: z
    .enum(['parts', 'mail', 'nothing'])
    .describe(
      '`parts`: what the request gave. `mail`: the mail as SMTP submitted it; html, text and attachments are read from it, and are empty if it cannot be parsed. `nothing`: the content is not stored any more.',
    ),
  html: maybe('HTML body.', '<p>Thank you.</p>'),
  text: maybe('Plain text body; one that is derived from the html is not stored.', 'Thank you.'),
  attachments: attachedFiles(),
});

const content = messages.get(
  {
    path: `${PATH}/{id}/content`,
    operationId: 'getMessageContent',
    description: 'The body as it was accepted or, with a template, rendered.',
    scope: ['message:content'],
    responses: { 200: jsonResponse('The body.', Content, 'A body with a file') },
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    return { object: 'content', message_id: row.id, ...(await contentRecord(context, row)) };
  },
);

type ContentRecord = Omit<z.output<typeof Content>, 'object' | 'message_id'>;

/** A mail submitted by SMTP is parsed for each answer: only people who look at a message ask for it. */
async function contentRecord({ db, mailViewer }: ApiContext, row: MessageRow): Promise<ContentRecord> {
  const stored = await contentOf(db.reader, row.content_id);
  if (stored?.raw != null) {
    const { html = null, text = null, attachments = [] } = (await mailViewer.view(stored.raw)) ?? {};
    return { stored: 'mail', html, text, attachments };
  }
  const files = await attachmentsOf(db.reader, row.content_id);
  const { html = null, text = null } = stored ?? {};
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

const raw = messages.read(
  {
    path: `${PATH}/{id}/raw`,
    operationId: 'getMessageRaw',
    description:
      'The exact bytes that go to the `to` recipient, header, signatures and body, as `message/rfc822`: they are the same at every attempt. Signed with the keys of now: after a rotation of DKIM keys the signatures of an old message differ from those it was sent with.',
    scope: ['message:content'],
    responses: mailResponse(
      'The message.',
      'The beginning of a message',
      'From: Acme <hi@acme.example>\r\nTo: ana@example.net\r\nSubject: Your order',
    ),
    problems: ['invalid_state'],
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    const [delivery] = await context.db.prepared.all<{ id: string }>(
      'SELECT id FROM deliveries WHERE message_id = ? AND lead = 1',
      [row.id],
    );
    const bytes = delivery === undefined ? null : await context.wireBytes(delivery.id);
    if (bytes === null || row.content_id === '')
      throw new Problem('invalid_state', 'The content of this message is not stored any more.');
    if (bytes.kind === 'none') throw new Problem('invalid_state', `There is no source of this message: ${bytes.why}.`);
    return mailReply(Buffer.concat(bytes.data));
  },
);

const REPORTS = `${PATH}/{id}/reports`;
const reportId = () => idSchema('rep', 'Id of the report.');

const Report = recordSchema(
  reportMembers,
  { id: 'Report', description: 'A mail that came back for a message.' },
  {
    id: reportId(),
    kind: z.enum(['bounce', 'delay', 'complaint', 'auto_reply', 'unsubscribe', 'report', 'other']),
  },
);

const ReportContent = namedRecord('ReportContent', 'A mail that came back, as a mail program shows it.', {
  object: z.literal('report_content'),
  report_id: text('Id of the report.', 'rep_01jz5w8q3hf2m9d4x6k7c1b0na'),
  subject: text('Its subject.', 'Undelivered Mail Returned to Sender'),
  from: text(
    'Its From field, which anyone can have written.',
    '"Mail Delivery System" <mailer-daemon@mx1.example.net>',
  ),
  to: text('Its To field.', 'b+4f2k@mail.acme.example'),
  cc: text('Its Cc field.'),
  date: maybeTime('Its Date field; null if it has none that can be read.', '2026-01-31T09:32:09.000Z'),
  text: maybe(
    'Its text, with that of a delivery status and of the mail that it brings back.',
    'The mail for <ana@example.net> could not be delivered.',
  ),
  html: maybe('Its HTML, written by a stranger: show it only in a sandboxed frame.'),
  attachments: shows(attachedFiles(), []),
});

const reports = messages.get(
  {
    path: REPORTS,
    operationId: 'listMessageReports',
    description:
      'Bounces, notices of delay, complaints and answers that came by mail and belong to this message, the first hundred. They are kept for `retention.reports`.',
    responses: wholeListResponse(
      Report,
      { id: 'ReportList', description: 'Mails that came back, oldest first.' },
      'The reports.',
      'A bounce',
    ),
  },
  async (call, context: ApiContext) => {
    const row = await messageOf(context, call);
    return wholeList(await reportsOf(context.db.reader, row.id));
  },
);

const ofReport = z.object({ id: messageId(), report_id: reportId() });

const report = messages.read(
  {
    path: `${REPORTS}/{report_id}`,
    operationId: 'getMessageReport',
    description:
      'The unchanged mail, as `message/rfc822`: of a bounce its first 512 KiB, of anything else its first 32 KiB. Anyone may have written it.',
    scope: ['message:content'],
    params: ofReport,
    responses: mailResponse(
      'The mail.',
      'The beginning of a bounce',
      'From: <mailer-daemon@mx1.example.net>\r\nSubject: Undelivered Mail',
    ),
  },
  async (call, context: ApiContext) => mailReply(await requireReport(context, call)),
);

const reportContent = messages.get(
  {
    path: `${REPORTS}/{report_id}/content`,
    operationId: 'getMessageReportContent',
    description:
      'Subject, addresses, text, html and files, for people. `invalid_state` if the mail cannot be parsed in a few seconds: its source can be read nevertheless.',
    scope: ['message:content'],
    params: ofReport,
    responses: { 200: jsonResponse('The mail.', ReportContent, 'A bounce') },
    problems: ['invalid_state'],
  },
  async (call, context: ApiContext) => {
    const view = await context.mailViewer.view(await requireReport(context, call));
    if (view === null) throw new Problem('invalid_state', 'This mail cannot be parsed: read its source.');
    return { object: 'report_content', report_id: call.params.report_id, ...view };
  },
);

async function requireReport(
  context: ApiContext,
  call: Call<z.output<typeof ofReport>, object, undefined>,
): Promise<Buffer> {
  const row = await messageOf(context, call);
  const bytes = await rawReport(context.db.prepared, row.id, call.params.report_id);
  if (bytes === null) throw notFound('report_id', 'There is no such report.');
  return bytes;
}

const erased: Reply = { status: 204, body: null };
const erasing = {
  touches: 'mail',
  responses: { 204: { description: 'Erased.' } },
  problems: ['invalid_state'],
} as const;

const eraseBody = messages.remove(
  {
    ...erasing,
    path: `${PATH}/{id}/content`,
    operationId: 'deleteMessageContent',
    description: 'Its html, text and attachments. The record of its delivery is kept. 409 while it still waits.',
    scope: ['message:delete'],
    says: 'erased the body of the message {object}',
  },
  async (call, context: ApiContext) => {
    await eraseContent(context, await messageOf(context, call), () => rowsOfAnswer(call, erased));
    return erased;
  },
);

const person = z.object({ email: z.string().max(LONGEST_ADDRESS).describe('The address, percent-encoded.') });

const forget = messages.remove(
  {
    ...erasing,
    path: '/v1/recipients/{email}',
    operationId: 'deleteRecipient',
    description:
      'From all mail of the account: the address, subject, metadata and body of messages to them, replies of mail hosts, addresses and browsers of opens and clicks; and the mails that they have written. Mail to them that still waits is canceled. Numbers and the suppression list stay: without the entry there they would be mailed again. 404: nothing was ever sent to this address or came from it, or it is erased already.',
    tag: 'messages',
    scope: ['message:delete'],
    says: 'erased a person from all mail',
    type: 'recipient',
    named: null,
    params: person,
  },
  async (call, context: ApiContext) => {
    const { recipients } = await erasePerson(context, reachOf(call.caller), call.params.email, () =>
      rowsOfAnswer(call, erased),
    );
    if (recipients === 0) throw notFound('email', 'Nothing was sent to this address.');
    return erased;
  },
);

/** In the order of the API's description. */
export const messageActions = [
  ...[attempts, explain, cancel, move, resend, content],
  ...[reports, report, reportContent, raw, eraseBody, forget],
];
