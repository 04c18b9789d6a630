/** The counters of the books: recipients that went from one status to another, by account and UTC day. */
import { dayOf } from '../../base/time.ts';
import type { CounterRow } from '../../storage/tables.ts';

/** Counts one recipient that went from one status to another. */
export function addToCounters(
  counters: Map<string, CounterRow>,
  accountId: string,
  now: number,
  from: string,
  to: string,
): void {
  const day = dayOf(now);
  const key = `${accountId} ${day} ${from} ${to}`;
  const row = counters.get(key);
  if (row === undefined) counters.set(key, { account_id: accountId, day, from_status: from, to_status: to, n: 1 });
  else row.n++;
}
