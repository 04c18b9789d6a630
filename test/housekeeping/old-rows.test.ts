import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import type { WebhookDeliveryRow, WebhookReplayRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

const DAY = 86_400_000;

const replay = (day: number, at: number): WebhookReplayRow => ({
  id: newId('whr', at),
  webhook_id: 'whk_1',
  account_id: 'acc_1',
  since: day,
  until: 0,
  which: 'failed',
  types_json: '[]',
  status: 'done',
  position: 0,
  end_position: 0,
  queued: 0,
  created_at: at,
  finished_at: at,
});

describe('housekeeping/old-rows', () => {
  it('keeps the delivery log and replays for 30 days, and what was given up as long as events', async () => {
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
      webhook_replays: [31, 29].map((day) => replay(day, clock.now() - day * DAY)),
      webhook_calls: [91, 89].map((day) => ({ ...call, sequence: day, created_at: clock.now() - day * DAY })),
    });
    for (const name of ['old webhook deliveries', 'old webhook calls', 'old webhook replays'])
      assert.equal(await oldRule(temp.db, clock, name).step(20, temp.db.commit), 1, name);
    assert.deepEqual(await temp.db.prepared.all('SELECT id FROM webhook_deliveries ORDER BY position'), [
      { id: 'whd_30' },
      { id: 'whd_29' },
    ]);
    assert.deepEqual(await temp.db.prepared.all('SELECT sequence FROM webhook_calls'), [{ sequence: 89 }]);
    assert.deepEqual(await temp.db.prepared.all('SELECT since FROM webhook_replays'), [{ since: 29 }]);
    await temp.close();
  });
});
