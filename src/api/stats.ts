/** `GET /v1/stats`: how much was sent, and with what result. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { beginOfDay, wallClock, zoneNamed } from '../base/zones.ts';
import { faults } from '../base/check.ts';
import { mapInSlices } from '../base/slices.ts';
import { providerNames } from '../base/mailbox-providers.ts';
import { noCounts, statTypes } from '../events/stats.ts';
import {
  HOURS_KEPT_MS,
  MOST_KEYS,
  readStats,
  statKeys,
  type StatLine,
  type StatsQuery,
} from '../events/stats-store.ts';
import type { Caller } from '../keys/caller.ts';
import { soughtDomain } from '../mail/address.ts';
import { tagSchema } from '../messages/request/send-schema.ts';
import { recordOf } from '../storage/record.ts';
import { eventCounts } from '../storage/tables.ts';
import { templateIdOf } from '../templates/template-store.ts';
import type { StoreContext } from './context.ts';
import { lineTypes } from './list-stream.ts';
import { booleanParameter, timeParameter } from './query.ts';
import { maybe, namedRecord, recordSchema, shows, time } from './record-schema.ts';
import { type Call, jsonResponse, route, type Route } from './route.ts';
import { testFilter } from './test-mode.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

const PATH = '/v1/stats';
const MOST_DAYS = 400;
/** A month of hours for each of a hundred keys would be an answer of 25 MB. */
const MOST_DAYS_OF_HOURS_APART = 7;

const rate = (of: string, example: number) =>
  shows(z.number().nullable().describe(`${of} Of the same mail, so between 0 and 1; null if there was none.`), example);

const StatCounts = recordSchema(recordOf(null, eventCounts), {
  id: 'StatCounts',
  description:
    'Recipients by what happened. `unique_` counts each recipient once; `machine_` counts hits of scanners and proxies, which are in no other number. A bounce after the delivery takes `delivered` back.',
});

const Stats = namedRecord('Stats', 'Numbers of a range of time.', {
  object: z.literal('stats'),
  bucket: shows(z.enum(['hour', 'day', 'total']).describe('What a line is for.'), 'day'),
  by: z.enum(statKeys).nullable().describe('The member that the counts are grouped by.'),
  since: time('Begin of the range, rounded.', '2026-01-31T00:00:00.000Z'),
  until: time('End of the range, rounded.', '2026-02-01T00:00:00.000Z'),
  total: StatCounts,
  rates: z
    .object({
      delivered: rate('Delivered by sent.', 0.9907),
      bounced: rate('Bounced by sent.', 0.0083),
      complained: rate('Complaints by delivered.', 0.0002),
      opened: rate('Messages that were opened, divided by delivered recipients.', 0.3169),
      clicked: rate('Messages in which a link was clicked, divided by delivered recipients.', 0.0904),
    })
    .describe('Parts of the total.'),
  data: z
    .array(
      z.object({
        at: time('Begin of the hour or day; of the range if the bucket is `total`.', '2026-01-31T00:00:00.000Z'),
        key: maybe('The stream, tag, domain, provider or template; null without `by`.'),
        counts: StatCounts,
      }),
    )
    .describe('The lines, oldest first.'),
});

const query = z.strictObject({
  since: timeParameter()
    .optional()
    .describe(
      'Begin of the range, rounded down to the hour or day; of a total to the hour, as long as hours are kept. The last 30 days if not given; with hours the last 24 hours.',
    ),
  until: timeParameter().optional().describe('End of the range, rounded up in the same way; now if not given.'),
  bucket: z
    .enum(['hour', 'day', 'total'])
    .optional()
    .describe(
      '`day` if not given, with `by` it is `total`. Hours are kept for 31 days, and a range of them begins no earlier; with `by`, a range of hours has at most 7 days.',
    ),
  time_zone: z
    .string()
    .refine((name) => zoneNamed(name) !== null)
    .register(faults, { says: 'must be a time zone such as Europe/Berlin' })
    .optional()
    .describe(
      'Days are those of this time zone instead of UTC, such as `Europe/Berlin`, with each hour of UTC in the day that it begins in. Reaches back 31 days, as hours do. With `by` only for the total.',
    ),
  by: z
    .enum(statKeys)
    .optional()
    .describe(`Tell these apart, the ${String(MOST_KEYS)} with the most mail.`),
  stream: z.string().min(1).max(32).optional().describe('Mail of this stream.'),
  tag: tagSchema.optional().describe('Mail with this tag.'),
  domain: z.string().min(1).max(253).optional().describe('The sending domain.'),
  provider: z.enum(providerNames).optional().describe("The recipient's mailbox provider; `other` is all the rest."),
  template_id: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('Mail of this template, by its id or alias. Not together with tags.'),
  test: booleanParameter().optional().describe('Numbers of simulated mail instead of real mail.'),
});

