import assert from 'node:assert/strict';
import { nextCalls, pageOfDeliveries, queueCalls } from '../../src/webhooks/call-store.ts';
import type { WebhookDeliveryRow } from '../../src/storage/tables.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const MANY = 100;
/** The call that ends unlike all others, and the last one. */
const [OTHER, LAST] = [3, MANY - 1];

const idOf = (n: number): string => `whd_${String(n).padStart(3, '0')}`;
const line = (n: number, isDelivered: boolean): WebhookDeliveryRow => ({
  id: idOf(n),
  webhook_id: 'whk_1',
  event_id: `evt_${String(n)}`,
  event_type: 'sent',
  sequence: n + 1,
  cause: 'event',
  attempt: 1,
  at: n,
  ms: 1,
  status: isDelivered ? 'delivered' : 'failed',
  status_code: isDelivered ? 200 : 500,
  error: isDelivered ? null : 'answered 500',
  answer: null,
  signature: 'v1,x',
  sample: null,
  next_attempt_at: null,
});

describe('webhooks/call-store', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  type Status = WebhookDeliveryRow['status'];
  const page = (part: { limit: number; after?: string; before?: string; status?: Status; sequence?: number }) =>
    pageOfDeliveries({ db: temp.db }, { webhookId: 'whk_1', ...part }, [10, 20]);

  async function pages(status: Status, direction: 'after' | 'before'): Promise<string[][]> {
    const found: string[][] = [];
    let edge: string | null | undefined = direction === 'after' ? undefined : 'whd_';
    for (;;) {
      const { rows, hasMore, first, last } = await page({
        limit: 4,
        status,
        ...(edge === undefined ? {} : { [direction]: edge }),
      });
      found.push(rows.map(({ id }) => id));
      if (!hasMore) return found;
      edge = direction === 'after' ? last : first;
      assert.ok(typeof edge === 'string' && found.length < 100);
    }
  }

  it('tests a bounded number of calls for those that were delivered, and goes on from there', async () => {
    const lines = Array.from({ length: MANY }, (_, n) => line(n, n === OTHER));
    await temp.db.commit.insert({ webhook_deliveries: lines });
    for (const direction of ['after', 'before'] as const) {
      const found = await pages('delivered', direction);
      assert.deepEqual(found.flat(), [idOf(OTHER)], direction);
      assert.equal(found.length, 4, 'slices of 30 of 100 calls');
    }
  });

  it('finds at once the only call that failed, and those for an event', async () => {
    const lines = Array.from({ length: MANY }, (_, n) => line(n, n !== OTHER));
    await temp.db.commit.insert({ webhook_deliveries: lines });
    const failed = await page({ limit: 4, status: 'failed' });
    assert.deepEqual([failed.rows.map(({ id }) => id), failed.hasMore], [[idOf(OTHER)], false]);
    const ofEvent = await page({ limit: 4, status: 'delivered', sequence: LAST + 1 });
    assert.deepEqual([ofEvent.rows.map(({ id }) => id), ofEvent.hasMore], [[idOf(LAST)], false]);
  });

  it('sends events again with all attempts before them, also those that were given up', async () => {
    const call = { webhook_id: 'whk_1', cause: 'event' as const, created_at: 1 };
    await temp.db.commit.insert({
      webhook_calls: [
        { ...call, sequence: 1, attempts: 10, due_at: null },
        { ...call, sequence: 2, attempts: 3, due_at: 5 },
      ],
    });
    const again = { webhookId: 'whk_1', sequences: [1, 3], cause: 'replay' as const, now: 7 };
    await temp.db.commit.transact((tx) => queueCalls(tx, again));
    const rows = await nextCalls(temp.db.prepared, 'whk_1', { by: 'sequence', limit: 10 });
    assert.deepEqual(
      rows.map(({ sequence, cause, attempts, due_at }) => [sequence, cause, attempts, due_at]),
      [
        [1, 'replay', 0, 7],
        [2, 'event', 3, 5],
        [3, 'replay', 0, 7],
      ],
    );
  });
});
