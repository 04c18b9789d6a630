/** What a recipient waits for, in words: for the API and the command line. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { Connection } from '../storage/connection.ts';
import type { DeliveryRow, MessageRow } from '../storage/tables.ts';
import { HELD_WITHOUT_END } from './delivery.ts';
import type { MailFacts } from './hold-book.ts';
import type { Hold, HoldOf } from './holds.ts';

export const waitReasons = [
  'finished',
  'scheduled',
  'held',
  'being_sent',
  'waiting_for_retry',
  'destination_parked',
  'queued',
] as const;

export interface Reason {
  reason: (typeof waitReasons)[number];
  message: string;
  /** When it is looked at again, or null. */
  until: string | null;
}

/** What is known around a delivery. */
export interface Around {
  held: Hold | null;
  now: number;
  /** Until when the lane of its destination is parked, or null. */
  parkedUntil: number | null;
}

export function reasonOf(delivery: DeliveryRow, { held, now, parkedUntil }: Around): Reason {
  const { due_at: dueAt, status } = delivery;
  if (dueAt === null) return { reason: 'finished', message: `It is finished: ${status}.`, until: null };
  const until = dueAt >= HELD_WITHOUT_END ? null : rfc3339(dueAt);
  if (delivery.claim_epoch !== null) return { reason: 'being_sent', message: 'It is being sent now.', until: null };
  if (status === 'scheduled' && dueAt > now)
    return { reason: 'scheduled', message: 'Its time of sending has not come.', until };
  if (held !== null)
    return {
      reason: 'held',
      message: `It is held: ${held.why}.`,
      until: held.until === null ? null : rfc3339(held.until),
    };
  if (delivery.held_by !== null)
    return { reason: 'held', message: 'It was held until now and is let go within half a minute.', until };
  if (parkedUntil !== null && parkedUntil > now)
    return {
      reason: 'destination_parked',
      message: `No mail host of ${delivery.domain} can be reached; they are left alone for a while.`,
      until: rfc3339(parkedUntil),
    };
  if (dueAt > now) {
    const last = delivery.smtp_reply === null ? '' : ` The last answer was: ${delivery.smtp_reply}`;
    return {
      reason: 'waiting_for_retry',
      message: `It waits for attempt ${String(delivery.attempt_count + 1)}.${last}`,
      until,
    };
  }
  return { reason: 'queued', message: 'It is due and waits for its turn.', until: null };
}

/** Of the lane of a recipient's domain: until when it is parked, and what of the operator's holds it. */
export type LaneFactsOf = (
  domain: string,
  /** What the mail was marked with as held. */
  mark?: string | null,
) => { parkedUntil: number | null; held: Hold | null };

export interface WhyDeps {
  db: { fast: Connection };
  holdOf: HoldOf;
  laneFacts: LaneFactsOf;
}

export interface Waiting extends Reason {
  email: string;
  status: DeliveryRow['status'];
}

/** What each recipient of a message waits for. */
export async function whyWaiting(
  { db, holdOf, laneFacts }: WhyDeps,
  message: Pick<MessageRow, 'id' | 'account_id' | 'stream' | 'from_domain' | 'created_at'>,
  now: number,
): Promise<Waiting[]> {
  const deliveries = await db.fast.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ? ORDER BY id', [
    message.id,
  ]);
  return Promise.all(
    deliveries.map(async (delivery): Promise<Waiting> => {
      const lane = laneFacts(delivery.domain, delivery.held_by);
      const held = delivery.test === 1 ? null : ((await holdOf(factsOf(message, delivery.domain))) ?? lane.held);
      const { address: email, status } = delivery;
      return { email, status, ...reasonOf(delivery, { held, now, parkedUntil: lane.parkedUntil }) };
    }),
  );
}

const factsOf = (
  message: Pick<MessageRow, 'id' | 'account_id' | 'stream' | 'from_domain' | 'created_at'>,
  domain: string,
): MailFacts => ({
  accountId: message.account_id,
  stream: message.stream,
  fromDomain: message.from_domain,
  domain,
  messageId: message.id,
  createdAt: message.created_at,
});
