/** Following the cursors of a list of messages gives exactly what testing every message gives, however little a request looks at. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newId } from '../../../src/base/id.ts';
import { subjectWords, wordRows, type MessageFilter } from '../../../src/messages/list/message-filter.ts';
import { countMessages, listMessages } from '../../../src/messages/list/message-list.ts';
import type { DeliveryStatus, MessageRow } from '../../../src/storage/tables.ts';
import { ACCOUNT, deliveryRow, messageRow } from '../../support/harness/mail-rows.ts';
import { isOnPostgres } from '../../support/harness/postgres.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const MESSAGES = 300;
const BEGIN = Date.parse('2026-01-10T00:00:00Z');

const made = fc.record({
  gap: fc.integer({ min: 1, max: 2000 }),
  account: fc.constantFrom(ACCOUNT, ACCOUNT, ACCOUNT, 'acc_other'),
  status: fc.constantFrom<DeliveryStatus>('delivered', 'delivered', 'delivered', 'queued', 'bounced', 'deferred'),
  to: fc.subarray(['a@dest.test', 'b@dest.test', 'c@dest.test'], { minLength: 1 }),
  from: fc.constantFrom('Hi@acme.test', 'shop@acme.test'),
  domain: fc.constantFrom('acme.test', 'acme.org'),
  stream: fc.constantFrom('transactional', 'transactional', 'news'),
  subject: fc.constantFrom('Your order 17', 'Your order 18', 'orders of your Ärger', 'Welcome', '100%_sicher'),
  tags: fc.subarray(['often', 'rare', 'x']),
  order: fc.constantFrom(null, '17', '18'),
  template: fc.constantFrom(null, 'tpl_1'),
  batch: fc.constantFrom(null, null, 'bat_1'),
  key: fc.constantFrom(null, 'key_1', 'key_1', 'key_2'),
  opens: fc.constantFrom(0, 0, 2),
  clicks: fc.constantFrom(0, 0, 1),
  test: fc.constantFrom(0, 0, 0, 1),
});

interface Stored {
  row: MessageRow;
  to: readonly string[];
  tags: readonly string[];
  order: string | null;
}

const everyFilter = {
  status: fc.constantFrom<DeliveryStatus[]>(['bounced'], ['bounced', 'deferred'], ['delivered'], []),
  to: fc.constantFrom('a@dest.test', 'A@dest.test', 'none@dest.test'),
  from: fc.constantFrom('hi@acme.test', 'none@acme.test'),
  subject: fc.constantFrom('order', 'o', 'your 1', 'ärger', '100%', 'none'),
  tag: fc.constantFrom(['often'], ['rare'], ['often', 'rare'], ['none']),
  metadata: fc.constantFrom({ order: '17' }, { order: 'none' }),
  template_id: fc.constant('tpl_1'),
  batch_id: fc.constant('bat_1'),
  key_id: fc.constantFrom('key_1', 'key_2', 'none'),
  stream: fc.constantFrom('transactional', 'news'),
  domain: fc.constantFrom('acme.test', 'acme.org'),
  created_after: fc.integer({ min: BEGIN, max: BEGIN + MESSAGES * 1000 }),
  created_before: fc.integer({ min: BEGIN, max: BEGIN + MESSAGES * 1000 }),
  opened: fc.boolean(),
  clicked: fc.boolean(),
  test: fc.boolean(),
  to_start: fc.constantFrom('a', 'B@dest', 'none'),
  to_part: fc.constantFrom('dest', 'B@', '_', 'none'),
  to_domain: fc.constantFrom('dest.test', 'dest', 'est.test', 'de'),
  q: fc.constantFrom('a', 'order', 'c@d', 'none'),
};

/** Few at once: most messages fit not even three. */
const wanted = fc
  .subarray(Object.keys(everyFilter) as (keyof typeof everyFilter)[], { maxLength: 3 })
  .chain((names) => {
    const some: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(
      names.map((name) => [name, everyFilter[name]]),
    );
    return fc.record(some) as fc.Arbitrary<Omit<MessageFilter, 'accountId'>>;
  });

