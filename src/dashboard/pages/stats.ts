/** Numbers over time, in days of a chosen time zone, and grouped by stream, tag, sending domain, mailbox provider or template. */
import { statKeys } from '../../events/stats-store.ts';
import { providerNames } from '../../base/mailbox-providers.ts';
import type { StatType } from '../../events/stats.ts';
import type { Stats } from '../../client/types.ts';
import { beginOfDay } from '../../base/zones.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';
import { chartHtml } from '../chart.ts';
import { domainsOf, filtersOf, streamsOf } from '../filters.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { rangeOf, type Range } from '../range.ts';
import { exportsOf } from './exports.ts';
import { sortedRows } from '../sort.ts';
import { providerText } from '../words.ts';
import { changeOf, comparable, deliveredText, ENOUGH, figureOf, limits, part, type Counts } from '../comparison.ts';
import { chipsOf } from '../links.ts';
import { stepsOf, volumeChart } from './overview.ts';

const WHERE = '/stats';
/** Days of a zone other than UTC are summed from hours, which the API keeps for a month. */
const MOST_DAYS_OF_ZONE = 30;
/** Longest range that is shown by the hour. */
const LONGEST_BY_HOUR_MS = 3 * DAY_MS;
const columns = [
  'key',
  'sent',
  'before',
  'delivered',
  'bounced',
  'hard',
  'blocked',
  'deferred',
  'complained',
  'opened',
  'clicked',
] as const;

export const statsPages: readonly Page[] = [get(WHERE, show)];

const rfc3339 = (ms: number): string => new Date(ms).toISOString();

/** Returns what to ask the API for: hours of a short range, otherwise days. */
function askedFor(range: Range, now: number) {
  const days = daysFor(range, now);
  const end = range.until === null ? now : Date.parse(range.until);
  if (range.value === '24h') return { ...days, since: rfc3339(now - 23 * HOUR_MS), bucket: 'hour', time_zone: null };
  const isShort = range.since !== null && end - Date.parse(range.since) <= LONGEST_BY_HOUR_MS;
  return isShort && days.time_zone !== null ? { ...days, since: range.since, bucket: 'hour', time_zone: null } : days;
}

/** Returns the days of the range: of its zone if they are known, otherwise of UTC. */
export function daysFor({ since, until, zone }: Range, now: number) {
  const begin = since === null ? now - 365 * DAY_MS : Date.parse(since);
  const isKnown = begin >= now - MOST_DAYS_OF_ZONE * DAY_MS;
  return {
    since: rfc3339(isKnown ? beginOfDay(begin, zone) : begin),
    until,
    bucket: 'day' as 'hour' | 'day',
    time_zone: isKnown ? zone : null,
  };
}

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const range = rangeOf(visit, '30d', ['24h', '7d', '30d', 'all']);
  const [streams, domains] = await Promise.all([streamsOf(visit), domainsOf(visit)]);
  const choices = range.choices.map((one) => (one.value === 'all' ? { ...one, label: 'last year' } : one));
  const {
    filters,
    given: only,
    isFiltered,
  } = filtersOf(
    WHERE,
    query,
    [
      { name: 'stream', label: 'Stream', choices: streams },
      { name: 'tag', label: 'Tag' },
      { name: 'domain', label: 'Sending domain', choices: domains },
      {
        name: 'provider',
        label: 'Mailbox provider',
        choices: providerNames.map((name) => [name, providerText(name)]),
      },
      { name: 'template_id' },
      { name: 'test', label: 'Mail', any: 'real', choices: [['true', 'simulated']] },
    ],
    { range: { ...range, choices }, button: 'Show', keeps: ['by'] },
  );
  // Tags and templates are not counted together.
  const keys = only['tag'] === undefined ? statKeys : statKeys.filter((key) => key !== 'template');
  const by = keys.find((key) => key === query.get('by')) ?? 'provider';
  const { bucket, ...asked } = askedFor(range, now);
  const overTime = await visit.ask('getStats', { query: { ...only, ...asked, bucket } });
  // The lines are of the very hours that the tiles and charts are of, and so are those of the time before.
  const span = { since: overTime.since, until: overTime.until };
  const earlier = range.since === null ? null : spanBefore(span, asked.time_zone, now);
  const [apart, past, apartBefore, nameOf] = await Promise.all([
    visit.ask('getStats', { query: { ...only, ...span, by } }),
    earlier === null ? null : visit.ask('getStats', { query: { ...only, ...earlier, bucket } }),
    earlier === null
      ? null
      : visit.ask('getStats', { query: { ...only, since: earlier.since, until: earlier.until, by } }),
    by === 'template' ? templateNames(visit) : new Map<string, string>(),
  ]);
  const before = past !== null && comparable(overTime.total, past.total) !== null ? past : null;
  const zone = bucket === 'hour' ? range.zone : (asked.time_zone ?? 'UTC');
  const countsBefore = new Map(apartBefore?.data.map(({ key, counts }) => [key, counts]));
  const rows = apart.data.map((line) => rowOf(line, countsBefore.get(line.key) ?? null, by, nameOf));
  return view('stats', 'Stats', {
    filters,
    isFiltered,
    isZoneKept: zone === range.zone,
    chips: chipsOf(
      WHERE,
      query,
      'by',
      keys.map((key) => [key, key] as const),
    ).map((chip) => ({ ...chip, on: chip.label === by })),
    byTitle: by.replace(/^./, (first) => first.toUpperCase()),
    sentence: deliveredText(overTime.total, before?.total ?? null, wordsFor(range)),
    sent: overTime.total.sent,
    isFew: overTime.total.sent < ENOUGH,
    sentBefore: before?.total.sent ?? null,
    hasBefore: before !== null,
    figures: (['delivered', 'bounced', 'complained', 'opened', 'clicked'] as const).map((name) =>
      figureOf(name, overTime.total, before?.total ?? null),
    ),
    volume: volumeChart(overTime, before, { outcomes: ['delivered', 'bounced', 'complained'], zone }),
    trouble: ratesChart(
      'Share of mail that bounced or was deferred, over time',
      { ...overTime, zone },
      [
        ['bounced', 'sent'],
        ['deferred', 'sent'],
        ['complained', 'delivered'],
      ],
      limits.bounced.map((limit) => limit * 100),
    ),
    engagement: ratesChart('Share of delivered mail that was opened and clicked, over time', { ...overTime, zone }, [
      ['opened', 'delivered'],
      ['clicked', 'delivered'],
    ]),
    ...sortedRows(rows, { path: WHERE, query }, columns, '-sent'),
    export: exportsOf('stats', { ...only, ...asked, bucket }),
    exportBy: exportsOf('stats', { ...only, ...span, by }),
    isEmpty: overTime.total.sent === 0,
  });
}

