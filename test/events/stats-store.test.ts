/** Whatever is asked of the numbers: they are those that counting the events one by one gives. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { providerOf } from '../../src/base/mailbox-providers.ts';
import { addToStats, type StatFacts } from '../../src/events/stats.ts';
import {
  MOST_KEYS,
  readBounceTotals,
  readStats,
  removeOldStats,
  statKeys,
  type StatKey,
  type StatLine,
  type StatsQuery,
} from '../../src/events/stats-store.ts';
import { statTypes, type StatRow, type StatType } from '../../src/storage/tables.ts';
import { ACCOUNT } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const BEGIN = Date.parse('2026-01-10T00:00:00Z');

interface Counted extends StatFacts {
  types: StatType[];
}

const counted = fc.record({
  accountId: fc.constantFrom(ACCOUNT, 'acc_other'),
  at: fc.integer({ min: BEGIN, max: BEGIN + 4 * DAY }),
  test: fc.boolean(),
  stream: fc.constantFrom('transactional', 'news'),
  domain: fc.constantFrom('acme.test', 'shop.test'),
  recipient: fc.constantFrom('a@gmail.com', 'a@web.de', 'a@elsewhere.test'),
  tags: fc.subarray(['a', 'b', 'c']),
  template: fc.constantFrom(null, 'tpl_1', 'tpl_2'),
  types: fc.subarray([...statTypes], { maxLength: 3 }),
});

const asked: fc.Arbitrary<StatsQuery> = fc
  .record({
    accountId: fc.constant(ACCOUNT),
    since: fc.integer({ min: 0, max: 60 }).map((hours) => BEGIN + hours * HOUR),
    until: fc.integer({ min: 61, max: 100 }).map((hours) => BEGIN + hours * HOUR),
    bucket: fc.constantFrom('hour', 'day', 'total'),
    by: fc.constantFrom(null, ...statKeys),
    only: fc.record(
      {
        stream: fc.constantFrom('news', 'none'),
        tag: fc.constantFrom('a', 'b'),
        domain: fc.constant('acme.test'),
        provider: fc.constant('google'),
        template: fc.constantFrom('tpl_1', 'tpl_none'),
      },
      { requiredKeys: [] },
    ),
    test: fc.boolean(),
  })
  .map((query) => {
    // Tags and templates are not counted together.
    const { template: _template, ...withoutTemplate } = query.only;
    const isOfTags = query.by === 'tag' || query.only.tag !== undefined;
    const by = isOfTags && query.by === 'template' ? null : query.by;
    return isOfTags ? { ...query, by, only: withoutTemplate } : query;
  });

/** Returns the values that an event has of a key: of tags any number. */
const valuesOf = (event: Counted, key: StatKey): readonly string[] =>
  key === 'tag'
    ? event.tags
    : [key === 'provider' ? providerOf(event.recipient) : event[key]].filter((value) => value !== null);

/** The slow way: `at key type` to how often. */
function byHand(events: readonly Counted[], { since, until, bucket, by, only, test }: StatsQuery): Map<string, number> {
  const found = new Map<string, number>();
  const step = bucket === 'day' ? DAY : HOUR;
  for (const event of events) {
    if (event.accountId !== ACCOUNT || event.test !== test || event.at < since || event.at >= until) continue;
    if (statKeys.some((key) => only[key] !== undefined && !valuesOf(event, key).includes(only[key]))) continue;
    const at = bucket === 'total' ? since : event.at - (event.at % step);
    const keys =
      by === null
        ? [null]
        : valuesOf(event, by).filter((key) => by !== 'tag' || only.tag === undefined || key === only.tag);
    for (const key of keys)
      for (const type of event.types) {
        const name = `${String(at)} ${String(key)} ${type}`;
        found.set(name, (found.get(name) ?? 0) + 1);
      }
  }
  return found;
}

const flat = (lines: readonly StatLine[]): Map<string, number> =>
  new Map(
    lines.flatMap(({ at, key, counts }) =>
      statTypes
        .filter((type) => counts[type] > 0)
        .map((type) => [`${String(at)} ${String(key)} ${type}`, counts[type]] as const),
    ),
  );

