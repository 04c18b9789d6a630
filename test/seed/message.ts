/** One seeded message: its rows as acceptance would write them, and what became of it folded in as the recorder does it. */
import { newId } from '../../src/base/id.ts';
import { addToStats } from '../../src/events/stats.ts';
import { decide } from '../../src/messages/delivery/decide.ts';
import {
  applyDecision,
  type RowsToWrite,
  beginUpdate,
  type LoadedDelivery,
  type PendingUpdate,
} from '../../src/messages/delivery/record.ts';
import { addToCounters } from '../../src/messages/store/books.ts';
import type { ContentRow, DeliveryRow, DeliveryStatus, EventRow, MessageRow } from '../../src/storage/tables.ts';
import type { Person } from './people.ts';
import { GIVE_UP_MS, type Turn } from './story.ts';

/** The mail that is sent, and its time. */
export interface Letter {
  accountId: string;
  keyId: string;
  batchId: string | null;
  contentId: string;
  fromDomain: string;
  to: Person;
  /** Gets a copy. */
  cc: Person | null;
  subject: string;
  stream: 'transactional' | 'broadcast';
  template: { id: string; version: number } | null;
  tags: readonly string[];
  metadata: Readonly<Record<string, string>>;
  at: number;
  sendAt: number | null;
  /** By a test key: simulated. */
  test: boolean;
  /** Why it is not sent at all. */
  suppression: { id: string; reason: string } | null;
}

export interface Written {
  message: MessageRow;
  deliveries: DeliveryRow[];
}

/** `now`: what would come after it has not happened. */
export function writeMessage(
  letter: Letter,
  tell: (domain: string) => Turn[],
  now: number,
  gathered: RowsToWrite,
): Written {
  const message = messageRow(letter);
  const people: { type: 'to' | 'cc'; person: Person }[] = [{ type: 'to', person: letter.to }];
  if (letter.cc !== null) people.push({ type: 'cc', person: letter.cc });
  const written = people.map(({ type, person }) => {
    const row = deliveryRow(letter, message.id, type, person);
    const folding = beginUpdate(loadedOf(letter, row));
    accepted(letter, folding, gathered);
    if (folding.state.status !== 'suppressed') live(folding, tell(person.domain), now, gathered);
    return { row, folding };
  });
  for (const { folding } of written) showIn(message, folding);
  return { message, deliveries: written.map(({ row, folding }) => ended(row, folding)) };
}

function live(folding: PendingUpdate, turns: readonly Turn[], now: number, gathered: RowsToWrite): void {
  for (const { changes } of turns) {
    if ((changes.at(-1)?.at ?? 0) > now) continue;
    for (const { at, change } of changes)
      applyDecision(folding, decide(folding.state, change, at), change, at, gathered);
  }
}

function accepted(
  { at, suppression, stream, fromDomain, tags, template }: Letter,
  { row }: PendingUpdate,
  gathered: RowsToWrite,
): void {
  addToCounters(gathered.counters, row.account_id, at, 'none', row.status);
  if (suppression === null || row.status !== 'suppressed') return;
  const detail = { reason: suppression.reason, suppression_id: suppression.id };
  const event: EventRow = {
    id: newId('evt', at),
    account_id: row.account_id,
    type: 'suppressed',
    at,
    test: row.test,
    message_id: row.message_id,
    delivery_id: row.id,
    status: 'suppressed',
    machine: 0,
    detail_json: JSON.stringify(detail),
  };
  gathered.events.push(event);
  const facts = {
    accountId: row.account_id,
    at,
    test: row.test === 1,
    stream,
    domain: fromDomain,
    recipient: row.address,
    tags,
    template: template?.id ?? null,
  };
  addToStats(gathered.stats, facts, ['suppressed']);
}

const loadedOf = ({ stream, fromDomain, tags, template }: Letter, row: DeliveryRow): LoadedDelivery => ({
  ...row,
  key_id: null,
  notice_to: null,
  full_since: null,
  opens: 0,
  clicks: 0,
  stream,
  from_domain: fromDomain,
  template_id: template?.id ?? null,
  tags_json: JSON.stringify(tags),
  source: null,
  suppression_id: null,
  suppression_reason: null,
  expires_at: null,
  erased: 0,
  unsubscribed: 0,
});

