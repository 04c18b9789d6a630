/**
 * Idempotency-Key (IETF draft httpapi-idempotency-key-header): the second request with a key gets the first one's answer. The record is written
 * in the transaction of the work, so no lease expires and a crash causes no double send; else it is stored here. 429 and 5xx release the key.
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
import { type Answer, answerTo } from './answer.ts';
import { KEEP_MS, isKeyTaken, recordKey, type IdempotencyStore } from '../storage/idempotency-store.ts';
import type { IdempotencyRow } from '../storage/tables.ts';
import { serviceAt } from './compat/services.ts';
import { hashJson } from './json.ts';
import type { Exchange, Middleware, Shell } from './exchange.ts';
import { reserveMemory } from './middleware/run.ts';

/** How long a second request with the same key waits for the first to finish, in milliseconds. */
export const WAIT_MS = 25_000;

type KeyRecord = ReturnType<typeof toKeyRecord>;

export interface IdempotencySettings {
  store: Pick<IdempotencyStore, 'find' | 'insert'>;
  /** The answer to a repeated key with another body: the first answer again, or 409. */
  onMismatch: 'replay' | 'error';
}

export interface IdempotencyUse {
  recordKey: string;
  /** The value that the caller sent; it is never stored. */
  value: string;
  /** The API key that the request came with. */
  keyId: string;
  bodyHash(): string;
  /** Returns the row for an answer, which a handler writes with its work. */
  take(answer: Answer, secret: boolean): IdempotencyRow | null;
  /** The row that was taken last, or null. */
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
function rowFor(use: IdempotencyUse, answer: Answer, now: number, secret: boolean): IdempotencyRow | null {
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

/** Returns the first answer again, the same bytes. Headers say so, and when it was given; of a refusal, whose reason may be gone, how to retry. */
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
  record: Readonly<Record<string, unknown>>;
  /** Another key of the account got the answer. */
  isOthers: boolean;
  isMismatch: boolean;
}

/** Throws a Problem unless the caller may make the new key, read the webhook's secret, or knows another key's mail (its body, or may read all). */
export function checkRepeat(caller: Caller, { record, isOthers, isMismatch }: Repeat): void {
  const { object, from } = record;
  if (object === 'key') mayManage(caller, keyIn(record), FIELD);
  if (!isOthers) return;
  // Records have `ana@acme.test` or `Ana <ana@acme.test>`.
  const domain = typeof from === 'string' ? from.slice(from.lastIndexOf('@') + 1).replace(/>$/, '') : null;
  if (object === 'message' && domain !== null && caller.domains.length > 0 && !caller.domains.includes(domain))
    throw new Problem(
      'domain_not_allowed',
      'This Idempotency-Key was used by another API key, for mail from a domain that this one may not send from. Use a new one.',
      { field: FIELD },
    );
  if (String(object).startsWith('webhook') && 'secret' in record && !scopeAllows(caller.scopes, 'webhook:secret'))
    throw new Problem(
      'insufficient_scope',
      'This Idempotency-Key was used by another API key, for the secret of a webhook endpoint, which needs the scope `webhook:secret`. Use a new one.',
      { field: FIELD, headers: scopeChallenge('webhook:secret') },
    );
  if (isMismatch && !scopeAllows(caller.scopes, 'message:read'))
    throw new Problem(
      'idempotency_key_reused',
      'This Idempotency-Key was used by another API key, for mail that this one may not read. Use a new one.',
      { field: FIELD },
    );
}

const FIELD = 'Idempotency-Key';

/** Returns the rights of a key that an answer shows. */
function keyIn(record: Repeat['record']): KeyRequest {
  const { name, mode, scopes, domains, allowed_ips: allowedIps, expires_at: end } = record as unknown as KeyRecord;
  return { name, mode, scopes, domains, allowedIps, expiresAt: end === null ? null : Date.parse(end) };
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

/** The next step of one request with a key. */
export type Turn = { kind: 'replay'; row: IdempotencyRow } | { kind: 'run'; land(row: IdempotencyRow | null): void };

export class InFlight {
  private readonly deps: { clock: Clock; store: Pick<IdempotencyStore, 'find'> };
  /** The first requests under way; each resolves with its row, or null if it released the key. */
  private readonly flights = new Map<string, Promise<IdempotencyRow | null>>();

  constructor(deps: InFlight['deps']) {
    this.deps = deps;
  }

  /** Returns `run` for the first request, which must call `land` in any case, else `replay`. Throws `idempotency_in_progress` after 25 s. */
  async turn(key: string): Promise<Turn> {
    const deadline = this.deps.clock.monotonic() + WAIT_MS;
    for (let first = this.flights.get(key); first !== undefined; first = this.flights.get(key)) {
      const row = await this.landing(first, deadline);
      if (row !== null) return { kind: 'replay', row };
    }
    const land = this.takeOff(key);
    try {
      const row = await this.deps.store.find(key);
      if (row === null) return { kind: 'run', land };
      land(row);
      return { kind: 'replay', row };
    } catch (error) {
      land(null);
      throw error;
    }
  }

  private takeOff(key: string): (row: IdempotencyRow | null) => void {
    let settle: (row: IdempotencyRow | null) => void = () => undefined;
    this.flights.set(key, new Promise((resolve) => (settle = resolve)));
    return (row) => {
      this.flights.delete(key);
      settle(row);
    };
  }

  private landing(first: Promise<IdempotencyRow | null>, deadline: number): Promise<IdempotencyRow | null> {
    const { clock } = this.deps;
    return new Promise((resolve, reject) => {
      const late = clock.after(deadline - clock.monotonic(), () => {
        reject(new Problem('idempotency_in_progress', 'The first request with this Idempotency-Key is still running.'));
      });
      void first.then((row) => {
        late.cancel();
        resolve(row);
      });
    });
  }
}

/** Bytes of the largest answer that is kept of an operation that changes nothing. A larger one would fill the disk, and can be made again. */
const MOST_COMPUTED = 256 * 1024;

/** Gives a POST with a known Idempotency-Key the first answer again, and keeps the answer of one with a new key. */
export function idempotency(deps: Shell): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    const use = exchange.method === 'POST' ? useOf(exchange) : null;
    if (use === null) {
      await next();
      return;
    }
    exchange.idempotency = use;
    const turn = await deps.inFlight.turn(use.recordKey);
    if (turn.kind === 'replay') {
      replay(deps, exchange, use, turn.row);
      if (exchange.answer !== null) reserveMemory(deps, ctx, exchange.answer);
      return;
    }
    let row: IdempotencyRow | null = null;
    try {
      const isTaken = await next().then(
        () => false,
        (error: unknown) => {
          if (isKeyTaken(error)) return true;
          exchange.answer = answerTo(deps, exchange, error);
          return false;
        },
      );
      const kept = isTaken ? 'taken' : await keep(deps, exchange, use);
      row = kept === 'taken' ? await repeatOther(deps, exchange, use) : kept;
    } finally {
      turn.land(row);
    }
  };
}

