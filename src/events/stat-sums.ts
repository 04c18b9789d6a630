/**
 * Sums of numbers: of each hour and day that is over, the lines for each stream, domain, provider, tag and template. Housekeeping makes
 * them, so that counting an event costs nothing more; what comes late is noted by a trigger in the transaction that writes it
 * (migrations/026-summaries.ts), and counts from the rows themselves until the hour is summed up again.
 */
import type { Knex } from 'knex';
import type { Clock } from '../base/clock.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import type { EventSumRow } from '../storage/tables.ts';
import { statTypes } from './stats.ts';
import { DAY_MS } from '../base/time.ts';

/** What numbers may be told apart by. */
export const statKeys = ['stream', 'tag', 'domain', 'provider', 'template'] as const;
export type StatKey = (typeof statKeys)[number];

/** A stream, tag, domain, provider or template's id, and its counts in the order of `statTypes`. */
export type SumLine = readonly [key: string, ...counts: number[]];

/** Whose numbers, by the hour or by the day. */
export interface SumsOf {
  accountId: string;
  span: EventSumRow['span'];
  test: boolean;
}

/** Hours or days with more keys (tags may be as many as messages) are read from the rows. */
export const MOST_SUMMED = 500;
const MANY = '"many"';

/** What is summed up of a range, and what is not. */
export interface SummedUp {
  lines: { at: number; lines: readonly SumLine[] }[];
  /** Hours or days in it that have rows, but no lines. */
  missing: number[];
  /** Nothing from here on is summed up. */
  from: number;
}

const LENGTH_MS = { hour: 3_600_000, day: DAY_MS };

/** What is summed up of a half-open range of hours or days. Who reads rows for the rest reads them after this. */
export async function readSums(
  read: Knex,
  { accountId, span, test }: SumsOf,
  by: StatKey,
  [since, until]: readonly [number, number],
): Promise<SummedUp> {
  const own = { account_id: accountId, span, test: test ? 1 : 0 };
  // Before the lines: what is summed up meanwhile is read from its rows.
  const newest = (await read('event_sums').select('at').where(own).orderBy('at', 'desc').first()) as
    { at: number } | undefined;
  if (newest === undefined) return { lines: [], missing: [], from: -Infinity };
  const rows = (await read('event_sums')
    .select('at', { text: `${by}_json` })
    .where(own)
    .where('at', '>=', since)
    .where('at', '<', Math.min(until, newest.at + 1))
    .orderBy('at')) as { at: number; text: string | null }[];
  const summed: SummedUp = { lines: [], missing: [], from: newest.at + LENGTH_MS[span] };
  for (const { at, text } of rows)
    if (text === null || text === MANY) summed.missing.push(at);
    else summed.lines.push({ at, lines: JSON.parse(text) as SumLine[] });
  return summed;
}

/** Hours and days are over when nobody counts in them any more but by exception. */
const SETTLED_MS = 120_000;
/** So many hours or days of an account are summed up in one step. */
const AT_ONCE = 24;

interface Deps {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Pick<Clock, 'now'>;
}

/** Sums up some hours or days of one account; false where all is done that is over. */
export async function sumUpNext({ db, clock }: Deps): Promise<boolean> {
  for (const span of ['hour', 'day'] as const) {
    const before = clock.now() - LENGTH_MS[span] - SETTLED_MS;
    const [due] = await db.prepared.all<{ id: string; test: number }>(dueSql(span), [before, before]);
    if (due === undefined) continue;
    await sumUp(db, { accountId: due.id, span, test: due.test === 1 }, before);
    return true;
  }
  return false;
}

const OWN = 'account_id = ?1 AND span = ?2 AND test = ?3';
const NEWEST = `COALESCE((SELECT at FROM event_sums WHERE ${OWN} ORDER BY at DESC LIMIT 1), -1)`;

/** An account with something to sum up: what is not any more as it was, or what came after the newest. */
function dueSql(span: SumsOf['span']): string {
  const ofAccount = (sql: string): string =>
    sql.replaceAll('?1', 'a.id').replaceAll('?2', `'${span}'`).replaceAll('?3', 't.value');
  return `SELECT a.id, t.value AS test FROM accounts a CROSS JOIN json_each('[0,1]') AS t
    WHERE EXISTS (SELECT 1 FROM event_sums INDEXED BY event_sums_due WHERE ${ofAccount(OWN)} AND stream_json IS NULL AND at <= ?)
      OR EXISTS (SELECT 1 FROM event_counts WHERE ${ofAccount(OWN)} AND tag = '' AND at > ${ofAccount(NEWEST)} AND at <= ?) LIMIT 1`;
}

async function sumUp(db: Deps['db'], of: SumsOf, before: number): Promise<void> {
  const own = [of.accountId, of.span, of.test ? 1 : 0] as const;
  // Rows without lines first: from then on whoever writes into these hours makes their version another.
  await db.commit.transact((tx) =>
    tx.run(
      `INSERT INTO event_sums (account_id, span, test, at, version) SELECT DISTINCT ?1, ?2, ?3, at, 0 FROM event_counts
       WHERE ${OWN} AND tag = '' AND at > ${NEWEST} AND at <= ?4 ORDER BY at LIMIT ${String(AT_ONCE)}`,
      [...own, before],
    ),
  );
  const due = await db.prepared.all<{ at: number; version: number }>(
    `SELECT at, version FROM event_sums INDEXED BY event_sums_due WHERE ${OWN} AND stream_json IS NULL AND at <= ?4 ORDER BY at LIMIT ${String(AT_ONCE)}`,
    [...own, before],
  );
  const made: (string | number)[][] = [];
  for (const { at, version } of due) {
    const texts: string[] = [];
    for (const key of statKeys) texts.push(await linesIn(db.prepared, of, key, at));
    made.push([at, version, ...texts]);
  }
  await db.commit.transact(async (tx) => {
    for (const values of made)
      await tx.run(
        `UPDATE event_sums SET ${statKeys.map((key, n) => `${key}_json = ?${String(n + 6)}`).join(', ')} WHERE ${OWN} AND at = ?4 AND version = ?5`,
        [...own, ...values],
      );
  });
}

const SUMS = statTypes.map((type) => `SUM(${type})`).join(', ');

/** The lines of one hour or day as JSON. */
async function linesIn(
  connection: Connection,
  { accountId, span, test }: SumsOf,
  key: StatKey,
  at: number,
): Promise<string> {
  const isTag = key === 'tag' || key === 'template';
  const column = isTag ? 'tag' : key;
  const rows = isTag ? "INDEXED BY event_counts_of_tags WHERE tag <> ''" : "WHERE tag = ''";
  const [found] = await connection.all<{ n: number; text: string }>(
    `SELECT COUNT(*) AS n, json_group_array(json(line)) AS text FROM (
       SELECT json_array(${column}, ${SUMS}) AS line FROM event_counts ${rows} AND ${OWN} AND at = ?4 GROUP BY ${column} LIMIT ${String(MOST_SUMMED + 1)})`,
    [accountId, key === 'template' ? `template_${span}` : span, test ? 1 : 0, at],
  );
  return found === undefined || found.n > MOST_SUMMED ? MANY : found.text;
}
