/** The things that only PostgreSQL has beside the migrations' schema: the servers' tables, the turn of events, a part in keys of sums. */
import { type TableName, optionsOf, tables } from '../tables.ts';
import type { Connection } from '../connection.ts';

/**
 * - `nodes`: the servers and commands that may write, each with the epoch of its run. Removing a row waits for that server's open
 *   transactions and makes every later one fail. It hardly ever changes; the signs of life are rows of `node_beats`.
 * - `commits`: the marker of each transaction (writer.ts).
 * - `node_figures`: what each node shows to the others (operator/node-figures.ts).
 * - `lane_nodes`: which nodes have mail for which lanes, so that each has its part of the limits (mta/lanes/node-parts.ts).
 * - `event_turn`: one row, which a transaction locks before it numbers events, so that numbers become visible in their order.
 */
export const NODE_TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS nodes (
    epoch BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    facts TEXT COLLATE "C" NOT NULL,
    is_command BOOLEAN NOT NULL,
    is_draining BOOLEAN NOT NULL DEFAULT false,
    begun_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
  )`,
  `CREATE TABLE IF NOT EXISTS node_beats (
    epoch BIGINT PRIMARY KEY REFERENCES nodes (epoch) ON DELETE CASCADE,
    at TIMESTAMPTZ NOT NULL
  )`,
  `CREATE TABLE IF NOT EXISTS commits (
    epoch BIGINT NOT NULL REFERENCES nodes (epoch) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    PRIMARY KEY (epoch, n)
  )`,
  `CREATE TABLE IF NOT EXISTS node_figures (
    epoch BIGINT NOT NULL REFERENCES nodes (epoch) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (epoch, name, key)
  )`,
  `CREATE TABLE IF NOT EXISTS lane_nodes (
    lane TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL REFERENCES nodes (epoch) ON DELETE CASCADE,
    PRIMARY KEY (lane, epoch)
  )`,
  'CREATE TABLE IF NOT EXISTS event_turn (one BIGINT PRIMARY KEY)',
  'INSERT INTO event_turn (one) VALUES (1) ON CONFLICT DO NOTHING',
];

export const OWN_TABLES = ['nodes', 'node_beats', 'node_figures', 'lane_nodes', 'commits', 'event_turn'] as const;

/** Tables whose rows change all the time: dead rows are cleared early and without pauses, or windows of due mail become slow. */
const BUSY: readonly string[] = [
  'deliveries',
  'messages',
  'counters',
  'event_counts',
  'commits',
  'lane_nodes',
  'node_figures',
  'webhooks',
];
const VACUUM = 'autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0';

/** The index of the runs of events of an account and type. PostgreSQL would read and sort the whole run for each page; SQLite has it in order. */
const EVENT_RUNS = 'CREATE INDEX events_by_account ON events (account_id, test, type, sequence)';

export async function completeSchema(connection: Connection): Promise<void> {
  for (const name of Object.keys(tables) as TableName[]) if (isParted(name)) await addPart(connection, name);
  await orderEventRuns(connection);
  const set = await connection.all<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND 'autovacuum_vacuum_scale_factor=0.02' = ANY (reloptions)`,
  );
  const done = new Set(set.map(({ name }) => name));
  for (const name of BUSY) if (!done.has(name)) await connection.run(`ALTER TABLE ${name} SET (${VACUUM})`);
}

async function addPart(connection: Connection, name: TableName): Promise<void> {
  const [found] = await connection.all(
    'SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ? AND column_name = ?',
    [name, PART],
  );
  if (found !== undefined) return;
  const [key] = await connection.all<{ name: string; columns: string }>(
    `SELECT conname AS name, pg_get_constraintdef(oid) AS columns FROM pg_constraint WHERE conrelid = ?::regclass AND contype = 'p'`,
    [name],
  );
  if (key === undefined) throw new Error(`${name} has no primary key`);
  await connection.run(
    `ALTER TABLE ${name} ADD COLUMN ${PART} BIGINT NOT NULL DEFAULT 0, DROP CONSTRAINT ${key.name},
       ADD ${key.columns.replace(/\)$/, `, ${PART})`)}`,
  );
}

async function orderEventRuns(connection: Connection): Promise<void> {
  const [index] = await connection.all<{ columns: number }>(
    "SELECT indnatts AS columns FROM pg_index WHERE indexrelid = to_regclass('events_by_account')",
  );
  if (index?.columns === 4) return;
  await connection.run('DROP INDEX IF EXISTS events_by_account');
  await connection.run(EVENT_RUNS);
}

/** The column of the part in the keys of these tables: their rows are sums, which readers add up. */
export const PART = 'part';

export const isParted = (name: TableName): boolean => optionsOf(name).isParted === true;

/** Nodes whose sums are apart, and the writers of each. */
const MOST_NODES = 16;
const MOST_WRITERS = 4;

/** Returns the part that a writer of a node adds to, so that no two wait for the same row. */
export const partOf = (epoch: number, writer: number): number => (epoch % MOST_NODES) * MOST_WRITERS + writer;
