/** Reading the numbers that events left behind (events/stats.ts), and removing those of long ago. */
import type { Knex } from 'knex';
import type { Committer } from '../storage/commit.ts';
import type { StatRow } from '../storage/tables.ts';
import { MOST_SUMMED, readSums, statKeys, type StatKey, type SumLine } from './stat-sums.ts';
import { statTypes, type StatType } from './stats.ts';
import { DAY_MS } from '../base/time.ts';

export { statKeys, type StatKey } from './stat-sums.ts';

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

/**
 * The lines in the order of time, then of the key; of a total without keys always one. Reads rows of the range only, hours or days
 * as the bucket needs, and sums where there are.
 */
export async function readStats(read: Knex, query: StatsQuery): Promise<StatLine[]> {
  const { bucket, by, since } = query;
  if (bucket === 'total') {
    const totals = await readTotals(read, query);
    if (by === null && totals.length === 0) totals.push({ at: since, key: null, counts: noNumbers() });
    return totals.map(lineOf);
  }
  // Days have a fraction of the rows of their hours, and tell as well which keys have the most mail.
  const keys = by === null ? null : (await readTotals(read, wholeDays(query))).map(({ key }) => key ?? '');
  const places = new Map<string | null, number>(keys?.map((key, place) => [key, place]));
  const tallies = (await summedTallies(read, query, keys)) ?? (await talliesOf(read, rowsOf(read, query, keys), query));
  const placeOf = ({ key }: Tally): number => places.get(key) ?? 0;
  return tallies.sort((a, b) => a.at - b.at || placeOf(a) - placeOf(b)).map(lineOf);
}

/** A line as it is gathered: its counts in the order of `statTypes`. */
interface Tally {
  at: number;
  key: string | null;
  counts: number[];
}

const noNumbers = (): number[] => statTypes.map(() => 0);
const lineOf = ({ at, key, counts }: Tally): StatLine => {
  const named = {} as Record<StatType, number>;
  for (const [n, type] of statTypes.entries()) named[type] = counts[n] ?? 0;
  return { at, key, counts: named };
};
const weight = ({ counts }: Tally): number => counts.reduce((sum, n) => sum + n, 0);

/** One line for each key: those with the most mail, most first. */
async function readTotals(read: Knex, asked: StatsQuery): Promise<Tally[]> {
  const query: StatsQuery = { ...asked, bucket: 'total' };
  const found = await summedTallies(read, query, null);
  if (found === null) return talliesOf(read, rowsOf(read, query, null), query);
  const named = found.map((one) => ({ ...one, weight: weight(one), key: one.key ?? '' }));
  named.sort((a, b) => b.weight - a.weight || (a.key < b.key ? -1 : 1));
  return named.slice(0, MOST_KEYS).map(({ at, key, counts }) => ({ at, key: query.by === null ? null : key, counts }));
}

/** What the sums of hours or days can answer by: null where more than one thing is asked for. */
function summedBy({ by, only }: StatsQuery): StatKey | null {
  const asked = new Set(statKeys.filter((key) => key === by || only[key] !== undefined));
  const [one] = asked;
  return asked.size === 1 && one !== undefined ? one : null;
}

/** From the sums, and from rows what is not summed up yet; null where the sums cannot tell. */
async function summedTallies(read: Knex, query: StatsQuery, keys: readonly string[] | null): Promise<Tally[] | null> {
  const { accountId, test, since, until, bucket, by, only } = query;
  const key = summedBy(query);
  if (key === null) return null;
  const { lines, missing, from } = await readSums(
    read,
    { accountId, test, span: isByDay(query) ? 'day' : 'hour' },
    key,
    [since, until],
  );
  if (from <= since) return null;
  const rest = Math.max(since, Math.min(from, missing[0] ?? Infinity));
  const rows = rowsOf(read, { ...query, since: rest }, keys, MOST_SUMMED + 1);
  if (missing.length > 0) rows.where((one) => void one.where('at', '>=', from).orWhereIn('at', missing));
  const others = rest >= until ? [] : await talliesOf(read, rows, query);
  // As many as messages, they are better told apart by the database.
  if (bucket === 'total' && others.length > MOST_SUMMED) return null;
  const all = createTallies(others);
  const wanted = keys === null ? null : new Set(keys);
  for (const hour of lines)
    for (const line of hour.lines)
      if ((only[key] ?? line[0]) === line[0] && wanted?.has(line[0]) !== false)
        all.add(bucket === 'total' ? since : hour.at, by === null ? null : line[0], line);
  return [...all.tallies()];
}

/** Sums up lines of the same time and key. */
function createTallies(first: readonly Tally[]): {
  add: (at: number, key: string | null, line: SumLine) => void;
  tallies: () => Iterable<Tally>;
} {
  const byTime = new Map<number, Map<string | null, Tally>>();
  const tallyOf = (at: number, key: string | null): Tally => {
    const known = byTime.get(at) ?? new Map<string | null, Tally>();
    if (known.size === 0) byTime.set(at, known);
    const tally = known.get(key) ?? { at, key, counts: noNumbers() };
    known.set(key, tally);
    return tally;
  };
  const add = (at: number, key: string | null, line: SumLine): void => {
    const { counts } = tallyOf(at, key);
    for (let n = 0; n < counts.length; n++) counts[n] = (counts[n] ?? 0) + Number(line[n + 1] ?? 0);
  };
  for (const { at, key, counts } of first) add(at, key, [key ?? '', ...counts]);
  return { add, tallies: () => [...byTime.values()].flatMap((some) => [...some.values()]) };
}

