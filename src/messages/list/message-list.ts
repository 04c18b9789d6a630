/**
 * Lists of messages, in the order of acceptance. Among a million messages a filter may fit all or one, and the database cannot
 * know which; so what is read first is chosen here: of all filters that have an index in the order of the list, the one
 * that fits least. Its index is read from the page's edge on, the other filters are looked at message by message, and reading
 * ends when the page is full.
 */
import type { Knex } from 'knex';
import type { MessageRow } from '../../storage/tables.ts';
import { readByBlocks, type Things } from './block-reading.ts';
import { isNamed, type MessageFilter } from './message-filter.ts';
import { readNearFirst, readSource, type Part } from './message-reading.ts';
import {
  factsOf,
  inOrder,
  MOST_COUNTED,
  plainSources,
  sizeOf,
  wordSources,
  type Source,
  type WordRange,
} from './message-sources.ts';
import { codesOf, wishesIn } from './message-states.ts';

export interface MessagePage {
  messages: MessageRow[];
  hasMore: boolean;
}

/** Which part of the list: newest or oldest first, and from which message on (exclusive), forwards or backwards. */
export interface PageRequest {
  newestFirst: boolean;
  limit: number;
  after?: string;
  before?: string;
}

/** One page in the order asked for. Ids ascend with time, so they are both order and cursor. `many` is another in tests. */
export async function listMessages(
  read: Knex,
  filter: MessageFilter,
  page: PageRequest,
  many: number = MANY,
): Promise<MessagePage> {
  const backwards = page.before !== undefined;
  const part: Part = {
    descending: page.newestFirst !== backwards,
    edge: page.after ?? page.before ?? null,
    limit: page.limit + 1,
  };
  const chosen = await bestSource(read, filter, many);
  const messages = await readChosen(read, filter, chosen, part);
  const hasMore = messages.length > page.limit;
  if (hasMore) messages.length = page.limit;
  if (backwards) messages.reverse();
  return { messages, hasMore };
}

/**
 * What is read: a source; where there is none, words that very many messages have; or where several things fit very many messages
 * each, the blocks of messages, and the source for what is in no block yet.
 */
type Chosen =
  | { kind: 'source'; source: Source }
  | { kind: 'words'; range: WordRange }
  | { kind: 'blocks'; things: Things; source: Source };

async function readChosen(read: Knex, filter: MessageFilter, chosen: Chosen, part: Part): Promise<MessageRow[]> {
  if (chosen.kind === 'words') return readNearFirst(read, filter, chosen.range, part);
  if (chosen.kind === 'blocks') {
    const found = await readByBlocks(read, filter, chosen, part);
    if (found !== null) return found;
  }
  return readSource(read, filter, chosen.source, part);
}

/** Where the rarest of several things fits this many messages, the blocks are quicker than looking at each of them. */
const MANY = 4000;

/** The source that fits the fewest messages. One alone is taken as it is. */
async function bestSource(read: Knex, filter: MessageFilter, many: number): Promise<Chosen> {
  const words = await wordSources(read, filter);
  const sources = [...plainSources(filter), ...words.flatMap((one) => (one.kind === 'source' ? [one.source] : []))];
  const { things, count } = thingsOf(filter);
  const [only] = sources;
  if (count < 2 && sources.length === 1 && only !== undefined) return { kind: 'source', source: only };
  if (count < 2 && only === undefined && words[0] !== undefined) return words[0];
  const most = count < 2 ? MOST_COUNTED : Math.min(many, MOST_COUNTED);
  const sizes = await Promise.all(sources.map((source) => sizeOf(read, filter, source, most)));
  // What has no source may fit all messages.
  const fewest = Math.min(...sizes, Number.MAX_SAFE_INTEGER);
  const source = sources[sizes.indexOf(fewest)] ?? [inOrder];
  return count === 0 || (only !== undefined && count < 2) || fewest < many
    ? { kind: 'source', source }
    : { kind: 'blocks', things, source };
}

/** What blocks know of the messages asked for, and how many things that are. Messages that are named are few. */
function thingsOf(filter: MessageFilter): { things: Things; count: number } {
  if (isNamed(filter)) return { things: { facts: [], codes: null }, count: 0 };
  const facts = factsOf(filter);
  const wishes = wishesIn(filter);
  return { things: { facts, codes: wishes === 0 ? null : codesOf(filter) }, count: facts.length + wishes };
}