function useOf(exchange: Exchange): IdempotencyUse | null {
  const value = idempotencyKey(exchange.header('idempotency-key'));
  if (value === null || exchange.key.kind !== 'known') return null;
  const { accountId, mode, keyId } = exchange.key.caller;
  const use: IdempotencyUse = {
    recordKey: recordKey(accountId, mode, exchange.method, exchange.path, value),
    value,
    keyId,
    bodyHash: () => exchange.body?.hash() ?? (emptyHash ??= hashJson({})),
    take: (answer, secret) => (use.written = rowFor(use, answer, exchange.at, secret)),
    written: null,
  };
  return use;
}

let emptyHash: string | undefined;

function replay(deps: Shell, exchange: Exchange, use: IdempotencyUse, row: IdempotencyRow): void {
  const { key, path, route } = exchange;
  const answer = replayOf(use, row, serviceAt(path)?.onMismatch ?? deps.idempotency.onMismatch);
  if (key.kind === 'known' && row.status < 300) {
    // Without a body, and in the text of a preview, there is nothing to judge.
    const record = answer.body.startsWith('{') ? (JSON.parse(answer.body) as Repeat['record']) : {};
    checkRepeat(key.caller, {
      record,
      isOthers: row.key_id !== use.keyId,
      // A request to send a message again names it in its path alone: the same body does not show that the caller knows it.
      isMismatch: row.body_hash !== use.bodyHash() || route?.operationId === 'resendMessage',
    });
  }
  exchange.replay = answer.headers['Idempotency-Mismatch'] === undefined ? 'same' : 'mismatch';
  exchange.answer = answer;
}

/** Gives the answer of another node, which had a request with this key at the same moment and was first; returns its row. */
async function repeatOther(deps: Shell, exchange: Exchange, use: IdempotencyUse): Promise<IdempotencyRow> {
  const row = await deps.idempotency.store.find(use.recordKey);
  if (row === null) throw new Error('an idempotency key was taken by another node, and its row is gone');
  // The work of this node was rolled back, and its line of the audit with it.
  exchange.auditedStatus = null;
  replay(deps, exchange, use, row);
  return row;
}

/** Returns the row that the handler wrote, or writes one; `taken` if another node has. A failing store does not undo committed work. */
async function keep(deps: Shell, exchange: Exchange, use: IdempotencyUse): Promise<IdempotencyRow | 'taken' | null> {
  const { answer, at, route } = exchange;
  if (answer === null) return null;
  if (use.written?.status === answer.status) return use.written;
  if (route?.act === undefined && !(answer.body instanceof Readable) && answer.body.length > MOST_COMPUTED) return null;
  const row = rowFor(use, answer, at, route?.secretResponse === true && answer.status < 300);
  if (row === null) return null;
  try {
    await deps.idempotency.store.insert(row);
  } catch (err) {
    if (isKeyTaken(err)) return 'taken';
    deps.log.error({ err, request_id: exchange.requestId }, 'an idempotency record could not be written');
  }
  return row;
}
