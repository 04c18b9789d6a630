/**
 * Who is behind an API key. On the path of every request, so answers are kept in memory: for one second, since a command
 * may revoke a key on the database itself, and shorter where this process changes the key. Uses are noted by key-uses.ts.
 */
import type { Clock } from '../base/clock.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { equalInConstantTime, sha256Hex } from '../base/secret.ts';
import type { Database } from '../storage/database.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import type { Authenticate, Authentication, Caller } from './caller.ts';
import { parseKey } from './key-format.ts';
import { createUseNotes } from './key-uses.ts';

export interface Callers {
  authenticate: Authenticate;
  /** The caller of a key by its id, or null: for who was let in without showing it. */
  byId(keyId: string): Promise<Caller | null>;
  /** Notes a use, of an endpoint such as `POST /v1/messages`; it is written within two seconds. */
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** The key with this public id has changed. */
  forget(publicId: string): void;
  /** Writes the uses that are not written yet. */
  close(): Promise<void>;
}

const MOST_CACHED = 10_000;
const FRESH_MS = 1000;

const unknown: Promise<Authentication> = Promise.resolve({ kind: 'unknown' });

/** `report` hears of uses that could not be noted; they are tried again. */
export function createCallers(deps: {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
  report: (error: unknown) => void;
}): Callers {
  const cache = createLookUpCache<Known | null>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (known) => known !== null },
    (publicId, before) => load(deps.db, publicId, before ?? null),
  );
  const uses = createUseNotes(deps);

  return {
    async authenticate(token) {
      const parsed = parseKey(token);
      if (parsed.kind === 'bad') return unknown;
      const known = await cache.get(parsed.publicId);
      if (known === null || !equalInConstantTime(sha256Hex(token), known.row.hash)) return unknown;
      return known.found;
    },
    async byId(keyId) {
      const [row] = await deps.db.prepared.all<Pick<ApiKeyRow, 'public_id'>>(
        'SELECT public_id FROM api_keys WHERE id = ?',
        [keyId],
      );
      const known = row === undefined ? null : await cache.get(row.public_id);
      return known?.found.kind === 'found' ? known.found.caller : null;
    },
    noteUse(keyId, ip, endpoint) {
      uses.note(keyId, ip, endpoint);
    },
    forget(publicId) {
      cache.forget(publicId);
    },
    close: () => uses.close(),
  };
}

type KnownRow = Pick<
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

interface Known {
  row: KnownRow;
  found: Authentication;
}

const findByPublicId = `
  SELECT k.id, k.account_id, k.name, k.mode, k.hash, k.scopes_json, k.domains_json, k.allowed_ips_json, k.expires_at, k.revoked_at,
    a.plan, a.paused FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.public_id = ?`;

async function load(db: Pick<Database, 'prepared'>, publicId: string, before: Known | null): Promise<Known | null> {
  const [row] = await db.prepared.all<KnownRow>(findByPublicId, [publicId]);
  if (row === undefined) return null;
  // An unchanged key keeps its caller: what others have built from its lists stays good.
  if (before !== null && isSame(before.row, row)) return before;
  return { row, found: { kind: 'found', caller: toCaller(row) } };
}

function isSame(a: KnownRow, b: KnownRow): boolean {
  return (Object.keys(a) as (keyof KnownRow)[]).every((column) => a[column] === b[column]);
}

function toCaller(row: KnownRow): Caller {
  return {
    accountId: row.account_id,
    keyId: row.id,
    keyName: row.name,
    mode: row.mode,
    scopes: JSON.parse(row.scopes_json) as string[],
    domains: JSON.parse(row.domains_json) as string[],
    allowedIps: JSON.parse(row.allowed_ips_json) as string[],
    plan: row.plan,
    paused: row.paused === 1,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  };
}
