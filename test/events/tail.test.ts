/** Many who follow the log cost it one reading, and each gets what the log would have given it, once and in order. */
import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import type { LogFields } from '../../src/base/log.ts';
import { createNotifier } from '../../src/scheduling/notifier.ts';
import { eventsAfter, type EventFilter } from '../../src/events/event-log.ts';
import type { EventType } from '../../src/events/event.ts';
import { EventTail, type Follower } from '../../src/events/tail.ts';
import type { DeliveryRow, EventRow, MessageRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, NOW, deliveryRow, messageRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const OTHER = 'acc_00000000000000000000000002';

describe('events/tail', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let tail: EventTail;
  let queries: number;
  let messages: { message: MessageRow; delivery: DeliveryRow }[];
  let made = 0;
  const events = createNotifier();
  const logged: LogFields[] = [];
  const log = { warn: (fields: LogFields) => void logged.push(fields) };

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    queries = 0;
    const read = new Proxy(temp.db.reader, {
      apply(target, self, args: [string]) {
        queries++;
        return Reflect.apply(target, self, args) as unknown;
      },
      get(target, name, receiver): unknown {
        if (name === 'raw') queries++;
        return Reflect.get(target, name, receiver);
      },
    });
    tail = new EventTail({ db: { reader: read, prepared: temp.db.prepared }, clock, log, notifiers: { events } });
    messages = [ACCOUNT, OTHER, ACCOUNT].map((account_id, i) => {
      const message = messageRow({ account_id, ...(i === 2 ? { batch_id: 'bat_1', tags_json: '["news"]' } : {}) });
      const address = i === 2 ? 'Bo@dest.test' : 'ana@dest.test';
      return {
        message,
        delivery: deliveryRow({ message_id: message.id, address, address_key: address.toLowerCase() }),
      };
    });
    await temp.db.commit.insert({
      messages: messages.map(({ message }) => message),
      deliveries: messages.map(({ delivery }) => delivery),
      message_tags: [{ account_id: ACCOUNT, tag: 'news', message_id: messages[2]?.message.id ?? '' }],
    });
  });
  afterEach(() => temp.close());

  /** Commits events of the message with this number, and rings. */
  const add = async (of: number, types: readonly EventType[], changes: Partial<EventRow> = {}): Promise<void> => {
    const { message, delivery } = messages[of] ?? assert.fail();
    const rows = types.map((type): EventRow => ({
      id: newId('evt', NOW + ++made),
      account_id: message.account_id,
      type,
      at: NOW + made,
      test: 0,
      message_id: message.id,
      delivery_id: delivery.id,
      status: 'sent',
      machine: 0,
      detail_json: '{}',
      ...changes,
    }));
    await temp.db.commit.insert({ events: rows });
    events.notify();
  };

  /** Follows until so many were seen. */
  const collect = async (count: number, filter: EventFilter, limit = 3): Promise<string[]> => {
    const follower = tail.follow(filter.accountId);
    const seen: string[] = [];
    let position = 0;
    let rang = false;
    while (seen.length < count) {
      const page = await (rang ? follower.hear(filter, position, limit) : follower.look(filter, position, limit));
      seen.push(...page.events.map(({ id }) => id));
      position = page.position;
      if (!page.hasMore && seen.length < count) rang = await follower.next(60_000);
    }
    follower.leave();
    return seen;
  };

  /** Followers that have come as far as the log, the tail with them. */
  const inStep = async (count: number): Promise<Follower[]> => {
    const followers = Array.from({ length: count }, () => tail.follow(ACCOUNT));
    for (const follower of followers) await follower.next(60_000);
    return followers;
  };

  it('many who read the log do not hold up those of another account', async () => {
    await add(0, ['sent']);
    const done: string[] = [];
    const look = async (accountId: string): Promise<void> => {
      const follower = tail.follow(accountId);
      await follower.look({ accountId }, 0, 10);
      done.push(accountId);
      follower.leave();
    };
    await Promise.all([...Array.from({ length: 10 }, () => look(ACCOUNT)), look(OTHER)]);
    assert.ok(done.indexOf(OTHER) <= 2, done.join());
  });

  it('for a test key, memory and log leave out live mail that also goes to the simulator', async () => {
    const filter = { accountId: ACCOUNT, test: true, ofTestMail: true };
    const [follower] = await inStep(1);
    assert.ok(follower);
    await add(0, ['sent'], { test: 1 });
    await follower.next(60_000);
    const before = queries;
    assert.deepEqual((await follower.hear({ ...filter, ofTestMail: false }, 0, 10)).events.length, 1);
    assert.deepEqual((await follower.hear(filter, 0, 10)).events, []);
    assert.equal(queries, before, 'from memory');
    assert.deepEqual((await follower.look(filter, 0, 10)).events, []);
    follower.leave();
  });

  it('two hundred followers read the log once', async () => {
    await add(0, ['sent']);
    const followers = await inStep(200);
    queries = 0;
    for (let i = 2; i <= 6; i++) {
      await add(0, ['sent', 'delivered']);
      const from = (i - 2) * 2 + 1;
      for (const follower of followers) {
        let page = await follower.hear({ accountId: ACCOUNT }, from, 10);
        while (page.events.length < 2) {
          await follower.next(60_000);
          page = await follower.hear({ accountId: ACCOUNT }, from, 10);
        }
        assert.deepEqual([page.events.length, page.position], [2, from + 2]);
      }
    }
    assert.equal(queries, 0);
    for (const follower of followers) follower.leave();
  });

  const rows: [why: string, filter: Partial<EventFilter>][] = [
    ['all of the account', {}],
    ['kinds that are told when asked for', { types: ['deferred', 'sent'] }],
    ['one message', { messageId: 'of the third' }],
    ['one recipient, whatever the case of the address', { recipient: 'bo@dest.test' }],
    ['one batch', { batchId: 'bat_1' }],
    ['a tag', { tag: 'news' }],
    ['a tag that nothing has', { tag: 'new' }],
    ['a time', { occurredAfter: NOW + 3, occurredBefore: NOW + 8 }],
    ['test mail', { test: true }],
    ['no test mail', { test: false }],
  ];
  for (const [why, fields] of rows)
    it(`gives from memory what the log gives: ${why}`, async () => {
      const filter = {
        accountId: ACCOUNT,
        ...fields,
        ...(fields.messageId === undefined ? {} : { messageId: messages[2]?.message.id ?? '' }),
      };
      const [follower] = await inStep(1);
      assert.ok(follower !== undefined);
      made = 0;
      await add(0, ['sent', 'deferred', 'delivered']);
      await add(1, ['sent', 'delivered']);
      await add(2, ['sent', 'failed']);
      await add(2, ['opened'], { test: 1 });
      await add(0, ['clicked']);
      while ((await follower.hear({ accountId: ACCOUNT }, 0, 100)).position < 9) await follower.next(60_000);
      queries = 0;
      for (const [from, limit] of [
        [0, 100],
        [0, 2],
        [4, 1],
        [9, 5],
        [12, 5],
      ] as const)
        assert.deepEqual(
          bare(await follower.hear(filter, from, limit)),
          bare(await eventsAfter(temp.db.reader, filter, from, limit)),
        );
      assert.equal(queries, 0);
      follower.leave();
    });

  const bare = (page: { events: { id: string }[]; position: number; hasMore: boolean }): unknown => ({
    ...page,
    events: page.events.map(({ id }) => id),
  });

  it('misses nothing and doubles nothing while accounts come and go', async () => {
    made = 0;
    const writing = (async () => {
      for (let i = 0; i < 60; i++) await add(i % 3, ['sent', 'delivered']);
    })();
    const readers: Promise<string[]>[] = [];
    for (let i = 0; i < 12; i++) {
      readers.push(collect(i % 2 === 0 ? 80 : 40, { accountId: i % 2 === 0 ? ACCOUNT : OTHER }));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const seen = await Promise.all(readers);
    await writing;
    for (const [i, ids] of seen.entries()) {
      const accountId = i % 2 === 0 ? ACCOUNT : OTHER;
      const { events: all } = await eventsAfter(temp.db.reader, { accountId }, 0, 1000);
      assert.deepEqual(
        ids,
        all.map(({ id }) => id),
      );
    }
  });

  it('sends who is behind what memory holds to the log', async () => {
    await add(0, ['sent']);
    const [follower] = await inStep(1);
    assert.ok(follower !== undefined);
    for (let i = 0; i < 3; i++)
      await add(
        0,
        Array.from({ length: 500 }, () => 'sent'),
      );
    while ((await follower.hear({ accountId: ACCOUNT }, 1400, 1)).position < 1401) await follower.next(60_000);
    const page = await follower.hear({ accountId: ACCOUNT }, 1, 1000);
    assert.deepEqual([page.events.length, page.hasMore, queries > 0], [1000, true, true]);
    follower.leave();
  });

  it('reads nothing for who has gone, and lets nobody wait for ever', async () => {
    await add(0, ['sent']);
    const follower = tail.follow(ACCOUNT);
    await follower.next(60_000);
    const waiting = follower.next(60_000);
    follower.end();
    await waiting;
    queries = 0;
    assert.deepEqual(await follower.look({ accountId: ACCOUNT }, 0, 10), {
      events: [],
      start: null,
      position: 0,
      hasMore: false,
    });
    assert.equal(queries, 0);
    follower.leave();
  });

  it('a log that cannot be read wakes those who wait, and they hear of it', async () => {
    let broken = false;
    const fast = {
      ...temp.db.prepared,
      all: <Row>(sql: string, values: readonly (string | number)[] = []) =>
        broken ? Promise.reject<Row[]>(new Error('disk')) : temp.db.prepared.all<Row>(sql, values),
    };
    tail = new EventTail({ db: { reader: temp.db.reader, prepared: fast }, clock, log, notifiers: { events } });
    const [follower] = await inStep(1);
    assert.ok(follower !== undefined);
    broken = true;
    await add(0, ['sent']);
    assert.equal(await follower.next(60_000), true);
    await add(0, ['sent']);
    assert.equal(await follower.next(60_000), true);
    // Once until it works again.
    assert.deepEqual(
      logged.map(({ event }) => event),
      ['events_unread'],
    );
    // From the log itself, which this follower can read.
    assert.equal((await follower.hear({ accountId: ACCOUNT }, 0, 10)).events.length, 2);
    follower.leave();
  });
});
