/** `posthorn books`: checks that every accepted recipient is counted exactly once. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { pluralize } from '../base/pluralize.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { table } from './table.ts';

/** Exit code if the books do not balance. */
const UNBALANCED = 1;

export function addBooks(program: CommandUnknownOpts, context: Context): void {
  program
    .command('books')
    .description(helpOf('books'))
    .option('--json', 'as one JSON object')
    .action(async ({ json }) => {
      const books = await context.operate((operator) => operator.call('books', {}));
      context.print(json, books, () => [
        ...table(
          ['STATUS', 'COUNTED', 'FOUND'],
          books.lines.map(({ status, counted, found }) => [status, counted, found]),
        ),
        '',
        books.balanced ? `balanced: ${pluralize(books.accepted, 'recipient')} accepted` : 'NOT balanced:',
        ...books.faults,
      ]);
      if (!books.balanced) context.end(UNBALANCED);
    });
}
