/** `posthorn accounts add|list|plan|pause|resume`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf, helpOfPart } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { table } from './table.ts';

const lines = (accounts: readonly ResultOf<'accounts.add'>[]): string[] =>
  table(
    ['NAME', 'PLAN', 'PAUSED', 'ID', 'CREATED'],
    accounts.map(({ name, plan, paused, id, created_at: at }) => [name, plan, paused, id, at]),
  );

export function addAccounts(program: CommandUnknownOpts, context: Context): void {
  const accounts = program.command('accounts').description('accounts: whose keys, domains and mail these are');
  accounts
    .command('add')
    .description(helpOf('accounts.add'))
    .argument('<name>')
    .option('--plan <plan>', 'what it may ask of the API (setting `plans`)', 'standard')
    .option('--json', 'as one JSON object')
    .action((name, { plan, json }) =>
      context.show(json, 'accounts.add', { name, plan }, (account) => lines([account])),
    );
  accounts
    .command('list')
    .description(helpOf('accounts.list'))
    .option('--json', 'as one JSON object')
    .action(({ json }) => context.show(json, 'accounts.list', {}, (list) => lines(list.data)));
  accounts
    .command('plan')
    .description(helpOf('accounts.plan'))
    .argument('<account>', 'name or id')
    .argument('<plan>')
    .option('--json', 'as one JSON object')
    .action((name, plan, { json }) =>
      context.show(json, 'accounts.plan', { account: name, plan }, (account) => lines([account])),
    );
  for (const [word, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    accounts
      .command(word)
      .description(helpOfPart('accounts.pause', word))
      .argument('<account>', 'name or id')
      .option('--json', 'as one JSON object')
      .action((name, { json }) =>
        context.show(json, 'accounts.pause', { account: name, paused }, (account) => lines([account])),
      );
  }
}
