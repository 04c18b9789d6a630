/**
 * Which messages of an account may have several things in common, found by the sets of their blocks (message-blocks.ts): what two
 * filters fit by the hundred thousand is compared at a bit a message.
 */
import type { Knex } from 'knex';
import type { MessageBlockRow, MessageSetRow } from '../../storage/tables.ts';
import { ID_LENGTH, ID_PREFIX, IDS } from './message-blocks.ts';
import { STATES } from './block-states.ts';
import { isComplete } from './message-facts.ts';
import { decodePositions, intersect, positionsIn, positionsOf, type Bitmap } from './position-set.ts';

/** What all messages must have. */
export interface Wanted {
  /** Things that never change. */
  facts: readonly WantedFact[];
  /** Which of the codes of what does change; null where it does not matter. */
  codes: readonly number[] | null;
}

/** One thing that a message has from its beginning. */
export interface WantedFact {
  /** Its names in the sets: the first that a block has is used, and each fits whatever the one before it does. */
  names: readonly string[];
  /** Ids of messages that have it, of ranges with both ends: asked where blocks have none of the names, as they are few then. */
  few: ((ranges: readonly IdRange[]) => Promise<string[]>) | null;
}

/** Both ends included. */
export type IdRange = readonly [first: string, last: string];

export interface Range {
  /** Both exclusive; null is no bound. */
  above: string | null;
  below: string | null;
  descending: boolean;
}

type Block = Pick<MessageBlockRow, 'block' | 'first_id' | 'last_id'>;

/** The newest block, or undefined where there is none. What came after it is in no block yet. */
export function newestBlock(read: Knex, accountId: string): Promise<Block | undefined> {
  return read('message_blocks').where({ account_id: accountId }).orderBy('block', 'desc').first() as Promise<
    Block | undefined
  >;
}

/** Blocks are looked at so many at a time: fewer first, as they often fill a page. */
const [FIRST_WINDOW, MORE_BLOCKS, MOST_IN_WINDOW] = [8, 8, 256];

/** Ids of blocks up to `newest` that may have all that is wanted, in order: every message that has it is among them. */
export async function* candidates(
  read: Knex,
  accountId: string,
  wanted: Wanted,
  range: Range,
): AsyncGenerator<string[]> {
  // Read before any codes: what is taken over into these meanwhile is in both.
  const changed = wanted.codes === null ? [] : await changedTo(read, accountId, wanted.codes);
  let { above, below } = range;
  for (let size = FIRST_WINDOW; ; size = Math.min(size * MORE_BLOCKS, MOST_IN_WINDOW)) {
    const blocks = await nextBlocks(read, accountId, { ...range, above, below }, size);
    const last = blocks.at(-1);
    if (last === undefined) return;
    yield* inWindow(read, accountId, wanted, blocks, changed, range);
    if (blocks.length < size) return;
    if (range.descending) below = last.first_id;
    else above = last.last_id;
  }
}

async function nextBlocks(
  read: Knex,
  accountId: string,
  { above, below, descending }: Range,
  size: number,
): Promise<Block[]> {
  const query = read('message_blocks').select('block', 'first_id', 'last_id').where({ account_id: accountId });
  if (above !== null) query.where('last_id', '>', above);
  if (below !== null) query.where('first_id', '<', below);
  return (await query.orderBy('block', descending ? 'desc' : 'asc').limit(size)) as Block[];
}

/** What is known of a block: the positions that may fit, or the thing that only few of its messages have. */
interface Part {
  block: Block;
  known: { positions: readonly number[] | 'all' } | { few: NonNullable<WantedFact['few']> };
}

async function* inWindow(
  read: Knex,
  accountId: string,
  { facts, codes }: Wanted,
  blocks: readonly Block[],
  changed: readonly string[],
  { above, below, descending }: Range,
): AsyncGenerator<string[]> {
  const sets = await setsOf(read, accountId, facts, blocks);
  // Codes are eight times as long as a set: those of blocks where nothing is left are not read.
  const open = codes === null ? [] : blocks.filter(({ block }) => inAll(sets.map((of) => of.get(block))).length > 0);
  const states = codes === null || open.length === 0 ? [] : [await statesOf(read, accountId, codes, open)];
  const parts = blocks.map((block) => partOf(block, facts, sets, states));
  const few = await fewIn(parts);
  for (const { block, known } of parts) {
    const found =
      'few' in known
        ? within(few.get(known.few) ?? [], block)
        : await idsAt(read, accountId, block, known.positions, changed);
    const some = found.filter((id) => (above === null || id > above) && (below === null || id < below)).sort();
    if (some.length > 0) yield descending ? some.reverse() : some;
  }
}

type SetsByBlock = ReadonlyMap<number, Bitmap>;

function partOf(
  block: Block,
  facts: readonly WantedFact[],
  sets: readonly SetsByBlock[],
  states: readonly SetsByBlock[],
): Part {
  const few = facts.find((_, at) => sets[at]?.has(block.block) === false)?.few ?? null;
  if (few !== null) return { block, known: { few } };
  return { block, known: { positions: inAll([...sets, ...states].map((of) => of.get(block.block))) } };
}

