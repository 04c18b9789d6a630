/** The stores of mails that came to us, on a real database: the oldest go when one is full. */
import assert from 'node:assert/strict';
import type { BudgetName } from '../../src/base/budgets.ts';
import { newId } from '../../src/base/id.ts';
import { createLog } from '../../src/base/log.ts';
import { keptReports } from '../../src/inbound/bounded-store.ts';
import type { ReportRow } from '../../src/storage/tables.ts';
import { NOW } from '../support/harness/mail-rows.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const log = createLog({ level: 'error', format: 'json' });
/** 1 % of it is a store of ten mails of 10 kB. */
const DISK = 11_000 * 10 * 100;
const loose = { network: '192.0.2.0/24', deliveryId: null };
const matched = { network: '192.0.2.0/24', deliveryId: 'dlv_1' };

describe('mails that came to us', () => {
  let temp: TempDatabase;
  let used: BudgetName[];
  beforeEach(async () => {
    temp = await openTempDatabase();
    used = [];
  });
  afterEach(() => temp.close());

  const kept = () => keptReports({ db: temp.db, log, usedUp: (name) => used.push(name) }, DISK);
  const add = (count: number, fields: Partial<ReportRow>): Promise<void> =>
    temp.db.commit.insert({
      reports: Array.from({ length: count }, (_, n): ReportRow => ({
        id: newId('rep', NOW + n),
        received_at: NOW + n,
        client_ip: '192.0.2.1',
        sender: '',
        recipients_json: '[]',
        size: 1,
        state: 'unmatched',
        kind: 'other',
        account_id: null,
        message_id: null,
        delivery_id: null,
        detail_json: '{}',
        raw: Buffer.alloc(10_000),
        ...fields,
      })),
    });
  const ids = async (where: string): Promise<string[]> =>
    (await temp.db.prepared.all<{ id: string }>(`SELECT id FROM reports WHERE ${where} ORDER BY id`)).map(
      ({ id }) => id,
    );

  it('go when there are too many, the oldest first, those about deliveries separately', async () => {
    await add(15, {});
    await add(15, { delivery_id: 'dlv_1', state: 'done', kind: 'bounce' });
    const before = await ids('delivery_id IS NULL');
    await kept().trim();
    const left = await ids('delivery_id IS NULL');
    assert.ok(left.length <= 10);
    assert.deepEqual(left, before.slice(before.length - left.length));
    assert.equal((await ids('delivery_id IS NOT NULL')).length, 15);
    assert.deepEqual(used, ['kept_loose']);
  });

  it('stay until they were read', async () => {
    await add(15, { kind: null, state: 'new' });
    await kept().trim();
    assert.equal((await ids('true')).length, 15);
  });

  it('count as mail without an owner as long as nothing proves them', async () => {
    await add(15, { delivery_id: 'dlv_1', state: 'unverified', kind: 'complaint' });
    await kept().trim();
    assert.ok((await ids('true')).length <= 10);
  });

  it('are refused where the oldest cannot go as quickly', async () => {
    const store = kept();
    await store.trim();
    store.of(loose).add((DISK / 100) * 1.3);
    assert.equal(store.of(loose).overfull(), 'kept_loose');
    assert.equal(store.of(matched).overfull(), null);
    await store.trim();
    assert.equal(store.of(loose).overfull(), null);
  });

  it('about deliveries have a store of their own', async () => {
    const store = kept();
    store.of(matched).add((DISK / 20) * 1.3);
    assert.equal(store.of(matched).overfull(), 'kept_matched');
    assert.equal(store.of(loose).overfull(), null);
  });

  it('are summed along an index', async function () {
    if (isOnPostgres) this.skip('the plan of SQLite');
    const plan = await temp.db.prepared.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT SUM(length(raw) + 1000) FROM reports WHERE (delivery_id IS NULL OR state = 'unverified')",
    );
    assert.match(plan[0]?.detail ?? '', /USING INDEX reports_loose/);
    const rest = await temp.db.prepared.all<{ detail: string }>(
      "EXPLAIN QUERY PLAN SELECT SUM(length(raw) + 1000) FROM reports WHERE NOT (delivery_id IS NULL OR state = 'unverified')",
    );
    assert.match(rest[0]?.detail ?? '', /USING INDEX reports_matched/);
  });
});
