/** Says in one word why messages were bounced, deferred, given up or suppressed: by the attempts for the recipient whose status a message shows. */
import type { Knex } from 'knex';
import { dialectOf } from '../../storage/sql.ts';
import type { DeliveryRow, MessageRow } from '../../storage/tables.ts';
import { judge } from '../delivery/classify.ts';

interface Told {
  message_id: string;
  reason: string | null;
}

/** Returns the reasons by the messages' ids; other messages have none. An entry that was lifted since explains nothing any more. */
export async function reasonsOf(
  read: Knex,
  rows: readonly Pick<MessageRow, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, string>> {
  const inStatus = (...statuses: readonly MessageRow['status'][]): string[] =>
    rows.filter(({ status }) => statuses.includes(status)).map(({ id }) => id);
  const [refused, suppressed] = [inStatus('bounced', 'deferred', 'failed'), inStatus('suppressed')];
  const among = dialectOf(read).among('text');
  const [attempts, entries] = await Promise.all([
    refused.length === 0
      ? []
      : read.raw<Told[]>(
          `SELECT a.message_id, a.reason FROM attempts a JOIN deliveries d ON d.id = a.delivery_id AND d.lead = 1
           WHERE a.message_id ${among} ORDER BY a.id`,
          [JSON.stringify(refused)],
        ),
    suppressed.length === 0
      ? []
      : read.raw<Told[]>(
          `SELECT d.message_id, s.reason FROM deliveries d JOIN suppressions s ON s.account_id = d.account_id
             AND s.address_key = d.address_key WHERE d.message_id ${among} AND d.status = 'suppressed' AND d.lead = 1`,
          [JSON.stringify(suppressed)],
        ),
  ]);
  // The last attempt of each tells: one that was accepted has no reason.
  const last = new Map([...attempts, ...entries].map(({ message_id: id, reason }) => [id, reason]));
  const found = new Map([...last].flatMap(([id, reason]) => (reason === null ? [] : [[id, reason] as const])));
  // A bounce that came later by mail has no attempt of its own; its words are in the delivery.
  const late = inStatus('bounced').filter((id) => !found.has(id));
  if (late.length === 0) return found;
  const replies = await read.raw<Pick<DeliveryRow, 'message_id' | 'smtp_code' | 'enhanced_code' | 'smtp_reply'>[]>(
    `SELECT message_id, smtp_code, enhanced_code, smtp_reply FROM deliveries
     WHERE message_id ${among} AND status = 'bounced' AND lead = 1`,
    [JSON.stringify(late)],
  );
  for (const { message_id: id, smtp_code: code, enhanced_code: enhanced, smtp_reply: text } of replies)
    found.set(id, judge({ phase: 'report', code, enhanced, text: text ?? '' }).reason);
  return found;
}
