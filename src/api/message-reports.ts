/** The reports of a message: mails that came back for it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import { rawReport, reportsOf } from '../messages/store/message-reports.ts';
import type { Database } from '../storage/database.ts';
import { attachedFiles } from './message-content.ts';
import { messageId } from './records.ts';
import { exampleOf, jsonResponse, route, type Route } from './route.ts';
import { requireMessage } from './test-mode.ts';

export interface MessageReportsDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  mailViewer: MailViewer;
}

const PATH = '/v1/messages/{id}/reports';
const reportId = () =>
  z
    .string()
    .regex(/^rep_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    .describe('Id of the report.');

const Report = z
  .object({
    object: z.literal('report'),
    id: reportId(),
    kind: z
      .enum(['bounce', 'delay', 'complaint', 'auto_reply', 'unsubscribe', 'report', 'other'])
      .nullable()
      .describe('Kind that it was classified as; null before it has been read.'),
    received_at: z.iso.datetime().describe('When it was received.'),
    recipient: z.string().describe('The recipient of the message that it is about.'),
    sender: z.string().describe('Its envelope sender; empty for the null sender.'),
    size: z
      .int()
      .describe('Bytes received. Of a bounce the first 512 KiB are kept, of anything else the first 32 KiB.'),
    verified: z
      .boolean()
      .describe(
        'False: it names this message but proves nothing, so it changed no status and suppressed no address. The operator can confirm it.',
      ),
  })
  .meta({ id: 'Report', description: 'A mail that came back for a message.' });

const ReportList = z
  .object({ object: z.literal('list'), data: z.array(Report).describe('The reports.') })
  .meta({ id: 'ReportList', description: 'Mails that came back, oldest first.' });

const reportSample: z.output<typeof Report> = {
  object: 'report',
  id: 'rep_01jz5w8q3hf2m9d4x6k7c1b0na',
  kind: 'bounce',
  received_at: '2026-01-31T09:32:10.004Z',
  recipient: 'ana@example.net',
  sender: '',
  size: 4211,
  verified: true,
};

const ReportContent = z
  .object({
    object: z.literal('report_content'),
    report_id: z.string().describe('Id of the report.'),
    subject: z.string().describe('Its subject.'),
    from: z.string().describe('Its From field, which anyone can have written.'),
    to: z.string().describe('Its To field.'),
    cc: z.string().describe('Its Cc field.'),
    date: z.iso.datetime().nullable().describe('Its Date field; null where it has none that can be read.'),
    text: z
      .string()
      .nullable()
      .describe('Its text, with that of a delivery status and of the mail that it brings back.'),
    html: z.string().nullable().describe('Its HTML, written by a stranger: show it only in a sandboxed frame.'),
    attachments: attachedFiles(),
  })
  .meta({ id: 'ReportContent', description: 'A mail that came back, as a mail program shows it.' });

const contentSample: z.output<typeof ReportContent> = {
  object: 'report_content',
  report_id: reportSample.id,
  subject: 'Undelivered Mail Returned to Sender',
  from: '"Mail Delivery System" <mailer-daemon@mx1.example.net>',
  to: 'b+4f2k@mail.acme.example',
  cc: '',
  date: '2026-01-31T09:32:09.000Z',
  text: 'The mail for <ana@example.net> could not be delivered.',
  html: null,
  attachments: [],
};

export function messageReportRoutes(deps: MessageReportsDeps): Route[] {
  return [listRoute(deps), rawRoute(deps), contentRoute(deps)];
}

function listRoute(deps: MessageReportsDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listMessageReports',
      description:
        'Bounces, notices of delay, complaints and answers that came by mail and belong to this message, the first hundred. They are kept for `retention.reports`.',
      scope: ['message:read'],
      params: z.object({ id: messageId() }),
      responses: {
        200: jsonResponse('The reports.', ReportList, 'A bounce', { object: 'list', data: [reportSample] }),
      },
    },
    async ({ params: { id }, caller }) => {
      await requireMessage(deps.db, caller, id);
      return { status: 200, body: { object: 'list', data: await reportsOf(deps.db.reader, id) } };
    },
  );
}

function rawRoute(deps: MessageReportsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{report_id}`,
      operationId: 'getMessageReport',
      description:
        'The unchanged mail, as `message/rfc822`: of a bounce its first 512 KiB, of anything else its first 32 KiB. Anyone may have written it.',
      scope: ['message:content'],
      params: z.object({ id: messageId(), report_id: reportId() }),
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
    async ({ params: { id, report_id: report }, caller }) => {
      return { status: 200, bytes: await requireReport(deps, caller, id, report), type: 'message/rfc822' };
    },
  );
}

function contentRoute(deps: MessageReportsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{report_id}/content`,
      operationId: 'getMessageReportContent',
      description:
        'Subject, addresses, text, html and files, for people. `invalid_state` where the mail cannot be parsed in a few seconds: its source can be read nevertheless.',
      scope: ['message:content'],
      params: z.object({ id: messageId(), report_id: reportId() }),
      responses: {
        200: jsonResponse('The mail.', ReportContent, 'A bounce', contentSample),
      },
      problems: ['invalid_state'],
    },
    async ({ params: { id, report_id: report }, caller }) => {
      const view = await deps.mailViewer.view(await requireReport(deps, caller, id, report));
      if (view === null) throw new Problem('invalid_state', 'This mail cannot be parsed: read its source.');
      return { status: 200, body: { object: 'report_content', report_id: report, ...view } };
    },
  );
}

async function requireReport(deps: MessageReportsDeps, caller: Caller, id: string, report: string): Promise<Buffer> {
  await requireMessage(deps.db, caller, id);
  const bytes = await rawReport(deps.db.prepared, id, report);
  if (bytes === null) throw new Problem('not_found', 'There is no such report.', { field: 'report_id' });
  return bytes;
}
