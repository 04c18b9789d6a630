/** `posthorn admin create|reset`. */
import type { Command } from 'commander';
import type { Context } from './cli.ts';
import { examples } from './options.ts';

interface Link {
  url: string;
  expires_at: string;
  email: string | null;
}

const lines = ({ url, expires_at: end, email }: Link): string[] => [
  email === null
    ? 'Open this once to make the first administrator:'
    : `Open this once to set the password of ${email}:`,
  url,
  `It is good until ${end}.`,
];

export function addAdmin(program: Command, context: Context): void {
  const admin = program.command('admin').description('who administrates, in the dashboard');
  admin.addHelpText('after', examples('posthorn admin create ana@example.net', 'posthorn admin reset'));
  admin
    .command('create')
    .description('add an administrator, who sets a password through a link')
    .argument('<email>')
    .option('--json', 'as one JSON object')
    .action(async (email: string, { json }: { json?: true }) => {
      const link = await context.operate((operator) => operator.call('admin.create', { email }));
      context.print(json, link, () => lines(link));
    });
  admin
    .command('reset')
    .description('make a link that sets a new password and takes the second factor away')
    .argument('[email]', 'who; not needed while there is one administrator or none')
    .option('--json', 'as one JSON object')
    .action(async (email: string | undefined, { json }: { json?: true }) => {
      const link = await context.operate((operator) =>
        operator.call('admin.reset', email === undefined ? {} : { email }),
      );
      context.print(json, link, () => lines(link));
    });
}
