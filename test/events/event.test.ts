import assert from 'node:assert/strict';
import { allEventTypes, eventRecord, eventTypes, optInEventTypes, type EventSource } from '../../src/events/event.ts';

const source = (changes: Partial<EventSource> = {}): EventSource => ({
  sequence: 184_467,
  id: 'evt_1',
  type: 'delivered',
  at: Date.parse('2026-01-31T09:30:02.481Z'),
  test: 0,
  message_id: 'msg_1',
  delivery_id: 'dlv_1',
  status: 'delivered',
  machine: 0,
  detail_json: '{"mx":"mx1.example.net","attempt":1}',
  batch_id: null,
  rfc_message_id: '<msg_1@acme.test>',
  from_address: 'hi@acme.test',
  subject: 'Welcome',
  template_id: null,
  stream: 'transactional',
  tags_json: '["a"]',
  metadata_json: '{"order":"17"}',
  recipient: 'ana@example.net',
  recipient_type: 'to',
  ...changes,
});

describe('events/event', () => {
  it('shows a received mail with what the message that it answers says', () => {
    const received = {
      id: 'rcv_1',
      domain: 'acme.test',
      envelope: { from: 'bounces@example.net', to: ['support@acme.test'] },
      from: { email: 'ana@example.net', name: null },
      subject: 'Re: Welcome',
      message_id: '<1@example.net>',
    };
    const detail_json = JSON.stringify(received);
    const shown = eventRecord(source({ type: 'received', detail_json, recipient: '' }), { engagement: false });
    assert.deepEqual(shown['data'], {
      message_id: 'msg_1',
      batch_id: null,
      rfc_message_id: '<1@example.net>',
      recipient: 'support@acme.test',
      recipient_type: 'to',
      from: 'ana@example.net',
      subject: 'Re: Welcome',
      template_id: null,
      stream: 'transactional',
      tags: ['a'],
      metadata: { order: '17' },
      status: 'delivered',
      received,
    });
  });

  it('is the record of the contract, members in their order', () => {
    assert.equal(
      JSON.stringify(eventRecord(source(), { engagement: false })),
      '{"object":"event","id":"evt_1","type":"delivered","timestamp":"2026-01-31T09:30:02.481Z","sequence":184467,"test":false,' +
        '"data":{"message_id":"msg_1","batch_id":null,"rfc_message_id":"<msg_1@acme.test>","recipient":"ana@example.net","recipient_type":"to",' +
        '"from":"hi@acme.test","subject":"Welcome","template_id":null,"stream":"transactional","tags":["a"],"metadata":{"order":"17"},' +
        '"status":"delivered","delivered":{"mx":"mx1.example.net","attempt":1}}}',
    );
  });

  it('hides where and with what a person reads, unless the caller may know', () => {
    const detail = { first: true, ip: '192.0.2.1', user_agent: 'Reader', is_bot: false, bot: null };
    const opened = source({ type: 'opened', detail_json: JSON.stringify(detail) });
    const shown = (engagement: boolean): unknown =>
      (eventRecord(opened, { engagement }) as { data: { opened: unknown } }).data.opened;
    assert.deepEqual(shown(true), detail);
    assert.deepEqual(shown(false), { ...detail, ip: null, user_agent: null });
  });

  it('keeps the address of a mail server, which is nobody’s person', () => {
    const delivered = source({ detail_json: '{"ip":"192.0.2.25"}' });
    assert.match(JSON.stringify(eventRecord(delivered, { engagement: false })), /"delivered":\{"ip":"192\.0\.2\.25"\}/);
  });

  it('has six kinds for everybody and five for those who ask', () => {
    assert.deepEqual([...eventTypes], ['sent', 'delivered', 'opened', 'clicked', 'bounced', 'complained']);
    assert.deepEqual([...optInEventTypes], ['deferred', 'suppressed', 'failed', 'unsubscribed', 'received']);
    assert.equal(new Set(allEventTypes).size, 11);
  });
});
