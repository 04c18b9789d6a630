/** Cancels accepted mail or moves its time of sending, through record(). Mail that is being sent, or was sent, cannot be changed. */
import type { Notifier } from '../../scheduling/notifier.ts';
import type { Clock } from '../../base/clock.ts';
import { Problem } from '../../base/problem.ts';
import type { Connection } from '../../storage/connection.ts';
import { noRows, type RowsFor } from '../../storage/rows.ts';
import type { DeliveryRow, DeliveryStatus, MessageRow } from '../../storage/tables.ts';
import type { DueHint } from './due-hint.ts';
import { isWaiting } from './decide.ts';
import type { Occurrence, Recorded, Recorder, RowsAfter } from './record.ts';
import { giveUpAt, type AgeRule } from './retry.ts';

export interface ChangeDeps {
  db: { prepared: Connection };
  clock: Clock;
  recorder: Recorder;
  notifiers: { deliveries: Notifier<readonly DueHint[]> };
  retry: AgeRule;
}

async function waitingDeliveries({ db }: Pick<ChangeDeps, 'db'>, messageId: string): Promise<DeliveryRow[]> {
  const rows = await db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [messageId]);
  return rows.filter(({ status }) => isWaiting(status));
}

/** Adds the rows only if something changed. */
const withMessage =
  (messageId: string, alsoInTransaction: RowsFor<MessageRow>): RowsAfter =>
  async (tx, recorded) => {
    if (!recorded.some(({ applied }) => applied)) return {};
    const [row] = await tx.all<MessageRow>('SELECT * FROM messages WHERE id = ?', [messageId]);
    return row === undefined ? {} : alsoInTransaction(row);
  };

/** Cancels every recipient that still waits. Throws `invalid_state` if none does, or one is being sent now. */
export async function cancelMessage(
  deps: ChangeDeps,
  messageId: string,
  alsoInTransaction: RowsFor<MessageRow> = noRows,
): Promise<void> {
  const waiting = await waitingDeliveries(deps, messageId);
  const changed = await cancel(deps, waiting, withMessage(messageId, alsoInTransaction));
  if (changed > 0) return;
  // Another request may have canceled it meanwhile.
  const isBeingSent = (await waitingDeliveries(deps, messageId)).length > 0;
  throw new Problem(
    'invalid_state',
    `The message is ${isBeingSent ? 'being sent now' : 'finished'}: it cannot be canceled any more.`,
  );
}

export type StatusCounts = readonly { status: DeliveryStatus; n: number }[];

export const batchCounts = (db: Connection, batchId: string): Promise<StatusCounts> =>
  db.all('SELECT status, COUNT(*) AS n FROM messages WHERE batch_id = ? GROUP BY status', [batchId]);

/** Cancels all recipients of a batch that still wait; returns their number. */
export async function cancelBatch(
  deps: ChangeDeps,
  batchId: string,
  alsoInTransaction: RowsFor<StatusCounts> = noRows,
): Promise<number> {
  const rows = await waitingOf(deps, batchId);
  let canceled = 0;
  for (let at = 0; at < rows.length; at += AT_ONCE) {
    const before = canceled;
    // The last commit stores the answer: a client that lost the connection earlier still finds something to cancel when it asks again.
    const isLast = at + AT_ONCE >= rows.length;
    canceled += await cancel(deps, rows.slice(at, at + AT_ONCE), async (tx, recorded) =>
      isLast && before + countOf(recorded) > 0 ? alsoInTransaction(await batchCounts(tx, batchId)) : {},
    );
  }
  return canceled;
}

/** Deliveries that are read, and canceled in one transaction. */
const AT_ONCE = 200;

async function waitingOf({ db }: Pick<ChangeDeps, 'db'>, batchId: string): Promise<Pick<DeliveryRow, 'id'>[]> {
  const waiting: Pick<DeliveryRow, 'id'>[] = [];
  let after = '';
  for (;;) {
    const rows = await db.prepared.all<Pick<DeliveryRow, 'id' | 'status'>>(
      `SELECT d.id, d.status FROM messages m JOIN deliveries d ON d.message_id = m.id WHERE m.batch_id = ? AND d.id > ? ORDER BY d.id LIMIT ?`,
      [batchId, after, AT_ONCE],
    );
    for (const { id, status } of rows) if (isWaiting(status)) waiting.push({ id });
    const last = rows.at(-1);
    if (last === undefined || rows.length < AT_ONCE) return waiting;
    after = last.id;
  }
}

async function cancel(
  { recorder }: ChangeDeps,
  rows: readonly Pick<DeliveryRow, 'id'>[],
  after: RowsAfter,
): Promise<number> {
  if (rows.length === 0) return 0;
  const occurrences = rows.map(({ id }): Occurrence => ({ deliveryId: id, change: { kind: 'canceled' } }));
  return countOf(await recorder.record(occurrences, after));
}

const countOf = (recorded: readonly Recorded[]): number => recorded.filter(({ applied }) => applied).length;

/** Moves the time of sending before the first attempt. Throws `invalid_state` and `invalid_field`. */
export async function rescheduleMessage(
  deps: ChangeDeps,
  message: Pick<MessageRow, 'id' | 'created_at' | 'expires_at' | 'account_id' | 'stream'>,
  sendAt: number,
  alsoInTransaction: RowsFor<MessageRow> = noRows,
): Promise<void> {
  const now = deps.clock.now();
  const at = Math.max(sendAt, now);
  if (message.expires_at !== null && message.expires_at <= at)
    throw new Problem('invalid_field', '`send_at` must be before `expires_at`.', { field: 'send_at' });
  const { account_id: account, stream } = message;
  const giveUp = (domain: string): number =>
    giveUpAt(deps.retry, { account, stream, domain }, message.created_at, at, message.expires_at);
  const rows = await waitingDeliveries(deps, message.id);
  const recorded =
    rows.length === 0
      ? []
      : await deps.recorder.record(
          rows.map(({ id, domain }) => ({
            deliveryId: id,
            change: { kind: 'rescheduled', sendAt: at, giveUpAt: giveUp(domain) },
          })),
          withMessage(message.id, alsoInTransaction),
        );
  if (!recorded.some(({ applied }) => applied))
    throw new Problem('invalid_state', 'The message is being sent or is finished: its time cannot be moved any more.');
  deps.notifiers.deliveries.notify(
    rows.map(({ domain, class: order, account_id: accountId }) => ({ domain, class: order, accountId, dueAt: at })),
  );
}
