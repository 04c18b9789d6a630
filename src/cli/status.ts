/** `posthorn status`: what a person should look at, on the server and in an account. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';

export function addStatus(program: CommandUnknownOpts, context: Context): void {
  program
    .command('status')
    .description(helpOf('needs'))
    .option('--account <account>', 'name or id of the account (default: default)')
    .option('--json', 'as one JSON object')
    .action(({ account, json }) =>
      context.show(json, 'needs', { account }, ({ data }) =>
        data.length === 0
          ? ['nothing needs you']
          : data.flatMap(({ level, message, since, until, action }) => [
              `${level === 'red' ? 'RED  ' : 'amber'} ${message}`,
              `      ${[since === null ? null : `since ${since}`, until === null ? null : `until ${until}`, action.command].filter((one) => one !== null).join(' · ')}`,
            ]),
      ),
    );
}