/** Whole days are read by the day; a range that begins or ends within one needs the hours. */
const isByDay = ({ since, until, bucket }: StatsQuery): boolean =>
  bucket === 'total' ? since % DAY_MS === 0 && until % DAY_MS === 0 : bucket === 'day';

function spanOf(query: StatsQuery): StatRow['span'] {
  const { by, only } = query;
  const span = isByDay(query) ? 'day' : 'hour';
  if (by === 'template' || only.template !== undefined) return `template_${span}`;
  return by === null && statKeys.every((key) => only[key] === undefined) ? `whole_${span}` : span;
}

/** Where a key stands. */
const columnOf = (key: StatKey): string => (key === 'template' ? 'tag' : key);

const SUM_OF_ALL = statTypes.join(' + ');

/** Lines from rows: of a total without given keys those with the most mail. */
function rowsOf(read: Knex, query: StatsQuery, keys: readonly string[] | null, most = MOST_KEYS): Knex.QueryBuilder {
  const { bucket, by } = query;
  const asked = within(read, query).sum(Object.fromEntries(statTypes.map((type) => [type, type])));
  if (bucket !== 'total') asked.select('at').groupBy('at').orderBy('at');
  if (by === null) return asked;
  asked.select({ key: columnOf(by) }).groupBy(columnOf(by));
  if (keys !== null) return asked.whereIn(columnOf(by), keys);
  return asked.orderByRaw(`SUM(${SUM_OF_ALL}) DESC`).orderBy(columnOf(by)).limit(most);
}

/** The rows as one text: as objects of nineteen members they cost several times as much. */
async function talliesOf(
  read: Knex,
  asked: Knex.QueryBuilder,
  { bucket, by, since }: Pick<StatsQuery, 'bucket' | 'by' | 'since'>,
): Promise<Tally[]> {
  const members = [bucket === 'total' ? String(since) : 'at', by === null ? 'NULL' : 'key', ...statTypes];
  const [row] = (await read
    .select(read.raw(`json_group_array(json_array(${members.join(', ')})) AS text`))
    .from(asked.as('s'))) as [{ text: string }];
  const rows = JSON.parse(row.text) as [at: number, key: string | null, ...counts: (number | null)[]][];
  return rows.map(([at, key, ...counts]) => ({ at, key, counts: counts.map(Number) }));
}

function within(read: Knex, query: StatsQuery): Knex.QueryBuilder {
  const { accountId, since, until, by, only, test } = query;
  // Each message is counted once without a tag, once more for each tag, and once more for its template.
  const tag = only.tag ?? only.template;
  const isAnyTag = tag === undefined && (by === 'tag' || by === 'template');
  const rows = read(
    isAnyTag ? (read.raw('event_counts INDEXED BY event_counts_of_tags') as unknown as string) : 'event_counts',
  );
  rows.where({ account_id: accountId, span: spanOf(query), test: test ? 1 : 0 });
  if (isAnyTag) rows.whereRaw("tag <> ''");
  else rows.where('tag', tag ?? '');
  rows.where('at', '>=', since).where('at', '<', until);
  for (const key of ['stream', 'domain', 'provider'] as const) if (only[key] !== undefined) rows.where(key, only[key]);
  return rows;
}

const wholeDays = (query: StatsQuery): StatsQuery => ({
  ...query,
  bucket: 'day',
  since: Math.floor(query.since / DAY_MS) * DAY_MS,
  until: Math.ceil(query.until / DAY_MS) * DAY_MS,
});

/** Each named source's numbers by day, in the order of time, then of the name; `sent` is how often it was tried from there. */
export async function readSourceDays(
  read: Knex,
  of: { accountId: string; since: number; until: number },
): Promise<StatLine[]> {
  const rows = read('event_counts').where({ account_id: of.accountId, span: 'source_day', test: 0 });
  rows.where('at', '>=', of.since).where('at', '<', of.until);
  rows.select('at', { key: 'tag' }).sum(Object.fromEntries(statTypes.map((type) => [type, type])));
  rows.groupBy('at', 'tag').orderBy([{ column: 'at' }, { column: 'tag' }]);
  const tallies = await talliesOf(read, rows, { bucket: 'day', by: 'tag', since: of.since });
  return tallies.map(lineOf);
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
    const cleared = await tx.all(
      `UPDATE event_sums SET tag_json = '[]' WHERE (account_id, span, test, at) IN (
         SELECT s.account_id, s.span, s.test, s.at FROM accounts a
         JOIN event_sums s ON s.account_id = a.id AND s.span = 'day' AND s.test IN (0, 1) AND s.tag_json <> '[]'
         WHERE s.at < ? LIMIT ?) RETURNING at`,
      [now - TAGS_KEPT_MS, most],
    );
    return Math.max(removed, cleared.length);
  });
}

const KEY = 'account_id, span, test, tag, at, stream, domain, provider';

/** Which rows go at this age; those of tags are found by an index of their own. */
const tooOld = (now: number): readonly [spans: string, where: string, before: number][] => [
  ["'hour', 'whole_hour'", "tag = ''", now - HOURS_KEPT_MS],
  ["'hour', 'template_hour'", "tag <> ''", now - HOURS_KEPT_MS],
  ["'day'", "tag <> ''", now - TAGS_KEPT_MS],
];