/** The ids of all blocks that lack the same set are asked for at once, in ascending order. */
async function fewIn(parts: readonly Part[]): Promise<Map<WantedFact['few'], readonly string[]>> {
  const ranges = new Map<NonNullable<WantedFact['few']>, IdRange[]>();
  for (const { block, known } of parts)
    if ('few' in known)
      ranges.set(known.few, [...(ranges.get(known.few) ?? []), [block.first_id, block.last_id] as const]);
  const found = await Promise.all([...ranges].map(async ([few, some]) => [few, (await few(some)).sort()] as const));
  return new Map(found);
}

/** Of ids in ascending order those of a block. */
const within = (sorted: readonly string[], { first_id: first, last_id: last }: Block): readonly string[] =>
  sorted.slice(firstFrom(sorted, first), firstFrom(sorted, `${last}\u0000`));

/** The sets of each thing by block; a block is absent where only its messages know. */
async function setsOf(
  read: Knex,
  accountId: string,
  facts: readonly WantedFact[],
  blocks: readonly Block[],
): Promise<Map<number, Bitmap>[]> {
  const found = facts.map(() => new Map<number, Bitmap>());
  const most = Math.max(0, ...facts.map(({ names }) => names.length));
  for (let n = 0; n < most; n++) {
    // Of each thing the next name, all in one statement.
    const names = facts.map((fact, at) => ((found[at]?.size ?? 0) < blocks.length ? fact.names[n] : undefined));
    const rows = await rowsOf(
      read,
      accountId,
      names.filter((name) => name !== undefined),
      blocks,
    );
    for (const { name, block, bits } of rows)
      for (const [at, one] of names.entries())
        if (one === name && found[at]?.has(block) === false) found[at].set(block, decodePositions(bits));
  }
  for (const [at, { names }] of facts.entries()) {
    const last = names.at(-1);
    if (last === undefined || !isComplete(last)) continue;
    for (const { block } of blocks)
      if (found[at]?.has(block) === false) found[at].set(block, decodePositions(new Uint8Array(0)));
  }
  return found;
}

async function rowsOf(
  read: Knex,
  accountId: string,
  names: readonly string[],
  blocks: readonly Block[],
): Promise<Pick<MessageSetRow, 'name' | 'block' | 'bits'>[]> {
  if (names.length === 0) return [];
  const numbers = blocks.map(({ block }) => block);
  const rows = read('message_sets').select('name', 'block', 'bits').where({ account_id: accountId });
  return (await rows
    .whereIn('name', names)
    .whereBetween('block', [Math.min(...numbers), Math.max(...numbers)])) as MessageSetRow[];
}

/** Positions whose code is one of these, by block. */
async function statesOf(
  read: Knex,
  accountId: string,
  codes: readonly number[],
  blocks: readonly Block[],
): Promise<Map<number, Bitmap>> {
  const fits = new Uint8Array(256);
  for (const code of codes) fits[code] = 1;
  const rows = await rowsOf(read, accountId, [STATES], blocks);
  return new Map(rows.map(({ block, bits }) => [block, positionsOf(bits, fits)]));
}

/** Ids of messages that have come to one of these codes since those of their blocks were made, in ascending order. */
async function changedTo(read: Knex, accountId: string, codes: readonly number[]): Promise<string[]> {
  const rows = (await read('message_changes')
    .select('message_id')
    .where({ account_id: accountId })
    .whereIn('code', codes)
    .orderBy('message_id')) as { message_id: string }[];
  return rows.map(({ message_id }) => message_id);
}

/** Positions that are in all sets that are known. */
function inAll(sets: readonly (Bitmap | undefined)[]): number[] | 'all' {
  const [first, ...others] = sets.filter((set) => set !== undefined);
  if (first === undefined) return 'all';
  for (const other of others) if (!intersect(first, other)) return [];
  return positionsIn(first);
}

async function idsAt(
  read: Knex,
  accountId: string,
  block: Block,
  positions: readonly number[] | 'all',
  changed: readonly string[],
): Promise<readonly string[]> {
  const others = within(changed, block);
  if (positions.length === 0) return others;
  const row = (await read('message_sets')
    .select('bits')
    .where({ account_id: accountId, name: IDS, block: block.block })
    .first()) as Pick<MessageSetRow, 'bits'> | undefined;
  if (row === undefined) return others;
  const all = positions === 'all' ? Array.from({ length: row.bits.length / ID_LENGTH }, (_, at) => at) : positions;
  const found = all.map((at) => ID_PREFIX + row.bits.toString('latin1', at * ID_LENGTH, (at + 1) * ID_LENGTH));
  return others.length === 0 ? found : [...new Set([...found, ...others])];
}

/** The place of the first that is not before `id`. */
function firstFrom(sorted: readonly string[], id: string): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? '') < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
