/** PostgreSQL databases as sides of a copy. */
import { systemClock } from '../../base/clock.ts';
import type { Connection } from '../connection.ts';
import type { StoreAddress } from '../database.ts';
import { addressOf, type PostgresAddress } from '../postgres/address.ts';
import { connectTo, createPostgresConnection, type PostgresConnection } from '../postgres/connection.ts';
import { readMachine } from '../postgres/machine.ts';
import { standAlone } from '../postgres/node.ts';
import { createPool, HOT, lockStart, prepareSchema, reach, refusalToOpen, refuseUnsuitable } from '../postgres/open.ts';
import { NODE_TABLES } from '../postgres/own-tables.ts';
import { tables as declared } from '../tables.ts';
import { readMark, refusalOf, removeMark, writeMark, type Mark } from './mark.ts';
import { hasTable, migrationsIn } from './schema.ts';
import { CopyRefusal, type CopySide, type CopyTarget, type ExclusiveSource, type Numbers } from './sides.ts';
import { numberOf, type CopiedTable } from './tables.ts';

/** A copy may take hours, so that none of its statements has a limit of time. */
const PATIENT = [
  ...HOT,
  // Pages are read in the order of the key's index.
  'SET enable_sort = off',
  'SET enable_bitmapscan = off',
];
const SNAPSHOT = 'BEGIN ISOLATION LEVEL REPEATABLE READ';

/** Opens one moment of a database, while its server writes on. */
export async function openSnapshot(store: StoreAddress): Promise<CopySide> {
  const address = addressOf(store);
  return await opened(address, async (db) => {
    await db.run(`${SNAPSHOT} READ ONLY`);
    const mark = await readMark(db);
    if (mark !== null) throw refusalOf(mark);
    return sideOf(address, db);
  });
}

/** Opens a database as the source of a move: no server can use it until it is closed. Throws `CopyRefusal` and `DatabaseRefusal`. */
export async function openPostgresSource(store: StoreAddress): Promise<ExclusiveSource> {
  const address = addressOf(store);
  return await opened(address, async (db) => {
    await takeAlone(db);
    const mark = await readMark(db);
    await db.run(SNAPSHOT);
    return {
      ...(await sideOf(address, db)),
      mark,
      async markMoved(moved) {
        await db.run('COMMIT');
        await db.run('BEGIN');
        await writeMark(db, { role: 'moved', ...moved });
        await db.run('COMMIT');
      },
    };
  });
}

async function opened<Side>(address: PostgresAddress, use: (db: PostgresConnection) => Promise<Side>): Promise<Side> {
  const db = createPostgresConnection(() => connectTo(address, { setUp: PATIENT, looksAtPooler: true }), {
    reconnects: false,
  });
  try {
    await reach(db);
    return await use(db);
  } catch (error) {
    await db.close();
    throw refusalToOpen(error) ?? error;
  }
}

/**
 * Waits for the end of servers that are dead, and keeps others from starting until the connection ends. What a dead one has begun can no longer
 * be committed. Throws `DatabaseRefusal` if one lives.
 */
async function takeAlone(db: PostgresConnection): Promise<void> {
  await lockStart(db);
  if (await hasTable(db, 'node_beats'))
    await standAlone({ connection: db, clock: systemClock, machine: readMachine() });
}

async function sideOf(address: PostgresAddress, db: PostgresConnection): Promise<CopySide> {
  const [size] = await db.all<{ bytes: number }>('SELECT pg_database_size(current_database()) AS bytes');
  const reader = readerOf(address);
  return {
    db,
    reader,
    steps: await migrationsIn(db),
    bytes: size?.bytes ?? 0,
    lastNumber: (table) => lastNumber(db, table),
    async close() {
      await reader.destroy();
      await db.close();
    },
  };
}

const readerOf = (address: PostgresAddress) =>
  createPool(address, 1, [
    'SET default_transaction_read_only = on',
    "SET default_transaction_isolation = 'repeatable read'",
  ]);

/** A sequence is not part of a snapshot: it may be further, never behind. */
async function lastNumber(db: Connection, table: CopiedTable): Promise<number> {
  const sequence = await sequenceOf(db, table);
  if (sequence === null) return 0;
  const [row] = await db.all<{ last_value: number; is_called: number }>(
    `SELECT last_value, is_called FROM ${sequence}`,
  );
  return row === undefined || row.is_called === 0 ? 0 : row.last_value;
}

