/** `posthorn keys create|list|revoke`. */
import { Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { CreatedKey, Key } from '../client/types.ts';
import { askList } from '../operator/operator.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { noteMore } from './note-more.ts';
import { durationOption, listOption } from './options.ts';
import { table } from './table.ts';

/** The most keys that `list` shows. */
const MOST_LISTED = 1000;

const lines = (keys: readonly Key[]): string[] =>
  table(
    ['NAME', 'MODE', 'PREFIX', 'ID', 'EXPIRES', 'LAST USED', 'REVOKED', 'SCOPES'],
    keys.map((key) => [
      key.name,
      key.mode,
      key.prefix,
      key.id,
      key.expires_at,
      key.last_used_at,
      key.revoked_at,
      key.scopes.join(','),
    ]),
  );

export function addKeys(program: CommandUnknownOpts, context: Context): void {
  const keys = program.command('keys').description('API keys');
  addCreate(keys, context);
  keys
    .command('list')
    .description(helpOf('listKeys'))
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, json }) => {
      const list = await context.operate((operator) =>
        askList<Key>(operator, 'listKeys', { account, limit: MOST_LISTED }),
      );
      context.print(json, { data: list.data }, () => lines(list.data));
      noteMore(context, json, list, { beyond: '`GET /v1/keys` has all, in pages' });
    });
  keys
    .command('revoke')
    .description(helpOf('revokeKey'))
    .argument('<id>')
    .option('--json', 'as one JSON object')
    .action((id, { json }) => context.showAnswer<Key>(json, 'revokeKey', { params: { id } }, (key) => lines([key])));
}

function addCreate(keys: CommandUnknownOpts, context: Context): void {
  keys
    .command('create')
    .description(helpOf('createKey'))
    .requiredOption('--name <name>', 'for people')
    .requiredOption('--scopes <scopes>', 'what it may do: send,event:read,...', listOption<string>)
    .addOption(new Option('--mode <mode>', 'mail of test keys is simulated').choices(['live', 'test']).default('live'))
    .option('--ttl <duration>', 'lifetime, such as 30d (default: no end)', durationOption)
    .option(
      '--allowed-ips <addresses>',
      'addresses and CIDR ranges it may be used from (default: any)',
      listOption<string>,
    )
    .option(
      '--domains <domains>',
      'sending domains it is restricted to (default: all of the account)',
      listOption<string>,
    )
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (options) => {
      const { name, scopes, mode, ttl, allowedIps, domains, account, json } = options;
      const seconds = ttl === undefined ? undefined : Math.ceil(ttl / 1000);
      const body = { name, scopes, mode, ttl: seconds, allowed_ips: allowedIps, domains };
      const made = await context.operate((operator) => operator.ask<CreatedKey>('createKey', { account, body }));
      context.print(json, made, () => [...lines([made]), '', made.key]);
      if (json !== true) context.note('Store the key now: it is not shown again.');
    });
}
