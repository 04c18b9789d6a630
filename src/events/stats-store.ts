/** Reading the numbers that events left behind (events/stats.ts), and removing those of long ago. */
import type { Knex } from 'knex';
import type { Committer } from '../storage/commit.ts';
import { DAY_MS, statTypes, type StatType } from './stats.ts';

/** What numbers may be told apart by. */
export const statKeys = ['stream', 'tag', 'domain', 'provider'] as const;
export type StatKey = (typeof statKeys)[number];

export interface StatsQuery {
  accountId: string;
  /** Half-open range in ms. */
  since: number;
  until: number;
  /** One line for each hour or day, or one for the whole range. */
  bucket: 'hour' | 'day' | 'total';
  by: StatKey | null;
  /** Only what has these. */
  only: Partial<Record<StatKey, string>>;
  test: boolean;
}

export interface StatLine {
  /** Begin of the hour or day; of the range where the bucket is the total. */
  at: number;
  /** The stream, tag, domain or provider; null where nothing is told apart. */
  key: string | null;
  counts: Record<StatType, number>;
}

/** How many streams, tags, domains or providers are told apart: those with the most mail. */
export const MOST_KEYS = 100;

const nothing = (): Record<StatType, number> =>
  Object.fromEntries(statTypes.map((type) => [type, 0])) as Record<StatType, number>;

/** The lines in the order of time, then of the key. Reads rows of the range only, hours or days as the bucket needs. */
export async function readStats(read: Knex, query: StatsQuery): Promise<StatLine[]> {
  const { bucket, by, since } = query;
  const keys = by === null ? null : await keysWithMost(read, query, by);
  const asked = within(read, query).select('type').sum({ n: 'n' }).groupBy('type');
  if (bucket !== 'total') asked.select('at').groupBy('at');
  if (by !== null)
    asked
      .select({ key: by })
      .groupBy(by)
      .whereIn(by, keys ?? []);
  const rows = (await asked) as { type: StatType; n: number | string; at?: number | string; key?: string }[];
  const lines = new Map<string, StatLine>();
  for (const { type, n, at = since, key = null } of rows) {
    const name = `${String(at)} ${key ?? ''}`;
    const line = lines.get(name) ?? { at: Number(at), key, counts: nothing() };
    line.counts[type] = Number(n);
    lines.set(name, line);
  }
  const place = (key: string | null): number => (key === null ? 0 : (keys?.indexOf(key) ?? 0));
  return [...lines.values()].sort((a, b) => a.at - b.at || place(a.key) - place(b.key));
}

/** Whole days are read by the day; a range that begins or ends within one needs the hours. */
function spanOf({ since, until, bucket }: Pick<StatsQuery, 'since' | 'until' | 'bucket'>): 'hour' | 'day' {
  if (bucket === 'total') return since % DAY_MS === 0 && until % DAY_MS === 0 ? 'day' : 'hour';
  return bucket;
}

function within(read: Knex, { accountId, since, until, bucket, by, only, test }: StatsQuery): Knex.QueryBuilder {
  const query = read('stats')
    .where({ account_id: accountId, span: spanOf({ since, until, bucket }), test: test ? 1 : 0 })
    .where('at', '>=', since)
    .where('at', '<', until);
  for (const key of statKeys) if (key !== 'tag' && only[key] !== undefined) query.where(key, only[key]);
  // Each message is counted once without a tag, and once more for each tag.
  if (only.tag !== undefined) query.where('tag', only.tag);
  else if (by === 'tag') query.whereNot('tag', '');
  else query.where('tag', '');
  return query;
}

async function keysWithMost(read: Knex, query: StatsQuery, by: StatKey): Promise<string[]> {
  const rows = (await within(read, query)
    .select({ key: by })
    .sum({ n: 'n' })
    .groupBy(by)
    .orderBy([
      { column: 'n', order: 'desc' },
      { column: 'key', order: 'asc' },
    ])
    .limit(MOST_KEYS)) as { key: string }[];
  return rows.map(({ key }) => key);
}

/** How long hours are kept; days stay for ever but those of tags, which can be as many as there are messages. */
export const HOURS_KEPT_MS = 32 * DAY_MS;
const TAGS_KEPT_MS = 400 * DAY_MS;

/** Removes up to `most` rows that nobody can ask for any more; returns how many. */
export function removeOldStats(commit: Committer, now: number, most: number): Promise<number> {
  // Account by account, as the key of the table begins with it.
  const old = 'SELECT s.rowid FROM accounts a JOIN stats s ON s.account_id = a.id';
  return commit.transact(async (tx) => {
    const hours = await tx.all(
      `DELETE FROM stats WHERE rowid IN (${old} AND s.span = 'hour' AND s.at < ? LIMIT ?) RETURNING at`,
      [now - HOURS_KEPT_MS, most],
    );
    const tags = await tx.all(
      `DELETE FROM stats WHERE rowid IN (${old} AND s.span = 'day' AND s.at < ? AND s.tag <> '' LIMIT ?) RETURNING at`,
      [now - TAGS_KEPT_MS, most],
    );
    return Math.max(hours.length, tags.length);
  });
}
