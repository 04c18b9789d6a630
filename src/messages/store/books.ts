/**
 * The books: every acceptance and every change of status adds to counters in its own transaction. This check compares the
 * counters with the rows, and both with accepted attempts and the due index.
 */
import type { Knex } from 'knex';
import { deliveryStatuses, type DeliveryStatus, type CounterRow, type DeliveryRow } from '../../storage/tables.ts';
import { waitingStatuses } from '../delivery/delivery.ts';
import { dayOf } from '../../base/time.ts';
import { SIMULATED } from '../../accounts/quota.ts';

/** Names in the books for recipients and accepted attempts that were removed. */
export const PURGED = 'purged';
export const PURGED_ATTEMPTS = 'accepted_attempt';

export interface BookLine {
  status: DeliveryStatus;
  /** Recipients by the counters: those that got this status less those that left it. */
  counted: number;
  /** Recipients by the rows. */
  found: number;
}

export interface Books {
  balanced: boolean;
  accepted: number;
  lines: BookLine[];
  /** The differences, in words. */
  faults: string[];
}

/** Checks the books in one snapshot. It counts everything: seconds for a million rows, so it is for `doctor` and tests, not for a page. */
export function balance(read: Knex): Promise<Books> {
  return read.transaction(async (snapshot) => {
    const counters = await sums(snapshot);
    const rows: { status: string; n: number }[] = await snapshot('deliveries')
      .select('status')
      .count({ n: '*' })
      .groupBy('status');
    const lines = deliveryStatuses.map((status): BookLine => ({
      status,
      counted: net(counters, status),
      found: rows.find((row) => row.status === status)?.n ?? 0,
    }));
    const faults = lines.flatMap(({ status, counted, found }) =>
      counted === found ? [] : [`${status}: ${String(counted)} by the counters, ${String(found)} by the rows`],
    );
    faults.push(...(await againstAttempts(snapshot, counters)), ...(await againstDueIndex(snapshot, lines)));
    const accepted = sum(counters.filter(({ from_status }) => from_status === 'none'));
    return { balanced: faults.length === 0, accepted, lines, faults };
  });
}

/** Recipients that went from one status to another, over all accounts and days. */
interface Sum {
  from_status: string;
  to_status: string;
  n: number;
}

const sums = (snapshot: Knex): Promise<Sum[]> =>
  snapshot('counters')
    .select('from_status', 'to_status')
    .sum({ n: 'n' })
    .groupBy('from_status', 'to_status') as unknown as Promise<Sum[]>;

const sum = (rows: readonly { n: number }[]): number => rows.reduce((total, { n }) => total + n, 0);

const net = (counters: readonly Sum[], status: string): number =>
  sum(counters.filter(({ to_status }) => to_status === status)) -
  sum(counters.filter(({ from_status }) => from_status === status));

async function againstAttempts(snapshot: Knex, counters: readonly Sum[]): Promise<string[]> {
  const delivered = sum(counters.filter(({ to_status }) => to_status === 'delivered'));
  const row = (await snapshot('attempts').where('outcome', 'accepted').count({ n: '*' }).first()) as
    { n: number } | undefined;
  const gone = sum(counters.filter(({ from_status }) => from_status === PURGED_ATTEMPTS));
  const attempts = (row?.n ?? 0) + gone;
  // A 250 that came after a bounce report is an accepted attempt without a delivery.
  return attempts < delivered ? [`${String(delivered)} delivered, but ${String(attempts)} accepted attempts`] : [];
}

async function againstDueIndex(snapshot: Knex, lines: readonly BookLine[]): Promise<string[]> {
  const row = (await snapshot('deliveries').whereNotNull('due_at').count({ n: '*' }).first()) as
    { n: number } | undefined;
  const due = row?.n ?? 0;
  const waiting = lines.filter(({ status }) => waitingStatuses.some((one) => one === status));
  const expected = waiting.reduce((total, { found }) => total + found, 0);
  return due === expected ? [] : [`${String(expected)} recipients wait, but ${String(due)} are due at some time`];
}

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
