/** Rows of a message and its deliveries with everything filled in: what acceptance would have left behind. */
import { newId } from '../../../src/base/id.ts';
import type { DeliveryState } from '../../../src/messages/delivery/delivery.ts';
import type { Rows } from '../../../src/storage/rows.ts';
import type { ContentRow, CounterRow, DeliveryRow, MessageRow } from '../../../src/storage/tables.ts';

export const NOW = Date.parse('2026-01-31T09:30:00.000Z');
export const HOUR = 3_600_000;
export const ACCOUNT = 'acc_00000000000000000000000001';

export function contentRow(changes: Partial<ContentRow> = {}): ContentRow {
  return {
    id: newId('cnt', NOW),
    account_id: ACCOUNT,
    html: '<p>hi</p>',
    text: 'hi',
    auto_text: 0,
    packed: null,
    attachment_count: 0,
    created_at: NOW,
    raw: null,
    ...changes,
  };
}

export function messageRow(changes: Partial<MessageRow> = {}): MessageRow {
  const id = newId('msg', NOW);
  return {
    id,
    account_id: ACCOUNT,
    key_id: null,
    batch_id: null,
    content_id: 'cnt_00000000000000000000000001',
    from_name: 'Acme',
    from_address: 'hi@acme.test',
    from_domain: 'acme.test',
    to_name: null,
    to_address: 'ana@dest.test',
    cc_json: '[]',
    bcc_json: '[]',
    reply_to_json: '[]',
    subject: 'Welcome',
    headers_json: '[]',
    stream: 'transactional',
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
    rfc_message_id: `<${id}@acme.test>`,
    request_id: null,
    created_at: NOW,
    status: 'queued',
    status_at: NOW,
    last_event_type: null,
    last_event_at: null,
    opens: 0,
    clicks: 0,
    first_opened_at: null,
    last_opened_at: null,
    first_clicked_at: null,
    bot_opens: 0,
    bot_clicks: 0,
    tracking_url: null,
    unsubscribe_json: null,
    require_tls: null,
    notice_to: null,
    null_sender: 0,
    ...changes,
  };
}

export function deliveryRow(changes: Partial<DeliveryRow> = {}): DeliveryRow {
  return {
    id: newId('dlv', NOW),
    message_id: 'msg_00000000000000000000000001',
    account_id: ACCOUNT,
    type: 'to',
    lead: (changes.type ?? 'to') === 'to' ? 1 : 0,
    name: null,
    address: 'ana@dest.test',
    address_key: 'ana@dest.test',
    domain: 'dest.test',
    class: 0,
    test: 0,
    status: 'queued',
    status_at: NOW,
    due_at: NOW,
    queued_at: NOW,
    give_up_at: NOW + 72 * HOUR,
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
    ...changes,
  };
}

/** The books' entry for recipients that were accepted. */
export function acceptedCounter(n: number, status = 'queued', accountId: string = ACCOUNT): CounterRow {
  return { account_id: accountId, day: '2026-01-31', from_status: 'none', to_status: status, n };
}

/** A message with one delivery for each change given, and the books' entries for them. */
export function acceptedMail(...deliveries: Partial<DeliveryRow>[]): {
  rows: Rows;
  message: MessageRow;
  deliveries: DeliveryRow[];
} {
  const made = deliveries.map((changes) => deliveryRow(changes));
  const first = made.find(({ type }) => type === 'to');
  const message = messageRow({ status: first?.status ?? 'queued', to_address: first?.address ?? 'ana@dest.test' });
  for (const one of made) one.message_id = message.id;
  const counters = made.map(({ status, account_id }) => acceptedCounter(1, status, account_id));
  return { rows: { messages: [message], deliveries: made, counters }, message, deliveries: made };
}

export function deliveryState(changes: Partial<DeliveryState> = {}): DeliveryState {
  return {
    status: 'queued',
    dueAt: NOW,
    giveUpAt: NOW + 72 * HOUR,
    attemptCount: 0,
    claimEpoch: null,
    noDomainCount: 0,
    noDomainSince: null,
    fullSince: null,
    test: false,
    queuedAt: NOW,
    lastReply: { smtpCode: null, enhancedCode: null, smtpReply: null, mx: null },
    opens: 0,
    clicks: 0,
    stream: 'transactional',
    deliveredAt: null,
    expiresAt: null,
    heldBy: null,
    heldAt: null,
    erased: false,
    unsubscribed: false,
    ...changes,
  };
}
