/** The event record of `GET /v1/events` and of webhooks, one schema for both. Its types, members and their order are a public contract. */

import { ERASED_ADDRESS } from '../mail/address.ts';
import type { EventRow, MessageRow, ReceivedMailbox, ReceivedRow } from '../storage/tables.ts';

/** The types that are returned by default. */
export const eventTypes = ['sent', 'delivered', 'opened', 'clicked', 'bounced', 'complained'] as const;
/** Types that are returned only when asked for by name. */
export const optInEventTypes = ['deferred', 'suppressed', 'failed', 'unsubscribed', 'received'] as const;

export type EventType = (typeof eventTypes)[number] | (typeof optInEventTypes)[number];

export const allEventTypes = [...eventTypes, ...optInEventTypes] as const;

/** An event with its message's columns. A `received` event has those of the message that the mail answers, if any, and no recipient of ours. */
export interface EventSource
  extends
    Pick<EventRow, 'id' | 'at' | 'test' | 'message_id' | 'delivery_id' | 'machine' | 'detail_json'>,
    Pick<MessageRow, 'batch_id' | 'rfc_message_id' | 'from_address' | 'subject' | 'template_id' | 'stream'>,
    Pick<MessageRow, 'tags_json' | 'metadata_json'> {
  sequence: number;
  type: string;
  status: string;
  recipient: string;
  recipient_type: string;
}

/** Makes the record. Address and user agent of a person who opened or clicked are personal data: they are null unless `engagement` is set. */
export function eventRecord(source: EventSource, options: { engagement: boolean }): Record<string, unknown> {
  const { rfc_message_id, recipient, from, subject, detail } =
    source.type === 'received' ? ofReceived(source) : ofDelivery(source, options);
  return {
    object: 'event',
    id: source.id,
    type: source.type,
    timestamp: new Date(source.at).toISOString(),
    sequence: source.sequence,
    test: source.test === 1,
    data: {
      message_id: source.message_id,
      batch_id: source.batch_id,
      rfc_message_id,
      recipient,
      recipient_type: source.recipient_type,
      from,
      subject,
      template_id: source.template_id,
      stream: source.stream,
      tags: JSON.parse(source.tags_json) as unknown,
      metadata: JSON.parse(source.metadata_json) as unknown,
      status: source.status,
      [source.type]: detail,
    },
  };
}

function ofDelivery(source: EventSource, { engagement }: { engagement: boolean }) {
  const { type, rfc_message_id, recipient, from_address: from, subject } = source;
  const stored = JSON.parse(source.detail_json) as Record<string, unknown>;
  // Earlier versions erased these members to null; the contract says text.
  const detail = recipient === ERASED_ADDRESS ? erasedDetail(type, stored) : stored;
  return { rfc_message_id, recipient, from, subject, detail: engagement ? detail : withoutPerson(detail) };
}

/** A mail to a domain that receives. Of an answer, batch, template, stream, tags and metadata are those of the message that it answers. */
function ofReceived({ detail_json: json }: EventSource) {
  const detail = JSON.parse(json) as StoredReceived;
  const { envelope, from, subject, message_id: id } = detail;
  return {
    rfc_message_id: id ?? '',
    recipient: envelope.to[0] ?? '',
    from: from?.email ?? envelope.from,
    subject,
    detail,
  };
}

/** The detail of a `received` event: the record of the mail, without its bodies. */
export interface StoredReceived {
  id: string;
  domain: string;
  envelope: { from: string; to: string[] };
  from: ReceivedMailbox | null;
  subject: string;
  message_id: string | null;
}

/** Adds text and html to a `received` event. */
export function withBodies(
  record: Record<string, unknown>,
  bodies: Pick<ReceivedRow, 'text' | 'html' | 'reply_text'> | undefined,
): Record<string, unknown> {
  const data = record['data'] as { received: StoredReceived };
  return { ...record, data: { ...data, received: { ...data.received, ...bodies } } };
}

/** Takes out the personal data of an open or click. */
export function withoutPerson(detail: Readonly<Record<string, unknown>>): unknown {
  return 'is_bot' in detail ? { ...detail, ip: null, user_agent: null } : detail;
}

const ERASED_URL = 'https://erased.invalid/';
const ERASED_TEXT = 'erased';

/** Facts that browsers and mail programs send about their users. */
const ofUsers = { ip: null, user_agent: null, client: null, os: null, device: null, url: ERASED_URL } as const;
/** Replies of mail servers and texts made of them often repeat the address. */
const ofHosts = { smtp_reply: null, message: ERASED_TEXT } as const;
/** Types whose facts come from a user. The `ip` of a delivery belongs to a mail host and is not personal. */
const byUsers: ReadonlySet<string> = new Set(['opened', 'clicked', 'complained']);

export function erasedDetail(type: string, detail: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const erased: Readonly<Record<string, unknown>> = byUsers.has(type) ? { ...ofHosts, ...ofUsers } : ofHosts;
  return Object.fromEntries(
    Object.entries(detail).map(([name, value]) => [name, name in erased ? erased[name] : value]),
  );
}
