/**
 * Records the uses of keys: the last one with its address and endpoint, and the number in each hour of the last day. Uses are
 * collected in memory and written in batches, so that a key costs one row in two seconds however busy it is.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Work } from '../storage/commit.ts';
import type { Database } from '../storage/database.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { statement } from '../storage/sql.ts';
import { integer, text } from '../storage/table.ts';
import { HOUR_MS } from '../base/time.ts';

/** The longest time until a use is written, in milliseconds. */
const WRITE_DELAY_MS = 2000;
/** Hours that are kept: the present one and those before it for a day. */
const HOURS_KEPT = 24;

interface Use {
  at: number;
  ip: string;
  endpoint: string;
  /** Uses by the hour since the epoch. */
  hours: Map<number, number>;
}
type Uses = Map<string, Use>;

const hourOf = (at: number): number => Math.floor(at / HOUR_MS);

const readHours = (json: string): Map<number, number> => new Map(JSON.parse(json) as [number, number][]);

/** Returns the uses in the 24 hours up to `now`, counted by whole hours. */
export function usesIn(json: string, now: number): number {
  const first = hourOf(now) - HOURS_KEPT;
  return [...readHours(json)].reduce((sum, [hour, n]) => (hour > first ? sum + n : sum), 0);
}

function add(to: Map<number, number>, more: ReadonlyMap<number, number>): void {
  for (const [hour, n] of more) to.set(hour, (to.get(hour) ?? 0) + n);
}

/** Returns the hours of a row with those of a use, without hours more than a day before it. */
function hoursAfter(json: string, { at, hours }: Use): string {
  const all = readHours(json);
  add(all, hours);
  const first = hourOf(at) - HOURS_KEPT;
  return JSON.stringify([...all].filter(([hour]) => hour > first));
}

const newUses = rowsParameter({ id: text(), at: integer(), ip: text(), endpoint: text(), hours: text() });

const writeUses = statement(
  (
    sql,
  ) => `UPDATE api_keys SET last_used_at = u.at, last_used_ip = u.ip, last_used_endpoint = u.endpoint, uses_json = u.hours
    FROM ${newUses.table(sql, 'u')} WHERE api_keys.id = u.id`,
);

/** Locks what is read: other nodes add their uses to the same keys. */
const readUses = statement(
  ({ among, locked }) => `SELECT id, uses_json FROM api_keys WHERE id ${among('text')} ${locked('id', 'api_keys')}`,
);

const useWork: Work<Uses, undefined> = {
  name: 'key-use',
  async run(tx, inputs) {
    const all = inputs.flatMap((uses) => [...uses]);
    const ids = JSON.stringify(all.map(([id]) => id));
    const rows = await tx.all<Pick<ApiKeyRow, 'id' | 'uses_json'>>(readUses, [ids]);
    const before = new Map(rows.map(({ id, uses_json: hours }) => [id, hours]));
    for (const [id, use] of all) before.set(id, hoursAfter(before.get(id) ?? '[]', use));
    const uses = all.map(([id, { at, ip, endpoint }]) => ({ id, at, ip, endpoint, hours: before.get(id) ?? '[]' }));
    await tx.run(writeUses, [newUses.json(uses)]);
    return inputs.map(() => undefined);
  },
};

/** `report` gets errors of writing uses, which is tried again. At most one use per key waits. */
export function createUseRecorder({
  db,
  clock,
  report,
}: {
  db: Pick<Database, 'commit'>;
  clock: Clock;
  report: (error: unknown) => void;
}) {
  let waiting: Uses = new Map();
  let timer: Timer | null = null;

  async function write(): Promise<void> {
    const uses = waiting;
    waiting = new Map();
    timer = null;
    try {
      if (uses.size > 0) await db.commit.submit(useWork, uses, 256 * uses.size);
    } catch (error) {
      for (const [id, use] of uses) restore(id, use);
      report(error);
    }
  }

  /** Adds the counts again; a later use keeps its newer time and address. */
  function restore(id: string, use: Use): void {
    const since = waiting.get(id);
    if (since === undefined) waiting.set(id, use);
    else add(since.hours, use.hours);
  }

  return {
    record(keyId: string, ip: string, endpoint: string): void {
      const at = clock.now();
      const hours = waiting.get(keyId)?.hours ?? new Map<number, number>();
      hours.set(hourOf(at), (hours.get(hourOf(at)) ?? 0) + 1);
      waiting.set(keyId, { at, ip, endpoint, hours });
      timer ??= clock.after(WRITE_DELAY_MS, () => void write(), { background: true });
    },
    /** Writes the uses that are not written yet. */
    async close(): Promise<void> {
      timer?.cancel();
      await write();
    },
  };
}
