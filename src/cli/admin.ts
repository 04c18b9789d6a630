/** `posthorn admin create|reset`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';

const lines = ({ url, expires_at: end, email }: ResultOf<'admin.create'>): string[] => [
  email === null
    ? 'Open this once to make the first administrator:'
    : `Open this once to set the password of ${email}:`,
  url,
  `It is good until ${end}.`,
];

export function addAdmin(program: CommandUnknownOpts, context: Context): void {
  const admin = program.command('admin').description('administrators, who see all accounts in the dashboard');
  admin
    .command('create')
    .description(helpOf('admin.create'))
    .argument('<email>')
    .option('--json', 'as one JSON object')
    .action((email, { json }) => context.show(json, 'admin.create', { email }, lines));
  admin
    .command('reset')
    .description(helpOf('admin.reset'))
    .argument('[email]', 'of the administrator; not needed while there is one or none')
    .option('--json', 'as one JSON object')
    .action((email, { json }) => context.show(json, 'admin.reset', email === undefined ? {} : { email }, lines));
}
