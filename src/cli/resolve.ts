/** `posthorn resolve DOMAIN`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { table, type Cell } from './table.ts';

export function addResolve(program: CommandUnknownOpts, context: Context): void {
  program
    .command('resolve')
    .description(helpOf('resolve'))
    .argument('<domain>')
    .option('--json', 'as one JSON object')
    .action((domain, { json }) => context.show(json, 'resolve', { domain }, lines));
}

function lines(resolved: ResultOf<'resolve'>): string[] {
  const { sts, limits } = resolved;
  const facts: [string, Cell][] = [
    ['domain', resolved.domain],
    ['route', resolved.route],
    ['problem', resolved.problem],
    ['lane', resolved.lane],
    ['operator', resolved.operator],
    ['MTA-STS', sts === null ? 'none' : `${sts.mode}: ${sts.mx.join(', ')}`],
    ['TLSA', resolved.hosts.flatMap(({ name, tlsa }) => tlsa.map((record) => `${name} ${record}`)).join(', ') || null],
    ['source', resolved.source ?? "the system's choice"],
    ['connections', limits?.connections ?? null],
    ['mails a minute', limits?.per_minute ?? null],
    ['mails a connection', limits?.messages_per_connection ?? null],
  ];
  const [, ...head] = table(
    ['', ''],
    facts.filter(([, value]) => value !== null),
  );
  if (resolved.hosts.length === 0) return head;
  return [
    ...head,
    '',
    ...table(
      ['HOST', 'PORT', 'PREFERENCE', 'ADDRESSES', 'TLS', 'POLICY'],
      resolved.hosts.map((one) => [one.name, one.port, one.preference, one.addresses.join(', '), one.tls, one.policy]),
    ),
  ];
}
