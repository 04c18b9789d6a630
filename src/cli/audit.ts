/** `posthorn audit`: who did what. */
import type { Command } from 'commander';
import type { Context } from './cli.ts';
import { examples, limitOption } from './options.ts';
import { table } from './table.ts';

interface AuditOptions {
  account?: string;
  server?: true;
  limit: number;
  json?: true;
}

export function addAudit(program: Command, context: Context): void {
  program
    .command('audit')
    .description('show what people did to an account, or to the server itself, newest first')
    .option('--server', 'acts that concern no account: on the queue, the settings and the server itself')
    .option('--limit <n>', 'at most so many', limitOption, 100)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .addHelpText('after', examples('posthorn audit --account Acme', 'posthorn audit --server --limit 20'))
    .action(async ({ account, server, limit, json }: AuditOptions) => {
      const list = await context.operate((operator) => operator.call('audit.list', { account, server, limit }));
      context.print(json, list, () =>
        table(
          ['AT', 'WHO', 'WHAT', 'RESULT', 'REQUEST'],
          list.data.map((one) => [one.at, one.actor, one.summary ?? one.endpoint, one.result, one.request_id]),
        ),
      );
    });
}
