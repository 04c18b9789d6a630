import assert from 'node:assert/strict';
import { eventsAfter, eventsBefore, lastSequence, sequenceOf, type EventFilter } from '../../src/events/event-log.ts';
import type { EventType } from '../../src/events/event.ts';
import type { DeliveryRow, EventRow, MessageRow } from '../../src/storage/tables.ts';
import { ACCOUNT, NOW, deliveryRow, messageRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('events/event-log', () => {
  let temp: TempDatabase;
  let message: MessageRow;
  let delivery: DeliveryRow;
  let made = 0;

  beforeEach(async () => {
    temp = await openTempDatabase();
    made = 0;
    message = messageRow({ batch_id: 'bat_1', tags_json: '["news"]', metadata_json: '{"n":"1"}' });
    delivery = deliveryRow({ message_id: message.id, address: 'Ana@dest.test', address_key: 'ana@dest.test' });
    const tags = [{ account_id: ACCOUNT, tag: 'news', message_id: message.id }];
    await temp.db.commit.insert({ messages: [message], deliveries: [delivery], message_tags: tags });
  });
  afterEach(() => temp.close());

  const add = (...types: (EventType | Partial<EventRow>)[]): Promise<void> => {
    const events = types.map((one): EventRow => ({
      id: `evt_${++made}`,
      account_id: ACCOUNT,
      type: typeof one === 'string' ? one : 'sent',
      at: NOW + made,
      test: 0,
      message_id: message.id,
      delivery_id: delivery.id,
      status: 'sent',
      machine: 0,
      detail_json: '{}',
      ...(typeof one === 'string' ? {} : one),
    }));
    return temp.db.commit.insert({ events });
  };
  const after = async (position: number, limit = 100, filter: Partial<EventFilter> = {}) => {
    const page = await eventsAfter(temp.db.reader, { accountId: ACCOUNT, ...filter }, position, limit);
    return { ids: page.events.map(({ id }) => id), position: page.position, hasMore: page.hasMore };
  };

  it('is empty at first', async () => {
    assert.equal(await lastSequence(temp.db.reader), 0);
    assert.deepEqual(await after(0), { ids: [], position: 0, hasMore: false });
  });

  it('is read on from a position, page by page, without missing or doubling one', async () => {
    await add('sent', 'delivered', 'opened', 'clicked', 'bounced');
    const seen: string[] = [];
    let position = 0;
    for (let hasMore = true; hasMore;) {
      const page = await after(position, 2);
      seen.push(...page.ids);
      ({ position, hasMore } = page);
    }
    assert.deepEqual(seen, ['evt_1', 'evt_2', 'evt_3', 'evt_4', 'evt_5']);
    assert.equal(position, 5);
    await add('complained');
    assert.deepEqual(await after(position), { ids: ['evt_6'], position: 6, hasMore: false });
  });

  it('moves on over what does not match', async () => {
    await add('sent', 'deferred', 'suppressed', 'failed');
    assert.deepEqual(await after(0), { ids: ['evt_1'], position: 4, hasMore: false });
    assert.deepEqual(await after(9), { ids: [], position: 9, hasMore: false }, 'and never back');
  });

  it('is read backwards, still in order', async () => {
    await add('sent', 'delivered', 'opened', 'clicked');
    const page = await eventsBefore(temp.db.reader, { accountId: ACCOUNT }, 4, 2);
    assert.deepEqual([page.events.map(({ id }) => id), page.hasMore], [['evt_2', 'evt_3'], true]);
    const rest = await eventsBefore(temp.db.reader, { accountId: ACCOUNT }, 2, 2);
    assert.deepEqual([rest.events.map(({ id }) => id), rest.hasMore], [['evt_1'], false]);
  });

  it('knows an event’s number, for its own account only', async () => {
    await add('sent', 'delivered');
    assert.equal(await sequenceOf(temp.db.reader, ACCOUNT, 'evt_2'), 2);
    assert.equal(await sequenceOf(temp.db.reader, 'acc_2', 'evt_2'), null);
    assert.equal(await sequenceOf(temp.db.reader, ACCOUNT, 'evt_9'), null);
  });

  it('says of each event what its message says', async () => {
    await add('sent');
    const page = await eventsAfter(temp.db.reader, { accountId: ACCOUNT }, 0, 1);
    assert.deepEqual(page.events[0], {
      sequence: 1,
      id: 'evt_1',
      type: 'sent',
      at: NOW + 1,
      test: 0,
      message_id: message.id,
      status: 'sent',
      machine: 0,
      detail_json: '{}',
      batch_id: 'bat_1',
      rfc_message_id: message.rfc_message_id,
      from_address: 'hi@acme.test',
      subject: 'Welcome',
      template_id: null,
      stream: 'transactional',
      tags_json: '["news"]',
      metadata_json: '{"n":"1"}',
      recipient: 'Ana@dest.test',
      recipient_type: 'to',
    });
  });

  const filters: readonly (readonly [reason: string, filter: Partial<EventFilter>, ids: string[]])[] = [
    ['the six kinds where none is named', {}, ['evt_1', 'evt_3', 'evt_4']],
    ['kinds by name', { types: ['deferred', 'sent'] }, ['evt_1', 'evt_2', 'evt_3']],
    ['another account', { accountId: 'acc_2' }, []],
    ['a recipient', { recipient: 'ana@dest.test' }, ['evt_1', 'evt_3', 'evt_4']],
    ['another recipient', { recipient: 'bo@dest.test' }, []],
    ['a batch', { batchId: 'bat_1' }, ['evt_1', 'evt_3', 'evt_4']],
    ['a tag', { tag: 'news' }, ['evt_1', 'evt_3', 'evt_4']],
    ['another tag', { tag: 'old' }, []],
    ['test mail', { test: true }, ['evt_3']],
    ['real mail', { test: false }, ['evt_1', 'evt_4']],
    ['a time from which on', { occurredAfter: NOW + 3 }, ['evt_3', 'evt_4']],
    ['a time up to which, not included', { occurredBefore: NOW + 3 }, ['evt_1']],
    ['a text that is no address', { recipient: "' OR 1=1 --" }, []],
  ];
  for (const [reason, filter, ids] of filters) {
    it(`filters by ${reason}`, async () => {
      await add('sent', 'deferred', { test: 1 }, 'delivered');
      assert.deepEqual((await after(0, 100, filter)).ids, ids);
    });
  }

  it('filters by message', async () => {
    await add('sent', { message_id: 'msg_other' });
    assert.deepEqual((await after(0, 100, { messageId: message.id })).ids, ['evt_1']);
  });
});
