/** Reads a list page by page. */
import type { Page } from './types.ts';

/** Returns every entry from `first` on; reads the next page after the last entry of one. */
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
