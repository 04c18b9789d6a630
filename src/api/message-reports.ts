/** The reports of a message: mails that came back for it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rawReport, reportMembers, reportsOf } from '../messages/store/message-store.ts';
import type { ApiContext } from './context.ts';
import { attachedFiles } from './message-content.ts';
import { messages } from './messages.ts';
import { maybe, maybeTime, recordSchema, shows, text } from './record-schema.ts';
import { messageId } from './records.ts';
import { exampleOf, jsonResponse, type Call } from './route.ts';
import { requireMessage } from './test-mode.ts';

const PATH = '/v1/messages/{id}/reports';
const reportId = () =>
  z
    .string()
    .regex(/^rep_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    .describe('Id of the report.');

const Report = recordSchema(
  reportMembers,
  { id: 'Report', description: 'A mail that came back for a message.' },
  {
    id: reportId(),
    kind: z.enum(['bounce', 'delay', 'complaint', 'auto_reply', 'unsubscribe', 'report', 'other']),
  },
);

const ReportList = z
  .object({ object: z.literal('list'), data: z.array(Report).describe('The reports.') })
  .meta({ id: 'ReportList', description: 'Mails that came back, oldest first.' });

const ReportContent = z
  .object({
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
  })
  .meta({ id: 'ReportContent', description: 'A mail that came back, as a mail program shows it.' });

type ReportCall = Call<{ id: string; report_id: string }, object, undefined>;

const list = messages.at(
  'GET',
  PATH,
  {
    operationId: 'listMessageReports',
    description:
      'Bounces, notices of delay, complaints and answers that came by mail and belong to this message, the first hundred. They are kept for `retention.reports`.',
    responses: { 200: jsonResponse('The reports.', ReportList, 'A bounce') },
  },
  async ({ params: { id }, caller }, { db }: ApiContext) => {
    await requireMessage(db, caller, id);
    return { status: 200, body: { object: 'list', data: await reportsOf(db.reader, id) } };
  },
);

const params = z.object({ id: messageId(), report_id: reportId() });

const raw = messages.at(
  'GET',
  `${PATH}/{report_id}`,
  {
    operationId: 'getMessageReport',
    description:
      'The unchanged mail, as `message/rfc822`: of a bounce its first 512 KiB, of anything else its first 32 KiB. Anyone may have written it.',
    scope: ['message:content'],
    params,
    responses: {
      200: {
        description: 'The mail.',
        types: ['message/rfc822'],
        examples: exampleOf(
          'The beginning of a bounce',
          'From: <mailer-daemon@mx1.example.net>\r\nSubject: Undelivered Mail\r\n\r\n...',
        ),
      },
    },
  },
  async (call: ReportCall, context: ApiContext) => ({
    status: 200,
    bytes: await requireReport(context, call),
    type: 'message/rfc822',
  }),
);

const content = messages.at(
  'GET',
  `${PATH}/{report_id}/content`,
  {
    operationId: 'getMessageReportContent',
    description:
      'Subject, addresses, text, html and files, for people. `invalid_state` if the mail cannot be parsed in a few seconds: its source can be read nevertheless.',
    scope: ['message:content'],
    params,
    responses: { 200: jsonResponse('The mail.', ReportContent, 'A bounce') },
    problems: ['invalid_state'],
  },
  async (call: ReportCall, context: ApiContext) => {
    const view = await context.mailViewer.view(await requireReport(context, call));
    if (view === null) throw new Problem('invalid_state', 'This mail cannot be parsed: read its source.');
    return { status: 200, body: { object: 'report_content', report_id: call.params.report_id, ...view } };
  },
);

async function requireReport({ db }: ApiContext, { params: { id, report_id }, caller }: ReportCall): Promise<Buffer> {
  await requireMessage(db, caller, id);
  const bytes = await rawReport(db.prepared, id, report_id);
  if (bytes === null) throw new Problem('not_found', 'There is no such report.', { field: 'report_id' });
  return bytes;
}

export const messageReports = [list, raw, content];