/** As the recorder's update would leave it. */
function ended(row: DeliveryRow, { state, statusAt, tls }: PendingUpdate): DeliveryRow {
  const { smtpCode, enhancedCode, smtpReply, mx } = state.lastReply;
  return {
    ...row,
    status: state.status,
    status_at: statusAt,
    due_at: state.dueAt,
    attempt_count: state.attemptCount,
    claim_epoch: state.claimEpoch,
    smtp_code: smtpCode,
    enhanced_code: enhancedCode,
    smtp_reply: smtpReply,
    mx,
    tls,
  };
}

function showIn(
  message: MessageRow,
  { row, state, statusAt, lastEvent, opened, clicked, bots, hitAt }: PendingUpdate,
): void {
  if (row.lead === 1) {
    message.status = state.status;
    message.status_at = statusAt;
  }
  if (lastEvent !== null && lastEvent.at >= (message.last_event_at ?? 0)) {
    message.last_event_type = lastEvent.type;
    message.last_event_at = lastEvent.at;
  }
  message.opens += opened;
  message.clicks += clicked;
  message.bot_opens += bots.opens;
  message.bot_clicks += bots.clicks;
  message.first_opened_at ??= hitAt.opened;
  message.last_opened_at = hitAt.opened ?? message.last_opened_at;
  message.first_clicked_at ??= hitAt.clicked;
}

function messageRow(letter: Letter): MessageRow {
  const { at, to, cc, fromDomain, template } = letter;
  const id = newId('msg', at);
  return {
    id,
    account_id: letter.accountId,
    key_id: letter.keyId,
    batch_id: letter.batchId,
    content_id: letter.contentId,
    from_name: 'Acme',
    from_address: `hello@${fromDomain}`,
    from_domain: fromDomain,
    to_name: to.name,
    to_address: to.address,
    cc_json: cc === null ? '[]' : JSON.stringify([[cc.name, cc.address]]),
    bcc_json: '[]',
    reply_to_json: '[]',
    subject: letter.subject,
    headers_json: '[]',
    stream: letter.stream,
    template_id: template?.id ?? null,
    template_version: template?.version ?? null,
    tags_json: JSON.stringify(letter.tags),
    metadata_json: JSON.stringify(letter.metadata),
    send_at: letter.sendAt,
    expires_at: null,
    track_opens: 1,
    track_clicks: 1,
    test: letter.test ? 1 : 0,
    test_outcome: null,
    rfc_message_id: `<${id}@${fromDomain}>`,
    request_id: newId('req', at),
    created_at: at,
    status: 'queued',
    status_at: at,
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
  };
}

function deliveryRow(letter: Letter, messageId: string, type: 'to' | 'cc', person: Person): DeliveryRow {
  const { at, sendAt, test } = letter;
  const due = sendAt ?? at;
  const status: DeliveryStatus =
    letter.suppression !== null && type === 'to' ? 'suppressed' : due > at ? 'scheduled' : 'queued';
  return {
    id: newId('dlv', at),
    message_id: messageId,
    account_id: letter.accountId,
    type,
    lead: type === 'to' ? 1 : 0,
    name: person.name,
    address: person.address,
    address_key: person.key,
    domain: test ? '~simulator' : person.domain,
    class: letter.stream === 'broadcast' ? 1 : 0,
    test: test ? 1 : 0,
    status,
    status_at: at,
    due_at: status === 'suppressed' ? null : due,
    queued_at: due,
    give_up_at: due + GIVE_UP_MS,
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
  };
}

/** The text of a mail; a campaign has the same for all recipients. */
export function contentRow(accountId: string, at: number, subject: string): ContentRow {
  const html = `<!doctype html><html><body><h1>${subject}</h1><p>Good day,</p><p>this is what we have to tell you.</p><p><a href="https://shop.test/orders">Look at your orders</a> or <a href="https://shop.test/account">at your account</a>.</p><p>Acme, 1 Example Street</p></body></html>`;
  const text = `${subject}\n\nGood day,\n\nthis is what we have to tell you.\n\nhttps://shop.test/orders\n`;
  return {
    id: newId('cnt', at),
    account_id: accountId,
    html,
    text,
    auto_text: 0,
    attachment_count: 0,
    created_at: at,
    raw: null,
    packed: null,
  };
}
