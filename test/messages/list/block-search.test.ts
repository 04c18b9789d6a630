/** Pages found by blocks are those found without them, whatever is asked for and whatever has happened since the blocks were made. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newId } from '../../../src/base/id.ts';
import { addNextStates, applyNextChanges, areManyChanges } from '../../../src/messages/list/block-states.ts';
import { closeNextBlock, removeEmptyBlock } from '../../../src/messages/list/message-blocks.ts';
import type { MessageFilter } from '../../../src/messages/list/message-filter.ts';
import { listMessages } from '../../../src/messages/list/message-list.ts';
import { namesOf, wordNames } from '../../../src/messages/list/message-facts.ts';
import { oldMessages } from '../../../src/messages/store/purge-messages.ts';
import { wordRows } from '../../../src/messages/list/subject-words.ts';
import type { DeliveryStatus, MessageRow } from '../../../src/storage/tables.ts';
import { ACCOUNT, deliveryRow, messageRow } from '../../support/harness/mail-rows.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const SIZE = 128;
const MESSAGES = 1000;
const pick = <T>(from: readonly T[], at: number): T => from[at % from.length] as T;

describe('messages/block-search', () => {
  let temp: TempDatabase;
  let messages: MessageRow[];
  const clock = new FakeClock();
  const base = Math.max(clock.now(), Date.now());

  /** Some filters fit many and some few, in a part of the messages or spread over them. */
  function made(n: number, at = base + n * 1000): MessageRow {
    const id = newId('msg', at);
    const tags = [
      n % 2 === 0 ? 'even' : 'odd',
      ...(n > 300 && n < 500 ? ['sale'] : []),
      ...(n % 50 === 0 ? ['rare'] : []),
    ];
    return messageRow({
      id,
      created_at: at,
      rfc_message_id: `<${id}@acme.test>`,
      stream: pick(['transactional', 'transactional', 'broadcast'], n),
      from_address: pick(['Hi@acme.test', 'shop@acme.test'], Math.floor(n / 7)),
      from_domain: 'acme.test',
      template_id: n % 3 === 0 ? 'tpl_1' : null,
      tags_json: JSON.stringify(tags),
      metadata_json: JSON.stringify({ order: String(n), shop: pick(['a', 'b', 'c'], n) }),
      subject: pick(
        [`Your order ${String(n)}`, `Best of autumn ${String(n % 90)}`, `ihr ${String(n)} Ärger`, '😀 orders'],
        n,
      ),
      test: n % 10 === 0 ? 1 : 0,
      status: pick(['delivered', 'delivered', 'bounced'], Math.floor(n / 5)),
      opens: n % 4 === 0 ? 1 : 0,
      clicks: n % 8 === 0 ? 2 : 0,
    });
  }

  async function add(rows: readonly MessageRow[]): Promise<void> {
    await temp.db.commit.insert({
      messages: rows,
      deliveries: rows.map(({ id }, n) =>
        deliveryRow({ message_id: id, address_key: `r${String(n % 3)}@dest.test`, due_at: null }),
      ),
      message_words: rows.flatMap((row) => wordRows(row.account_id, row.id, row.subject)),
      message_tags: rows.flatMap(({ id, tags_json }) =>
        (JSON.parse(tags_json) as string[]).map((tag) => ({ account_id: ACCOUNT, tag, message_id: id })),
      ),
      message_metadata: rows.flatMap(({ id, metadata_json }) =>
        Object.entries(JSON.parse(metadata_json) as Record<string, string>).map(([name, value]) => ({
          account_id: ACCOUNT,
          name,
          value,
          message_id: id,
        })),
      ),
    });
  }

  const close = async (): Promise<number> => {
    let closed = 0;
    while (await closeNextBlock({ db: temp.db, clock }, SIZE)) closed++;
    return closed;
  };
  const addStates = async (): Promise<number> => {
    let added = 0;
    while (await addNextStates({ db: temp.db })) added++;
    return added;
  };
  const changes = async (): Promise<number> => (await temp.db.prepared.all('SELECT 1 FROM message_changes')).length;
  const blocks = (): Promise<{ block: number }[]> =>
    temp.db.prepared.all('SELECT block FROM message_blocks ORDER BY block');

  before(async () => {
    temp = await openTempDatabase();
    await temp.db.commit.transact((tx) =>
      tx.run(
        "INSERT OR IGNORE INTO accounts (id, name, plan, created_at, paused) VALUES (?, 'of the test', 'x', 1, 0)",
        [ACCOUNT],
      ),
    );
    clock.advance(base - clock.now() + MESSAGES * 1000 + 60_000);
    messages = Array.from({ length: MESSAGES }, (_, n) => made(n));
    await add(messages);
  });
  after(() => temp.close());

  const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined, freq: 1 });
  const wanted = fc.record({
    tags: maybe(fc.uniqueArray(fc.constantFrom('even', 'odd', 'sale', 'rare', 'none'), { minLength: 1, maxLength: 3 })),
    stream: maybe(fc.constantFrom('transactional', 'broadcast')),
    subject: maybe(fc.constantFrom('ord', 'best', 'i best', 'y 1', 'order 17', '2', 'Ä', 'orders', '😀 o', 'autumnal')),
    metadata: maybe(
      fc.constantFrom<Record<string, string>[]>({ shop: 'a' }, { order: '400' }, { shop: 'b', order: '7' }),
    ),
    to: maybe(fc.constantFrom('r0@dest.test', 'R1@dest.test')),
    from: maybe(fc.constantFrom('hi@acme.test', 'shop@acme.test')),
    templateId: maybe(fc.constant('tpl_1')),
    domain: maybe(fc.constant('acme.test')),
    test: maybe(fc.boolean()),
    status: maybe(
      fc.constantFrom<DeliveryStatus[][]>(['bounced'], ['delivered'], ['queued'], ['complained', 'bounced']),
    ),
    opened: maybe(fc.boolean()),
    clicked: maybe(fc.boolean()),
    createdAfter: maybe(fc.nat(MESSAGES).map((n) => base + n * 1000)),
    createdBefore: maybe(fc.nat(MESSAGES).map((n) => base + n * 1000)),
  });
  const page = fc.record({
    newestFirst: fc.boolean(),
    limit: fc.constantFrom(1, 7, 100),
    edge: maybe(fc.tuple(fc.constantFrom('after' as const, 'before' as const), fc.nat(MESSAGES - 1))),
  });

  async function compare(runs: number): Promise<void> {
    let found = 0;
    await fc.assert(
      fc.asyncProperty(wanted, page, async (some, { newestFirst, limit, edge }) => {
        const given = Object.fromEntries(Object.entries(some).filter(([, value]) => value !== undefined));
        const filter: MessageFilter = { accountId: ACCOUNT, ...given };
        const wish = { newestFirst, limit, ...(edge === undefined ? {} : { [edge[0]]: messages[edge[1]]?.id ?? '' }) };
        const [byBlocks, without] = await Promise.all([
          listMessages(temp.db.reader, filter, wish, 0),
          listMessages(temp.db.reader, filter, wish, Infinity),
        ]);
        found += without.messages.length;
        assert.deepEqual(byBlocks, without);
      }),
      { numRuns: runs },
    );
    assert.ok(found > 0, 'the filters fit something');
  }

  it('names what a message has, and what a word begins with', () => {
    assert.deepEqual(wordNames('ordering-17'), [
      'word:ordering',
      'word:orderi',
      'word:orde',
      'word:ord',
      'word:or',
      'word:o',
    ]);
    assert.deepEqual(wordNames('😀'), ['word:😀', 'word:']);
    const { from_address, ...row } = made(0);
    const names = namesOf({ ...row, sender: from_address.toLowerCase(), recipients: ['a@b.test'] });
    for (const name of [
      'tag:even',
      'tag:rare',
      'stream:transactional',
      'from:hi@acme.test',
      'template:tpl_1',
      'metadata:shop:a',
      'test:1',
      'to:a@b.test',
    ])
      assert.ok(names.includes(name), name);
  });

  it('without any block', () => compare(30));

  it('with blocks and messages that are in none yet', async () => {
    assert.equal(await close(), Math.floor(MESSAGES / SIZE));
    assert.equal(await closeNextBlock({ db: temp.db, clock }, SIZE), false);
    await compare(150);
    assert.equal(await addStates(), Math.floor(MESSAGES / SIZE));
    await compare(150);
  }).timeout(60_000);

  it('with messages changed, erased and purged since', async () => {
    await temp.db.commit.transact(async (tx) => {
      await tx.run("UPDATE messages SET subject = '', metadata_json = '{}' WHERE id >= ? AND id < ?", [
        messages[200]?.id ?? '',
        messages[260]?.id ?? '',
      ]);
      await tx.run('DELETE FROM message_words WHERE message_id >= ? AND message_id < ?', [
        messages[200]?.id ?? '',
        messages[260]?.id ?? '',
      ]);
      await tx.run("UPDATE messages SET status = 'complained', opens = 1 WHERE id > ?", [messages[900]?.id ?? '']);
    });
    const range = { accountId: ACCOUNT, before: base + 150_000, after: null, most: 1000 };
    const old = await oldMessages.choose(temp.db.maintenance, range);
    await temp.db.commit.transact((tx) => oldMessages.remove(tx, old, clock.now()));
    assert.equal((await blocks()).length, 7);
    assert.equal(await removeEmptyBlock({ db: temp.db }), true);
    assert.equal(await removeEmptyBlock({ db: temp.db }), false, 'the others have messages');
    assert.deepEqual((await blocks())[0], { block: 2 });
    await compare(150);
  }).timeout(60_000);

  it('with messages that change status, are opened and clicked, before and after the codes know of it', async () => {
    const change = (set: string, from: number, to: number): Promise<void> =>
      temp.db.commit.transact((tx) =>
        tx.run(`UPDATE messages SET ${set} WHERE id >= ? AND id < ?`, [
          messages[from]?.id ?? '',
          messages[to]?.id ?? '',
        ]),
      );
    while (await applyNextChanges({ db: temp.db }));
    assert.equal(await changes(), 0);
    await change("status = 'queued', opens = 0, clicks = 0", 300, 320);
    assert.equal(await changes(), 20);
    await change('opens = opens + 0, status_at = 7', 320, 340);
    assert.equal(await changes(), 20, 'what stays as it was is no change');
    await change('clicks = 3', 310, 330);
    await change("status = 'complained'", 600, 640);
    await change("status = 'queued'", 980, 1000);
    const first = await changes();
    assert.ok(first > 60 && first <= 70, 'a message has one row; those in no block have none');
    await compare(150);
    assert.equal(await areManyChanges({ db: temp.db }, first - 1), true);
    assert.equal(await areManyChanges({ db: temp.db }, first), false);
    while (await applyNextChanges({ db: temp.db }));
    assert.equal(await changes(), 0);
    await compare(150);
    const both = { accountId: ACCOUNT, status: ['queued'] as const, clicked: true };
    const found = await listMessages(temp.db.reader, both, { newestFirst: false, limit: 100 }, 0);
    assert.deepEqual(
      found.messages.map(({ id }) => id),
      messages.slice(310, 320).map(({ id }) => id),
    );
  }).timeout(60_000);

  it('with a message from between the others, which makes the blocks anew from there on', async () => {
    const late = made(2, base + 400_500);
    await add([late]);
    const before = (await blocks()).map(({ block }) => block);
    assert.deepEqual(before, [2, 3]);
    const both = { accountId: ACCOUNT, tags: ['even'], stream: 'broadcast', createdAfter: base + 400_000 };
    const oldest = await listMessages(temp.db.reader, both, { newestFirst: false, limit: 1 }, 0);
    assert.equal(oldest.messages[0]?.id, late.id);
    await temp.db.commit.transact((tx) =>
      tx.run("UPDATE messages SET status = 'queued', clicks = 1 WHERE id = ?", [messages[700]?.id ?? '']),
    );
    assert.equal(await changes(), 0, 'those of blocks that are gone are read themselves');
    await compare(50);
    assert.ok((await close()) > 2);
    await compare(50);
    assert.ok((await addStates()) > 2);
    assert.equal(
      (
        await temp.db.prepared.all(
          'SELECT 1 FROM message_sets s WHERE NOT EXISTS (SELECT 1 FROM message_blocks b WHERE b.block = s.block)',
        )
      ).length,
      0,
    );
    await compare(150);
  }).timeout(60_000);
});
