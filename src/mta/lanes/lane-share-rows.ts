/**
 * The rows of `lanes`: what each node has reserved of the receivers that several nodes send to (storage/postgres/own-tables.ts). Only
 * PostgreSQL has this table.
 */
import type { Connection } from '../../storage/connection.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import { statement } from '../../storage/sql.ts';
import { integer, orNull, text } from '../../storage/table.ts';
import type { LaneClaim } from './lane-shares.ts';
import type { Learnt } from './throttle.ts';

/** A row with what its node has learnt of the receiver. */
export interface LaneRow extends LaneClaim {
  readonly lane: string;
  readonly learnt: Learnt;
}

/** The name of the row that says: this node has rows for all lanes of which it has more than one connection. */
const ANNOUNCED = '';

interface StoredRow extends LaneClaim {
  lane: string;
  learnt: number;
  ceiling: number | null;
  pushed_back_at: number | null;
  cause: string;
}

const columns = 'lane, epoch, demand, connections, allowed, learnt, ceiling, pushed_back_at, cause';

const rowsOfOthers = statement(
  ({ among }) => `SELECT ${columns} FROM lanes WHERE epoch <> ? AND lane ${among('text')} ORDER BY lane, epoch`,
);

const ownRows = rowsParameter({
  lane: text(),
  epoch: integer(),
  demand: integer(),
  connections: integer(),
  allowed: integer(),
  learnt: integer(),
  ceiling: orNull(integer()),
  pushed_back_at: orNull(integer()),
  cause: text(),
});

const upsert = statement(
  (sql) => `INSERT INTO lanes (${columns}) SELECT ${columns} FROM ${ownRows.table(sql, 'j')} WHERE true
   ON CONFLICT (lane, epoch) DO UPDATE SET demand = excluded.demand, connections = excluded.connections,
     allowed = excluded.allowed, learnt = excluded.learnt, ceiling = excluded.ceiling,
     pushed_back_at = excluded.pushed_back_at, cause = excluded.cause`,
);

const removal = statement(({ among }) => `DELETE FROM lanes WHERE epoch = ? AND lane ${among('text')}`);

/** Reads what the other nodes have reserved of these lanes. */
export async function readOthers(tx: Connection, epoch: number, lanes: readonly string[]): Promise<LaneRow[]> {
  if (lanes.length === 0) return [];
  const rows = await tx.all<StoredRow>(rowsOfOthers, [epoch, JSON.stringify(lanes)]);
  return rows.map(({ learnt, ceiling, pushed_back_at: halvedAt, cause, ...row }) => ({
    ...row,
    learnt: { limit: learnt, ceiling, halvedAt, cause },
  }));
}

/** Returns whether every other server has announced its lanes. While one has not, it may use any number of connections. */
export async function haveOthersAnnounced(tx: Connection, epoch: number): Promise<boolean> {
  const missing = await tx.all(
    `SELECT 1 FROM nodes n WHERE NOT n.is_command AND n.epoch <> ?
       AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.lane = ? AND l.epoch = n.epoch) LIMIT 1`,
    [epoch, ANNOUNCED],
  );
  return missing.length === 0;
}

/** Writes the rows of this node, and removes those of lanes that need none any more. */
export async function writeOwn(tx: Connection, epoch: number, rows: readonly LaneRow[], gone: readonly string[]) {
  if (gone.length > 0) await tx.run(removal, [epoch, JSON.stringify(gone)]);
  if (rows.length === 0) return;
  const own = rows.map(({ learnt: { limit, ceiling, halvedAt, cause }, ...claim }) => ({
    ...claim,
    epoch,
    learnt: limit,
    ceiling,
    pushed_back_at: halvedAt,
    cause,
  }));
  await tx.run(upsert, [ownRows.json(own)]);
}

/** Notes that all lanes of this node have their rows. */
export const announce = (tx: Connection, epoch: number): Promise<void> =>
  tx.run(
    `INSERT INTO lanes (lane, epoch, demand, connections, allowed, learnt, cause) VALUES (?, ?, 0, 0, 0, 0, '')
     ON CONFLICT DO NOTHING`,
    [ANNOUNCED, epoch],
  );

/**
 * Removes all rows of this node where it is alone; returns false where it is not. It reads the rows of others so that the database
 * sees the conflict with one that joins at the same time and counts on these rows.
 */
export async function withdraw(tx: Connection, epoch: number): Promise<boolean> {
  const servers = await tx.all('SELECT 1 FROM nodes WHERE NOT is_command AND epoch <> ? LIMIT 1', [epoch]);
  const rows = await tx.all('SELECT 1 FROM lanes WHERE epoch <> ? LIMIT 1', [epoch]);
  if (servers.length > 0 || rows.length > 0) return false;
  await tx.run('DELETE FROM lanes WHERE epoch = ?', [epoch]);
  return true;
}