async function sequenceOf(db: Connection, table: CopiedTable): Promise<string | null> {
  const column = numberOf(table);
  if (column === null) return null;
  const [row] = await db.all<{ name: string | null }>('SELECT pg_get_serial_sequence(?, ?) AS name', [
    table.name,
    column,
  ]);
  return row?.name ?? null;
}

/** Opens a database without rows, or with those of a copy that was broken off, as a target. Throws `CopyRefusal` and `DatabaseRefusal`. */
export async function openPostgresTarget(store: StoreAddress): Promise<CopyTarget> {
  const address = addressOf(store);
  return await opened(address, async (db) => {
    await refuseUnsuitable(db);
    await takeAlone(db);
    const mark = await readMark(db);
    if (mark?.role === 'moved') throw refusalOf(mark);
    if (mark !== null) await empty(db);
    const full = await firstWithRows(db);
    if (full !== null)
      throw new CopyRefusal('not_empty', `the database at ${store.url} has rows already (${full}): name an empty one`);
    for (const sql of NODE_TABLES) await db.run(sql);
    await prepareSchema(address, db, {});
    return targetOf(address, db);
  });
}

/** Opens a database that a move filled and did not finish; null if it belongs to another move. */
export async function openFilledDatabase(store: StoreAddress, id: string): Promise<CopyTarget | null> {
  const address = addressOf(store);
  return await opened(address, async (db) => {
    await takeAlone(db);
    const mark = await readMark(db);
    if (mark?.role === 'unfinished' && mark.id === id) return targetOf(address, db);
    await db.close();
    return null;
  });
}

/** Removes the rows of a copy that was broken off. Its mark goes in the same transaction. */
async function empty(db: PostgresConnection): Promise<void> {
  await db.run('BEGIN');
  for (const name of await declaredIn(db)) await db.run(`TRUNCATE ${name} CASCADE`);
  await removeMark(db);
  await db.run('COMMIT');
}

async function firstWithRows(db: Connection): Promise<string | null> {
  for (const name of await declaredIn(db))
    if ((await db.all(`SELECT 1 AS one FROM ${name} LIMIT 1`)).length > 0) return name;
  return null;
}

async function declaredIn(db: Connection): Promise<string[]> {
  const rows = await db.all<{ name: string }>(
    'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()',
  );
  return rows.map(({ name }) => name).filter((name) => name in declared);
}

function targetOf(address: PostgresAddress, db: PostgresConnection): CopyTarget {
  const reader = readerOf(address);
  return {
    db,
    reader,
    begin: (mark: Omit<Mark, 'role'>) => writeMark(db, { role: 'unfinished', ...mark }),
    async fill(tables, copy) {
      const foreign = tables.find(({ name }) => !(name in declared));
      if (foreign !== undefined)
        throw new CopyRefusal('schema', `the table ${foreign.name} is none of Posthorn: remove it first`);
      await db.run('BEGIN');
      const indexes = await indexesOf(db, tables);
      for (const { name } of indexes) await db.run(`DROP INDEX ${name}`);
      const numbers = await copy();
      for (const { sql } of indexes) await db.run(sql);
      await goOnFrom(db, tables, numbers);
      const { tag } = await db.tagOf('COMMIT');
      if (tag !== 'COMMIT')
        throw new CopyRefusal('data', `the rows could not be committed: the database answered ${tag}`);
      // The planner has no figures of the new rows yet.
      for (const { name } of tables) await db.run(`ANALYZE ${name}`);
    },
    finish: () => removeMark(db),
    async close() {
      await reader.destroy();
      await db.close();
    },
  };
}

/** Returns the indexes that are not those of keys. */
async function indexesOf(
  db: Connection,
  tables: readonly CopiedTable[],
): Promise<{ name: string; table: string; sql: string }[]> {
  const rows = await db.all<{ name: string; table: string; sql: string }>(
    `SELECT indexrelid::regclass::text AS name, indrelid::regclass::text AS table, pg_get_indexdef(indexrelid) AS sql
     FROM pg_index WHERE NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
       AND indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)`,
  );
  return rows.filter((row) => tables.some(({ name }) => name === row.table));
}

async function goOnFrom(db: Connection, tables: readonly CopiedTable[], numbers: Numbers): Promise<void> {
  for (const table of tables) {
    const last = numbers.get(table.name) ?? 0;
    const sequence = last === 0 ? null : await sequenceOf(db, table);
    if (sequence !== null) await db.all('SELECT setval(?::text::regclass, ?)', [sequence, last]);
  }
}
