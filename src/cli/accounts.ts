/** `posthorn accounts add|list|plan|pause|resume`. */
import type { Command } from 'commander';
import type { Context } from './cli.ts';
import { examples } from './options.ts';
import { table } from './table.ts';

interface Account {
  id: string;
  name: string;
  plan: string;
  paused: boolean;
  created_at: string;
}

const lines = (accounts: readonly Account[]): string[] =>
  table(
    ['NAME', 'PLAN', 'PAUSED', 'ID', 'CREATED'],
    accounts.map(({ name, plan, paused, id, created_at: at }) => [name, plan, paused, id, at]),
  );

export function addAccounts(program: Command, context: Context): void {
  const accounts = program.command('accounts').description('accounts: whose keys, domains and mail these are');
  accounts.addHelpText(
    'after',
    examples('posthorn accounts add Acme --plan pro', 'posthorn accounts plan Acme standard'),
  );
  accounts
    .command('add')
    .description('add an account')
    .argument('<name>')
    .option('--plan <plan>', 'what it may ask of the API (setting `plans`)', 'standard')
    .option('--json', 'as one JSON object')
    .action(async (name: string, { plan, json }: { plan: string; json?: true }) => {
      const account = await context.operate((operator) => operator.call('accounts.add', { name, plan }));
      context.print(json, account, () => lines([account]));
    });
  accounts
    .command('list')
    .description('list all accounts')
    .option('--json', 'as one JSON object')
    .action(async ({ json }: { json?: true }) => {
      const list = await context.operate((operator) => operator.call('accounts.list', {}));
      context.print(json, list, () => lines(list.data));
    });
  accounts
    .command('plan')
    .description('give an account another plan')
    .argument('<account>', 'name or id')
    .argument('<plan>')
    .option('--json', 'as one JSON object')
    .action(async (name: string, plan: string, { json }: { json?: true }) => {
      const account = await context.operate((operator) => operator.call('accounts.plan', { account: name, plan }));
      context.print(json, account, () => lines([account]));
    });
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
      .action(async (name: string, { json }: { json?: true }) => {
        const account = await context.operate((operator) => operator.call('accounts.pause', { account: name, paused }));
        context.print(json, account, () => lines([account]));
      });
  }
}
