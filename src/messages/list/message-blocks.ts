/**
 * Blocks: 4,096 messages of an account that follow one another, with sets of those that have a name in common (message-facts.ts).
 * They are made some time after their messages, by housekeeping, so that sending costs nothing more. A set may have messages that
 * are gone or were erased, never lacks one; who reads it looks at the messages themselves.
 */
import type { Clock } from '../../base/clock.ts';
import { idFloor } from '../../base/id.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Database } from '../../storage/database.ts';
import { jsonReader } from '../../storage/json-rows.ts';
import { insertRows } from '../../storage/rows.ts';
import type { MessageSetRow } from '../../storage/tables.ts';
import { FEWEST, isComplete, namesOf, wordNames, type MessageFacts } from './message-facts.ts';
import { BLOCK_SIZE, encodePositions } from './position-set.ts';
import { subjectWords } from './subject-words.ts';

/** The set that holds the ids themselves, one behind the other without their prefix. */
export const IDS = 'ids';
export const ID_LENGTH = 26;
export const ID_PREFIX = 'msg_';

/** Ids younger than this may still come in any order. */
const SETTLED_MS = 30_000;
/** Reading the names of more messages at once would hold the main loop for over a millisecond. */
const READ_AT_ONCE = 64;
type Found = MessageFacts & { id: string; subject: string };

const readFacts = jsonReader<Found>(
  {
    id: 'm.id',
    stream: 'm.stream',
    from_domain: 'm.from_domain',
    sender: 'lower(m.from_address)',
    template_id: 'm.template_id',
    tags_json: 'm.tags_json',
    metadata_json: 'm.metadata_json',
    subject: 'm.subject',
    test: 'm.test',
    recipients: '(SELECT json_group_array(d.address_key) FROM deliveries d WHERE d.message_id = m.id)',
  },
  'FROM (SELECT * FROM messages WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?) AS m',
);

/** Makes the next block of some account; false where none has enough messages. `size` is smaller in tests. */
export async function closeNextBlock(
  { db, clock }: { db: Pick<Database, 'commit' | 'prepared'>; clock: Clock },
  size: number = BLOCK_SIZE,
): Promise<boolean> {
  const settled = idFloor('msg', clock.now() - SETTLED_MS);
  const due = await db.prepared.all<Due>(
    `SELECT a.id, a.after FROM (
       SELECT id, COALESCE((SELECT b.last_id FROM message_blocks b WHERE b.account_id = accounts.id ORDER BY b.block DESC LIMIT 1), '') AS after
       FROM accounts) AS a
     WHERE (SELECT m.id FROM messages m INDEXED BY messages_by_account WHERE m.account_id = a.id AND m.id > a.after ORDER BY m.id LIMIT 1 OFFSET ?) < ?
     LIMIT 1`,
    [size - 1, settled],
  );
  const [account] = due;
  if (account === undefined) return false;
  const { ids, places } = await gather(db.prepared, account, size);
  if (ids.length !== size) return false;
  const sets = setsOf(places);
  return await db.commit.transact((tx) => writeBlock(tx, account, ids, sets));
}

/** Whose messages, and which was the last that is in a block. */
interface Due {
  id: string;
  after: string;
}

interface Gathered {
  ids: string[];
  /** Positions of the messages with each name. */
  places: Map<string, number[]>;
}

async function gather(db: Connection, { id: accountId, after }: Due, size: number): Promise<Gathered> {
  const ids: string[] = [];
  const { places, add } = createPlaces();
  while (ids.length < size) {
    const rows = await readFacts(db, [accountId, ids.at(-1) ?? after, Math.min(READ_AT_ONCE, size - ids.length)]);
    if (rows.length === 0) break;
    for (const row of rows) {
      add(row, ids.length);
      ids.push(row.id);
    }
  }
  return { ids, places };
}

/** Words come again and again: where their positions go is looked up once for all names of a word. */
function createPlaces(): { places: Gathered['places']; add: (row: Found, position: number) => void } {
  const places: Gathered['places'] = new Map();
  const ofWords = new Map<string, number[][]>();
  const placesOf = (name: string): number[] => {
    const known = places.get(name) ?? [];
    if (known.length === 0) places.set(name, known);
    return known;
  };
  const placesOfWord = (word: string): number[][] => {
    const known = ofWords.get(word) ?? wordNames(word).map(placesOf);
    ofWords.set(word, known);
    return known;
  };
  // Two words may begin alike, an address may come twice.
  const put = (positions: number[], position: number): void => {
    if (positions.at(-1) !== position) positions.push(position);
  };
  return {
    places,
    add(row, position) {
      for (const name of namesOf(row)) put(placesOf(name), position);
      for (const word of subjectWords(row.subject))
        for (const positions of placesOfWord(word)) put(positions, position);
    },
  };
}

function setsOf(places: Gathered['places']): Pick<MessageSetRow, 'name' | 'bits'>[] {
  const kept: Pick<MessageSetRow, 'name' | 'bits'>[] = [];
  for (const [name, positions] of places)
    if (positions.length >= FEWEST || isComplete(name)) kept.push({ name, bits: encodePositions(positions) });
  return kept;
}

/** False where the messages are not those any more that were read: it is tried again another time. */
async function writeBlock(
  tx: Connection,
  { id: accountId, after }: Due,
  ids: readonly string[],
  sets: readonly Pick<MessageSetRow, 'name' | 'bits'>[],
): Promise<boolean> {
  const [first, last] = [ids[0], ids.at(-1)];
  if (first === undefined || last === undefined) return false;
  const [now] = await tx.all<{ n: number; block: number | null; end: string }>(
    `SELECT (SELECT COUNT(*) FROM messages WHERE account_id = ? AND id > ? AND id <= ?) AS n,
       (SELECT MAX(block) FROM message_sets WHERE account_id = ?) AS block,
       COALESCE((SELECT last_id FROM message_blocks WHERE account_id = ? ORDER BY block DESC LIMIT 1), '') AS end`,
    [accountId, after, last, accountId, accountId],
  );
  if (now?.n !== ids.length || now.end !== after) return false;
  const block = (now.block ?? 0) + 1;
  const idSet = { name: IDS, bits: Buffer.from(ids.map((id) => id.slice(ID_PREFIX.length)).join(''), 'latin1') };
  const own = { account_id: accountId, block };
  await insertRows(tx, [
    {
      message_blocks: [{ ...own, first_id: first, last_id: last }],
      message_sets: [idSet, ...sets].map((set) => ({ ...own, ...set })),
    },
  ]);
  return true;
}

/** Removes a block whose messages are all gone; false where there is none. */
export async function removeEmptyBlock({ db }: { db: Pick<Database, 'commit' | 'prepared'> }): Promise<boolean> {
  const [gone] = await db.prepared.all<{ account_id: string; block: number }>(
    `SELECT b.account_id, b.block FROM message_blocks b
     WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.account_id = b.account_id AND m.id >= b.first_id AND m.id <= b.last_id) LIMIT 1`,
  );
  if (gone === undefined) return false;
  await db.commit.transact(async (tx) => {
    for (const table of ['message_sets', 'message_blocks'])
      await tx.run(`DELETE FROM ${table} WHERE account_id = ? AND block = ?`, [gone.account_id, gone.block]);
  });
  return true;
}
