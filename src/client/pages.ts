/** Walking a list page by page. */
import type { Page } from './types.ts';

/** Gives every entry from `first` on; asks for the next page when the last entry of one has been taken. */
export async function* entriesOf<Entry>(
  read: (after: string | undefined) => Promise<Page<Entry>>,
  first: string | undefined,
): AsyncGenerator<Entry, void, undefined> {
  let after = first;
  for (;;) {
    const page = await read(after);
    yield* page.data;
    if (!page.has_more || page.next_cursor === null) return;
    after = page.next_cursor;
  }
}
