import assert from 'node:assert/strict';
import fc from 'fast-check';
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
      delivery_id: delivery.id,
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
      account_id: ACCOUNT,
      message_test: 0,
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
    ['real mail of a batch that has both', { batchId: 'bat_1', test: false }, ['evt_1', 'evt_4']],
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

  it('gives every fitting event once and in order, forwards and backwards, however little a request looks at', async () => {
    const pick = <T>(from: readonly T[], at: number): T => from[at % from.length] as T;
    const messages = Array.from({ length: 40 }, (_, n) => ({
      ...messageRow({ batch_id: n % 3 === 0 ? 'bat_2' : null, account_id: n % 7 === 0 ? 'acc_2' : ACCOUNT }),
      address: `${pick(['ana', 'bo'], n >> 2)}@dest.test`,
      tags: [...(n % 2 === 0 ? ['even'] : []), ...(n === 20 ? ['rare'] : [])],
    }));
    const deliveries = messages.map(({ id, account_id, address }) =>
      deliveryRow({ message_id: id, account_id, address, address_key: address }),
    );
    await temp.db.commit.insert({
      messages: messages.map(({ address: _address, tags: _tags, ...row }) => row),
      deliveries,
      message_tags: messages.flatMap(({ id, account_id, tags }) =>
        tags.map((tag) => ({ account_id, tag, message_id: id })),
      ),
    });
    const kinds = ['sent', 'delivered', 'opened', 'bounced'] as const;
    const logged = Array.from({ length: 240 }, (_, n) => {
      const of = pick(messages, (n * 17) >> 1);
      return { of, type: pick(kinds, n >> 3), test: n % 5 === 0 ? 1 : 0, id: `evt_${String(n + 1)}` };
    });
    await add(
      ...logged.map(({ of, type, test }) => ({
        account_id: of.account_id,
        message_id: of.id,
        delivery_id: deliveries.find(({ message_id }) => message_id === of.id)?.id ?? '',
        type,
        test,
      })),
    );
    const every = {
      types: fc.constantFrom<EventType[]>(['sent'], ['opened', 'bounced'], ['failed']),
      recipient: fc.constantFrom('ana@dest.test', 'none@dest.test'),
      batchId: fc.constant('bat_2'),
      tag: fc.constantFrom('even', 'rare', 'none'),
      test: fc.boolean(),
    };
    const asked = fc.record({
      filter: fc.record(every, { requiredKeys: [] }),
      limit: fc.integer({ min: 1, max: 20 }),
      slices: fc.constantFrom([7], [1], [2, 5], [1000]),
    });
    const pages = { short: 0, empty: 0 };
    await fc.assert(
      fc.asyncProperty(asked, async ({ filter, limit, slices }) => {
        const ask = { accountId: ACCOUNT, ...filter };
        const expected = logged.filter(
          ({ of, type, test }) =>
            of.account_id === ACCOUNT &&
            (filter.types ?? kinds).some((one) => one === type) &&
            (filter.recipient ?? of.address) === of.address &&
            (filter.batchId ?? of.batch_id) === of.batch_id &&
            (filter.tag === undefined || of.tags.includes(filter.tag)) &&
            (filter.test ?? test === 1) === (test === 1),
        );
        for (const direction of ['after', 'before'] as const) {
          const found: string[] = [];
          let position = direction === 'after' ? 0 : 1000;
          for (let hasMore = true; hasMore;) {
            const got =
              direction === 'after'
                ? await eventsAfter(temp.db.reader, ask, position, limit, slices)
                : await eventsBefore(temp.db.reader, ask, position, limit, slices);
            const ids = got.events.map(({ id }) => id);
            assert.ok(ids.length <= limit);
            if (direction === 'after') found.push(...ids);
            else found.unshift(...ids);
            ({ hasMore } = got);
            if (hasMore && ids.length < limit) pages[ids.length === 0 ? 'empty' : 'short']++;
            const next = direction === 'after' ? got.position : got.start;
            if (hasMore) assert.ok(next !== null && next !== position, 'the page does not say where to go on');
            position = next ?? position;
          }
          assert.deepEqual(
            found,
            expected.map(({ id }) => id),
          );
        }
      }),
      { numRuns: 100 },
    );
    assert.ok(pages.short > 10 && pages.empty > 10, `few pages came short: ${JSON.stringify(pages)}`);
  });
});
