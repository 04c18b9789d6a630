/** `posthorn accounts add|list|plan|pause|resume`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/operations.ts';
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
    .description('add an account')
    .argument('<name>')
    .option('--plan <plan>', 'what it may ask of the API (setting `plans`)', 'standard')
    .option('--json', 'as one JSON object')
    .action((name, { plan, json }) =>
      context.show(json, 'accounts.add', { name, plan }, (account) => lines([account])),
    );
  accounts
    .command('list')
    .description('list all accounts')
    .option('--json', 'as one JSON object')
    .action(({ json }) => context.show(json, 'accounts.list', {}, (list) => lines(list.data)));
  accounts
    .command('plan')
    .description('give an account another plan')
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
      .description(
        paused ? 'refuse new mail of an account, and hold what waits' : 'let the mail of a paused account go',
      )
      .argument('<account>', 'name or id')
      .option('--json', 'as one JSON object')
      .action((name, { json }) =>
        context.show(json, 'accounts.pause', { account: name, paused }, (account) => lines([account])),
      );
  }
}