/** Tests one message by hand. */
function fits({ row, to, tags, order }: Stored, filter: Omit<MessageFilter, 'accountId'>): boolean {
  const words = subjectWords(row.subject);
  const sought = filter.subject?.toLowerCase().split(' ') ?? [];
  const same = (wish: string | undefined, value: string | null): boolean => wish === undefined || wish === value;
  const is = (wish: boolean | undefined, count: number): boolean => wish === undefined || wish === count > 0;
  return (
    row.account_id === ACCOUNT &&
    (filter.status === undefined || filter.status.includes(row.status)) &&
    (filter.to === undefined || to.includes(filter.to.toLowerCase())) &&
    same(filter.from, row.from_address.toLowerCase()) &&
    sought.every((beginning) => words.some((word) => word.startsWith(beginning))) &&
    (filter.to_start === undefined || to.some((address) => address.startsWith(filter.to_start?.toLowerCase() ?? ''))) &&
    (filter.to_part === undefined || to.some((address) => address.includes(filter.to_part?.toLowerCase() ?? ''))) &&
    (filter.to_domain === undefined || ['dest.test', 'dest'].includes(filter.to_domain)) &&
    (filter.q === undefined || [...words, ...to].some((one) => one.startsWith(filter.q ?? ''))) &&
    (filter.tag ?? []).every((tag) => tags.includes(tag)) &&
    same(filter.metadata?.['order'], order) &&
    same(filter.template_id, row.template_id) &&
    same(filter.batch_id, row.batch_id) &&
    same(filter.key_id, row.key_id) &&
    same(filter.stream, row.stream) &&
    same(filter.domain, row.from_domain) &&
    (filter.created_after === undefined || row.created_at >= filter.created_after) &&
    (filter.created_before === undefined || row.created_at < filter.created_before) &&
    is(filter.opened, row.opens) &&
    is(filter.clicked, row.clicks) &&
    is(filter.test, row.test)
  );
}

/** Runs of a property. Each reads dozens of pages, for which PostgreSQL takes minutes on a busy machine. */
const RUNS = isOnPostgres ? 60 : 150;

