/** `posthorn export`: a whole list of the API on standard output. */
import { Argument, InvalidArgumentError, type Command } from '@commander-js/extra-typings';
import type { AskedOf } from '../operator/door/operator.ts';
import type { Context } from './cli.ts';

/** The operations that list them. */
const lists = {
  messages: 'listMessages',
  events: 'listEvents',
  stats: 'getStats',
  audit: 'listAuditEntries',
  suppressions: 'listSuppressions',
} as const;

export function addExport(command: Command, context: Context): void {
  command
    .addArgument(new Argument('<list>').choices(Object.keys(lists) as (keyof typeof lists)[]))
    .argument('[filters...]', 'such as status=bounced created_after=2026-01-01T00:00:00Z', filterOption)
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line instead')
    .action((list, query, { account, json }) => printList(context, lists[list], { account, query, json }));
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

/** Prints a list whose text comes in pieces: CSV, or one JSON object a line. */
export async function printList(
  context: Context,
  operation: string,
  { json, ...asked }: Pick<AskedOf, 'account' | 'query'> & { json: true | undefined },
): Promise<void> {
  await context.operate(async (operator) => {
    let rest = '';
    const accept = json === true ? 'application/x-ndjson' : 'text/csv';
    for await (const piece of operator.text(operation, { ...asked, accept })) {
      const text = rest + piece;
      const end = text.lastIndexOf('\n');
      if (end >= 0) context.outFile(text.slice(0, end), json);
      rest = text.slice(end + 1);
    }
  });
}