describe('events/stats-store', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  /** In several commits, which add to each other's rows. */
  async function count(events: readonly Counted[]): Promise<void> {
    for (let n = 0; n < events.length; n += 100) {
      const rows = new Map<string, StatRow>();
      for (const { types, ...facts } of events.slice(n, n + 100)) addToStats(rows, facts, types);
      await temp.db.commit.insert({ event_counts: [...rows.values()] });
    }
  }

  const agree = (events: readonly Counted[]): Promise<void> =>
    fc.assert(
      fc.asyncProperty(asked, async (wish) => {
        // Days are asked for whole.
        const whole = (ms: number): number => (wish.bucket === 'day' ? Math.floor(ms / DAY) * DAY : ms);
        const query = { ...wish, since: whole(wish.since), until: whole(wish.until) };
        const lines = await readStats(temp.db.reader, query);
        assert.deepEqual(new Map([...flat(lines)].sort()), new Map([...byHand(events, query)].sort()));
        assert.deepEqual(
          lines.map(({ at }) => at),
          lines.map(({ at }) => at).sort((a, b) => a - b),
        );
      }),
      { numRuns: 300 },
    );

  it('gives the numbers that counting gives, by every key, within every other, in any range', async () => {
    const events = fc.sample(counted, { numRuns: 600, seed: 1 });
    await count(events);
    await agree(events);
  });

  it('sums the bounces of all accounts by class, along the key of the table', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run("INSERT INTO accounts (id, name, plan, created_at, paused) VALUES (?, 'of the test', 'x', 1, 0)", [
        ACCOUNT,
      ]),
    );
    const facts = { stream: 's', domain: 'acme.test', recipient: 'a@b.test', tags: ['a'], template: 'tpl_1' };
    const bounce = (n: number, of: 'bounced_hard' | 'bounced_block' | null, test = false): Counted => ({
      ...facts,
      accountId: ACCOUNT,
      at: BEGIN + n * DAY,
      test,
      types: of === null ? ['bounced'] : ['bounced', of],
    });
    await count([
      bounce(0, 'bounced_hard'),
      bounce(1, 'bounced_hard', true),
      bounce(1, 'bounced_block'),
      bounce(2, null),
    ]);
    const made: string[] = [];
    temp.db.reader.on('query', ({ sql }: { sql: string }) => made.push(sql));
    assert.deepEqual(await readBounceTotals(temp.db.reader), { hard: 2, soft: 0, block: 1, undetermined: 1 });
    if (temp.db.engine === 'postgres') return;
    const plan = await temp.db.prepared.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${String(made[0])}`);
    assert.match(
      plan[1]?.detail ?? '',
      /^SEARCH c USING PRIMARY KEY \(account_id=\? AND span=\? AND test=\? AND tag=\?\)/,
    );
  });

  it('gives the keys with the most mail, and forgets old tags', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run("INSERT INTO accounts (id, name, plan, created_at, paused) VALUES (?, 'of the test', 'x', 1, 0)", [
        ACCOUNT,
      ]),
    );
    const all = {
      accountId: ACCOUNT,
      test: false,
      stream: 's',
      domain: 'acme.test',
      recipient: 'a@b.test',
      template: null,
      types: ['sent' as const],
    };
    const tagged = (at: number, n: number): Counted => ({ ...all, at, tags: [`t${String(n)}`] });
    const many = Array.from({ length: 520 }, (_, n) => tagged(BEGIN, n));
    const again = Array.from({ length: 130 }, (_, n) => tagged(BEGIN + DAY, n + 40));
    await count([...many, ...again, tagged(BEGIN + 2 * DAY, 41)]);
    const query: StatsQuery = {
      accountId: ACCOUNT,
      since: BEGIN,
      until: BEGIN + 3 * DAY,
      bucket: 'total',
      by: 'tag',
      only: {},
      test: false,
    };
    const most = await readStats(temp.db.reader, query);
    assert.deepEqual([most.length, most[0]?.key, most[0]?.counts.sent, most[1]?.key], [MOST_KEYS, 't41', 3, 't100']);
    const byDay = await readStats(temp.db.reader, { ...query, bucket: 'day' });
    assert.deepEqual([byDay.length, byDay.at(-1)?.key, byDay.at(-1)?.at], [201, 't41', BEGIN + 2 * DAY]);
    assert.deepEqual(
      await readStats(temp.db.reader, { ...query, since: BEGIN + DAY, until: BEGIN + 2 * DAY, only: { tag: 't50' } }),
      [{ at: BEGIN + DAY, key: 't50', counts: { ...most[1]?.counts, sent: 1 } }],
    );

    await removeOldStats(temp.db.commit, BEGIN + 500 * DAY, 1000);
    assert.deepEqual(await readStats(temp.db.reader, query), [], 'tags are removed after 400 days');
  });
});
