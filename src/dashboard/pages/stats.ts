/** Numbers over time, in days of a chosen time zone, and grouped by stream, tag, sending domain, mailbox provider or template. */
import { statKeys } from '../../events/stats-store.ts';
import { providerNames } from '../../base/mailbox-providers.ts';
import type { StatType } from '../../events/stats.ts';
import type { Stats } from '../../client/types.ts';
import { chartHtml } from '../chart.ts';
import { domainsOf, filtersOf, streamsOf } from '../filters.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { rangeOf } from '../range.ts';
import { exportsOf } from './exports.ts';
import { sortedRows } from '../sort.ts';
import { providerText } from '../words.ts';
import { changeOf, deliveredText, ENOUGH, figureOf, limits, part, type Counts } from '../comparison.ts';
import { chipsOf } from '../links.ts';
import { numbersOf, stepsOf, volumeChart } from '../numbers.ts';

const WHERE = '/stats';
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

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const range = rangeOf(visit, '30d', ['today', '24h', '7d', '30d', 'all']);
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
  // The lines are of the very hours that the tiles and charts are of, and so are those of the time before.
  const { asked, overTime, past, before, span, spanBefore, zone, words } = await numbersOf(visit, range, only);
  const [apart, apartBefore, nameOf] = await Promise.all([
    visit.ask('getStats', { query: { ...only, ...span, by } }),
    spanBefore === null ? null : visit.ask('getStats', { query: { ...only, ...spanBefore, by } }),
    by === 'template' ? templateNames(visit) : new Map<string, string>(),
  ]);
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
    sentence: deliveredText(overTime.total, past, words),
    sent: overTime.total.sent,
    isFew: overTime.total.sent < ENOUGH,
    isTest: only['test'] === 'true',
    sentBefore: past?.sent ?? null,
    hasBefore: past !== null,
    figures: (['delivered', 'bounced', 'complained', 'opened', 'clicked'] as const).map((name) =>
      figureOf(name, overTime.total, past),
    ),
    volume: volumeChart(overTime, before, { outcomes: ['delivered', 'bounced', 'complained'], zone, now }),
    trouble: ratesChart(
      'Share of mail that bounced or was deferred, over time',
      { ...overTime, zone, now },
      [
        ['bounced', 'sent'],
        ['deferred', 'sent'],
        ['complained', 'delivered'],
      ],
      limits.bounced.map((limit) => limit * 100),
    ),
    engagement: ratesChart(
      'Share of delivered mail that was opened and clicked, over time',
      { ...overTime, zone, now },
      [
        ['opened', 'delivered'],
        ['clicked', 'delivered'],
      ],
    ),
    ...sortedRows(rows, { path: WHERE, query }, columns, '-sent'),
    export: exportsOf('stats', { ...only, ...asked }),
    exportBy: exportsOf('stats', { ...only, ...span, by }),
    isEmpty: overTime.total.sent === 0,
  });
}

/** Returns the names of the newest templates by id; older ones are shown by id. */
async function templateNames(visit: Visit): Promise<Map<string, string>> {
  const { data } = await visit.ask('listTemplates', { query: { limit: '100' } });
  return new Map(data.map(({ id, name }) => [id, name]));
}

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
  { zone, now, ...stats }: Stats & { zone: string; now: number },
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
    now,
    ...stepsOf(stats),
    series: pairs.map(([name, of]) => ({
      name,
      values: stats.data.map(({ counts }) => percent(counts[counted[name] ?? name], counts[of])),
    })),
  });
}
