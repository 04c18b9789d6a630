/**
 * The event record of `GET /v1/events` and of webhooks, one schema for both. Its types, members and their order are a public contract.
 */

import { ERASED_ADDRESS } from '../mail/address.ts';
import type { EventRow, MessageRow } from '../storage/tables.ts';
import { erasedDetail } from './erased.ts';

/** The types that are returned by default. */
export const eventTypes = ['sent', 'delivered', 'opened', 'clicked', 'bounced', 'complained'] as const;
/** Types that are returned only when asked for by name. */
export const optInEventTypes = ['deferred', 'suppressed', 'failed', 'unsubscribed'] as const;

export type EventType = (typeof eventTypes)[number] | (typeof optInEventTypes)[number];

export const allEventTypes = [...eventTypes, ...optInEventTypes] as const;

/** An event with its message's columns, as one query reads it. */
export interface EventSource
  extends
    Pick<EventRow, 'id' | 'at' | 'test' | 'message_id' | 'machine' | 'detail_json'>,
    Pick<MessageRow, 'batch_id' | 'rfc_message_id' | 'from_address' | 'subject' | 'template_id' | 'stream'>,
    Pick<MessageRow, 'tags_json' | 'metadata_json'> {
  sequence: number;
  type: string;
  status: string;
  recipient: string;
  recipient_type: string;
}

/**
 * Makes the record. Address and user agent of a person who opened or clicked are personal data: they are null
 * unless `engagement` is set.
 */
export function eventRecord(source: EventSource, options: { engagement: boolean }): Record<string, unknown> {
  const stored = JSON.parse(source.detail_json) as Record<string, unknown>;
  // Earlier versions erased these members to null; the contract says text.
  const detail = source.recipient === ERASED_ADDRESS ? erasedDetail(source.type, stored) : stored;
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
      rfc_message_id: source.rfc_message_id,
      recipient: source.recipient,
      recipient_type: source.recipient_type,
      from: source.from_address,
      subject: source.subject,
      template_id: source.template_id,
      stream: source.stream,
      tags: JSON.parse(source.tags_json) as unknown,
      metadata: JSON.parse(source.metadata_json) as unknown,
      status: source.status,
      [source.type]: options.engagement ? detail : withoutPerson(detail),
    },
  };
}

/** Takes out the personal data of an open or click. */
export function withoutPerson(detail: Readonly<Record<string, unknown>>): unknown {
  return 'is_bot' in detail ? { ...detail, ip: null, user_agent: null } : detail;
}
