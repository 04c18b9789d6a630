/** API keys, and webhook endpoints. */
import type { CreatedKey, Key, Webhook } from '../client/types.ts';
import { columns, ofAccount, present, type Presentation } from './presentation.ts';
import { tableOf } from './table.ts';

const keyColumns = columns<Key>('name', 'mode', 'prefix', 'id', 'expires_at', 'last_used_at', 'revoked_at', 'scopes');

export const keys: readonly Presentation[] = [
  present<CreatedKey>({
    command: 'keys create',
    operation: 'createKey',
    input: [
      { flag: '--name <name>', says: 'for people', isRequired: true },
      { flag: '--scopes <scopes>', says: 'what it may do: send,event:read,...', kind: 'list', isRequired: true },
      { flag: '--mode <mode>', says: 'mail of test keys is simulated', choices: ['live', 'test'], default: 'live' },
      { flag: '--ttl <duration>', says: 'lifetime, such as 30d (default: no end)', kind: 'seconds' },
      {
        flag: '--allowed-ips <addresses>',
        says: 'addresses and CIDR ranges it may be used from (default: any)',
        kind: 'list',
      },
      {
        flag: '--domains <domains>',
        says: 'sending domains it is restricted to (default: all of the account)',
        kind: 'list',
      },
      ofAccount,
    ],
    lines: (made) => [...tableOf(keyColumns, [made]), '', made.key],
    tip: () => 'Store the key now: it is not shown again.',
    examples: [
      'posthorn keys create --name shop --scopes send,message:read',
      'posthorn keys create --name ci --scopes send --mode test --ttl 90d --json',
      'posthorn keys create --name office --scopes send --domains example.com --allowed-ips 192.0.2.0/24',
    ],
  }),
  {
    command: 'keys list',
    operation: 'listKeys',
    input: [ofAccount],
    list: { most: 1000 },
    beyond: '`GET /v1/keys` has all, in pages',
    columns: keyColumns,
    examples: ['posthorn keys list', 'posthorn keys list --account Acme --json'],
  },
  {
    command: 'keys revoke',
    operation: 'revokeKey',
    input: [{ flag: '<id>' }],
    columns: keyColumns,
    examples: ['posthorn keys revoke key_01jz...'],
  },
];

const webhookColumns = columns<Webhook>(
  'id',
  'status',
  'last_success_at',
  'last_failure_at',
  'rests_until',
  'url',
  'events',
  ['REASON', (one) => one.disabled_reason],
);

const switching = (word: 'pause' | 'enable', enabled: boolean): Presentation => ({
  command: `webhooks ${word}`,
  operation: 'updateWebhook',
  says: enabled
    ? 'call a paused or disabled webhook endpoint again'
    : 'stop calling a webhook endpoint; its events wait',
  input: [{ flag: '<id>' }],
  with: { enabled },
  columns: webhookColumns,
  examples: [`posthorn webhooks ${word} whk_01jz...`],
});

export const webhooks: readonly Presentation[] = [
  {
    command: 'webhooks list',
    operation: 'listWebhooks',
    input: [ofAccount],
    list: { most: 1000 },
    beyond: '`GET /v1/webhooks` has all, in pages',
    columns: webhookColumns,
    examples: ['posthorn webhooks list', 'posthorn webhooks list --account Acme --json'],
  },
  switching('pause', false),
  switching('enable', true),
];
