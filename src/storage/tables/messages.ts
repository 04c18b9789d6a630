/** Messages with their bodies, and the tables that lists are read from. */
import { table, text, integer, bytes, orNull, type RowOf } from '../table.ts';
import type { DeliveryStatus } from './deliveries.ts';

export const batches = table(
  {
    id: text(),
    account_id: text(),
    accepted: integer(),
    rejected: integer(),
    created_at: integer(),
    /** 1 if every message of it is simulated. */
    test: integer(),
  },
  { isReferredTo: true },
);
export type BatchRow = RowOf<typeof batches>;

/** The content of a mail, stored once however many recipients it has. */
export const contents = table(
  {
    /** `sec_…` if the text is sealed under `secret.key`: a mail of ours with a link to a login (messages/store/sealed-content.ts). */
    id: text(),
    account_id: text(),
    html: orNull(text()),
    text: orNull(text()),
    auto_text: integer(),
    attachment_count: integer(),
    created_at: integer(),
    /** A submitted mail as it is sent, header and body; html, text and attachments are then empty. */
    raw: orNull(bytes()),
    /** html and text compressed, which are then empty (messages/store/stored-content.ts). */
    packed: orNull(bytes()),
  },
  { hasLargeValues: true },
);
export type ContentRow = RowOf<typeof contents>;

export const attachments = table(
  {
    content_id: text(),
    position: integer(),
    filename: text(),
    content_type: text(),
    /** The Content-ID without brackets, for `cid:` links. */
    cid: orNull(text()),
    disposition: text<'attachment' | 'inline'>(),
    bytes: bytes(),
  },
  { hasLargeValues: true },
);
export type AttachmentRow = RowOf<typeof attachments>;

export const messages = table({
  id: text(),
  account_id: text(),
  key_id: orNull(text()),
  batch_id: orNull(text()),
  content_id: text(),
  from_name: orNull(text()),
  from_address: text(),
  from_domain: text(),
  to_name: orNull(text()),
  to_address: text(),
  /** Mailboxes `[name, address][]`. */
  cc_json: text(),
  bcc_json: text(),
  reply_to_json: text(),
  subject: text(),
  /** Custom headers `[name, value][]`. */
  headers_json: text(),
  stream: text(),
  template_id: orNull(text()),
  template_version: orNull(integer()),
  tags_json: text(),
  metadata_json: text(),
  send_at: orNull(integer()),
  /** The sender's own limit; deliveries.give_up_at has the time when a delivery is given up. */
  expires_at: orNull(integer()),
  track_opens: integer(),
  track_clicks: integer(),
  /** 1 if delivery is simulated: by a test key, or to the simulator's domain. */
  test: integer(),
  test_outcome: orNull(text()),
  rfc_message_id: text(),
  request_id: orNull(text()),
  created_at: integer(),
  /** Status of the `to` recipient, which messages/delivery/record.ts keeps equal to that of its delivery. */
  status: text<DeliveryStatus>(),
  status_at: integer(),
  last_event_type: orNull(text()),
  last_event_at: orNull(integer()),
  opens: integer(),
  clicks: integer(),
  first_opened_at: orNull(integer()),
  last_opened_at: orNull(integer()),
  first_clicked_at: orNull(integer()),
  bot_opens: integer(),
  bot_clicks: integer(),
  /** Address that its tracked and unsubscribe links begin with; null if it has none. */
  tracking_url: orNull(text()),
  /** The ways to unsubscribe (messages/request/unsubscribe.ts); null if they are off. */
  unsubscribe_json: orNull(text()),
  /** RFC 8689: 1 for REQUIRETLS, 0 for `TLS-Required: No`, else null. */
  require_tls: orNull(integer()),
  /** The address that gets a notice when it has finally failed; null for none, and for mail that was not submitted by SMTP. */
  notice_to: orNull(text()),
  /** 1 for mail that Posthorn writes itself (messages/accept/own-mail.ts): it has the null sender. */
  null_sender: integer(),
});
export type MessageRow = RowOf<typeof messages>;

export const messageTags = table({
  account_id: text(),
  tag: text(),
  message_id: text(),
});
export type MessageTagRow = RowOf<typeof messageTags>;

export const messageMetadata = table({
  account_id: text(),
  name: text(),
  value: text(),
  message_id: text(),
});
export type MessageMetadataRow = RowOf<typeof messageMetadata>;

/** A word of a message's subject, without case (messages/list/subject-words.ts). */
export const messageWords = table({
  account_id: text(),
  word: text(),
  message_id: text(),
});
export type MessageWordRow = RowOf<typeof messageWords>;
