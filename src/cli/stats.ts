/** `posthorn stats`: how much was sent, and with which outcomes. */
import { Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Stats } from '../client/types.ts';
import type { Operator } from '../operator/door/operator.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { daysOption, hoursOption } from './options.ts';
import { table } from '../presentations/table.ts';

interface StatsOptions {
  days?: number;
  hours?: number;
  /** Checked by the operation, which names what there is. */
  by?: string;
  account?: string;
  test?: true;
}

export function addStats(program: CommandUnknownOpts, context: Context): void {
  program
    .command('stats')
    .description(helpOf('getStats'))
    .option('--days <n>', 'the number of days (UTC) to show, today included, at most 400 (default: 7)', daysOption)
    .addOption(
      new Option('--hours <n>', 'the number of hours to show instead, at most 744')
        .argParser(hoursOption)
        .conflicts('days'),
    )
    .option('--by <what>', 'tell apart by stream, tag, domain, provider or template')
    .option('--test', 'simulated mail instead of real mail')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ json, ...options }) => {
      const stats = await context.operate((operator) => readStats(operator, context.now(), options));
      context.print(json, stats, () => lines(stats));
    });
}

interface StatsShown extends Pick<Stats, 'object' | 'bucket' | 'by' | 'since' | 'until' | 'data'> {
  /** If there is no data: the number of recipients of simulated mail, which was left out. */
  simulated: number;
}

/** Returns the lines of the hours or days that have anything to show. */
async function readStats(
  operator: Operator,
  now: number,
  { days = 7, hours, by, account, test }: StatsOptions,
): Promise<StatsShown> {
  const step = hours === undefined ? DAY_MS : HOUR_MS;
  const until = Math.ceil((now + 1) / step) * step;
  const bucket = by !== undefined ? 'total' : hours === undefined ? 'day' : 'hour';
  const query = {
    by,
    bucket,
    since: new Date(until - (hours ?? days) * step).toISOString(),
    until: new Date(until).toISOString(),
    test: test === true ? 'true' : undefined,
  };
  const { object, since, until: end, by: apart, data: all } = await operator.ask<Stats>('getStats', { account, query });
  const data = all.filter(({ counts }) => Object.values(counts).some((count) => count > 0));
  const simulatedQuery =
    data.length > 0 || test === true ? null : { ...query, by: undefined, bucket: 'total', test: 'true' };
  const simulated =
    simulatedQuery === null
      ? 0
      : (await operator.ask<Stats>('getStats', { account, query: simulatedQuery })).total.sent;
  return { object, bucket, by: apart, since, until: end, data, simulated };
}

function lines({ by, bucket, data, since, until, simulated }: StatsShown): string[] {
  if (data.length === 0) return nothing(`nothing between ${since} and ${until}`, simulated);
  const first = by === null ? (bucket === 'hour' ? 'HOUR' : 'DAY') : by.toUpperCase();
  return table(
    [
      first,
      'SENT',
      'DELIVERED',
      '%',
      'BOUNCED',
      '%',
      'DEFERRED',
      'COMPLAINED',
      'OPENED',
      'CLICKED',
      'SUPPRESSED',
      'FAILED',
    ],
    data.map(({ at, key, counts: n }) => [
      key ?? (bucket === 'hour' ? at.slice(0, 16) : at.slice(0, 10)),
      n.sent,
      n.delivered,
      percent(n.delivered, n.sent),
      n.bounced,
      percent(n.bounced, n.sent),
      n.deferred,
      n.complained,
      n.unique_opened,
      n.unique_clicked,
      n.suppressed,
      n.failed,
    ]),
  );
}

/** Mentions simulated mail, so that a user who tries things out does not think that it was lost. */
const nothing = (said: string, simulated: number): string[] =>
  simulated === 0
    ? [said]
    : [
        `${said}, leaving out simulated mail to ${String(simulated)} ${simulated === 1 ? 'recipient' : 'recipients'}: show it with --test`,
      ];

const percent = (some: number, of: number): string | null => (of === 0 ? null : ((some / of) * 100).toFixed(1));
