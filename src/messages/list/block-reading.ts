/** Reads messages that have several things in common, which each very many have: by the blocks, and by a source what is in none yet. */
import type { Knex } from 'knex';
import { idFloor, MOST_AHEAD_MS } from '../../base/id.ts';
import type { MessageRow } from '../../storage/tables.ts';
import { candidates, newestBlock, type IdRange, type Wanted, type WantedFact } from './block-search.ts';
import type { MessageFilter } from './message-filter.ts';
import { readInOrder, readSource, type Part } from './message-reading.ts';
import { alone, inBranch, type Fact, type Source } from './message-sources.ts';

/** What messages must have, and blocks know of them. */
export interface Things {
  /** What never changes. */
  facts: readonly Fact[];
  /** Codes of the states that fit; null where the state does not matter. */
  codes: readonly number[] | null;
}

/** Null where there are no blocks, or where they were made anew meanwhile. */
export async function readByBlocks(
  read: Knex,
  filter: MessageFilter,
  { things, source }: { things: Things; source: Source },
  part: Part,
): Promise<MessageRow[] | null> {
  const { accountId } = filter;
  const newest = await newestBlock(read, accountId);
  if (newest === undefined) return null;
  const inNone = (limit: number): Promise<MessageRow[]> =>
    readSource(
      read,
      filter,
      source.map((branch) => ({ ...branch, where: [...branch.where, [`${branch.id} > ?`, newest.last_id] as const] })),
      { ...part, limit },
    );
  const inSome = (limit: number): Promise<MessageRow[]> =>
    readCandidates(read, filter, things, newest.last_id, { ...part, limit });
  const [first, second] = part.descending ? [inNone, inSome] : [inSome, inNone];
  const found = await first(part.limit);
  if (found.length < part.limit) found.push(...(await second(part.limit - found.length)));
  const isSame =
    (await read('message_blocks')
      .select('block')
      .where({ account_id: accountId, block: newest.block, last_id: newest.last_id })
      .first()) !== undefined;
  return isSame ? found : null;
}

/** Candidates that are read at once: so many for each that is wanted, and so many times more each time that they were not enough. */
const [CANDIDATES_FIRST, MORE_CANDIDATES, MOST_CANDIDATES] = [2, 4, 4000];

async function readCandidates(
  read: Knex,
  filter: MessageFilter,
  { facts, codes }: Things,
  lastId: string,
  part: Part,
): Promise<MessageRow[]> {
  const { createdAfter, createdBefore } = filter;
  const [above, below] = part.descending ? [null, part.edge] : [part.edge, null];
  const floor = createdAfter === undefined ? null : idFloor('msg', createdAfter);
  const ceiling = createdBefore === undefined ? null : idFloor('msg', createdBefore + MOST_AHEAD_MS);
  const range = {
    above: later(above, floor),
    below: below === null || (ceiling !== null && ceiling < below) ? ceiling : below,
    descending: part.descending,
  };
  const few = (source: Source | null): WantedFact['few'] =>
    source === null ? null : (ranges) => idsWithin(read, filter, source, ranges);
  const wanted: Wanted = { facts: facts.map(({ names, source }) => ({ names, few: few(source) })), codes };
  const found: MessageRow[] = [];
  let waiting: string[] = [];
  let take = part.limit * CANDIDATES_FIRST;
  const readWaiting = async (fewest: number): Promise<void> => {
    while (waiting.length >= fewest && found.length < part.limit) {
      found.push(...(await readInOrder(read, filter, waiting.slice(0, take), part.limit - found.length)));
      waiting = waiting.slice(take);
      take = Math.min(take * MORE_CANDIDATES, MOST_CANDIDATES);
    }
  };
  for await (const ids of candidates(read, filter.accountId, wanted, range)) {
    waiting.push(...ids.filter((id) => id <= lastId));
    if (waiting.length >= take) await readWaiting(take);
    if (found.length >= part.limit) return found;
  }
  await readWaiting(1);
  return found;
}

const later = (one: string | null, other: string | null): string | null =>
  one === null || (other !== null && other > one) ? other : one;

/** Ids of messages of a source, in some ranges. Only its index is read. */
async function idsWithin(
  read: Knex,
  filter: MessageFilter,
  source: Source,
  ranges: readonly IdRange[],
): Promise<string[]> {
  const found = await Promise.all(
    source.map(async (one) => {
      const { from, with: values = [], ...branch } = alone(one);
      const ranged = {
        ...branch,
        from: `json_each(?) AS runs CROSS JOIN ${from}`,
        with: [JSON.stringify(ranges), ...values],
      };
      // Bounds of time would only be in the way: of two bounds the database takes the first.
      const query = inBranch(read.select({ id: branch.id }), read, { accountId: filter.accountId }, ranged);
      query.whereRaw(`${branch.id} >= runs.value->>0 AND ${branch.id} <= runs.value->>1`);
      return (await query) as { id: string }[];
    }),
  );
  return [...new Set(found.flat().map(({ id }) => id))];
}
