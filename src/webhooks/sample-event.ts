/** Events that never happened, to try an endpoint with: the shape of real ones, `test` true. Pure. */
import type { EventSource, EventType } from '../events/event.ts';

const MX = 'mx1.example.net';
const person = { ip: '203.0.113.9', user_agent: 'Mozilla/5.0', is_bot: false, bot: null };

const details: Readonly<Record<EventType, object>> = {
  sent: { attempt: 1, mx: MX, sending_ip: '192.0.2.10' },
  delivered: {
    mx: MX,
    ip: '203.0.113.9',
    smtp_code: 250,
    smtp_reply: '2.0.0 OK',
    tls: 'TLSv1.3',
    attempt: 1,
    queue_ms: 310,
    via_relay: false,
  },
  opened: { first: true, client: 'Thunderbird', os: 'Linux', device: 'desktop', ...person },
  clicked: { first: true, url: 'https://acme.example/order/17', link_id: '1', part: 'html', ...person },
  bounced: {
    class: 'hard',
    reason: 'mailbox_not_found',
    async: false,
    smtp_code: 550,
    enhanced_code: '5.1.1',
    smtp_reply: '5.1.1 no such user',
    mx: MX,
    attempts: 1,
    suppression_added: false,
  },
  complained: { feedback_type: 'abuse', source: 'arf', arrival_date: null, user_agent: null, suppression_added: false },
  deferred: {
    attempt: 1,
    mx: MX,
    smtp_code: 451,
    enhanced_code: '4.7.1',
    smtp_reply: '4.7.1 try again later',
    reason: 'rate_limited',
    next_attempt_at: '2026-01-31T09:35:00.000Z',
  },
  suppressed: { reason: 'hard_bounce', suppression_id: 'sup_01m7xk7t5vf0s9q1d3m8n2c4ze' },
  failed: { reason: 'other', message: 'The message could not be built.' },
  unsubscribed: { stream: 'broadcast', method: 'one_click' },
};

/** The status that a recipient has right after such an event. */
const statuses: Readonly<Record<EventType, string>> = {
  sent: 'sent',
  delivered: 'delivered',
  opened: 'delivered',
  clicked: 'delivered',
  bounced: 'bounced',
  complained: 'complained',
  deferred: 'deferred',
  suppressed: 'suppressed',
  failed: 'failed',
  unsubscribed: 'delivered',
};

/** Makes a sample. `sequence` is 0: a sample has no place in the log. */
export function sampleEvent(type: EventType, id: string, at: number): EventSource {
  return {
    sequence: 0,
    id,
    type,
    at,
    test: 1,
    message_id: 'msg_01m7xk7t5vf0s9q1d3m8n2c4ze',
    status: statuses[type],
    machine: 0,
    detail_json: JSON.stringify(details[type]),
    batch_id: null,
    rfc_message_id: '<msg_01m7xk7t5vf0s9q1d3m8n2c4ze@acme.example>',
    from_address: 'hi@acme.example',
    subject: 'Welcome',
    template_id: null,
    stream: 'transactional',
    tags_json: '["sample"]',
    metadata_json: '{"order":"17"}',
    recipient: 'ana@example.net',
    recipient_type: 'to',
  };
}
