/**
 * The codes of a block's messages (message-states.ts), a byte for each in the order of its ids, made once the block is there. Whose code
 * changes later has a row in `message_changes`, which a trigger writes together with the change; so codes and changes together tell the
 * state of every message in a block. From time to time the changes are written into the codes.
 */
import type { Connection } from '../../storage/connection.ts';
import type { Database } from '../../storage/database.ts';
import type { MessageBlockRow } from '../../storage/tables.ts';
import { ID_LENGTH, ID_PREFIX, IDS } from './message-blocks.ts';
import { codeSql } from './message-states.ts';

/** The name of the set with the codes. */
export const STATES = 'states';

interface Deps {
  db: Pick<Database, 'commit' | 'prepared'>;
}
type Block = Pick<MessageBlockRow, 'account_id' | 'block'>;

/** Makes the codes of a block that has none; false where each has them. */
export async function addNextStates({ db }: Deps): Promise<boolean> {
  const [block] = await db.prepared.all<Block>(
    `SELECT account_id, block FROM message_blocks b WHERE NOT EXISTS (
       SELECT 1 FROM message_sets s WHERE s.account_id = b.account_id AND s.name = '${STATES}' AND s.block = b.block) LIMIT 1`,
  );
  if (block === undefined) return false;
  const ids = await idsOf(db.prepared, block);
  if (ids === null) return false;
  const codes = await codesIn(db.prepared, ids);
  return db.commit.transact(async (tx) => {
    // The block may have been made anew meanwhile, under the same number.
    const [same] = await tx.all(
      'SELECT 1 FROM message_sets WHERE account_id = ? AND name = ? AND block = ? AND bits = ?',
      [block.account_id, IDS, block.block, ids],
    );
    if (same === undefined) return false;
    await tx.run('INSERT INTO message_sets (account_id, name, block, bits) VALUES (?, ?, ?, ?)', [
      block.account_id,
      STATES,
      block.block,
      codes,
    ]);
    return true;
  });
}

async function idsOf(connection: Connection, { account_id, block }: Block): Promise<Buffer | null> {
  const [row] = await connection.all<{ bits: Buffer }>(
    'SELECT bits FROM message_sets WHERE account_id = ? AND name = ? AND block = ?',
    [account_id, IDS, block],
  );
  return row?.bits ?? null;
}

const idAt = (ids: Buffer, at: number): string =>
  ID_PREFIX + ids.toString('latin1', at * ID_LENGTH, (at + 1) * ID_LENGTH);

/** Messages whose codes are read at once: as JSON of a few KB. */
const READ_AT_ONCE = 1024;

/** Read after the block was committed: what changes from then on leaves a row. */
async function codesIn(connection: Connection, ids: Buffer): Promise<Buffer> {
  const codes = Buffer.alloc(ids.length / ID_LENGTH);
  for (let from = 0; from < codes.length; from += READ_AT_ONCE) {
    const some = Array.from({ length: Math.min(READ_AT_ONCE, codes.length - from) }, (_, n) => idAt(ids, from + n));
    const [row] = await connection.all<{ text: string }>(
      `SELECT json_group_array(json_array(j.key, ${codeSql('m')})) AS text FROM json_each(?) AS j CROSS JOIN messages AS m ON m.id = j.value`,
      [JSON.stringify(some)],
    );
    for (const [at, code] of JSON.parse(row?.text ?? '[]') as [number, number][]) codes[from + at] = code;
  }
  return codes;
}

/** So many changes are read by every list that asks for a state: more are written into the codes. */
const MOST_CHANGES = 1000;
/** Blocks whose codes are written in one transaction. */
const BLOCKS_AT_ONCE = 4;

/** Whether some account has more changes than lists should read. `most` is smaller in tests. */
export async function areManyChanges(
  { db }: { db: Pick<Database, 'prepared'> },
  most = MOST_CHANGES,
): Promise<boolean> {
  const rows = await db.prepared.all(
    'SELECT 1 FROM accounts a WHERE EXISTS (SELECT 1 FROM message_changes c WHERE c.account_id = a.id LIMIT 1 OFFSET ?) LIMIT 1',
    [most],
  );
  return rows.length > 0;
}

/** Writes the changes of the next blocks into their codes; false where there are none. */
export function applyNextChanges({ db }: Deps): Promise<boolean> {
  return db.commit.transact(async (tx) => {
    let applied = false;
    for (let n = 0; n < BLOCKS_AT_ONCE; n++) {
      const [block] = await tx.all<MessageBlockRow>(
        `SELECT b.* FROM (SELECT account_id, message_id FROM message_changes LIMIT 1) AS c JOIN message_blocks b ON b.account_id = c.account_id
         AND b.first_id <= c.message_id AND b.last_id >= c.message_id LIMIT 1`,
      );
      if (block === undefined || !(await applyChanges(tx, block))) return applied;
      applied = true;
    }
    return applied;
  });
}

/** False where the block has no codes yet. */
async function applyChanges(tx: Connection, block: MessageBlockRow): Promise<boolean> {
  const { account_id: accountId, first_id: first, last_id: last } = block;
  const ids = await idsOf(tx, block);
  const [row] = await tx.all<{ bits: Buffer }>(
    'SELECT bits FROM message_sets WHERE account_id = ? AND name = ? AND block = ?',
    [accountId, STATES, block.block],
  );
  if (ids === null || row === undefined) return false;
  const within = 'account_id = ? AND message_id >= ? AND message_id <= ?';
  const changes = await tx.all<{ message_id: string; code: number }>(
    `DELETE FROM message_changes WHERE ${within} RETURNING message_id, code`,
    [accountId, first, last],
  );
  for (const { message_id, code } of changes) {
    const at = placeOf(ids, message_id);
    if (at !== null) row.bits[at] = code;
  }
  await tx.run('UPDATE message_sets SET bits = ? WHERE account_id = ? AND name = ? AND block = ?', [
    row.bits,
    accountId,
    STATES,
    block.block,
  ]);
  return true;
}

/** Where an id stands among ids in ascending order. */
function placeOf(ids: Buffer, id: string): number | null {
  let [low, high] = [0, ids.length / ID_LENGTH];
  while (low < high) {
    const middle = (low + high) >> 1;
    const found = idAt(ids, middle);
    if (found === id) return middle;
    if (found < id) low = middle + 1;
    else high = middle;
  }
  return null;
}
