/**
 * Which messages of an account may have several things in common, found by the sets of their blocks (message-blocks.ts): what two
 * filters fit by the hundred thousand is compared at a bit a message.
 */
import type { Knex } from 'knex';
import type { MessageBlockRow, MessageSetRow } from '../storage/tables.ts';
import { ID_LENGTH, ID_PREFIX, IDS } from './message-blocks.ts';
import { isComplete } from './message-facts.ts';
import { decodePositions, intersect, positionsIn, type Bitmap } from './position-set.ts';

/** One thing that all messages must have. */
export interface Wanted {
  /** Its names in the sets: the first that a block has is used, and each fits whatever the one before it does. */
  names: readonly string[];
  /** Ids of messages that have it, of a range with both ends: asked where a block has none of the names, as they are few then. */
  few: ((first: string, last: string) => Promise<string[]>) | null;
}

export interface Range {
  /** Both exclusive; null is no bound. */
  above: string | null;
  below: string | null;
  descending: boolean;
}

type Block = Pick<MessageBlockRow, 'block' | 'first_id' | 'last_id'>;

/** The newest block, or undefined where there is none. What came after it is in no block yet. */
export function newestBlock(read: Knex, accountId: string): Promise<Block | undefined> {
  return read('message_blocks').where({ account_id: accountId }).orderBy('block', 'desc').first() as Promise<Block | undefined>; // prettier-ignore
}

/** Blocks are looked at so many at a time: fewer first, as they often fill a page. */
const [FIRST_WINDOW, MOST_IN_WINDOW] = [32, 128];

/** Ids of blocks up to `newest` that may have all that is wanted, in order: every message that has it is among them. */
export async function* candidates(
  read: Knex,
  accountId: string,
  wanted: readonly Wanted[],
  range: Range,
): AsyncGenerator<string[]> {
  let { above, below } = range;
  for (let size = FIRST_WINDOW; ; size = Math.min(size * 2, MOST_IN_WINDOW)) {
    const blocks = await nextBlocks(read, accountId, { ...range, above, below }, size);
    const last = blocks.at(-1);
    if (last === undefined) return;
    yield* inWindow(read, accountId, wanted, blocks, range);
    if (blocks.length < size) return;
    if (range.descending) below = last.first_id;
    else above = last.last_id;
  }
}

async function nextBlocks(read: Knex, accountId: string, { above, below, descending }: Range, size: number): Promise<Block[]> {
  const query = read('message_blocks').select('block', 'first_id', 'last_id').where({ account_id: accountId });
  if (above !== null) query.where('last_id', '>', above);
  if (below !== null) query.where('first_id', '<', below);
  return (await query.orderBy('block', descending ? 'desc' : 'asc').limit(size)) as Block[];
} // prettier-ignore

/** What is known of blocks: the positions of one that may fit, or the ids themselves of some that follow one another. */
type Part = { block: number; positions: number[] } | { few: NonNullable<Wanted['few']>; blocks: Block[] };

async function* inWindow(
  read: Knex,
  accountId: string,
  wanted: readonly Wanted[],
  blocks: readonly Block[],
  { above, below, descending }: Range,
): AsyncGenerator<string[]> {
  const sets = await Promise.all(wanted.map(({ names }) => setsOf(read, accountId, names, blocks)));
  for (const part of partsOf(wanted, sets, blocks)) {
    const found = 'few' in part ? await idsOf(part) : await idsAt(read, accountId, part.block, part.positions);
    const within = found.filter((id) => (above === null || id > above) && (below === null || id < below)).sort();
    if (within.length > 0) yield descending ? within.reverse() : within;
  }
}

function partsOf(wanted: readonly Wanted[], sets: readonly ReadonlyMap<number, Bitmap>[], blocks: readonly Block[]): Part[] {
  const parts: Part[] = [];
  for (const one of blocks) {
    const few = wanted.find((_, at) => sets[at]?.has(one.block) === false)?.few ?? null;
    const before = parts.at(-1);
    // Blocks that follow one another and lack the same set are asked for at once.
    if (few === null) parts.push({ block: one.block, positions: inAll(sets.map((of) => of.get(one.block))) });
    else if (before !== undefined && 'few' in before && before.few === few) before.blocks.push(one);
    else parts.push({ few, blocks: [one] });
  }
  return parts;
} // prettier-ignore

const idsOf = ({ few, blocks }: Extract<Part, { few: unknown }>): Promise<string[]> => {
  const [first, last] = [blocks.at(0), blocks.at(-1)];
  if (first === undefined || last === undefined) return Promise.resolve([]);
  const [from, to] = first.block < last.block ? [first, last] : [last, first];
  return few(from.first_id, to.last_id);
};

/** The sets of a thing by block; a block is absent where only its messages know. */
async function setsOf(
  read: Knex,
  accountId: string,
  names: readonly string[],
  blocks: readonly Block[],
): Promise<Map<number, Bitmap>> {
  const found = new Map<number, Bitmap>();
  const numbers = blocks.map(({ block }) => block);
  const [lowest, highest] = [Math.min(...numbers), Math.max(...numbers)];
  for (const name of names) {
    if (found.size >= blocks.length) break;
    const rows = (await read('message_sets').select('block', 'bits').where({ account_id: accountId, name }).whereBetween('block', [lowest, highest])) as Pick<MessageSetRow, 'block' | 'bits'>[]; // prettier-ignore
    for (const { block, bits } of rows) if (!found.has(block)) found.set(block, decodePositions(bits));
  }
  const last = names.at(-1);
  if (last !== undefined && isComplete(last))
    for (const block of numbers) if (!found.has(block)) found.set(block, decodePositions(new Uint8Array(0)));
  return found;
}

/** Positions that are in all sets. */
function inAll(sets: readonly (Bitmap | undefined)[]): number[] {
  const known = sets.filter((set) => set !== undefined);
  const [first, ...others] = known;
  if (first === undefined) throw new Error('a block without any set is asked for by its messages');
  for (const other of others) if (!intersect(first, other)) return [];
  return positionsIn(first);
}

async function idsAt(read: Knex, accountId: string, block: number, positions: readonly number[]): Promise<string[]> {
  if (positions.length === 0) return [];
  const row = (await read('message_sets').select('bits').where({ account_id: accountId, name: IDS, block }).first()) as Pick<MessageSetRow, 'bits'> | undefined; // prettier-ignore
  if (row === undefined) return [];
  return positions.map((at) => ID_PREFIX + row.bits.toString('latin1', at * ID_LENGTH, (at + 1) * ID_LENGTH));
}
