/** Reading the numbers that events left behind (events/stats.ts), and removing those of long ago. */
import type { Knex } from 'knex';
import type { Committer } from '../storage/commit.ts';
import type { StatRow } from '../storage/tables.ts';
import { DAY_MS, statTypes, type StatType } from './stats.ts';

/** What numbers may be told apart by. */
export const statKeys = ['stream', 'tag', 'domain', 'provider', 'template'] as const;
export type StatKey = (typeof statKeys)[number];

export interface StatsQuery {
  accountId: string;
  /** Half-open range in ms. */
  since: number;
  until: number;
  /** One line for each hour or day, or one for the whole range. */
  bucket: 'hour' | 'day' | 'total';
  by: StatKey | null;
  /** Only what has these. Not both a tag and a template, in `by` or here: they are not counted together. */
  only: Partial<Record<StatKey, string>>;
  test: boolean;
}

export interface StatLine {
  /** Begin of the hour or day; of the range where the bucket is the total. */
  at: number;
  /** The stream, tag, domain, provider or template's id; null where nothing is told apart. */
  key: string | null;
  counts: Record<StatType, number>;
}

/** How many streams, tags, domains, providers or templates are told apart at most: those with the most mail. */
export const MOST_KEYS = 100;

const SUM_OF_ALL = statTypes.join(' + ');

/**
 * The lines in the order of time, then of the key; of a total without keys always one. Reads rows of the range only, hours or days
 * as the bucket needs.
 */
export async function readStats(read: Knex, query: StatsQuery): Promise<StatLine[]> {
  const { bucket, by, since } = query;
  // Of a total there is one line for each key, so that one statement chooses the keys and sums up.
  const keys = by === null || bucket === 'total' ? [] : await keysWithMost(read, wholeDays(query), by);
  const asked = within(read, query).sum(Object.fromEntries(statTypes.map((type) => [type, type])));
  if (bucket !== 'total') asked.select('at').groupBy('at').orderBy('at');
  if (by !== null) asked.select({ key: columnOf(by) }).groupBy(columnOf(by));
  if (by !== null && bucket === 'total') withMost(asked, by);
  else if (by !== null) asked.whereIn(columnOf(by), keys);
  const rows = (await asked) as (Record<StatType, number | string | null> & { at?: number | string; key?: string })[];
  const lines = rows.map(({ at = since, key = null, ...counts }) => ({
    at: Number(at),
    key,
    counts: countsOf(counts),
  }));
  if (keys.length === 0) return lines;
  const places = new Map<string | null, number>(keys.map((key, place) => [key, place]));
  const placeOf = ({ key }: StatLine): number => places.get(key) ?? 0;
  return lines.sort((a, b) => a.at - b.at || placeOf(a) - placeOf(b));
}

const countsOf = (row: Readonly<Record<StatType, number | string | null>>): Record<StatType, number> =>
  Object.fromEntries(statTypes.map((type) => [type, Number(row[type])])) as Record<StatType, number>;

/** Whole days are read by the day; a range that begins or ends within one needs the hours. */
function spanOf({ since, until, bucket, by, only }: StatsQuery): StatRow['span'] {
  const isByDay = bucket === 'total' ? since % DAY_MS === 0 && until % DAY_MS === 0 : bucket === 'day';
  const span = isByDay ? 'day' : 'hour';
  if (by === 'template' || only.template !== undefined) return `template_${span}`;
  return by === null && statKeys.every((key) => only[key] === undefined) ? `whole_${span}` : span;
}

/** Where a key stands. */
const columnOf = (key: StatKey): string => (key === 'template' ? 'tag' : key);

function within(read: Knex, query: StatsQuery): Knex.QueryBuilder {
  const { accountId, since, until, by, only, test } = query;
  const rows = read('event_counts').where({ account_id: accountId, span: spanOf(query), test: test ? 1 : 0 });
  // Each message is counted once without a tag, once more for each tag, and once more for its template.
  const tag = only.tag ?? only.template;
  if (tag === undefined && (by === 'tag' || by === 'template')) rows.whereRaw("tag <> ''");
  else rows.where('tag', tag ?? '');
  rows.where('at', '>=', since).where('at', '<', until);
  for (const key of ['stream', 'domain', 'provider'] as const) if (only[key] !== undefined) rows.where(key, only[key]);
  return rows;
}

const withMost = (rows: Knex.QueryBuilder, by: StatKey): Knex.QueryBuilder =>
  rows.orderByRaw(`SUM(${SUM_OF_ALL}) DESC`).orderBy(columnOf(by)).limit(MOST_KEYS);

/** Days have a fraction of the rows of their hours, and tell as well which keys have the most mail. */
const wholeDays = (query: StatsQuery): StatsQuery => ({
  ...query,
  bucket: 'day',
  since: Math.floor(query.since / DAY_MS) * DAY_MS,
  until: Math.ceil(query.until / DAY_MS) * DAY_MS,
});

async function keysWithMost(read: Knex, query: StatsQuery, by: StatKey): Promise<string[]> {
  const rows = (await withMost(
    within(read, query)
      .select({ key: columnOf(by) })
      .groupBy(columnOf(by)),
    by,
  )) as { key: string }[];
  return rows.map(({ key }) => key);
}

/** How long hours are kept; days stay for ever but those of tags, which can be as many as there are messages. */
export const HOURS_KEPT_MS = 32 * DAY_MS;
const TAGS_KEPT_MS = 400 * DAY_MS;

/** Removes up to `most` rows of each kind that nobody can ask for any more; returns how many. */
export function removeOldStats(commit: Committer, now: number, most: number): Promise<number> {
  return commit.transact(async (tx) => {
    let removed = 0;
    for (const [spans, where, before] of tooOld(now)) {
      // Account by account, as the key of the table begins with it.
      const gone = await tx.all(
        `DELETE FROM event_counts WHERE (${KEY}) IN (
           SELECT ${KEY.replaceAll(/\w+/g, 'c.$&')} FROM accounts a
           JOIN event_counts c ON c.account_id = a.id AND c.span IN (${spans}) AND c.test IN (0, 1) AND c.${where}
           WHERE c.at < ? LIMIT ?) RETURNING at`,
        [before, most],
      );
      removed = Math.max(removed, gone.length);
    }
    return removed;
  });
}

const KEY = 'account_id, span, test, tag, at, stream, domain, provider';

/** Which rows go at this age; those of tags are found by an index of their own. */
const tooOld = (now: number): readonly [spans: string, where: string, before: number][] => [
  ["'hour', 'whole_hour'", "tag = ''", now - HOURS_KEPT_MS],
  ["'hour', 'template_hour'", "tag <> ''", now - HOURS_KEPT_MS],
  ["'day'", "tag <> ''", now - TAGS_KEPT_MS],
];