export function statsRoute({ db, streams }: StoreContext): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'getStats',
      description:
        'How many recipients were mailed, and with what result, by hour or day (UTC), optionally by stream, tag, sending domain, mailbox provider or template. Whatever happens to a recipient counts in the hour and day in which the mail was accepted, or due if it was scheduled for later: an open of today counts with the mail of last week. So shares are of the mail of the range, and those of the last hours still grow. Without `by` every hour or day of the range has its line, empty ones too. `total` and `rates` are of all mail asked for, each recipient once: with `by` also of what no line is for, and mail with two tags counts once. `Accept: text/csv` or `application/x-ndjson` sends the lines alone.',
      scope: ['stats:read'],
      query,
      responses: { 200: { ...jsonResponse('The numbers.', Stats, 'One day'), types: lineTypes } },
      problems: ['mutually_exclusive_fields', 'too_many_streams'],
    },
    streams.whole('stats', async ({ query: asked, caller, now }: Call<object, z.output<typeof query>, undefined>) => {
      const { accountId } = caller;
      const given = asked.template_id;
      const template = given === undefined ? given : await templateIdOf({ db }, { accountId, idOrAlias: given });
      const wanted = wantedStats(caller, { ...asked, template_id: template }, now);
      const whole = wanted.by === null ? null : readStats(db.reader, { ...wanted, bucket: 'total', by: null });
      const { zone } = wanted;
      const isSummed = zone !== null && wanted.bucket === 'day';
      const stored: StatsQuery = isSummed ? { ...wanted, bucket: 'hour' } : wanted;
      const [found, total] = await Promise.all([readStats(db.reader, stored), whole]);
      const lines = wanted.by === null ? filled(stored, found) : found;
      const days = isSummed ? await daysOf(lines, zone) : lines;
      return { status: 200, body: await statsRecord(wanted, days, total ?? found) };
    }),
  );
}

/** The range and the filters of a request. `zone`: days have to be summed for it; null for UTC. */
type WantedStats = StatsQuery & { zone: string | null };

function wantedStats(caller: Caller, asked: z.output<typeof query>, now: number): WantedStats {
  const {
    by = null,
    bucket = by === null ? 'day' : 'total',
    stream,
    tag,
    domain,
    provider,
    template_id: template,
  } = asked;
  const test = testFilter(caller, asked.test) ?? false;
  if ((tag !== undefined || by === 'tag') && (template !== undefined || by === 'template'))
    throw new Problem(
      'mutually_exclusive_fields',
      'Tags and templates are not counted together: leave one of them out.',
      { field: template === undefined ? 'by' : 'template_id' },
    );
  const named = bucket === 'hour' ? null : zoneNamed(asked.time_zone ?? null);
  const zone = named === 'UTC' ? null : named;
  if (zone !== null && by !== null && bucket !== 'total')
    throw new Problem('mutually_exclusive_fields', 'With `time_zone` and `by` the bucket can only be `total`.', {
      field: 'time_zone',
    });
  const { since, until } = wantedRange(asked, { bucket, by, zone, now });
  const only = Object.fromEntries(
    Object.entries({
      stream,
      tag,
      domain: domain === undefined ? domain : soughtDomain(domain),
      provider,
      template,
    }).filter(([, value]) => value !== undefined),
  );
  return { accountId: caller.accountId, since, until, bucket, by, only, test, zone };
}

