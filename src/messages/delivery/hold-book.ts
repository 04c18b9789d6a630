/**
 * The operator's holds and lane limits: rows in the table `holds`, so that they survive a restart, all kept in memory, because
 * every mail asks. A row that has ended has no effect; the next `add` removes it. Rows of other nodes come by `load`.
 */
import type { Clock } from '../../base/clock.ts';
import { Problem } from '../../base/problem.ts';
import type { Database } from '../../storage/database.ts';
import { insertRows, type Rows } from '../../storage/rows.ts';
import type { HoldRow } from '../../storage/tables.ts';
import { statement } from '../../storage/sql.ts';
import { HoldIndex, isOfAll, isOfPart, keyOf, keysOf, type MailFacts } from './hold-index.ts';

/** The limits that the operator set for a lane; null if none is set. */
export interface LaneLimits {
  connections: number | null;
  perMinute: number | null;
  until: number | null;
  since: number;
  /** The operator's note. */
  note: string | null;
}

/** Rows at once: all are in memory, and an operator must be able to look through them. */
const MOST_HOLDS = 10_000;

const removal = statement(({ among }) => `DELETE FROM holds WHERE id ${among('text')}`);

/** `changed` is called when other holds are in force. */
export function createHoldBook(deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; changed: () => void }) {
  const { db, clock, changed } = deps;
  const index = new HoldIndex();
  /** Grows with each change by this node: a reading that began before it is out of date. */
  let version = 0;

  const isInForce = (row: HoldRow): boolean => row.until === null || row.until > clock.now();
  const inForce = (key: string): readonly HoldRow[] => index.at(key).filter(isInForce);

  return {
    /**
     * Reads all rows: before any question, and again if other nodes may have changed them. Rows never change, they come and go. Resolves
     * with true if they are others than before.
     */
    async load(): Promise<boolean> {
      for (;;) {
        const before = version;
        const found = await db.prepared.all<HoldRow>('SELECT * FROM holds ORDER BY id');
        if (version === before) return index.replaceAll(found);
      }
    },
    /** Returns the hold on this mail, or null. */
    find(mail: MailFacts): HoldRow | null {
      if (index.isEmpty) return null;
      for (const key of keysOf(mail)) {
        const found = inForce(key).find(
          (row) => (row.catches_new === 1 || mail.createdAt <= row.created_at) && isOfPart(mail, row),
        );
        if (found !== undefined) return found;
      }
      return null;
    },
    /** Returns the hold of a lane, or null. It holds the whole lane, later mail as well. */
    ofLane: (lane: string): HoldRow | null => inForce(`hold lane ${lane}`)[0] ?? null,
    /** Returns the hold on all mail to a recipient domain, which may let later mail go; or null. */
    ofDomain: (domain: string): HoldRow | null =>
      [...inForce(`hold domain ${domain}`).filter(isOfAll), ...inForce('hold all ')][0] ?? null,
    /** Returns the pause of a source, or null. */
    ofSource: (source: string): HoldRow | null => inForce(`hold source ${source}`)[0] ?? null,
    limitsOf(lane: string): LaneLimits | null {
      const row = inForce(`limit lane ${lane}`).at(-1);
      if (row === undefined) return null;
      const { connections, per_minute: perMinute, until, created_at: since, note } = row;
      return { connections, perMinute, until, since, note };
    },
    /** Returns whether a hold with this id is in force. */
    has(id: string): boolean {
      const row = index.get(id);
      return row !== undefined && isInForce(row);
    },
    /** Returns all rows in force, oldest first. */
    list: (): HoldRow[] => index.all().filter(isInForce),
    /** Writes a hold, in one transaction with `others`. A limit replaces the lane's last one. Throws `invalid_state` if there are too many. */
    async add(row: HoldRow, others: Rows = {}): Promise<void> {
      const all = index.all();
      const expired = all.filter((one) => !isInForce(one));
      if (all.length - expired.length >= MOST_HOLDS)
        throw new Problem('invalid_state', `There are ${String(MOST_HOLDS)} holds already. Release some first.`);
      const replaced = row.kind === 'limit' ? index.at(keyOf(row)) : [];
      const gone = [...expired, ...replaced].map(({ id }) => id);
      await db.commit.transact(async (tx) => {
        if (gone.length > 0) await tx.run(removal, [JSON.stringify(gone)]);
        // Another node may have set one that is not in memory here yet.
        if (row.kind === 'limit')
          await tx.run("DELETE FROM holds WHERE kind = 'limit' AND scope = ? AND target = ?", [row.scope, row.target]);
        await insertRows(tx, [{ holds: [row] }, others]);
      });
      version += 1;
      index.drop(gone);
      index.put(row);
      changed();
    },
    /** Ends these holds, in one transaction with `others`. */
    async end(ids: readonly string[], others: Rows = {}): Promise<void> {
      await db.commit.transact(async (tx) => {
        await tx.run(removal, [JSON.stringify(ids)]);
        await insertRows(tx, [others]);
      });
      version += 1;
      index.drop(ids);
      changed();
    },
  };
}

export type HoldBook = ReturnType<typeof createHoldBook>;
