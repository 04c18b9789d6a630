/** `posthorn team list|add|link|role|remove`. */
import { Argument, Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { table } from './table.ts';

type Member = ResultOf<'team.change'>;

const roles = ['administrator', 'developer', 'support', 'read_only'] as const;

const lines = (members: readonly Member[]): string[] =>
  table(
    ['ADDRESS', 'ROLE', 'ACCOUNTS', 'STATE', 'SECOND FACTOR', 'LAST SIGN-IN'],
    members.map((one) => [
      one.email,
      one.role,
      one.role === 'administrator' ? 'all' : one.accounts.join(', '),
      one.invitation?.mail == null ? one.state : `${one.state}, mail ${one.invitation.mail.status}`,
      one.second_factor ? 'on' : 'off',
      one.last_sign_in_at ?? '',
    ]),
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

/** Returns the accounts of `--accounts a,b`. */
const namesIn = (text: string): string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

export function addTeam(program: CommandUnknownOpts, context: Context): void {
  const team = program.command('team').description('who signs in to the dashboard, and with which role');
  team
    .command('list')
    .description(helpOf('team.list'))
    .option('--json', 'as one JSON object')
    .action(({ json }) => context.show(json, 'team.list', {}, ({ data }) => lines(data)));
  team
    .command('add')
    .description(helpOf('team.add'))
    .argument('<email>')
    .addOption(new Option('--role <role>', 'what they may do').choices(roles).default('developer' as const))
    .option('--accounts <names>', 'the accounts that they see, with commas between', 'default')
    .option('--mail', 'mail the invitation')
    .option('--json', 'as one JSON object')
    .action((email, { role, accounts, mail, json }) =>
      context.show(json, 'team.add', { email, role, accounts: namesIn(accounts), mail: mail === true }, linkLines),
    );
  team
    .command('link')
    .description(helpOf('team.link'))
    .argument('<member>', 'address or id')
    .option('--mail', 'mail it: only for people who have no password yet')
    .option('--json', 'as one JSON object')
    .action((member, { mail, json }) => context.show(json, 'team.link', { member, mail: mail === true }, linkLines));
  team
    .command('role')
    .description(helpOf('team.change'))
    .argument('<member>', 'address or id')
    .addArgument(new Argument('<role>').choices(roles))
    .option('--accounts <names>', 'the accounts that they see, with commas between (default: as before)')
    .option('--json', 'as one JSON object')
    .action((member, role, { accounts, json }) =>
      context.show(
        json,
        'team.change',
        { member, role, ...(accounts === undefined ? {} : { accounts: namesIn(accounts) }) },
        (one) => lines([one]),
      ),
    );
  team
    .command('remove')
    .description(helpOf('team.remove'))
    .argument('<member>', 'address or id')
    .option('--json', 'as one JSON object')
    .action((member, { json }) =>
      context.show(json, 'team.remove', { member }, ({ email }) => [`${email} is removed.`]),
    );
}
