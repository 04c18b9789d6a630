/**
 * Finds the caller of an API key. Every request asks, so answers are kept in memory for one second, since a command may revoke
 * a key in the database, and less if this process changes the key. Uses are recorded by key-uses.ts.
 */
import type { Clock } from '../base/clock.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { equalInConstantTime, sha256Hex } from '../base/secret.ts';
import type { Database } from '../storage/database.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import { permissionsOf, type Authentication, type Caller } from './caller.ts';
import { parseKey } from './key-format.ts';
import { createUseRecorder } from './key-uses.ts';

const MOST_CACHED = 10_000;
/** The time after which every node knows of a change of a key, in milliseconds, also if it was not told. */
export const KEY_FRESH_MS = 1000;

const unknown: Promise<Authentication> = Promise.resolve({ kind: 'unknown' });

/** `report` gets errors of writing uses, which is tried again. */
export function createCallers(deps: {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
  report: (error: unknown) => void;
}) {
  const cache = createLookUpCache<CachedKey | null>(
    deps,
    { max: MOST_CACHED, freshMs: KEY_FRESH_MS, keep: (cached) => cached !== null },
    (publicId, before) => load(deps.db, publicId, before ?? null),
  );
  const uses = createUseRecorder(deps);

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
      const [row] = await deps.db.prepared.all<Pick<ApiKeyRow, 'public_id'>>(
        'SELECT public_id FROM api_keys WHERE id = ?',
        [keyId],
      );
      const cached = row === undefined ? null : await cache.get(row.public_id);
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
    /** Writes the uses that are not written yet. */
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

async function load(
  db: Pick<Database, 'prepared'>,
  publicId: string,
  before: CachedKey | null,
): Promise<CachedKey | null> {
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
