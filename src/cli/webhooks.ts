/** `posthorn webhooks list|pause|enable`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Webhook } from '../client/types.ts';
import { askList } from '../operator/operator.ts';
import { helpOf, helpOfPart } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { noteMore } from './note-more.ts';
import { table } from './table.ts';

/** The most endpoints that `list` shows. */
const MOST_LISTED = 1000;

const lines = (webhooks: readonly Webhook[]): string[] =>
  table(
    ['ID', 'STATUS', 'LAST SUCCESS', 'LAST FAILURE', 'RESTS UNTIL', 'URL', 'EVENTS', 'REASON'],
    webhooks.map((one) => [
      one.id,
      one.status,
      one.last_success_at,
      one.last_failure_at,
      one.rests_until,
      one.url,
      one.events.join(','),
      one.disabled_reason,
    ]),
  );

export function addWebhooks(program: CommandUnknownOpts, context: Context): void {
  const webhooks = program.command('webhooks').description('endpoints that get events');
  webhooks
    .command('list')
    .description(helpOf('listWebhooks'))
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, json }) => {
      const list = await context.operate((operator) =>
        askList<Webhook>(operator, 'listWebhooks', { account, limit: MOST_LISTED }),
      );
      context.print(json, { data: list.data }, () => lines(list.data));
      noteMore(context, json, list, { beyond: '`GET /v1/webhooks` has all, in pages' });
    });
  for (const [name, enabled] of [
    ['pause', false],
    ['enable', true],
  ] as const) {
    webhooks
      .command(name)
      .description(helpOfPart('updateWebhook', name))
      .argument('<id>')
      .option('--json', 'as one JSON object')
      .action((id, { json }) =>
        context.showAnswer<Webhook>(json, 'updateWebhook', { params: { id }, body: { enabled } }, (changed) =>
          lines([changed]),
        ),
      );
  }
}
