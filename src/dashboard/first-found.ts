/** Asks for messages with one meaning of a typed text after the other, until one finds some. */
import type { Operations } from '../client/types.ts';
import type { Visit } from './page.ts';
import type { Search } from './search-text.ts';

type Meaning = Omit<Search, 'others'>;

export interface FirstFound {
  list: Operations['listMessages']['answer'];
  meaning: Meaning;
  /** The place of the meaning among all of the text. */
  place: number;
}

/** Returns the first list that is not empty, or that of the first meaning. `from`: only this one, for a further page of its list. */
export async function firstFound(
  visit: Pick<Visit, 'ask'>,
  { others, ...first }: Search,
  more: Readonly<Record<string, string | null>>,
  from: number | null = null,
): Promise<FirstFound> {
  const meanings: readonly Meaning[] = [first, ...others];
  const ask = async (place: number): Promise<FirstFound> => {
    const meaning = meanings[place] ?? first;
    return { list: await visit.ask('listMessages', { query: { ...meaning.query, ...more } }), meaning, place };
  };
  if (from !== null) return await ask(from);
  const usual = await ask(0);
  for (const place of others.keys()) {
    if (usual.list.data.length > 0 || usual.list.next_cursor !== null) break;
    const other = await ask(place + 1);
    if (other.list.data.length > 0) return other;
  }
  return usual;
}
