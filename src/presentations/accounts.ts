/** Accounts, the team and administrators. */
import { pluralize } from '../base/pluralize.ts';
import type { ResultOf } from '../operator/routes.ts';
import { columns, present, type Input, type Presentation, ofAccount, tableOf } from './presentation.ts';
import type { CreatedKey, Key, Webhook } from '../client/types.ts';

type Account = ResultOf<'accounts.add'>;

const accountColumns = columns<Account>('name', 'plan', 'paused', 'id', 'created_at');
const named: Input = { flag: '<account>', says: 'name or id' };

const pausing = (word: 'pause' | 'resume', paused: boolean): Presentation => ({
  command: `accounts ${word}`,
  operation: 'accounts.pause',
  says: paused ? 'refuse new mail of an account, and hold what waits' : 'let the mail of a paused account go',
  input: [named],
  with: { paused },
  columns: accountColumns,
  examples: [`posthorn accounts ${word} Acme`],
});

export const accounts: readonly Presentation[] = [
  {
    command: 'accounts add',
    operation: 'accounts.add',
    says: 'add an account',
    input: [
      { flag: '<name>' },
      { flag: '--plan <plan>', says: 'what it may ask of the API (setting `plans`)', default: 'standard' },
    ],
    columns: accountColumns,
    examples: ['posthorn accounts add Acme', 'posthorn accounts add Acme --plan pro --json'],
  },
  {
    command: 'accounts list',
    operation: 'accounts.list',
    says: 'list all accounts',
    columns: accountColumns,
    examples: ['posthorn accounts list', 'posthorn accounts list --json'],
  },
  {
    command: 'accounts plan',
    operation: 'accounts.plan',
    says: 'give an account another plan',
    input: [named, { flag: '<plan>' }],
    columns: accountColumns,
    examples: ['posthorn accounts plan Acme pro'],
  },
  present<ResultOf<'accounts.remove'>>({
    command: 'accounts remove',
    operation: 'accounts.remove',
    says: 'end a customer: cancel what waits, end keys, domains and webhooks, and remove all data',
    input: [named, { flag: '--exported', says: 'its data has been handed over, or nobody needs it' }],
    isTried: true,
    lines: ({ name, canceled, messages }) => [
      `removed ${name}: ${pluralize(canceled, 'delivery', 'deliveries')} canceled, ${pluralize(messages, 'message')} removed`,
    ],
    examples: ['posthorn accounts remove Leaving --dry-run', 'posthorn accounts remove Leaving --exported'],
  }),
  pausing('pause', true),
  pausing('resume', false),
];

const setUpLines = ({ url, expires_at: end, email }: ResultOf<'admin.create'>): string[] => [
  email === null
    ? 'Open this once to make the first administrator:'
    : `Open this once to set the password of ${email}:`,
  url,
  `It is good until ${end}.`,
];

export const admin: readonly Presentation[] = [
  present<ResultOf<'admin.create'>>({
    command: 'admin create',
    operation: 'admin.create',
    says: 'add an administrator, who sets a password through a link',
    input: [{ flag: '<email>' }],
    lines: setUpLines,
    examples: ['posthorn admin create ana@example.net'],
  }),
  present<ResultOf<'admin.reset'>>({
    command: 'admin reset',
    operation: 'admin.reset',
    says: 'make a link that sets a new password and takes the second factor away',
    input: [{ flag: '[email]', says: 'of the administrator; not needed while there is one or none' }],
    lines: setUpLines,
    examples: ['posthorn admin reset ana@example.net', 'posthorn admin reset'],
  }),
];

type Member = ResultOf<'team.change'>;
const roles = ['administrator', 'developer', 'support', 'read_only'] as const;
const member: Input = { flag: '<member>', says: 'address or id' };

const memberColumns = columns<Member>(
  ['ADDRESS', ({ email }) => email],
  'role',
  ['ACCOUNTS', (one) => (one.role === 'administrator' ? 'all' : one.accounts.join(', '))],
  ['STATE', ({ state, invitation }) => (invitation?.mail == null ? state : `${state}, mail ${invitation.mail.status}`)],
  ['SECOND FACTOR', (one) => (one.second_factor ? 'on' : 'off')],
  ['LAST SIGN-IN', (one) => one.last_sign_in_at],
);

function linkLines({ url, email, expires_at: end, not_mailed: why }: ResultOf<'team.add'>): string[] {
  if (url === null) return [`An invitation is on its way to ${email}. It is good until ${end}.`];
  return [
    ...(why === null ? [] : [`No mail was sent. ${why}`]),
    `Hand this to ${email}: it sets the password, once.`,
    url,
    `It is good until ${end}.`,
  ];
}

export const team: readonly Presentation[] = [
  {
    command: 'team list',
    operation: 'team.list',
    says: 'list all members and invitations',
    columns: memberColumns,
    examples: ['posthorn team list', 'posthorn team list --json'],
  },
  present<ResultOf<'team.add'>>({
    command: 'team add',
    operation: 'team.add',
    says: 'invite someone; prints a link to hand over, or mails it with --mail',
    input: [
      { flag: '<email>' },
      { flag: '--role <role>', says: 'what they may do', choices: roles, default: 'developer' },
      {
        flag: '--accounts <names>',
        says: 'the accounts that they see, with commas between',
        kind: 'names',
        default: 'default',
      },
      { flag: '--mail', says: 'mail the invitation' },
    ],
    lines: linkLines,
    examples: [
      'posthorn team add ana@example.net --role support --accounts Acme',
      'posthorn team add ana@example.net --role administrator --mail',
    ],
  }),
  present<ResultOf<'team.link'>>({
    command: 'team link',
    operation: 'team.link',
    says: 'invite someone again, or make a link that sets a new password and takes the second factor away',
    input: [member, { flag: '--mail', says: 'mail it: only for people who have no password yet' }],
    lines: linkLines,
    examples: ['posthorn team link ana@example.net', 'posthorn team link ana@example.net --mail --json'],
  }),
  {
    command: 'team role',
    operation: 'team.change',
    says: 'give a member another role',
    input: [
      member,
      { flag: '<role>', choices: roles },
      {
        flag: '--accounts <names>',
        says: 'the accounts that they see, with commas between (default: as before)',
        kind: 'names',
      },
    ],
    columns: memberColumns,
    examples: [
      'posthorn team role ana@example.net read_only',
      'posthorn team role ana@example.net support --accounts Acme,Shop',
    ],
  },
  present<Member>({
    command: 'team remove',
    operation: 'team.remove',
    says: 'remove a member, or withdraw an invitation',
    input: [member],
    lines: ({ email }) => [`${email} is removed.`],
    examples: ['posthorn team remove ana@example.net'],
  }),
];

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
