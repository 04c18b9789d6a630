/** `posthorn audit`: the acts of people. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { noteMore } from './note-more.ts';
import { limitOption } from './options.ts';
import { table } from './table.ts';

export function addAudit(program: CommandUnknownOpts, context: Context): void {
  program
    .command('audit')
    .description(helpOf('audit.list'))
    .option('--server', 'acts that concern no account: on the queue, the settings and the server itself')
    .option('--limit <n>', 'the most to show', limitOption, 100)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, server, limit, json }) => {
      const list = await context.operate((operator) => operator.call('audit.list', { account, server, limit }));
      context.print(json, list, () =>
        table(
          ['AT', 'WHO', 'WHAT', 'RESULT', 'REQUEST'],
          list.data.map((one) => [one.at, one.actor, one.summary ?? one.endpoint, one.result, one.request_id]),
        ),
      );
      const beyond =
        server === true
          ? 'the view v_audit of the database has all'
          : '`posthorn export audit` writes all of an account';
      noteMore(context, json, list, { limit, beyond });
    });
}
