/** Reads messages from a source in the order of the list, looking at what else they must have, until the page is full. */
import type { Knex } from 'knex';
import type { MessageRow } from '../../storage/tables.ts';
import { narrow, type MessageFilter } from './message-filter.ts';
import { beside, IN_RANGE, inBranch, inOrder, type Branch, type Source, type WordRange } from './message-sources.ts';

export interface Part {
  descending: boolean;
  edge: string | null;
  limit: number;
}

export async function readSource(read: Knex, filter: MessageFilter, source: Source, part: Part): Promise<MessageRow[]> {
  const found = await Promise.all(source.map((branch) => readBranch(read, filter, branch, part)));
  return found.length === 1 ? (found[0] ?? []) : merged(found.flat(), part);
}

async function readBranch(read: Knex, filter: MessageFilter, branch: Branch, part: Part): Promise<MessageRow[]> {
  const query = inBranch(read.select('m.*'), read, filter, branch).where('m.account_id', filter.accountId);
  narrow(query, filter, branch.id);
  if (part.edge !== null) query.where(branch.id, part.descending ? '<' : '>', part.edge);
  return (await query.orderBy(branch.id, part.descending ? 'desc' : 'asc').limit(part.limit)) as MessageRow[];
}

function merged(rows: readonly MessageRow[], { descending, limit }: Part): MessageRow[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const up = [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return (descending ? up.reverse() : up).slice(0, limit);
}

/** Of these messages those that fit. */
function readNamed(read: Knex, filter: MessageFilter, ids: readonly string[], part: Part): Promise<MessageRow[]> {
  const own = beside('(SELECT DISTINCT value AS message_id FROM json_each(?))', []);
  return readBranch(read, filter, { ...own, with: [JSON.stringify(ids)] }, part);
}

/** Messages that are read in the order of the list before a range of words is gathered. */
const NEAR = 20_000;

/** For what fits very many: it fills a page soon where it is spread over the list, and is gathered where it stands at its other end. */
export async function readNearFirst(
  read: Knex,
  filter: MessageFilter,
  range: WordRange,
  part: Part,
): Promise<MessageRow[]> {
  const order = part.descending ? 'desc' : 'asc';
  const all = inBranch(read.select('m.id'), read, filter, inOrder).where('m.account_id', filter.accountId);
  if (part.edge !== null) all.where('m.id', part.descending ? '<' : '>', part.edge);
  const last = (await all.orderBy('m.id', order).limit(1).offset(NEAR).first()) as { id: string } | undefined;
  if (last === undefined) return readBranch(read, filter, inOrder, part);
  const within = { ...inOrder, where: [[`m.id ${part.descending ? '>=' : '<='} ?`, last.id] as const] };
  const near = await readBranch(read, filter, within, part);
  if (near.length >= part.limit) return near;
  return [
    ...near,
    ...(await readFar(read, filter, range, { ...part, edge: last.id, limit: part.limit - near.length })),
  ];
}

/** Ids of a range of words that are taken first, and by what more there are each time that they did not fill the page. */
const TAKEN_FIRST = 256;
const MORE_EACH_TIME = 8;

/** Gathers the ids of the range that come next in the order of the list, and reads the messages of these alone. */
async function readFar(read: Knex, filter: MessageFilter, range: WordRange, part: Part): Promise<MessageRow[]> {
  const { descending, limit } = part;
  const found: MessageRow[] = [];
  let { edge } = part;
  for (let take = TAKEN_FIRST; ; take *= MORE_EACH_TIME) {
    const wanted = read('message_words')
      .select('message_id')
      .whereRaw(IN_RANGE, [...range]);
    if (edge !== null) wanted.where('message_id', descending ? '<' : '>', edge);
    const ids = (await wanted.orderBy('message_id', descending ? 'desc' : 'asc').limit(take)) as {
      message_id: string;
    }[];
    // A message may have several words of the range.
    const some = ids.map(({ message_id }) => message_id);
    found.push(...(await readNamed(read, filter, some, { descending, edge, limit: limit - found.length })));
    edge = ids.at(-1)?.message_id ?? edge;
    if (found.length >= limit || ids.length < take) return found;
  }
}

/** Of these messages the first that fit, in the order given: an array is walked in its order, and reading ends with the last that is wanted. */
export async function readInOrder(
  read: Knex,
  filter: MessageFilter,
  ids: readonly string[],
  limit: number,
): Promise<MessageRow[]> {
  const named = beside('(SELECT value AS message_id FROM json_each(?))', []);
  const query = inBranch(read.select('m.*'), read, filter, { ...named, with: [JSON.stringify(ids)] });
  narrow(query.where('m.account_id', filter.accountId), filter, named.id);
  return (await query.limit(limit)) as MessageRow[];
}
