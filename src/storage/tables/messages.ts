/** Messages with their bodies, and the tables that lists are read from. */
import { bytes, computed, flag, integer, json, map, orNull, table, text, texts, time, type RowOf } from '../table.ts';
import { deliveryStatus } from './deliveries.ts';

/** The message of the examples. */
const MESSAGE_ID = 'msg_01jz5w8q3hf2m9d4x6k7c1b0na';
const ACCEPTED = '2026-01-31T09:30:02.171Z';

export const batches = table(
  {
    id: text().says('Id of the bulk send.', 'bat_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    accepted: integer().says('Entries that are messages.', 1),
    rejected: integer().says('Entries that were refused.', 1),
    created_at: time().says('When it was accepted.', ACCEPTED),
    counts: computed(orNull(json<Record<string, number>>()).says('Messages by status; null in lists.')),
    /** 1 if every message of it is simulated. */
    test: integer(),
  },
  { isReferredTo: true },
);
export type BatchRow = RowOf<typeof batches>;

/** The content of a mail, stored once however many recipients it has. */
export const contents = table(
  {
    /** `sec_…` if the text is sealed under `secret.key`: a mail of ours with a link to a login (messages/store/stored-content.ts). */
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
    /** 0, 1 ...; of the further pieces of a large file, and of a large submitted mail, a million more each (messages/store/stored-content.ts). */
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
  id: text().says('Id of the message.', MESSAGE_ID),
  account_id: text(),
  key_id: orNull(text()),
  batch_id: orNull(text()).says('Id of the bulk send that it came with; null for a single message.'),
  content_id: text(),
  /** That of the `to` recipient, which messages/delivery/record.ts keeps equal to that of its delivery. */
  status: deliveryStatus('queued'),
  status_at: time().says('Since when it has this status.', ACCEPTED),
  reason: computed(
    orNull(text()).says(
      'Why it was bounced, deferred, failed or suppressed, in one word; null for other states, and where a message was just sent or changed.',
      null,
    ),
  ),
  from_name: orNull(text()),
  from_address: text(),
  from_domain: text(),
  from: computed(text().says('Sender, with its display name if it has one.', 'Acme <hi@acme.example>')),
  to_name: orNull(text()),
  to_address: text(),
  to: computed(text().says('The one main recipient.', 'ana@example.net')),
  /** Mailboxes `[name, address][]`. */
  cc_json: text(),
  bcc_json: text(),
  reply_to_json: text(),
  cc: computed(texts().says('Further recipients, named in the mail.')),
  bcc: computed(texts().says('Further recipients, not named in the mail.')),
  reply_to: computed(texts().says('Where answers go; empty means to the sender.')),
  subject: text().says('Subject line, as rendered.', 'Your order'),
  /** Custom headers `[name, value][]`. */
  headers_json: text(),
  stream: text().says('Slug of the stream that it was sent on.', 'transactional'),
  template_id: orNull(text()).says('Id of the template that it was rendered from; null if there was none.'),
  template_version: orNull(integer()).says('Version of that template.'),
  tags_json: texts().says('Tags of the request, in their order.', ['order']),
  metadata_json: map().says('Metadata of the request.', { order: '17' }),
  send_at: orNull(time()).says('When it is to leave; null for at once.'),
  /** The sender's own limit; deliveries.give_up_at has the time when a delivery is given up. */
  expires_at: orNull(time()).says('When delivery is given up; null means after the time that the server allows.'),
  track_opens: flag().says('Whether opening it is counted.'),
  track_clicks: flag().says('Whether following its links is counted.'),
  /** By a test key, or to the simulator's domain. */
  test: flag().says('True if delivery is simulated.'),
  test_outcome: orNull(text()),
  rfc_message_id: text().says('The Message-ID of the mail.', `<${MESSAGE_ID}@acme.example>`),
  request_id: orNull(text()),
  last_event_type: orNull(text()),
  last_event_at: orNull(integer()),
  last_event: computed(
    orNull(json<{ type: string; timestamp: string }>()).says('The newest event; null before there is one.', null),
  ),
  opens: integer(),
  clicks: integer(),
  first_opened_at: orNull(integer()),
  last_opened_at: orNull(integer()),
  first_clicked_at: orNull(integer()),
  bot_opens: integer(),
  bot_clicks: integer(),
  engagement: computed(json<object>().says('Opens and clicks. They change no status.')),
  created_at: time().says('When it was accepted.', ACCEPTED),
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

/** A word of a message's subject, without case (messages/list/message-filter.ts). */
export const messageWords = table({
  account_id: text(),
  word: text(),
  message_id: text(),
});
export type MessageWordRow = RowOf<typeof messageWords>;
