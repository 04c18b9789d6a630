import assert from 'node:assert/strict';
import { webhookLogRules } from '../../src/housekeeping/old-rows.ts';
import type { WebhookDeliveryRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

const DAY = 86_400_000;

describe('housekeeping/old-rows', () => {
  it('keeps the delivery log and what was given up for 30 days', async () => {
    const temp = await openTempDatabase();
    const clock = new FakeClock();
    const line = (day: number): WebhookDeliveryRow => ({
      id: `whd_${String(day)}`,
      webhook_id: 'whk_1',
      event_id: 'evt_1',
      event_type: 'sent',
      sequence: 1,
      cause: 'event',
      attempt: 1,
      at: clock.now() - day * DAY,
      ms: 1,
      status: 'delivered',
      status_code: 200,
      error: null,
      answer: null,
      signature: 'v1,x',
      sample: null,
      next_attempt_at: null,
    });
    const call = { webhook_id: 'whk_1', cause: 'event' as const, attempts: 10, due_at: null };
    await temp.db.commit.insert({
      webhook_deliveries: [31, 30, 29].map(line),
      webhook_calls: [31, 29].map((day) => ({ ...call, sequence: day, created_at: clock.now() - day * DAY })),
    });
    for (const rule of webhookLogRules({ db: temp.db, clock }))
      assert.equal((await rule.sizedStep(20)).rows, 1, rule.name);
    assert.deepEqual(await temp.db.prepared.all('SELECT id FROM webhook_deliveries ORDER BY position'), [
      { id: 'whd_30' },
      { id: 'whd_29' },
    ]);
    assert.deepEqual(await temp.db.prepared.all('SELECT sequence FROM webhook_calls'), [{ sequence: 29 }]);
    await temp.close();
  });
});
