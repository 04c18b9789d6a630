/** Makes the rows of an acceptance: contents, messages, deliveries, search rows, counters and statistics. */
import { newId } from '../../base/id.ts';
import { isCharged } from '../../accounts/quota.ts';
import { addToStats } from '../../events/stats.ts';
import { addressKey, type Mailbox } from '../../mail/address.ts';
import { packsOf, type PackedRows } from '../../storage/rows-parameter.ts';
import type {
  AttachmentRow,
  BatchRow,
  ContentRow,
  CounterRow,
  DeliveryRow,
  EventRow,
  MessageMetadataRow,
  MessageRow,
  MessageTagRow,
  MessageWordRow,
  StatRow,
} from '../../storage/tables.ts';
import { SIMULATOR_DOMAIN } from '../delivery/delivery.ts';
import { addHint, type DueHint } from '../delivery/due-hint.ts';
import {
  everyRecipient,
  isSimulated,
  isSimulatedAddress,
  unsubscribeOf,
  type Sender,
  type Stream,
} from './may-send.ts';
import type { Suppressed } from '../../suppressions/suppression-store.ts';
import { giveUpAt, type AgeRule } from '../delivery/retry.ts';
import type { MessageContent, MessageDraft } from '../request/send-request.ts';
import { packedBody } from '../store/stored-content.ts';
import { wordRows } from '../list/message-filter.ts';
import { addAccepted } from '../store/books.ts';
import type { TrackingRule } from '../request/tracking-rule.ts';
import { unsubscribeJson } from '../request/unsubscribe.ts';

export interface AcceptRowsDeps {
  retry: AgeRule;
  simulatorDomain: string;
}

/** Begins the rows of one acceptance. `packs`: bodies are stored compressed. */
export const newPlan = (packs: boolean) => ({
  rows: {
    batches: [] as BatchRow[],
    contents: [] as ContentRow[],
    attachments: [] as AttachmentRow[],
    messages: [] as MessageRow[],
    deliveries: [] as DeliveryRow[],
    events: [] as EventRow[],
    message_tags: [] as MessageTagRow[],
    message_metadata: [] as MessageMetadataRow[],
    message_words: [] as MessageWordRow[],
  },
  packed: new Map<PackedTable, PackedRows[]>(),
  /** Messages that are not tests. */
  real: 0,
  /** Recipients that count in the quota. */
  charged: 0,
  /** Deliveries that can be tried at once. */
  due: 0,
  packs,
  counters: new Map<string, CounterRow>(),
  stats: new Map<string, StatRow>(),
  contentIds: new Map<MessageContent, string>(),
  hints: new Map<string, DueHint>(),
  bytes: 0,
});
export type Plan = ReturnType<typeof newPlan>;

/** Tables that get a row for each message or recipient. */
const packedTables = ['messages', 'deliveries', 'events', 'message_tags', 'message_metadata', 'message_words'] as const;
type PackedTable = (typeof packedTables)[number];

/** Returns the number of rows that `packRows` would pack now. */
export const unpackedRows = ({ rows }: Plan): number =>
  packedTables.reduce((sum, table) => sum + rows[table].length, 0);

export function packRows({ rows, packed }: Plan): void {
  for (const table of packedTables) {
    const loose = rows[table].splice(0);
    if (loose.length === 0) continue;
    const packs = packed.get(table) ?? [];
    packs.push(...packsOf(table, loose));
    packed.set(table, packs);
  }
}

/** One checked draft with what was looked up for it. */
export interface NewMessage {
  sender: Sender;
  draft: MessageDraft;
  stream: Stream;
  tracking: TrackingRule;
  suppressed: Suppressed;
  now: number;
  batchId: string | null;
  /** The ids that a mail of ours has already: it goes out with the null sender, and no quota counts it. */
  own?: { message: string; content: string | undefined };
}

