/** The event log and the numbers by hour and day. */
import { table, text, integer, type RowOf } from '../table.ts';
import type { DeliveryStatus } from './deliveries.ts';

/** The counted kinds: events, classes of bounces, and opens and clicks by people and by machines. */
export const statTypes = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'bounced_hard',
  'bounced_soft',
  'bounced_block',
  'complained',
  'suppressed',
  'failed',
  'opened',
  'unique_opened',
  'machine_opened',
  'clicked',
  'unique_clicked',
  'machine_clicked',
  'unsubscribed',
] as const;

export type StatType = (typeof statTypes)[number];

export const events = table(
  {
    id: text(),
    account_id: text(),
    type: text(),
    at: integer(),
    test: integer(),
    message_id: text(),
    delivery_id: text(),
    /** The recipient's status right after the event. */
    status: text<DeliveryStatus>(),
    /** 1 for opens and clicks by machines. */
    machine: integer(),
    /** The member named after the type. */
    detail_json: text(),
  },
  { isNumbered: true },
);
export type EventRow = RowOf<typeof events>;

/** The number of events of each kind by account, by hour or UTC day, and by the columns of the key. */
export const eventCounts = table(
  {
    account_id: text(),
    /** `whole_`: all mail of the time; stream, domain, provider and tag are then empty. `template_`: by template. `source_`: by sending address. */
    span: text<'hour' | 'day' | 'whole_hour' | 'whole_day' | 'template_hour' | 'template_day' | 'source_day'>(),
    test: integer(),
    /** One of the message's tags; empty in the row that counts every message. In rows by template it is the template's id, in rows by source the source's name. */
    tag: text(),
    /** Begin of the hour or day in which the mail was accepted, or due if it was scheduled. */
    at: integer(),
    stream: text(),
    /** The sending domain. */
    domain: text(),
    /** The recipient's mailbox provider (base/mailbox-providers.ts). */
    provider: text(),
    sent: integer(),
    delivered: integer(),
    deferred: integer(),
    bounced: integer(),
    /** The bounces of each class. */
    bounced_hard: integer(),
    bounced_soft: integer(),
    bounced_block: integer(),
    complained: integer(),
    suppressed: integer(),
    failed: integer(),
    /** All opens and clicks by people. */
    opened: integer(),
    /** Messages that were opened. */
    unique_opened: integer(),
    /** By scanners and proxies. */
    machine_opened: integer(),
    clicked: integer(),
    unique_clicked: integer(),
    machine_clicked: integer(),
    unsubscribed: integer(),
  },
  {
    isParted: true,
    onConflict: {
      key: ['account_id', 'span', 'test', 'tag', 'at', 'stream', 'domain', 'provider'],
      adds: statTypes,
    },
  },
);
export type StatRow = RowOf<typeof eventCounts>;
