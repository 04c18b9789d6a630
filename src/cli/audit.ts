/** `posthorn audit`: the acts of people. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { limitOption } from './options.ts';
import { table } from './table.ts';

export function addAudit(program: CommandUnknownOpts, context: Context): void {
  program
    .command('audit')
    .description(helpOf('audit.list'))
    .option('--server', 'acts that concern no account: on the queue, the settings and the server itself')
    .option('--limit <n>', 'at most so many', limitOption, 100)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(({ account, server, limit, json }) =>
      context.show(json, 'audit.list', { account, server, limit }, (list) =>
        table(
          ['AT', 'WHO', 'WHAT', 'RESULT', 'REQUEST'],
          list.data.map((one) => [one.at, one.actor, one.summary ?? one.endpoint, one.result, one.request_id]),
        ),
      ),
    );
}
