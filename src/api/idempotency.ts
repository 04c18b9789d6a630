/**
 * Idempotency-Key (IETF draft httpapi-idempotency-key-header): the second request with a key gets the first one's answer.
 *
 * A map of keys in flight, then a look-up, then the work. The record is written in the transaction that does the work, so
 * there is no lease to expire and no double send after a crash; what the handler did not write is stored here, after it.
 * A temporary answer (429, 5xx) releases the key.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Caller } from '../keys/caller.ts';
import { mayManage } from '../keys/grant.ts';
import type { toKeyRecord } from '../keys/key-store.ts';
import type { KeyRequest } from '../keys/new-key.ts';
import { scopeAllows, scopeChallenge } from '../keys/scopes.ts';
import type { Answer } from './answer.ts';
import { KEEP_MS } from '../storage/idempotency-store.ts';
import type { IdempotencyRow } from '../storage/tables.ts';

/** How long a second request with the same key waits for the first to finish, in milliseconds. */
export const WAIT_MS = 25_000;

export { KEEP_MS, recordKey } from '../storage/idempotency-store.ts';
export type { IdempotencyRow } from '../storage/tables.ts';

type KeyRecord = ReturnType<typeof toKeyRecord>;

export interface IdempotencyStore {
  /** The row that has not expired at this moment, or null. */
  find(key: string): Promise<IdempotencyRow | null>;
  /** Returns the domains that the messages of a bulk send are from. */
  sendingDomains(batchId: string): Promise<readonly string[]>;
  /** Writes a row in place of an expired one with the same key. */
  insert(row: IdempotencyRow): Promise<void>;
}

export interface IdempotencySettings {
  store: IdempotencyStore;
  /** The answer to a repeated key with another body: the first answer again, or 409. */
  onMismatch: 'replay' | 'error';
}

/** A request's use of a key. */
export interface IdempotencyUse {
  recordKey: string;
  /** The value that the caller sent; it is never stored. */
  value: string;
  /** The API key that the request came with. */
  keyId: string;
  bodyHash(): string;
  /** The row a handler has taken and written with its work, or null. */
  written: IdempotencyRow | null;
}

/** The key in the header, or null without one: visible ASCII, bare or as a structured-field string. Throws `invalid_idempotency_key`. */
export function idempotencyKey(header: string | undefined): string | null {
  if (header === undefined) return null;
  const quoted = /^"(.*)"$/.exec(header)?.[1];
  const key = quoted === undefined ? header : unquoted(quoted);
  if (key !== null && /^[!-~]{1,255}$/.test(key)) return key;
  throw new Problem(
    'invalid_idempotency_key',
    'The Idempotency-Key must be 1 to 255 visible ASCII characters; a UUIDv4 does best.',
    { field: 'Idempotency-Key' },
  );
}

