/** Numbers of a range of time, and of the time before it: the pages that show them all count the same hours and days. */
import type { Stats } from '../client/types.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { beginOfDay } from '../base/zones.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';
import { chartHtml, type Chart } from './chart.ts';
import { comparable, sumUntil, type Counts } from './comparison.ts';
import type { Visit } from './page.ts';
import type { Range } from './range.ts';

/** Days of a zone other than UTC are summed from hours, which the API keeps for a month. */
const MOST_DAYS_OF_ZONE = 30;
/** Longest range that is shown by the hour. */
const LONGEST_BY_HOUR_MS = 3 * DAY_MS;

const isKept = (begin: number, now: number): boolean => begin >= now - MOST_DAYS_OF_ZONE * DAY_MS;

/** Returns the days of the range: of its zone if they are known, otherwise of UTC. */
export function daysFor({ since, until, zone }: Range, now: number) {
  const begin = since === null ? now - 365 * DAY_MS : Date.parse(since);
  const isKnown = isKept(begin, now);
  return {
    since: rfc3339(isKnown ? beginOfDay(begin, zone) : begin),
    until,
    bucket: 'day' as 'hour' | 'day',
    time_zone: isKnown ? zone : null,
  };
}

/** Returns what to ask the API for: hours of a short range, all of them if it is today, otherwise days. */
function askedFor(range: Range, now: number): ReturnType<typeof daysFor> {
  const days = daysFor(range, now);
  const { value, since, until, length } = range;
  if (since === null || length === null || length > LONGEST_BY_HOUR_MS || days.time_zone === null) return days;
  const begin = value === '24h' ? now - 23 * HOUR_MS : Date.parse(since);
  const end = value === 'today' ? rfc3339(begin + DAY_MS) : until;
  return { since: rfc3339(begin), until: end, bucket: 'hour', time_zone: null };
}

/** Returns the span as long as the range that ends where it begins; null if the range has no begin, or if its hours are not kept any more. */
function spanBefore({ since, bucket, time_zone: zone }: ReturnType<typeof daysFor>, { length }: Range, now: number) {
  if (length === null) return null;
  const begin = Date.parse(since) - length;
  if (bucket === 'hour') return isKept(begin, now) ? { since: rfc3339(begin), until: since, time_zone: null } : null;
  // A change of clocks makes one of the days an hour shorter.
  if (isKept(begin, now)) return { since: rfc3339(begin + HOUR_MS), until: since, time_zone: zone };
  return { since: rfc3339(begin), until: rfc3339(beginOfDay(Date.parse(since), 'UTC')), time_zone: null };
}

/** Reads the numbers of the range, and those of the time before if there is enough to compare with: yesterday's until the same hour. */
export async function numbersOf({ ask, now }: Visit, range: Range, only: Readonly<Record<string, string>> = {}) {
  const asked = askedFor(range, now);
  const { bucket } = asked;
  const earlier = spanBefore(asked, range, now);
  const [overTime, before] = await Promise.all([
    ask('getStats', { query: { ...only, ...asked } }),
    earlier === null ? null : ask('getStats', { query: { ...only, ...earlier, bucket } }),
  ]);
  const end = range.value === 'today' ? now - DAY_MS : Infinity;
  const past = comparable(overTime.total, before === null ? null : sumUntil(before, end));
  return {
    asked,
    overTime,
    past,
    before: past === null ? null : before,
    /** The hours of the totals, for numbers that are not over time. */
    span: { since: overTime.since, until: overTime.until },
    spanBefore:
      before === null ? null : { since: before.since, until: rfc3339(Math.min(end, Date.parse(before.until))) },
    zone: bucket === 'hour' ? range.zone : (asked.time_zone ?? 'UTC'),
    words: wordsFor(range),
  };
}

/** How the range and the time before it are called in a sentence. */
function wordsFor({ value, label }: Range): { now: string; before: string } {
  if (value === 'today') return { now: 'today', before: 'by this hour yesterday' };
  if (value === 'custom' || value === 'all') return { now: 'in this time', before: 'in the time before' };
  const text = label.toLowerCase();
  return { now: `in the ${text}`, before: text.replace(/^last (.*)$/, 'in the $1 before') };
}

/** Draws the outcomes over time, with times or days of the zone; and what was sent in the time before. */
export const volumeChart = (
  stats: Stats,
  before: Stats | null,
  { outcomes, ...more }: Pick<Chart, 'zone' | 'height' | 'now'> & { outcomes: readonly (keyof Counts)[] },
): string =>
  chartHtml({
    label: 'Recipients by outcome, over time, with all that were sent in the time before',
    yAxis: 'Recipients',
    kind: 'bars',
    ...more,
    ...stepsOf(stats),
    series: [
      ...outcomes.map((name) => ({ name, values: stats.data.map(({ counts }) => counts[name]) })),
      ...(before === null
        ? []
        : [{ name: 'before', values: stats.data.map((_, place) => before.data[place]?.counts.sent ?? null) }]),
    ],
  });

export const stepsOf = ({
  data,
  bucket,
}: Pick<Stats, 'bucket'> & { data: readonly { at: string }[] }): Pick<Chart, 'times' | 'step'> => ({
  times: data.map(({ at }) => Date.parse(at)),
  step: bucket === 'hour' ? 'hour' : 'day',
});
