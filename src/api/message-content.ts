/** `/v1/messages/{id}/content`: the stored body of a message. */
import { z } from 'zod';
import { attachmentsOf, contentOf } from '../messages/store/message-store.ts';
import type { MessageRow } from '../storage/tables.ts';
import type { ApiContext } from './context.ts';
import { messages } from './messages.ts';
import { maybe, text, whole } from './record-schema.ts';
import { jsonResponse } from './route.ts';
import { requireMessage } from './test-mode.ts';

/** The list of attached files in an answer. */
export const attachedFiles = () =>
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

const Content = z
  .object({
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
  })
  .meta({ id: 'Content', description: 'The stored body of a message, without the bytes of its attachments.' });

export const messageContent = messages.at(
  'GET',
  '/v1/messages/{id}/content',
  {
    operationId: 'getMessageContent',
    description: 'The body as it was accepted or, with a template, rendered.',
    scope: ['message:content'],
    responses: { 200: jsonResponse('The body.', Content, 'A body with a file') },
  },
  async ({ params: { id }, caller }, context: ApiContext) => {
    const row = await requireMessage(context.db, caller, id);
    return { status: 200, body: { object: 'content', message_id: row.id, ...(await contentRecord(context, row)) } };
  },
);

type ContentRecord = Omit<z.output<typeof Content>, 'object' | 'message_id'>;

/** A mail submitted by SMTP is parsed for each answer: only people who look at a message ask for it. */
async function contentRecord({ db, mailViewer }: ApiContext, row: MessageRow): Promise<ContentRecord> {
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
