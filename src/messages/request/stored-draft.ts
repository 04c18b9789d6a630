/** Makes a draft of a stored message, to send it again. */
import { newId } from '../../base/id.ts';
import { Problem } from '../../base/problem.ts';
import { ERASED_ADDRESS, type Mailbox } from '../../mail/address.ts';
import { renewSubmitted } from '../../mail/submitted.ts';
import type { Database } from '../../storage/database.ts';
import type { DeliveryRow, MessageRow } from '../../storage/tables.ts';
import { storedMailboxes, type StoredMailbox } from '../store/message.ts';
import { attachmentsOf, contentOf } from '../store/message-store.ts';
import type { MessageDraft } from './send-request.ts';
import { storedUnsubscribe } from './unsubscribe.ts';

/** Returns the draft to another recipient alone, in the place of all that it has. A submitted mail keeps its header. */
export function addressedTo(draft: MessageDraft, to: Mailbox): MessageDraft {
  const { source } = draft;
  return {
    ...draft,
    to,
    cc: [],
    bcc: [],
    ...(source === undefined ? {} : { source: { ...source, recipients: [{ type: 'to', mailbox: to }] } }),
  };
}

/** Returns the whole message, to all its recipients but erased ones. Throws `invalid_state` if its content or its recipient is erased. */
export async function storedDraft(db: Pick<Database, 'reader'>, row: MessageRow, now: number): Promise<MessageDraft> {
  const content = await contentOf(db.reader, row.content_id);
  const isEmpty = content?.html == null && content?.text == null && content?.attachment_count === 0;
  if (content === undefined || (isEmpty && content.raw === null))
    throw new Problem('invalid_state', 'The content of this message is deleted, so it cannot be sent again.');
  if (row.to_address === ERASED_ADDRESS)
    throw new Problem('invalid_state', 'The recipient of this message is erased, so it cannot be sent again.');
  const submitted = content.raw === null ? {} : await sourceOf(db.reader, row, content.raw, now);
  const files = await attachmentsOf(db.reader, row.content_id);
  return {
    from: mailbox([row.from_name, row.from_address]),
    to: mailbox([row.to_name, row.to_address]),
    cc: storedMailboxes(row.cc_json).map(mailbox).filter(isKnown),
    bcc: storedMailboxes(row.bcc_json).map(mailbox).filter(isKnown),
    replyTo: storedMailboxes(row.reply_to_json).map(mailbox),
    subject: row.subject,
    content: {
      html: content.html,
      text: content.text,
      autoText: content.auto_text === 1,
      attachments: files.map(({ filename, content_type, cid, disposition, bytes }) => ({
        filename,
        contentType: content_type,
        contentId: cid,
        disposition,
        content: bytes,
      })),
    },
    headers: JSON.parse(row.headers_json) as [string, string][],
    tags: JSON.parse(row.tags_json) as string[],
    metadata: JSON.parse(row.metadata_json) as Record<string, string>,
    sendAt: null,
    expiresAt: null,
    stream: row.stream,
    trackOpens: row.track_opens === 1,
    trackClicks: row.track_clicks === 1,
    unsubscribe: storedUnsubscribe(row) ?? false,
    onSuppressed: 'accept',
    test: row.test === 1 ? { outcome: row.test_outcome as NonNullable<MessageDraft['test']>['outcome'] } : null,
    ...submitted,
    ...(row.template_id === null ? {} : { template: { id: row.template_id, version: row.template_version ?? 1 } }),
  };
}

/** Returns the source of a mail that was submitted by SMTP: unchanged, but with the id of the new message. */
async function sourceOf(
  read: Database['reader'],
  row: MessageRow,
  raw: Buffer,
  now: number,
): Promise<Pick<MessageDraft, 'source' | 'requireTls'>> {
  const id = newId('msg', now);
  const rfcMessageId = `<${id}@${row.from_domain}>`;
  const rows = await read<DeliveryRow>('deliveries').where({ message_id: row.id }).orderBy('id');
  const recipients = rows
    .map(({ type, name, address }) => ({ type, mailbox: mailbox([name, address]) }))
    .filter(({ mailbox: one }) => isKnown(one));
  const bytes = renewSubmitted(raw, { messageId: rfcMessageId, date: new Date(now) });
  return {
    source: { id, rfcMessageId, bytes, facts: null, recipients, noticeTo: row.notice_to },
    requireTls: row.require_tls === null ? null : row.require_tls === 1,
  };
}

function mailbox([name, address]: StoredMailbox): Mailbox {
  const at = address.lastIndexOf('@');
  return { name, address, local: address.slice(0, at), domain: address.slice(at + 1) };
}

const isKnown = ({ address }: Mailbox): boolean => address !== ERASED_ADDRESS;
