/**
 * The parts of sums that many transactions add to. Each writer adds to a part of its own, so that no two wait for the same row, and takes a
 * new one from time to time; housekeeping adds the old ones up.
 */
import type { Connection } from '../connection.ts';
import { optionsOf, tables, type TableName } from '../tables.ts';
import type { Node } from './node.ts';

/** The column of the part in the keys of these tables: their rows are sums, which readers add up. */
export const PART = 'part';

export const partedTables = (Object.keys(tables) as TableName[]).filter((name) => isParted(name));

export function isParted(name: TableName): boolean {
  return optionsOf(name).isParted === true;
}

/** Groups after which a writer adds to further parts, so that at most this many dead versions of a row pile up under an old snapshot. */
const GROUPS_A_PART = 1024;
const MOST_WRITERS = 4;
/** Parts of one epoch; together they fit the numbers of JavaScript. */
const PARTS_AN_EPOCH = 2 ** 24;

/** Returns the part that a writer adds to. Parts grow with time, over all writers. */
export const partOf = (epoch: number, n: number, writer: number): number =>
  epoch * PARTS_AN_EPOCH + ((Math.floor(n / GROUPS_A_PART) * MOST_WRITERS + writer) % PARTS_AN_EPOCH);

/** Returns the part below which nothing is written any more. */
export const partsFloor = ({ epoch, numbers }: Pick<Node, 'epoch' | 'numbers'>): number =>
  partOf(epoch, numbers.floor, 0);

/** Adds the parts of each sum that are smaller than `below` to its part 0, and deletes them. No writer uses them any more: parts only grow. */
export async function foldParts(connection: Connection, below: number): Promise<void> {
  for (const name of partedTables) {
    const { onConflict } = optionsOf(name);
    if (onConflict?.adds === undefined) throw new Error(`the rows of ${name} are not sums`);
    const { key, adds } = onConflict;
    await connection.run(
      `WITH gone AS (DELETE FROM ${name} WHERE ${PART} <> 0 AND ${PART} < ? RETURNING *)
       INSERT INTO ${name} (${[...key, ...adds, PART].join(', ')})
       SELECT ${[...key, ...adds.map((column) => `SUM(${column})`), '0'].join(', ')} FROM gone GROUP BY ${key.join(', ')}
       ON CONFLICT (${[...key, PART].join(', ')}) DO UPDATE
         SET ${adds.map((column) => `${column} = ${name}.${column} + excluded.${column}`).join(', ')}`,
      [below],
    );
  }
}
