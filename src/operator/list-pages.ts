/** Whole lists for commands: the pages of an operation of the API one after the other, and their text. */
import { lists, textOf, type ListName, type Records } from '../api/list-lines.ts';
import type { AskedOf, Operator } from './operator.ts';

export const listNames = Object.keys(lists) as [ListName, ...ListName[]];

/** Yields the text of the whole list, a page at a time. */
export const listText = (
  operator: Pick<Operator, 'ask'>,
  list: ListName,
  { asJson, ...asked }: AskedOf & { asJson: boolean },
): AsyncIterable<string> => textOf(list, asJson ? 'application/x-ndjson' : 'text/csv', pagesOf(operator, list, asked));

interface Page {
  data: Records;
  has_more?: boolean;
  next_cursor?: string | null;
}

async function* pagesOf(operator: Pick<Operator, 'ask'>, list: ListName, asked: AskedOf): AsyncGenerator<Records> {
  let after: string | null = null;
  for (;;) {
    // Numbers come in one piece.
    const paging = list === 'stats' ? {} : { limit: 100, ...(after === null ? {} : { after }) };
    const page: Page = await operator.ask(lists[list].operation, { ...asked, query: { ...asked.query, ...paging } });
    yield page.data;
    after = page.next_cursor ?? null;
    if (page.has_more !== true || after === null) return;
  }
}
