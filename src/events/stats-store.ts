/** Reads the numbers that events/stats.ts writes, and removes old ones. */
import type { Knex } from 'knex';
import type { Committer } from '../storage/commit.ts';
import type { StatRow } from '../storage/tables.ts';
import { dialectFor, dialectOf } from '../storage/sql.ts';
import { DAY_MS } from '../base/time.ts';
import { noCounts, statTypes, type StatType } from './stats.ts';

/** The properties that numbers can be grouped by. */
export const statKeys = ['stream', 'tag', 'domain', 'provider', 'template'] as const;
export type StatKey = (typeof statKeys)[number];
/** Properties that only operators group by: they see all accounts. */
export const senderKeys = ['account', 'key'] as const;
export type AnyStatKey = StatKey | (typeof senderKeys)[number];
type AnyQuery = StatsQuery<AnyStatKey>;

export interface StatsQuery<By = StatKey> {
  /** Null for all accounts. */
  accountId: string | null;
  /** Half-open range in ms. */
  since: number;
  until: number;
  /** One line for each hour or day, or one for the whole range. */
  bucket: 'hour' | 'day' | 'total';
  by: By | null;
  /** Counts only events with these values. Tags and templates are counted apart, so `by` and `only` together may name only one of them. */
  only: Partial<Record<StatKey, string>>;
  test: boolean;
}

export interface StatLine {
  /** Begin of the hour or day; of the range if the bucket is the total. */
  at: number;
  /** The stream, tag, domain, provider, or the id of the template, account or key; null without grouping. */
  key: string | null;
  counts: Record<StatType, number>;
}

/** The largest number of keys: those with the most mail are returned. */
export const MOST_KEYS = 100;

/** Returns the lines in the order of time, then of the key; of a total without keys always one. */
export async function readStats(read: Knex, query: AnyQuery): Promise<StatLine[]> {
  const { bucket, by } = query;
  if (bucket === 'total') return readLines(read, query, rowsOf(read, query, null));
  // Days have far fewer rows than hours, and show as well which keys have the most mail.
  const keys = by === null ? null : await largestKeys(read, query);
  const lines = await readLines(read, query, rowsOf(read, query, keys));
  const rank = new Map<string | null, number>(keys?.map((key, at) => [key, at]));
  const rankOf = ({ key }: StatLine): number => rank.get(key) ?? 0;
  return lines.sort((a, b) => a.at - b.at || rankOf(a) - rankOf(b));
}

/** Names the keys with the most mail in the whole days of the range. */
async function largestKeys(read: Knex, { since, until, ...query }: AnyQuery): Promise<string[]> {
  const days: AnyQuery = {
    ...query,
    bucket: 'total',
    since: Math.floor(since / DAY_MS) * DAY_MS,
    until: Math.ceil(until / DAY_MS) * DAY_MS,
  };
  return (await readLines(read, days, rowsOf(read, days, null))).map(({ key }) => key ?? '');
}

/** Returns whether rows of days suffice: a range that begins or ends within a day needs hours. */
const isByDay = ({ since, until, bucket }: AnyQuery): boolean =>
  bucket === 'total' ? since % DAY_MS === 0 && until % DAY_MS === 0 : bucket === 'day';

function spanOf(query: AnyQuery): StatRow['span'] {
  const { by, only } = query;
  const span = isByDay(query) ? 'day' : 'hour';
  if (by === 'template' || only.template !== undefined) return `template_${span}`;
  if (by === 'key') return `key_${span}`;
  return (by === null || by === 'account') && statKeys.every((key) => only[key] === undefined) ? `whole_${span}` : span;
}

const columnOf = (by: AnyStatKey): string =>
  by === 'account' ? 'account_id' : by === 'template' || by === 'key' ? 'tag' : by;

const SUM_OF_ALL = statTypes.join(' + ');

/** Asks for lines: of a total without given keys those with the most mail. */
function rowsOf(read: Knex, query: AnyQuery, keys: readonly string[] | null): Knex.QueryBuilder {
  const { bucket, by } = query;
  const asked = within(read, query).sum(Object.fromEntries(statTypes.map((type) => [type, type])));
  if (bucket !== 'total') asked.select('at').groupBy('at').orderBy('at');
  if (by === null) return asked;
  asked.select({ key: columnOf(by) }).groupBy(columnOf(by));
  if (keys !== null) return asked.whereIn(columnOf(by), keys);
  return asked.orderByRaw(`SUM(${SUM_OF_ALL}) DESC`).orderBy(columnOf(by)).limit(MOST_KEYS);
}

/** Reads the lines as lists: as objects of nineteen members they cost several times as much. */
async function readLines(
  read: Knex,
  { bucket, by, since }: Pick<AnyQuery, 'bucket' | 'by' | 'since'>,
  asked: Knex.QueryBuilder,
): Promise<StatLine[]> {
  const members = [bucket === 'total' ? String(since) : 'at', by === null ? 'NULL' : 'key', ...statTypes];
  const { listOfLists } = dialectOf(read);
  const [row] = (await read.select(read.raw(`${listOfLists(members)} AS text`)).from(asked.as('s'))) as [
    { text: string },
  ];
  const rows = JSON.parse(row.text) as [at: number, key: string | null, ...counts: (number | null)[]][];
  return rows.map(([at, key, ...counts]) => ({ at, key, counts: countsOf(counts) }));
}

