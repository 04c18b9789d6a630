/** The event log and the numbers by hour and day. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';
import type { DeliveryStatus } from './deliveries.ts';

/** What is counted: the kinds of events, what tells bounces apart, and people and machines that looked. */
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

export const events = table({
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
});
export type EventRow = RowOf<typeof events>;

/**
 * The lines of `event_counts` of one hour or day that is over, summed up for each stream, domain and so on (events/stat-sums.ts). What
 * comes late makes the lines null, and the version higher.
 */
export const eventSums = table({
  account_id: text(),
  span: text<'hour' | 'day'>(),
  test: integer(),
  at: integer(),
  version: integer(),
  /** `[key, count, count, …][]`, the counts in the order of the columns of `event_counts`. */
  stream_json: orNull(text()),
  domain_json: orNull(text()),
  template_json: orNull(text()),
  provider_json: orNull(text()),
  tag_json: orNull(text()),
});
export type EventSumRow = RowOf<typeof eventSums>;

/** How many events of each kind there were: per account, hour or UTC day, and what they are told apart by. */
export const eventCounts = table(
  {
    account_id: text(),
    /** `whole_`: all mail of the time together; stream, domain, provider and tag are then empty. `template_`: mail of templates. `source_`: by where it left from. */
    span: text<'hour' | 'day' | 'whole_hour' | 'whole_day' | 'template_hour' | 'template_day' | 'source_day'>(),
    test: integer(),
    /** One of the message's tags; empty in the row that counts every message. Where mail of templates is counted the template's id, of sources the source's name. */
    tag: text(),
    /** Begin of the hour or day. */
    at: integer(),
    stream: text(),
    /** The sending domain. */
    domain: text(),
    /** The recipient's mailbox provider (events/stats.ts). */
    provider: text(),
    sent: integer(),
    delivered: integer(),
    deferred: integer(),
    bounced: integer(),
    /** Of the bounces, those of a class. */
    bounced_hard: integer(),
    bounced_soft: integer(),
    bounced_block: integer(),
    complained: integer(),
    suppressed: integer(),
    failed: integer(),
    /** By people, however often. */
    opened: integer(),
    /** Recipients who opened. */
    unique_opened: integer(),
    /** By scanners and proxies. */
    machine_opened: integer(),
    clicked: integer(),
    unique_clicked: integer(),
    machine_clicked: integer(),
    unsubscribed: integer(),
  },
  {
    onConflict: `ON CONFLICT (account_id, span, test, tag, at, stream, domain, provider) DO UPDATE SET
    ${statTypes.map((type) => `${type} = event_counts.${type} + excluded.${type}`).join(', ')}`,
  },
);
export type StatRow = RowOf<typeof eventCounts>;
