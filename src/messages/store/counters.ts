/** The counters of the books: recipients that went from one status to another, by account and UTC day. */
import { dayOf } from '../../base/time.ts';
import { SIMULATED } from '../../accounts/quota.ts';
import type { CounterRow, DeliveryRow } from '../../storage/tables.ts';

/** Counts a recipient whose mail was accepted. Simulated mail is in the books like all mail, and once more in the row that the quota is spared by. */
export function addAccepted(
  counters: Map<string, CounterRow>,
  { account_id: accountId, status, test }: Pick<DeliveryRow, 'account_id' | 'status' | 'test'>,
  now: number,
): void {
  addToCounters(counters, accountId, now, 'none', status);
  if (test === 1 && status !== 'suppressed') addToCounters(counters, accountId, now, SIMULATED, 'none');
}

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