/** Rounds the range to the hours or days asked for. Throws if it is empty, or longer than what is kept. */
function wantedRange(
  asked: z.output<typeof query>,
  { bucket, by, zone, now }: Pick<WantedStats, 'bucket' | 'by' | 'zone'> & { now: number },
): { since: number; until: number } {
  const hoursSince = now - HOURS_KEPT_MS;
  const isWithinDay = [asked.since, asked.until].some((at) => at !== undefined && at % DAY_MS !== 0);
  // Rows of days do as well for a total of whole days, and are fewer.
  const isTotalOfHours = bucket === 'total' && isWithinDay && (asked.since ?? 0) >= hoursSince + HOUR_MS;
  const step = bucket === 'hour' || zone !== null || isTotalOfHours ? HOUR_MS : DAY_MS;
  const until = Math.ceil((asked.until ?? now + 1) / step) * step;
  const usual = bucket === 'hour' ? 24 * HOUR_MS : 30 * DAY_MS;
  const first = asked.since ?? until - usual;
  const since = Math.floor((zone === null ? first : beginOfDay(first, zone)) / step) * step;
  if (since >= until) throw new Problem('invalid_parameter', '`since` must be before `until`.', { field: 'since' });
  if (step === HOUR_MS && since < hoursSince) {
    const these = zone === null ? 'Hours' : 'Days of another time zone than UTC';
    const days = String(HOURS_KEPT_MS / DAY_MS - 1);
    throw new Problem('invalid_parameter', `${these} reach back ${days} days.`, { field: 'since' });
  }
  const hours = by === null ? HOURS_KEPT_MS : MOST_DAYS_OF_HOURS_APART * DAY_MS;
  const longest = bucket === 'hour' ? hours : MOST_DAYS * DAY_MS;
  const apart = bucket === 'hour' && by !== null ? ` and ${by}` : '';
  if (bucket !== 'total' && until - since > longest)
    throw new Problem(
      'invalid_parameter',
      `A range by the ${bucket}${apart} has at most ${String(longest / DAY_MS)} days.`,
      { field: 'since' },
    );
  return { since, until };
}

/** Returns the days of the zone in order, each with the sums of its hours. */
async function daysOf(hours: readonly StatLine[], zone: string): Promise<StatLine[]> {
  const days = new Map<string, StatLine>();
  const dated = await mapInSlices(hours, (hour) => ({ hour, date: wallClock(hour.at, zone).slice(0, 10) }));
  for (const { hour, date } of dated) {
    const day = days.get(date) ?? { at: beginOfDay(hour.at, zone), key: null, counts: noCounts() };
    for (const type of statTypes) day.counts[type] += hour.counts[type];
    days.set(date, day);
  }
  return [...days.values()];
}

async function statsRecord(
  wanted: StatsQuery,
  lines: readonly StatLine[],
  all: readonly StatLine[],
): Promise<z.output<typeof Stats>> {
  const { bucket, by, since, until } = wanted;
  const total = noCounts();
  for (const { counts: found } of all) for (const type of statTypes) total[type] += found[type];
  const part = (some: number, of: number): number | null =>
    of === 0 ? null : Math.min(1, Math.round((some / of) * 10_000) / 10_000);
  return {
    object: 'stats',
    bucket,
    by,
    since: rfc3339(since),
    until: rfc3339(until),
    total,
    rates: {
      delivered: part(total.delivered, total.sent),
      bounced: part(total.bounced, total.sent),
      complained: part(total.complained, total.delivered),
      opened: part(total.unique_opened, total.delivered),
      clicked: part(total.unique_clicked, total.delivered),
    },
    data: await mapInSlices(lines, ({ at, key, counts: found }) => ({ at: rfc3339(at), key, counts: found })),
  };
}

/** A chart wants empty hours and days as well. */
function filled({ bucket, since, until }: StatsQuery, lines: readonly StatLine[]): StatLine[] {
  const found = new Map(lines.map((line) => [line.at, line]));
  const step = bucket === 'hour' ? HOUR_MS : bucket === 'day' ? DAY_MS : until - since;
  const all: StatLine[] = [];
  for (let at = since; at < until; at += step) all.push(found.get(at) ?? { at, key: null, counts: noCounts() });
  return all;
}