/** The columns of a message that its events fill in. */
const unseen = {
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
const untried = {
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

export function addMessage(deps: AcceptRowsDeps, plan: Plan, message: NewMessage): MessageRow {
  const { draft, now, sender } = message;
  const row = messageRow(deps, plan, message);
  const sendAt = row.send_at ?? now;
  for (const [place, { type, mailbox }] of everyRecipient(draft).entries()) {
    const mail = { account: sender.accountId, domain: mailbox.domain, stream: row.stream };
    const giveUp = giveUpAt(deps.retry, mail, now, row.send_at, row.expires_at);
    const delivery = deliveryRow(deps, message, row, { type, mailbox, lead: place === 0, sendAt, giveUp });
    addDelivery(plan, message, row, delivery);
    if (delivery.lead === 1) row.status = delivery.status;
    if (delivery.status === 'suppressed') {
      row.last_event_type = 'suppressed';
      row.last_event_at = now;
    }
  }
  plan.rows.messages.push(row);
  if (row.test === 0) plan.real++;
  for (const tag of draft.tags) plan.rows.message_tags.push({ account_id: sender.accountId, tag, message_id: row.id });
  for (const [name, value] of Object.entries(draft.metadata)) {
    plan.rows.message_metadata.push({ account_id: sender.accountId, name, value, message_id: row.id });
  }
  plan.rows.message_words.push(...wordRows(sender.accountId, row.id, row.subject));
  plan.bytes += 2048;
  return row;
}

function messageRow(deps: AcceptRowsDeps, plan: Plan, message: NewMessage): MessageRow {
  const { sender, draft, stream, tracking, now, batchId } = message;
  const id = message.own?.message ?? draft.source?.id ?? newId('msg', now);
  const unsubscribe = unsubscribeOf(draft, stream);
  const opens = draft.trackOpens ?? tracking.opens;
  const clicks = draft.trackClicks ?? tracking.clicks;
  const mailboxes = (list: readonly Mailbox[]): string =>
    list.length === 0 ? '[]' : JSON.stringify(list.map(({ name, address }) => [name, address]));
  return {
    id,
    account_id: sender.accountId,
    key_id: sender.keyId,
    batch_id: batchId,
    content_id: addContent(plan, message),
    from_name: draft.from.name,
    from_address: draft.from.address,
    from_domain: draft.from.domain,
    to_name: draft.to.name,
    to_address: draft.to.address,
    cc_json: mailboxes(draft.cc),
    bcc_json: mailboxes(draft.bcc),
    reply_to_json: mailboxes(draft.replyTo),
    subject: draft.subject,
    headers_json: draft.headers.length === 0 ? '[]' : JSON.stringify(draft.headers),
    stream: stream.slug,
    template_id: draft.template?.id ?? null,
    template_version: draft.template?.version ?? null,
    tags_json: JSON.stringify(draft.tags),
    metadata_json: JSON.stringify(draft.metadata),
    send_at: draft.sendAt !== null && draft.sendAt > now ? draft.sendAt : null,
    expires_at: draft.expiresAt,
    track_opens: opens ? 1 : 0,
    track_clicks: clicks ? 1 : 0,
    test: isSimulated(deps, sender, draft) ? 1 : 0,
    test_outcome: draft.test?.outcome ?? null,
    rfc_message_id: draft.source?.rfcMessageId ?? `<${id}@${draft.from.domain}>`,
    request_id: sender.requestId,
    created_at: now,
    status: 'queued',
    status_at: now,
    ...unseen,
    tracking_url: opens || clicks || unsubscribe !== null ? tracking.base : null,
    unsubscribe_json: unsubscribeJson(unsubscribe),
    require_tls: tlsRequestOf(draft),
    notice_to: draft.source?.noticeTo ?? null,
    null_sender: message.own === undefined ? 0 : 1,
  };
}

/** Returns messages.require_tls (RFC 8689): 1 requires TLS on all hops, 0 prefers delivery to the recipient's TLS policies, null asks for nothing. */
function tlsRequestOf({ requireTls, headers }: Pick<MessageDraft, 'requireTls' | 'headers'>): 1 | 0 | null {
  if (requireTls != null) return requireTls ? 1 : 0;
  return headers.some(([name, value]) => name.toLowerCase() === 'tls-required' && isWaiver(value)) ? 0 : null;
}

const isWaiver = (value: string): boolean => value.trim().toLowerCase() === 'no';

/** Adds the content once for all entries that share it; returns its id. */
function addContent(plan: Plan, { draft, sender, now, own }: NewMessage): string {
  const { content, source: submitted } = draft;
  const raw = submitted?.bytes ?? null;
  const added = plan.contentIds.get(content);
  if (added !== undefined) return added;
  const id = own?.content ?? newId('cnt', now);
  const { html, text, autoText, attachments } = content;
  const body = plan.packs ? packedBody({ html, text }) : { html, text, packed: null };
  plan.contentIds.set(content, id);
  plan.rows.contents.push({
    id,
    account_id: sender.accountId,
    ...body,
    auto_text: autoText ? 1 : 0,
    attachment_count: attachments.length,
    created_at: now,
    raw,
  });
  plan.bytes += (body.html?.length ?? 0) + (body.text?.length ?? 0) + (body.packed?.length ?? 0) + (raw?.length ?? 0);
  attachments.forEach((one, position) => {
    plan.rows.attachments.push({
      content_id: id,
      position,
      filename: one.filename,
      content_type: one.contentType,
      cid: one.contentId,
      disposition: one.disposition,
      bytes: one.content,
    });
    plan.bytes += one.content.length;
  });
  return id;
}

function deliveryRow(
  deps: AcceptRowsDeps,
  message: NewMessage,
  row: MessageRow,
  {
    type,
    mailbox,
    lead,
    sendAt,
    giveUp,
  }: { type: 'to' | 'cc' | 'bcc'; mailbox: Mailbox; lead: boolean; sendAt: number; giveUp: number },
): DeliveryRow {
  const { now, stream, suppressed } = message;
  const key = addressKey(mailbox.address);
  const simulated = row.test === 1 || isSimulatedAddress(deps, mailbox);
  const status = suppressed.has(key) ? 'suppressed' : sendAt > now ? 'scheduled' : 'queued';
  return {
    id: newId('dlv', now),
    message_id: row.id,
    account_id: row.account_id,
    type,
    lead: lead ? 1 : 0,
    name: mailbox.name,
    address: mailbox.address,
    address_key: key,
    domain: simulated ? SIMULATOR_DOMAIN : mailbox.domain,
    class: stream.class,
    test: simulated ? 1 : 0,
    status,
    status_at: now,
    due_at: status === 'suppressed' ? null : sendAt,
    queued_at: sendAt,
    give_up_at: giveUp,
    ...untried,
  };
}

function addDelivery(
  plan: Plan,
  { draft, suppressed, now, own }: NewMessage,
  row: MessageRow,
  delivery: DeliveryRow,
): void {
  plan.rows.deliveries.push(delivery);
  if (own === undefined && isCharged(delivery)) plan.charged++;
  addAccepted(plan.counters, delivery, now);
  const hit = suppressed.get(delivery.address_key);
  if (delivery.status === 'suppressed' && hit !== undefined) {
    plan.rows.events.push({
      id: newId('evt', now),
      account_id: delivery.account_id,
      type: 'suppressed',
      at: now,
      test: delivery.test,
      message_id: delivery.message_id,
      delivery_id: delivery.id,
      status: 'suppressed',
      machine: 0,
      detail_json: JSON.stringify({ reason: hit.reason, suppression_id: hit.id }),
    });
    const facts = {
      accountId: row.account_id,
      at: now,
      test: delivery.test === 1,
      stream: row.stream,
      domain: row.from_domain,
      recipient: delivery.address,
      tags: draft.tags,
      template: row.template_id,
      key: row.key_id,
    };
    addToStats(plan.stats, facts, ['suppressed']);
  }
  if (delivery.due_at !== null && delivery.due_at <= now) plan.due++;
  if (delivery.due_at !== null) addHint(plan.hints, delivery, delivery.due_at);
}