describe('messages/list/message-list', () => {
  let temp: TempDatabase;
  let stored: Stored[];

  before(async () => {
    temp = await openTempDatabase();
    let at = BEGIN;
    stored = fc.sample(made, { numRuns: MESSAGES, seed: 20 }).map((one) => {
      at += one.gap;
      const row = messageRow({
        id: newId('msg', at),
        account_id: one.account,
        created_at: at,
        status: one.status,
        from_address: one.from,
        from_domain: one.domain,
        stream: one.stream,
        subject: one.subject,
        template_id: one.template,
        batch_id: one.batch,
        key_id: one.key,
        opens: one.opens,
        clicks: one.clicks,
        test: one.test,
      });
      return { row, to: one.to, tags: one.tags, order: one.order };
    });
    await temp.db.commit.insert({
      messages: stored.map(({ row }) => row),
      // An address may be in one message twice.
      deliveries: stored.flatMap(({ row, to }) =>
        [...to, to[0] ?? ''].map((key) => deliveryRow({ message_id: row.id, address: key, address_key: key })),
      ),
      message_words: stored.flatMap(({ row }) => wordRows(row.account_id, row.id, row.subject)),
      message_tags: stored.flatMap(({ row, tags }) =>
        tags.map((tag) => ({ account_id: row.account_id, tag, message_id: row.id })),
      ),
      message_metadata: stored.flatMap(({ row, order }) =>
        order === null ? [] : [{ account_id: row.account_id, name: 'order', value: order, message_id: row.id }],
      ),
    });
  });
  after(() => temp.close());

  const asked = fc.record({
    filter: wanted,
    newestFirst: fc.boolean(),
    limit: fc.integer({ min: 1, max: 20 }),
    slices: fc.constantFrom([7], [1], [2, 5], [1000]),
  });
  const pages = { short: 0, empty: 0 };

  it('gives every fitting message once and in order, forwards and backwards', async () => {
    await fc.assert(
      fc.asyncProperty(asked, async ({ filter, newestFirst, limit, slices }) => {
        const expected = stored.filter((one) => fits(one, filter)).map(({ row }) => row.id);
        if (newestFirst) expected.reverse();
        const ask = { accountId: ACCOUNT, ...filter };
        for (const direction of ['after', 'before'] as const) {
          const found: string[] = [];
          // Backwards from behind the last message of the account, in the order of the list.
          let edge: string | null = direction === 'after' ? null : newestFirst ? 'msg_' : 'msg_~';
          let hasMore = true;
          for (let page = 0; hasMore; page++) {
            assert.ok(page <= MESSAGES + 1, 'the list does not end');
            const wish = { newestFirst, limit, ...(edge === null ? {} : { [direction]: edge }) };
            const got = await listMessages(temp.db.reader, ask, wish, slices);
            const ids = got.rows.map(({ id }) => id);
            assert.ok(ids.length <= limit);
            if (direction === 'after') found.push(...ids);
            else found.unshift(...ids);
            ({ hasMore } = got);
            if (hasMore && ids.length < limit) pages[ids.length === 0 ? 'empty' : 'short']++;
            const next = direction === 'after' ? got.last : got.first;
            if (hasMore) assert.ok(next !== null && next !== edge, 'the page does not say where to go on');
            edge = next;
          }
          assert.deepEqual(found, expected);
        }
      }),
      { numRuns: RUNS },
    );
    assert.ok(pages.short > RUNS / 15 && pages.empty > RUNS / 15, `few pages came short: ${JSON.stringify(pages)}`);
  });

  it('counts what the list has, by status, and says where there may be more than it looked at', async () => {
    const bounded = { exact: 0, more: 0 };
    await fc.assert(
      fc.asyncProperty(wanted, fc.constantFrom(3, 40, 10_000), async (filter, most) => {
        const expected = new Map<string, number>();
        for (const one of stored)
          if (fits(one, filter)) expected.set(one.row.status, (expected.get(one.row.status) ?? 0) + 1);
        const { byStatus, isMore } = await countMessages(temp.db.reader, { accountId: ACCOUNT, ...filter }, most);
        bounded[isMore ? 'more' : 'exact']++;
        const total = byStatus.reduce((sum, { count }) => sum + count, 0);
        assert.ok(total <= most);
        if (isMore) for (const { status, count } of byStatus) assert.ok(count <= (expected.get(status) ?? 0), status);
        else
          assert.deepEqual(
            new Map(byStatus.map(({ status, count }) => [status, count])),
            new Map([...expected].sort()),
          );
      }),
      { numRuns: RUNS },
    );
    assert.ok(bounded.exact > RUNS / 15 && bounded.more > RUNS / 15, JSON.stringify(bounded));
  });

  it('finds a long word whose last indexed character would be cut in two', async () => {
    const subject = `${'a'.repeat(63)}😀x`;
    const row = messageRow({ id: newId('msg', BEGIN), created_at: BEGIN, subject });
    await temp.db.commit.insert({ messages: [row], message_words: wordRows(ACCOUNT, row.id, subject) });
    const { rows: messages } = await listMessages(
      temp.db.reader,
      { accountId: ACCOUNT, subject },
      { newestFirst: true, limit: 5 },
    );
    assert.deepEqual(
      messages.map(({ id }) => id),
      [row.id],
    );
  });

  it('finds a mail by the time of its acceptance that had its id before', async () => {
    const at = BEGIN - 1000;
    const row = messageRow({ id: newId('msg', at - 3), created_at: at, stream: 'submitted' });
    await temp.db.commit.insert({ messages: [row] });
    for (const createdAfter of [at, at + 1]) {
      const filter = { accountId: ACCOUNT, stream: 'submitted', created_after: createdAfter };
      const { rows: messages } = await listMessages(temp.db.reader, filter, { newestFirst: true, limit: 5 });
      assert.equal(messages.length, createdAfter === at ? 1 : 0);
    }
  });

  it('leads back from a page that came short', async () => {
    const ask = { accountId: ACCOUNT, tag: ['often', 'rare'], stream: 'news', test: false } as const;
    const expected = stored.filter((one) => fits(one, ask)).map(({ row }) => row.id);
    let after: string | null = null;
    for (let page = 0; page < 10; page++) {
      const wish = { newestFirst: false, limit: 50, ...(after === null ? {} : { after }) };
      const got = await listMessages(temp.db.reader, ask, wish, [7]);
      after = got.last;
    }
    const seen = expected.filter((id) => id <= String(after));
    const back = await listMessages(
      temp.db.reader,
      ask,
      { newestFirst: false, limit: 50, before: `${String(after)}~` },
      [1000],
    );
    assert.deepEqual(
      back.rows.map(({ id }) => id),
      seen,
    );
  });
});