/** RFC 9651 section 3.3.3: within the quotes, only quotes and backslashes are escaped, and they always are. */
function unquoted(text: string): string | null {
  return /^(?:[^"\\]|\\["\\])*$/.test(text) ? text.replace(/\\(["\\])/g, '$1') : null;
}

/** The row for an answer, or null for one that releases the key. `secret`: the body is sealed under the caller's key. */
export function rowFor(use: IdempotencyUse, answer: Answer, now: number, secret: boolean): IdempotencyRow | null {
  const { status, headers, body } = answer;
  if (status === 429 || status >= 500 || body instanceof Readable) return null;
  // A long list was serialized to bytes.
  const text = body.toString();
  return {
    key: use.recordKey,
    body_hash: use.bodyHash(),
    status,
    headers_json: JSON.stringify(headers),
    body: secret ? seal(use, text) : text,
    created_at: now,
    expires_at: now + KEEP_MS,
    key_id: use.keyId,
  };
}

/**
 * Returns the first answer again: same status, same bytes. Headers say that it is repeated and when it was first given; with a
 * refusal they also say how to try again, since its reason may be gone by now.
 */
export function replayOf(
  use: IdempotencyUse,
  row: IdempotencyRow,
  onMismatch: IdempotencySettings['onMismatch'],
): Answer & { body: string } {
  const isMismatch = row.body_hash !== use.bodyHash();
  if (isMismatch && onMismatch === 'error') {
    throw new Problem('idempotency_key_reused', 'This Idempotency-Key was used with another body.', {
      field: 'Idempotency-Key',
    });
  }
  return {
    status: row.status,
    code: null,
    headers: {
      ...(JSON.parse(row.headers_json) as Record<string, string>),
      'Idempotency-Replayed': 'true',
      'Idempotency-First-Answer': rfc3339(row.created_at),
      ...(row.status < 400
        ? {}
        : {
            'Idempotency-Warning': `This is the answer of ${rfc3339(row.created_at)}, given again. Send the request with a new Idempotency-Key to try again.`,
          }),
      ...(isMismatch ? { 'Idempotency-Mismatch': 'true' } : {}),
    },
    body: row.body.startsWith(SEALED) ? unseal(use, row.body) : row.body,
  };
}

/** An answer that was given before, and what its caller says now. */
export interface Repeat {
  /** The record that the answer shows. */
  record: Readonly<Record<string, unknown>>;
  /** The domains that the messages of a bulk send are from. */
  domains: readonly string[];
  /** Another key of the account got the answer. */
  isOthers: boolean;
  isMismatch: boolean;
}

/**
 * Checks that the caller may have this answer, as if it made the request now: neither its own rights nor those of the key that made the request
 * need be what they were then. A new key is shown to who may make it, the secret of a webhook endpoint to who may read it, a
 * bulk send to who may send in bulk, and mail to who may send from its domain. Throws a Problem.
 */
export function checkRepeat(caller: Caller, { record, domains, isOthers, isMismatch }: Repeat): void {
  const { object, from } = record;
  if (object === 'batch') needScope(caller, 'campaign', 'for a bulk send');
  if (object === 'key') mayManage(caller, keyIn(record), FIELD);
  if (isOthers && String(object).startsWith('webhook') && 'secret' in record)
    needScope(caller, 'webhook:secret', 'by another API key, for the secret of a webhook endpoint');
  const used = object === 'message' && typeof from === 'string' ? [domainOf(from)] : domains;
  if (caller.domains.length > 0 && !used.every((domain) => caller.domains.includes(domain)))
    throw new Problem(
      'domain_not_allowed',
      'This Idempotency-Key was used for mail from a domain that this API key may not send from. Use a new one.',
      { field: FIELD },
    );
  // With the body of a send the caller knows what it gets; otherwise it would read the other key's mail.
  if (isOthers && isMismatch && !scopeAllows(caller.scopes, 'message:read'))
    throw new Problem(
      'idempotency_key_reused',
      'This Idempotency-Key was used by another API key, for mail that this one may not read. Use a new one.',
      { field: FIELD },
    );
}

const FIELD = 'Idempotency-Key';

function needScope(caller: Caller, scope: 'campaign' | 'webhook:secret', what: string): void {
  if (scopeAllows(caller.scopes, scope)) return;
  throw new Problem(
    'insufficient_scope',
    `This Idempotency-Key was used ${what}, which needs the scope \`${scope}\`. Use a new one.`,
    { field: FIELD, headers: scopeChallenge(scope) },
  );
}

/** Returns the rights of a key that an answer shows. */
function keyIn(record: Repeat['record']): KeyRequest {
  const { name, mode, scopes, domains, allowed_ips: allowedIps, expires_at: end } = record as unknown as KeyRecord;
  return { name, mode, scopes, domains, allowedIps, expiresAt: end === null ? null : Date.parse(end) };
}

/** Returns the domain of `ana@acme.test` or `Ana <ana@acme.test>`, as our records have them. */
const domainOf = (mailbox: string): string => mailbox.slice(mailbox.lastIndexOf('@') + 1).replace(/>$/, '');

const SEALED = 'sealed.v1.';

/** The service keeps only a hash of the caller's key, so it cannot open what is sealed with it. */
function sealingKey(use: IdempotencyUse): Buffer {
  return Buffer.from(hkdfSync('sha256', use.value, Buffer.from(use.recordKey, 'hex'), 'posthorn idempotency', 32));
}

function seal(use: IdempotencyUse, body: string): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealingKey(use), nonce);
  const sealed = Buffer.concat([cipher.update(body, 'utf8'), cipher.final()]);
  return SEALED + Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url');
}

function unseal(use: IdempotencyUse, text: string): string {
  const bytes = Buffer.from(text.slice(SEALED.length), 'base64url');
  const cipher = createDecipheriv('aes-256-gcm', sealingKey(use), bytes.subarray(0, 12));
  cipher.setAuthTag(bytes.subarray(12, 28));
  return Buffer.concat([cipher.update(bytes.subarray(28)), cipher.final()]).toString('utf8');
}

/** A first request under way; it resolves with its row, or null when it released the key. */
interface Flight {
  done: Promise<IdempotencyRow | null>;
  land(row: IdempotencyRow | null): void;
}

/** The next step of one request with a key. */
export type Turn = { kind: 'replay'; row: IdempotencyRow } | { kind: 'run'; land(row: IdempotencyRow | null): void };

export class InFlight {
  private readonly clock: Clock;
  private readonly store: Pick<IdempotencyStore, 'find'>;
  private readonly flights = new Map<string, Flight>();

  constructor(deps: { clock: Clock; store: Pick<IdempotencyStore, 'find'> }) {
    this.clock = deps.clock;
    this.store = deps.store;
  }

  /**
   * `run`: this request is the first; it must call `land` when it has its answer, whatever comes. `replay`: another was.
   * Throws `idempotency_in_progress` when the first is still running after 25 s.
   */
  async turn(key: string): Promise<Turn> {
    const deadline = this.clock.monotonic() + WAIT_MS;
    for (;;) {
      const first = this.flights.get(key);
      if (first === undefined) return this.lookUp(key);
      const row = await this.landing(first, deadline);
      if (row !== null) return { kind: 'replay', row };
    }
  }

  private async lookUp(key: string): Promise<Turn> {
    const land = this.takeOff(key);
    try {
      const row = await this.store.find(key);
      if (row === null) return { kind: 'run', land };
      land(row);
      return { kind: 'replay', row };
    } catch (error) {
      land(null);
      throw error;
    }
  }

  private takeOff(key: string): Flight['land'] {
    let settle: Flight['land'] = () => undefined;
    const done = new Promise<IdempotencyRow | null>((resolve) => (settle = resolve));
    const land = (row: IdempotencyRow | null): void => {
      this.flights.delete(key);
      settle(row);
    };
    this.flights.set(key, { done, land });
    return land;
  }

  private landing(first: Flight, deadline: number): Promise<IdempotencyRow | null> {
    return new Promise((resolve, reject) => {
      const late = this.clock.after(deadline - this.clock.monotonic(), () => {
        reject(new Problem('idempotency_in_progress', 'The first request with this Idempotency-Key is still running.'));
      });
      void first.done.then((row) => {
        late.cancel();
        resolve(row);
      });
    });
  }
}
