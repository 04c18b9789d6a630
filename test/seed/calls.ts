/** The traces of webhook calls: a log of the last events, one endpoint that lags and fails, and a replay. */
import { newId } from '../../src/base/id.ts';
import type { EventRow, WebhookDeliveryRow, WebhookRow } from '../../src/storage/tables.ts';
import { endpoints, type SeedDeps } from './set-up.ts';

const LOGGED = 400;
const OWED = 25;
const DAY_MS = 86_400_000;

type Logged = EventRow & { sequence: number };

export async function calls({ db, clock }: SeedDeps, accountId: string): Promise<void> {
  const now = clock.now();
  const events = (await db
    .reader('events')
    .where({ account_id: accountId, machine: 0 })
    .whereIn('type', ['delivered', 'bounced', 'complained'])
    .orderBy('sequence', 'desc')
    .limit(LOGGED)) as Logged[];
  events.reverse();
  const rows = await db.reader<WebhookRow>('webhooks').where({ account_id: accountId });
  const idOf = (url: string): string => rows.find((row) => row.url === url)?.id ?? '';
  const [shop, crm, , broken] = endpoints.map(idOf);
  const last = ((await db.reader('events').max({ n: 'sequence' }).first()) as { n: number | null } | undefined)?.n ?? 0;
  await db.commit.transact(async (tx) => {
    await tx.run('UPDATE webhooks SET cursor = ?, last_success_at = ? WHERE account_id = ?', [last, now, accountId]);
    await tx.run(
      'UPDATE webhooks SET failures = 31, failing_since = ?, last_failure_at = ?, last_success_at = ?, status = ?, disabled_reason = ? WHERE id = ?',
      [now - 6 * DAY_MS, now - 60_000, now - 7 * DAY_MS, 'disabled', 'it failed for five days', broken ?? ''],
    );
  });
  const done = [shop ?? '', crm ?? ''].flatMap((id) => events.map((event) => line(id, event, true)));
  const failed = events.slice(-OWED).map((event) => line(broken ?? '', event, false));
  await db.commit.insert({
    webhook_deliveries: [...done, ...failed],
    webhook_calls: events.slice(-OWED).map(({ sequence, at }) => ({
      webhook_id: broken ?? '',
      sequence,
      cause: 'event',
      attempts: 10,
      due_at: null,
      created_at: at,
    })),
    webhook_replays: [
      {
        id: newId('whr', now),
        webhook_id: shop ?? '',
        account_id: accountId,
        since: now - DAY_MS,
        until: now,
        which: 'failed',
        types_json: '[]',
        status: 'done',
        position: last,
        end_position: last,
        queued: 3,
        created_at: now - DAY_MS,
        finished_at: now - DAY_MS + 5000,
      },
    ],
  });
}

const line = (webhookId: string, event: Logged, good: boolean): WebhookDeliveryRow => ({
  id: newId('whd', event.at),
  webhook_id: webhookId,
  event_id: event.id,
  event_type: event.type,
  sequence: event.sequence,
  cause: 'event',
  attempt: good ? 1 : 10,
  at: event.at,
  ms: good ? 42 : 15_000,
  status: good ? 'delivered' : 'failed',
  status_code: good ? 204 : 500,
  error: good ? null : 'the endpoint answered 500',
  answer: good ? '' : 'internal error',
  signature: 'v1,c2VlZGVk',
  sample: null,
  next_attempt_at: null,
});