function countsOf(values: readonly (number | null)[]): Record<StatType, number> {
  const counts = noCounts();
  for (const [n, type] of statTypes.entries()) counts[type] = values[n] ?? 0;
  return counts;
}

function within(read: Knex, query: AnyQuery): Knex.QueryBuilder {
  const { accountId, since, until, by, only, test } = query;
  // Each message is counted once without a tag, and once more for each tag, its template and its key.
  const tag = only.tag ?? only.template;
  const isAnyTag = tag === undefined && (by === 'tag' || by === 'template' || by === 'key');
  const rows = read(
    isAnyTag
      ? (read.raw(`event_counts ${dialectOf(read).using('event_counts_of_tags')}`) as unknown as string)
      : 'event_counts',
  );
  rows.where({ span: spanOf(query), test: test ? 1 : 0 });
  // The key of the table begins with the account.
  if (accountId === null) rows.whereIn('account_id', read('accounts').select('id'));
  else rows.where({ account_id: accountId });
  if (isAnyTag) rows.whereRaw("tag <> ''");
  else rows.where('tag', tag ?? '');
  rows.where('at', '>=', since).where('at', '<', until);
  for (const key of ['stream', 'domain', 'provider'] as const) if (only[key] !== undefined) rows.where(key, only[key]);
  return rows;
}

/** Reads each named source's numbers by day, in the order of time, then of the name; `sent` is the number of attempts. */
export async function readSourceDays(
  read: Knex,
  of: { accountId: string; since: number; until: number },
): Promise<StatLine[]> {
  const rows = read('event_counts').where({ account_id: of.accountId, span: 'source_day', test: 0 });
  rows.where('at', '>=', of.since).where('at', '<', of.until);
  rows.select('at', { key: 'tag' }).sum(Object.fromEntries(statTypes.map((type) => [type, type])));
  rows.groupBy('at', 'tag').orderBy([{ column: 'at' }, { column: 'tag' }]);
  return readLines(read, { bucket: 'day', by: 'tag', since: of.since }, rows);
}

/**
 * Returns how many recipients of all accounts have bounced by class, test mail included. Reads one row for each account and day, which
 * are kept for ever: account by account, as the key of the table begins with it.
 */
export async function readBounceTotals(
  read: Knex,
): Promise<Record<'hard' | 'soft' | 'block' | 'undetermined', number>> {
  const [row] = await read.raw<Record<'bounced' | 'hard' | 'soft' | 'block', number | null>[]>(
    `SELECT SUM(c.bounced) AS bounced, SUM(c.bounced_hard) AS hard, SUM(c.bounced_soft) AS soft, SUM(c.bounced_block) AS block
     FROM accounts a
     ${dialectOf(read).thenJoin} event_counts c
       ON c.account_id = a.id AND c.span = 'whole_day' AND c.test IN (0, 1) AND c.tag = ''`,
  );
  const [hard, soft, block] = [row?.hard ?? 0, row?.soft ?? 0, row?.block ?? 0];
  return { hard, soft, block, undetermined: (row?.bounced ?? 0) - hard - soft - block };
}

/** Time that hours are kept. Days are kept for ever, except those of tags, which can be as many as there are messages. */
export const HOURS_KEPT_MS = 32 * DAY_MS;
const TAGS_KEPT_MS = 400 * DAY_MS;

/** Removes up to `most` rows of each kind that can no longer be asked for; returns how many. */
export function removeOldStats(commit: Pick<Committer, 'transact'>, now: number, most: number): Promise<number> {
  return commit.transact(async (tx) => {
    let removed = 0;
    for (const [spans, where, before] of tooOld(now)) {
      // Account by account, as the key of the table begins with it.
      const gone = await tx.all(
        `DELETE FROM event_counts WHERE (${KEY}) IN (
           SELECT ${KEY.replaceAll(/\w+/g, 'c.$&')} FROM accounts a
           ${dialectFor(tx.engine).thenJoin} event_counts c ON c.account_id = a.id AND c.span IN (${spans}) AND c.test IN (0, 1) AND c.${where}
           WHERE c.at < ? LIMIT ?) RETURNING at`,
        [before, most],
      );
      removed = Math.max(removed, gone.length);
    }
    return removed;
  });
}

const KEY = 'account_id, span, test, tag, at, stream, domain, provider';

/** Returns the rows to remove at this time; those of tags have their own index. */
const tooOld = (now: number): readonly [spans: string, where: string, before: number][] => [
  ["'hour', 'whole_hour'", "tag = ''", now - HOURS_KEPT_MS],
  ["'hour', 'template_hour', 'key_hour'", "tag <> ''", now - HOURS_KEPT_MS],
  ["'day'", "tag <> ''", now - TAGS_KEPT_MS],
];
