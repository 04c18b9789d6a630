/**
 * Makes the rows of a mail that this server sends itself: it is delivered like any other, in an account of its own, with the
 * null sender, so that no system answers it (RFC 5321 section 4.5.5). The rows are committed with the change that causes the
 * mail.
 */
import { OWN_ACCOUNT } from '../../accounts/own-account.ts';
import { newId } from '../../base/id.ts';
import { addressKey, type Mailbox } from '../../mail/address.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import type { Rows } from '../../storage/rows.ts';
import type { AttachmentRow, ContentRow, DeliveryRow, MessageRow } from '../../storage/tables.ts';
import { SIMULATOR_DOMAIN } from '../delivery/delivery.ts';
import { giveUpAt, type RetryRule } from '../delivery/retry.ts';
import { dayOf } from '../../base/time.ts';

export interface OwnMail {
  /** The message's id; the header of a raw mail contains it already. */
  id: string;
  from: Mailbox;
  to: Mailbox;
  subject: string;
  content:
    | {
        kind: 'text';
        text: string;
        /** The id of a text that is sealed (messages/store/sealed-content.ts). */
        id?: string;
        headers: readonly (readonly [string, string])[];
        attachments: readonly Attachment[];
      }
    /** Header and body as they are sent, with CRLF line ends. */
    | { kind: 'raw'; bytes: Buffer };
  /** The mail must have TLS on all hops (RFC 8689). */
  requireTls?: boolean;
}

/** The rows, due at once. All tables are present, so that a caller can join the rows of several mails. */
export type OwnMailRows = Required<Pick<Rows, 'contents' | 'attachments' | 'messages' | 'deliveries' | 'counters'>>;

/** Makes the rows. `isSimulated`: the mail goes to the simulator and never leaves this server. */
export function ownMailRows(
  mail: OwnMail,
  now: number,
  retry: Pick<RetryRule, 'maxAge'>,
  { isSimulated = false } = {},
): OwnMailRows {
  const content = contentRow(mail, now);
  return {
    contents: [content],
    attachments:
      mail.content.kind === 'raw'
        ? []
        : mail.content.attachments.map((one, position) => attachmentRow(content.id, one, position)),
    messages: [{ ...messageRow(mail, content.id, now), ...(isSimulated ? { test: 1 } : {}) }],
    deliveries: [
      {
        ...deliveryRow(mail, now, giveUpAt(retry, now, null, null)),
        ...(isSimulated ? { test: 1, domain: SIMULATOR_DOMAIN } : {}),
      },
    ],
    counters: [
      {
        account_id: OWN_ACCOUNT,
        day: dayOf(now),
        from_status: 'none',
        to_status: 'queued',
        n: 1,
      },
    ],
  };
}

const STREAM = 'transactional';

export const attachmentRow = (contentId: string, one: Attachment, position: number): AttachmentRow => ({
  content_id: contentId,
  position,
  filename: one.filename,
  content_type: one.contentType,
  cid: one.contentId,
  disposition: one.disposition,
  bytes: one.content,
});

/** The columns of a message that its events fill in. */
export const unseen = {
  last_event_type: null,
  last_event_at: null,
  opens: 0,
  clicks: 0,
  first_opened_at: null,
  last_opened_at: null,
  first_clicked_at: null,
  bot_opens: 0,
  bot_clicks: 0,
} as const;

/** The columns of a delivery that its attempts and holds fill in. */
export const untried = {
  attempt_count: 0,
  claim_epoch: null,
  no_domain_count: 0,
  no_domain_since: null,
  smtp_code: null,
  enhanced_code: null,
  smtp_reply: null,
  mx: null,
  tls: null,
  held_by: null,
  held_at: null,
} as const;

function contentRow({ content }: OwnMail, now: number): ContentRow {
  const isRaw = content.kind === 'raw';
  return {
    id: (isRaw ? undefined : content.id) ?? newId('cnt', now),
    account_id: OWN_ACCOUNT,
    html: null,
    text: isRaw ? null : content.text,
    auto_text: 0,
    packed: null,
    attachment_count: isRaw ? 0 : content.attachments.length,
    created_at: now,
    raw: isRaw ? content.bytes : null,
  };
}

function messageRow(mail: OwnMail, contentId: string, now: number): MessageRow {
  const { id, from, to, subject, content, requireTls = false } = mail;
  return {
    id,
    account_id: OWN_ACCOUNT,
    key_id: null,
    batch_id: null,
    content_id: contentId,
    from_name: from.name,
    from_address: from.address,
    from_domain: from.domain,
    to_name: to.name,
    to_address: to.address,
    cc_json: '[]',
    bcc_json: '[]',
    reply_to_json: '[]',
    subject,
    headers_json: content.kind === 'raw' ? '[]' : JSON.stringify(content.headers),
    stream: STREAM,
    template_id: null,
    template_version: null,
    tags_json: '[]',
    metadata_json: '{}',
    send_at: null,
    expires_at: null,
    track_opens: 0,
    track_clicks: 0,
    test: 0,
    test_outcome: null,
    rfc_message_id: `<${id}@${from.domain}>`,
    request_id: null,
    created_at: now,
    status: 'queued',
    status_at: now,
    ...unseen,
    tracking_url: null,
    unsubscribe_json: null,
    notice_to: null,
    null_sender: 1,
    require_tls: requireTls ? 1 : null,
  };
}

const deliveryRow = ({ id, to }: OwnMail, now: number, giveUp: number): DeliveryRow => ({
  id: newId('dlv', now),
  message_id: id,
  account_id: OWN_ACCOUNT,
  type: 'to',
  lead: 1,
  name: to.name,
  address: to.address,
  address_key: addressKey(to.address),
  domain: to.domain,
  class: 0,
  test: 0,
  status: 'queued',
  status_at: now,
  due_at: now,
  queued_at: now,
  give_up_at: giveUp,
  ...untried,
});
