/** `posthorn export`: a whole list of the API on standard output. */
import { Argument, InvalidArgumentError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { listNames, listText } from '../operator/list-pages.ts';
import { helpOfPart } from '../operations/summaries.ts';
import type { Context } from './cli.ts';

export function addExport(program: CommandUnknownOpts, context: Context): void {
  program
    .command('export')
    .description(helpOfPart('listMessages', 'export'))
    .addArgument(new Argument('<list>').choices(listNames))
    .argument('[filters...]', 'such as status=bounced created_after=2026-01-01T00:00:00Z', filterOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line instead')
    .action((list, query, { account, json }) =>
      context.operate(async (operator) => {
        for await (const text of listText(operator, list, { account, query, asJson: json === true }))
          context.outFile(text.slice(0, -1), json);
      }),
    );
}

function filterOption(text: string, before?: Record<string, string>): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Expected name=value, such as status=bounced.');
  const name = text.slice(0, at);
  if (before !== undefined && Object.hasOwn(before, name))
    throw new InvalidArgumentError(`${name} is given twice. If it takes several values, separate them by commas.`);
  if (at + 1 === text.length) throw new InvalidArgumentError(`${name} has no value: leave it out for all.`);
  return { ...before, [name]: text.slice(at + 1) };
}
