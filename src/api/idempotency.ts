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
import { scopeAllows, scopeChallenge } from '../keys/scopes.ts';
import type { Answer } from './answer.ts';
import { KEEP_MS } from '../storage/idempotency-store.ts';
import type { IdempotencyRow } from '../storage/tables.ts';

/** How long a second request with the same key waits for the first to finish, in milliseconds. */
export const WAIT_MS = 25_000;

export { KEEP_MS, recordKey } from '../storage/idempotency-store.ts';
export type { IdempotencyRow } from '../storage/tables.ts';

export interface IdempotencyStore {
  /** The row that has not expired at this moment, or null. */
  find(key: string): Promise<IdempotencyRow | null>;
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
): Answer {
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

/**
 * Checks that the caller may see an answer that was given to another key of the account. It shows what that key could do, so it is
 * refused where the caller is restricted to other sending domains, and a secret (a new key, that of a webhook) only where the caller may do all
 * that the other key may. Nor where the caller may not send in bulk: with another body under the same key, its own request passed
 * as a single one. `maker` is null where that key no longer exists. Throws a Problem.
 */
export function checkRepeat(
  caller: Caller,
  maker: Caller | null,
  answer: { isSecret: boolean; isBulk: boolean; isMismatch?: boolean },
): void {
  const field = 'Idempotency-Key';
  if (answer.isBulk && !scopeAllows(caller.scopes, 'campaign'))
    throw new Problem(
      'insufficient_scope',
      'This Idempotency-Key was used for a bulk send, which needs the scope `campaign`. Use a new one.',
      { field, headers: scopeChallenge('campaign') },
    );
  const isWithin =
    maker !== null && maker.domains.length > 0 && maker.domains.every((domain) => caller.domains.includes(domain));
  if (caller.domains.length > 0 && !isWithin)
    throw new Problem(
      'domain_not_allowed',
      'This Idempotency-Key was used by an API key that may send from other domains. Use a new one.',
      { field },
    );
  if (!answer.isSecret) {
    refuseOthersMail(caller, answer, field);
    return;
  }
  if (maker === null)
    throw new Problem(
      'insufficient_scope',
      'This Idempotency-Key was used by an API key that is gone. Use a new one.',
      { field, headers: scopeChallenge() },
    );
  mayManage(caller, { ...maker, name: maker.keyName }, field);
}

/** With the body of a send the caller knows what it gets; otherwise it would read the other key's mail. */
function refuseOthersMail(caller: Caller, { isMismatch = false }: { isMismatch?: boolean }, field: string): void {
  if (!isMismatch || scopeAllows(caller.scopes, 'message:read')) return;
  throw new Problem(
    'idempotency_key_reused',
    'This Idempotency-Key was used by another API key, for mail that this one may not read. Use a new one.',
    { field },
  );
}

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
  private readonly store: IdempotencyStore;
  private readonly flights = new Map<string, Flight>();

  constructor(deps: { clock: Clock; store: IdempotencyStore }) {
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
