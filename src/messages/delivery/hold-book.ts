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

/** The properties of a mail that a hold can name. */
export interface MailFacts {
  accountId: string;
  stream: string;
  /** The sending domain. */
  fromDomain: string;
  /** The recipient's domain. */
  domain: string;
  messageId: string;
  createdAt: number;
}

/** The limits that the operator set for a lane; null where none is set. */
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
  const rows = new Map<string, HoldRow>();
  /** Rows by scope and target. */
  const index = new Map<string, HoldRow[]>();
  /** Grows with each change by this node: a reading that began before it is out of date. */
  let version = 0;

  const isInForce = (row: HoldRow): boolean => row.until === null || row.until > clock.now();

  function put(row: HoldRow): void {
    drop(row.id);
    rows.set(row.id, row);
    const key = keyOf(row);
    index.set(key, [...(index.get(key) ?? []), row]);
  }

  function drop(id: string): void {
    const row = rows.get(id);
    if (row === undefined) return;
    rows.delete(id);
    const left = (index.get(keyOf(row)) ?? []).filter((other) => other.id !== id);
    if (left.length > 0) index.set(keyOf(row), left);
    else index.delete(keyOf(row));
  }

  const inForce = (key: string): readonly HoldRow[] => (index.get(key) ?? []).filter(isInForce);

  return {
    /**
     * Reads all rows: before any question, and again where other nodes may have changed them. Rows never change, they come and go. Resolves
     * with true if they are others than before.
     */
    async load(): Promise<boolean> {
      for (;;) {
        const before = version;
        const found = await db.prepared.all<HoldRow>('SELECT * FROM holds ORDER BY id');
        if (version !== before) continue;
        const ids = new Set(found.map(({ id }) => id));
        const gone = [...rows.keys()].filter((id) => !ids.has(id));
        const added = found.filter(({ id }) => !rows.has(id));
        for (const id of gone) drop(id);
        for (const row of added) put(row);
        return gone.length + added.length > 0;
      }
    },
    /** Returns the hold on this mail, or null. */
    find(mail: MailFacts): HoldRow | null {
      if (index.size === 0) return null;
      for (const key of keysOf(mail)) {
        const found = inForce(key).find((row) => row.catches_new === 1 || mail.createdAt <= row.created_at);
        if (found !== undefined) return found;
      }
      return null;
    },
    /** Returns the hold of a lane, or null. It holds the whole lane, later mail as well. */
    ofLane: (lane: string): HoldRow | null => inForce(`hold lane ${lane}`)[0] ?? null,
    /** Returns the pause of a source, or null. */
    ofSource: (source: string): HoldRow | null => inForce(`hold source ${source}`)[0] ?? null,
    limitsOf(lane: string): LaneLimits | null {
      const row = inForce(`limit lane ${lane}`).at(-1);
      if (row === undefined) return null;
      const { connections, per_minute: perMinute, until, created_at: since, note } = row;
      return { connections, perMinute, until, since, note };
    },
    /** Returns whether a hold with this id is in force. */
    stands(id: string): boolean {
      const row = rows.get(id);
      return row !== undefined && isInForce(row);
    },
    /** Returns all rows in force, oldest first. */
    list: (): HoldRow[] => [...rows.values()].filter(isInForce),
    /** Writes a hold together with `rows`. A limit replaces the lane's last one. Throws `invalid_state` if there are too many. */
    async add(row: HoldRow, others: Rows = {}): Promise<void> {
      const over = [...rows.values()].filter((one) => !isInForce(one)).map(({ id }) => id);
      if (rows.size - over.length >= MOST_HOLDS)
        throw new Problem('invalid_state', `There are ${String(MOST_HOLDS)} holds already. Release some first.`);
      const before = row.kind === 'limit' ? (index.get(keyOf(row)) ?? []).map(({ id }) => id) : [];
      const gone = [...over, ...before];
      await db.commit.transact(async (tx) => {
        if (gone.length > 0) await tx.run(removal, [JSON.stringify(gone)]);
        // Another node may have set one that is not in memory here yet.
        if (row.kind === 'limit')
          await tx.run("DELETE FROM holds WHERE kind = 'limit' AND scope = ? AND target = ?", [row.scope, row.target]);
        await insertRows(tx, [{ holds: [row] }, others]);
      });
      version += 1;
      for (const id of gone) drop(id);
      put(row);
      changed();
    },
    /** Ends these holds, together with `rows`. */
    async end(ids: readonly string[], others: Rows = {}): Promise<void> {
      await db.commit.transact(async (tx) => {
        await tx.run(removal, [JSON.stringify(ids)]);
        await insertRows(tx, [others]);
      });
      version += 1;
      for (const id of ids) drop(id);
      changed();
    },
  };
}

export type HoldBook = ReturnType<typeof createHoldBook>;

const keyOf = ({ kind, scope, target, account_id: account }: HoldRow): string =>
  scope === 'stream' ? `${kind} stream ${account ?? ''} ${target}` : `${kind} ${scope} ${target}`;

/** Returns the keys under which a hold on this mail can be, the narrowest first. */
const keysOf = ({ messageId, accountId, stream, domain }: MailFacts): string[] => [
  `hold message ${messageId}`,
  `hold stream ${accountId} ${stream}`,
  `hold domain ${domain}`,
  `hold account ${accountId}`,
];
