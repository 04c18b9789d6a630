/** `posthorn keys create|list|revoke`. */
import { Option, type Command } from 'commander';
import type { CreatedKey, Key } from '../client/types.ts';
import { askList } from '../operator/operator.ts';
import type { Context } from './cli.ts';
import { durationOption, examples, listOption } from './options.ts';
import { table } from './table.ts';

interface CreateOptions {
  name: string;
  scopes: string[];
  mode: 'live' | 'test';
  ttl?: number;
  allowedIps?: string[];
  domains?: string[];
  account?: string;
  json?: true;
}

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

export function addKeys(program: Command, context: Context): void {
  const keys = program.command('keys').description('API keys');
  keys.addHelpText(
    'after',
    examples(
      'posthorn keys create --name shop --scopes send,event:read --ttl 90d --allowed-ips 192.0.2.0/24',
      'posthorn keys create --name trial --scopes send --mode test --json',
      'posthorn keys list',
      'posthorn keys revoke key_01jz...',
    ),
  );
  addCreate(keys, context);
  keys
    .command('list')
    .description('list keys, newest first; the keys themselves are stored nowhere')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, json }: { account?: string; json?: true }) => {
      const list = await context.operate((operator) =>
        askList<Key>(operator, 'listKeys', { account, limit: MOST_LISTED }),
      );
      context.print(json, { data: list.data }, () => lines(list.data));
    });
  keys
    .command('revoke')
    .description('end a key at once')
    .argument('<id>')
    .option('--json', 'as one JSON object')
    .action(async (id: string, { json }: { json?: true }) => {
      const key = await context.operate((operator) => operator.ask<Key>('revokeKey', { params: { id } }));
      context.print(json, key, () => lines([key]));
    });
}

function addCreate(keys: Command, context: Context): void {
  keys
    .command('create')
    .description('create a key and show it, this once')
    .requiredOption('--name <name>', 'for people')
    .requiredOption('--scopes <scopes>', 'what it may do: send,event:read,...', listOption)
    .addOption(new Option('--mode <mode>', 'mail of test keys is simulated').choices(['live', 'test']).default('live'))
    .option('--ttl <duration>', 'lifetime, such as 30d (default: no end)', durationOption)
    .option('--allowed-ips <addresses>', 'addresses and CIDR ranges it may be used from (default: any)', listOption)
    .option('--domains <domains>', 'sending domains it is restricted to (default: all of the account)', listOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (options: CreateOptions) => {
      const { name, scopes, mode, ttl, allowedIps, domains, account, json } = options;
      const seconds = ttl === undefined ? undefined : Math.ceil(ttl / 1000);
      const body = { name, scopes, mode, ttl: seconds, allowed_ips: allowedIps, domains };
      const made = await context.operate((operator) => operator.ask<CreatedKey>('createKey', { account, body }));
      context.print(json, made, () => [...lines([made]), '', made.key]);
      if (json !== true) context.note('Store the key now: it is not shown again.');
    });
}
