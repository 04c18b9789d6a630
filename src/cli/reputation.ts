/** `posthorn reputation`: outcomes by day and provider, and the reports of receivers. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { daysOption } from './options.ts';
import { table, type Cell } from '../presentations/table.ts';

export function addReputation(program: CommandUnknownOpts, context: Context): void {
  program
    .command('reputation')
    .description(helpOf('reputation'))
    .option('--days <n>', 'the number of days to show, at most 400 (default: 30)', daysOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ days, account, json }) => {
      const [reputation, { data: moments, checks }] = await context.operate((operator) =>
        Promise.all([
          operator.call('reputation', { days, account }),
          operator.call('reputation.moments', { days, account }),
        ]),
      );
      context.print(json, { ...reputation, moments, block_lists: checks }, () => [
        ...lines(reputation),
        ...happened(moments, checks),
      ]);
    });
}

type Reputation = ResultOf<'reputation'>;

const COUNTS = ['SENT', 'DELIVERED', 'DEFERRED', 'BOUNCED', 'HARD', 'BLOCKED', 'COMPLAINED'];

function lines({ days, providers, sources, dmarc, tls, since, until }: Reputation): string[] {
  if (days.length + dmarc.length + tls.length === 0) return [`nothing between ${since} and ${until}`];
  return [
    ...section(
      'Mail by day',
      ['DAY', ...COUNTS],
      days.map(({ day, counts }) => [day, ...Object.values(counts)]),
    ),
    ...section(
      'Mail by day and mailbox provider',
      ['DAY', 'PROVIDER', ...COUNTS],
      providers.map(({ day, provider, counts }) => [day, provider, ...Object.values(counts)]),
    ),
    ...section(
      'Mail by day and source',
      ['DAY', 'SOURCE', 'TRIES', ...COUNTS.slice(1)],
      sources.map(({ day, source, counts }) => [day, source, ...Object.values(counts)]),
    ),
    ...section(
      'DMARC reports: mail in the name of our domains',
      ['DAY', 'DOMAIN', 'SOURCE', 'REPORTER', 'MAILS', 'DKIM', 'SPF', 'DISPOSITION'],
      dmarc.map((one) => [one.day, one.domain, one.source_ip, one.org, one.count, one.dkim, one.spf, one.disposition]),
    ),
    ...section(
      'TLS reports: connections to us',
      ['DAY', 'DOMAIN', 'REPORTER', 'POLICY', 'RESULT', 'SESSIONS'],
      tls.map((one) => [one.day, one.domain, one.org, one.policy, one.result, one.sessions]),
    ),
  ].slice(0, -1);
}

type Moments = ResultOf<'reputation.moments'>;

function happened(moments: Moments['data'], checks: Moments['checks']): string[] {
  const parts = [
    ...section(
      'What may have changed it',
      ['TIME', 'WHAT', 'WHICH', 'BY'],
      moments.map(({ at, kind, what, by }) => [at, kind, what, by ?? '']),
    ),
    ...section(
      'Block lists',
      ['STATE', 'LIST', 'OUR ADDRESS', 'ASKED'],
      checks.map(({ state, list, ip, at }) => [state, list, ip, at]),
    ),
  ];
  return parts.length === 0 ? [] : ['', ...parts.slice(0, -1)];
}

const section = (title: string, head: readonly string[], rows: readonly Cell[][]): string[] =>
  rows.length === 0 ? [] : [title, ...table([...head], rows), ''];
