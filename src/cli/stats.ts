/** `posthorn stats`: how much was sent, and what became of it. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { ArgsOf, ResultOf } from '../operator/operations.ts';
import type { Context } from './cli.ts';
import { examples } from './options.ts';
import { table } from './table.ts';

interface StatsOptions {
  days?: number;
  hours?: number;
  /** Checked by the operation, which names what there is. */
  by?: ArgsOf<'stats'>['by'];
  account?: string;
  test?: true;
  json?: true;
}

export function addStats(program: Command, context: Context): void {
  program
    .command('stats')
    .description('how much was sent, and what became of it')
    .option('--days <n>', 'the last so many days (UTC), today included (default: 7)', wholeNumber)
    .addOption(
      new Option('--hours <n>', 'the last so many hours instead, at most 744').argParser(wholeNumber).conflicts('days'),
    )
    .option('--by <what>', 'tell apart by stream, tag, domain, provider or template')
    .option('--test', 'simulated mail instead of real mail')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .addHelpText(
      'after',
      examples('posthorn stats', 'posthorn stats --hours 24', 'posthorn stats --days 30 --by provider'),
    )
    .action(async ({ days, hours, by, account, test, json }: StatsOptions) => {
      const stats = await context.operate((operator) => operator.call('stats', { days, hours, by, account, test }));
      context.print(json, stats, () => lines(stats));
    });
}

function lines({ by, bucket, data, since, until, simulated }: ResultOf<'stats'>): string[] {
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

/** Who tries things out sends simulated mail, and must not think that it was lost. */
const nothing = (said: string, simulated: number): string[] =>
  simulated === 0
    ? [said]
    : [
        `${said}, leaving out simulated mail to ${String(simulated)} ${simulated === 1 ? 'recipient' : 'recipients'}: show it with --test`,
      ];

const percent = (some: number, of: number): string | null => (of === 0 ? null : ((some / of) * 100).toFixed(1));

function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a whole number from 1 to 9999.');
}
