/** The initial columns of a message without an event and of a delivery without an attempt. */
import type { DeliveryRow, MessageRow } from '../../storage/tables.ts';

export const UNTOUCHED_MESSAGE = {
  status: 'queued',
  last_event_type: null,
  last_event_at: null,
  opens: 0,
  clicks: 0,
  first_opened_at: null,
  last_opened_at: null,
  first_clicked_at: null,
  bot_opens: 0,
  bot_clicks: 0,
} as const satisfies Partial<MessageRow>;

export const UNTRIED_DELIVERY = {
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
} as const satisfies Partial<DeliveryRow>;