/** Returns the names of the newest templates by id; older ones are shown by id. */
async function templateNames(visit: Visit): Promise<Map<string, string>> {
  const { data } = await visit.ask('listTemplates', { query: { limit: '100' } });
  return new Map(data.map(({ id, name }) => [id, name]));
}

/** Returns the span of the same length before a span; days of a zone are known for a month only. */
function spanBefore(
  { since, until }: { since: string; until: string },
  zone: string | null,
  now: number,
): { since: string; until: string; time_zone: string | null } {
  const begin = 2 * Date.parse(since) - Date.parse(until);
  const isKnown = begin >= now - MOST_DAYS_OF_ZONE * DAY_MS;
  return { since: rfc3339(begin), until: since, time_zone: isKnown ? zone : null };
}

/** How the range and the time before it are called in a sentence. */
const wordsFor = ({ value, label }: Range) =>
  value === 'custom' || value === 'all'
    ? { now: 'in this time', before: 'in the time before' }
    : { now: `in the ${label.toLowerCase()}`, before: label.toLowerCase().replace(/^last (.*)$/, 'in the $1 before') };

function rowOf(
  { key, counts }: Stats['data'][number],
  before: Counts | null,
  by: string,
  nameOf: ReadonlyMap<string, string>,
) {
  const name = key ?? '';
  const earlier = before?.sent ?? 0;
  return {
    before: earlier,
    change: changeOf(part(counts.delivered, counts.sent), part(before?.delivered ?? 0, earlier), [
      counts.sent,
      earlier,
    ]),
    key: by === 'provider' ? providerText(name) : (nameOf.get(name) ?? name),
    sent: counts.sent,
    delivered: part(counts.delivered, counts.sent),
    bounced: part(counts.bounced, counts.sent),
    hard: counts.bounced_hard,
    blocked: counts.bounced_block,
    deferred: counts.deferred,
    complained: part(counts.complained, counts.delivered),
    opened: part(counts.unique_opened, counts.delivered),
    clicked: part(counts.unique_clicked, counts.delivered),
  };
}

/** One mail of a few would be a peak that leaves the rest of the chart flat. */
const LEAST_OF_SHARE = 10;

/** A recipient counts once, however often they open or click. */
const counted: Readonly<Partial<Record<StatType, StatType>>> = { opened: 'unique_opened', clicked: 'unique_clicked' };

function ratesChart(
  about: string,
  { zone, ...stats }: Stats & { zone: string },
  pairs: readonly (readonly [StatType, StatType])[],
  marked: readonly number[] = [],
): string {
  const percent = (some: number, of: number): number | null =>
    of < LEAST_OF_SHARE ? null : Math.round((some / of) * 10_000) / 100;
  return chartHtml({
    label: about,
    yAxis: 'Share in %',
    kind: 'lines',
    unit: '%',
    limits: marked,
    zone,
    ...stepsOf(stats),
    series: pairs.map(([name, of]) => ({
      name,
      values: stats.data.map(({ counts }) => percent(counts[counted[name] ?? name], counts[of])),
    })),
  });
}
