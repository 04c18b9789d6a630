/**
 * Finds the caller of an API key. Every request asks, so answers are kept in memory for one second, since a command may revoke
 * a key in the database, and less if this process changes the key.
 */
import { createLookUpCache } from '../base/look-up-cache.ts';
import { equalInConstantTime, sha256Hex } from '../base/secret.ts';
import { permissionsOf, type Authentication, type Caller } from './caller.ts';
import { parseKey } from './key-format.ts';
import type { Timer } from '../base/clock.ts';
import type { Work } from '../storage/commit.ts';
import type { Database, StoreDeps } from '../storage/database.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { statement } from '../storage/sql.ts';
import { integer, text } from '../storage/table.ts';
import { HOUR_MS } from '../base/time.ts';

const MOST_CACHED = 10_000;
/** The time after which every node knows of a change of a key, in milliseconds, also if it was not told. */
export const KEY_FRESH_MS = 1000;

const unknown: Promise<Authentication> = Promise.resolve({ kind: 'unknown' });

export function createCallers(deps: StoreDeps & { report: (error: unknown) => void }) {
  const cache = createLookUpCache<CachedKey | null>(
    deps,
    { max: MOST_CACHED, freshMs: KEY_FRESH_MS, keep: (cached) => cached !== null },
    (publicId, before) => load(deps.db, publicId, before ?? null),
  );
  const uses = createUseRecorder(deps);
  /** Those of the keys that were asked for by id: only the setting names one so. They never change. */
  const publicIds = new Map<string, string>();

  return {
    authenticate: async (token: string): Promise<Authentication> => {
      const parsed = parseKey(token);
      if (parsed.kind === 'bad') return unknown;
      const cached = await cache.get(parsed.publicId);
      if (cached === null || !equalInConstantTime(sha256Hex(token), cached.row.hash)) return unknown;
      return cached.found;
    },
    /** Returns the caller of a key by its id, or null: for connections that were authenticated before. */
    async byId(keyId: string): Promise<Caller | null> {
      const publicId = publicIds.get(keyId) ?? (await readPublicId(deps.db, keyId));
      if (publicId === undefined) return null;
      publicIds.set(keyId, publicId);
      const cached = await cache.get(publicId);
      return cached?.found.kind === 'found' ? cached.found.caller : null;
    },
    /** Records a use of an endpoint such as `POST /v1/messages`; it is written within two seconds. */
    recordUse(keyId: string, ip: string, endpoint: string): void {
      uses.record(keyId, ip, endpoint);
    },
    /** Must be called when the key with this public id changes. */
    forget(publicId: string): void {
      cache.forget(publicId);
    },
    close: (): Promise<void> => uses.close(),
  };
}

export type Callers = ReturnType<typeof createCallers>;

type KeyRow = Pick<
  ApiKeyRow,
  | 'id'
  | 'account_id'
  | 'name'
  | 'mode'
  | 'hash'
  | 'scopes_json'
  | 'domains_json'
  | 'allowed_ips_json'
  | 'expires_at'
  | 'revoked_at'
> & { plan: string; paused: number };

interface CachedKey {
  row: KeyRow;
  found: Authentication;
}

const findByPublicId = `
  SELECT k.id, k.account_id, k.name, k.mode, k.hash, k.scopes_json, k.domains_json, k.allowed_ips_json, k.expires_at, k.revoked_at,
    a.plan, a.paused FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.public_id = ?`;

async function readPublicId(db: Database, keyId: string): Promise<string | undefined> {
  const sql = 'SELECT public_id FROM api_keys WHERE id = ?';
  const [row] = await db.prepared.all<Pick<ApiKeyRow, 'public_id'>>(sql, [keyId]);
  return row?.public_id;
}

async function load(db: Database, publicId: string, before: CachedKey | null): Promise<CachedKey | null> {
  const [row] = await db.prepared.all<KeyRow>(findByPublicId, [publicId]);
  if (row === undefined) return null;
  // An unchanged key keeps its caller, and so what others have built from its lists.
  if (before !== null && isSame(before.row, row)) return before;
  return { row, found: { kind: 'found', caller: toCaller(row) } };
}

function isSame(a: KeyRow, b: KeyRow): boolean {
  return (Object.keys(a) as (keyof KeyRow)[]).every((column) => a[column] === b[column]);
}

function toCaller(row: KeyRow): Caller {
  return {
    accountId: row.account_id,
    keyId: row.id,
    keyName: row.name,
    mode: row.mode,
    ...permissionsOf(row),
    plan: row.plan,
    paused: row.paused === 1,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  };
}

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
export function createUseRecorder({ db, clock, report }: StoreDeps & { report: (error: unknown) => void }) {
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
    async close(): Promise<void> {
      timer?.cancel();
      await write();
    },
  };
}
