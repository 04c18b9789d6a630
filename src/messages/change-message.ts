/**
 * What may still be done to mail that was accepted: cancel it, or move its time. Both go through record() like everything else
 * that changes a delivery; mail that is on the wire, or past it, cannot be called back.
 */
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { DeliveryRow, MessageRow } from '../storage/tables.ts';
import type { DueHint } from './accept.ts';
import { isWaiting } from './decide.ts';
import type { Recorder } from './record.ts';
import { giveUpAt, type RetryRule } from './retry.ts';

export interface ChangeDeps {
  db: { fast: Connection };
  clock: Clock;
  recorder: Recorder;
  bells: { deliveries: Bell<readonly DueHint[]> };
  retry: Pick<RetryRule, 'maxAge'>;
}

const deliveriesOf = ({ db }: Pick<ChangeDeps, 'db'>, messageId: string): Promise<DeliveryRow[]> =>
  db.fast.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [messageId]);

/** Cancels every recipient that still waits. Throws `invalid_state` where none does, or one is being sent right now. */
export async function cancelMessage(deps: ChangeDeps, messageId: string): Promise<void> {
  const waiting = (await deliveriesOf(deps, messageId)).filter(({ status }) => isWaiting(status));
  const changed = await cancel(deps, waiting);
  if (changed === 0)
    throw new Problem(
      'invalid_state',
      waiting.length === 0 ? 'the message is finished' : 'the message is being sent now',
    );
}

/** Cancels what still waits of a batch; returns how many recipients that were. */
export async function cancelBatch(deps: ChangeDeps, batchId: string): Promise<number> {
  let canceled = 0;
  let after = '';
  for (;;) {
    const rows = await deps.db.fast.all<DeliveryRow>(
      `SELECT d.* FROM messages m JOIN deliveries d ON d.message_id = m.id WHERE m.batch_id = ? AND d.id > ? ORDER BY d.id LIMIT ?`,
      [batchId, after, AT_ONCE],
    );
    canceled += await cancel(deps, rows.filter(({ status }) => isWaiting(status))); // prettier-ignore
    const last = rows.at(-1);
    if (last === undefined || rows.length < AT_ONCE) return canceled;
    after = last.id;
  }
}

const AT_ONCE = 200;

async function cancel({ recorder }: ChangeDeps, rows: readonly DeliveryRow[]): Promise<number> {
  if (rows.length === 0) return 0;
  const recorded = await recorder.record(rows.map(({ id }) => ({ deliveryId: id, happening: { kind: 'canceled' } })));
  return recorded.filter(({ applied }) => applied).length;
}

/** Moves the time of sending of mail that nobody has tried yet. Throws `invalid_state` and `invalid_field`. */
export async function rescheduleMessage(
  deps: ChangeDeps,
  message: Pick<MessageRow, 'id' | 'created_at' | 'expires_at'>,
  sendAt: number,
): Promise<void> {
  const now = deps.clock.now();
  const at = Math.max(sendAt, now);
  if (message.expires_at !== null && message.expires_at <= at)
    throw new Problem('invalid_field', '`send_at` must be before `expires_at`', { field: 'send_at' });
  const giveUp = giveUpAt(deps.retry, message.created_at, at, message.expires_at);
  const rows = (await deliveriesOf(deps, message.id)).filter(({ status }) => isWaiting(status));
  const recorded =
    rows.length === 0
      ? []
      : await deps.recorder.record(
          rows.map(({ id }) => ({ deliveryId: id, happening: { kind: 'rescheduled', sendAt: at, giveUpAt: giveUp } })),
        );
  if (!recorded.some(({ applied }) => applied))
    throw new Problem('invalid_state', 'the message is on its way, or finished: its time cannot be moved any more');
  deps.bells.deliveries.ring(
    rows.map(({ domain, class: order, account_id: accountId }) => ({ domain, class: order, accountId, dueAt: at })),
  );
}
