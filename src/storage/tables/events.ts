/** The event log and the numbers by hour and day. */
import { table, text, integer, type RowOf } from '../table.ts';
import type { DeliveryStatus } from './deliveries.ts';

/** The counted kinds: events, classes of bounces, and opens and clicks by people and by machines. */
const counted = {
  sent: integer().says('Recipients whose first attempt began.', 4210),
  delivered: integer().says('Recipients whose mail was taken.', 4171),
  deferred: integer().says('Recipients whose mail was put off, each once however many attempts failed for now.', 62),
  bounced: integer().says('Recipients who could not be reached.', 35),
  bounced_hard: integer().says('Of these, bad addresses.', 21),
  bounced_soft: integer().says('Of these, mailboxes that were full or away for too long.', 8),
  bounced_block: integer().says('Of these, mail that was not wanted.', 6),
  complained: integer().says('Recipients who complained.', 1),
  suppressed: integer().says('Recipients who were not mailed, as they are on the suppression list.'),
  failed: integer().says('Recipients whose mail could not be built, or not be signed before its time was over.'),
  opened: integer().says('Opens by people.', 1804),
  unique_opened: integer().says('Messages that were opened.', 1322),
  machine_opened: integer().says('Opens by machines.', 911),
  clicked: integer().says('Clicks by people.', 410),
  unique_clicked: integer().says('Messages in which a link was clicked.', 377),
  machine_clicked: integer().says('Clicks by machines.'),
  unsubscribed: integer().says('Recipients who unsubscribed.'),
};

export type StatType = keyof typeof counted;
// Object.keys forgets the names.
export const statTypes: readonly StatType[] = Object.keys(counted) as StatType[];

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
    /** `whole_`: all mail of the time; stream, domain, provider and tag are then empty. `template_`: by template. `key_`: by API key. `source_`: by sending address. */
    span: text<
      | 'hour'
      | 'day'
      | 'whole_hour'
      | 'whole_day'
      | 'template_hour'
      | 'template_day'
      | 'key_hour'
      | 'key_day'
      | 'source_day'
    >(),
    test: integer(),
    /** One of the message's tags; empty in the row that counts every message. In rows by template or key it is its id, in rows by source the source's name. */
    tag: text(),
    /** Begin of the hour or day in which the mail was accepted, or due if it was scheduled. */
    at: integer(),
    stream: text(),
    /** The sending domain. */
    domain: text(),
    /** The recipient's mailbox provider (base/mailbox-providers.ts). */
    provider: text(),
    ...counted,
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
