/** Gives a POST with a known Idempotency-Key the first answer again, and keeps the answer of one with a new key. */
import { Readable } from 'node:stream';
import { serviceAt } from '../compat/services.ts';
import { hashJson } from '../json.ts';
import { isKeyTaken } from '../../storage/idempotency-store.ts';
import {
  checkRepeat,
  idempotencyKey,
  recordKey,
  replayOf,
  rowFor,
  type IdempotencyRow,
  type IdempotencyUse,
  type InFlight,
  type Repeat,
} from '../idempotency.ts';
import type { Exchange } from '../exchange.ts';
import type { ApiDeps, Middleware } from '../request-state.ts';
import type { BodyMemory } from '../body-memory.ts';
import { answerTo } from './respond.ts';
import { reserveMemory } from './run.ts';

type Deps = Pick<ApiDeps, 'clock' | 'log' | 'idempotency'> & {
  inFlight: InFlight;
  bodyMemory: BodyMemory;
};

/** Bytes of the largest answer that is kept of an operation that changes nothing. A larger one would fill the disk, and can be made again. */
const MOST_COMPUTED = 256 * 1024;

export function idempotency(deps: Deps): Middleware {
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
      await replay(deps, exchange, use, turn.row);
      if (exchange.answer !== null) reserveMemory(deps.bodyMemory, ctx, exchange.answer);
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
  return {
    recordKey: recordKey(accountId, mode, exchange.method, exchange.path, value),
    value,
    keyId,
    bodyHash: () => exchange.body?.hash() ?? (emptyHash ??= hashJson({})),
    written: null,
  };
}

let emptyHash: string | undefined;

async function replay(deps: Deps, exchange: Exchange, use: IdempotencyUse, row: IdempotencyRow): Promise<void> {
  const { key, path, route } = exchange;
  const answer = replayOf(use, row, serviceAt(path)?.onMismatch ?? deps.idempotency.onMismatch);
  if (key.kind === 'known' && row.status < 300) {
    // Without a body, and in the text of a preview, there is nothing to judge.
    const record = answer.body.startsWith('{') ? (JSON.parse(answer.body) as Repeat['record']) : {};
    const batch = record['object'] === 'batch' && key.caller.domains.length > 0 ? record['id'] : null;
    checkRepeat(key.caller, {
      record,
      domains: typeof batch === 'string' ? await deps.idempotency.store.sendingDomains(batch) : [],
      isOthers: row.key_id !== use.keyId,
      // A request to send a message again names it in its path alone: the same body does not show that the caller knows it.
      isMismatch: row.body_hash !== use.bodyHash() || route?.operationId === 'resendMessage',
    });
  }
  exchange.replay = answer.headers['Idempotency-Mismatch'] === undefined ? 'same' : 'mismatch';
  exchange.answer = answer;
}

/** Gives the answer of another node, which had a request with this key at the same moment and was first; returns its row. */
async function repeatOther(deps: Deps, exchange: Exchange, use: IdempotencyUse): Promise<IdempotencyRow> {
  const row = await deps.idempotency.store.find(use.recordKey);
  if (row === null) throw new Error('an idempotency key was taken by another node, and its row is gone');
  // The work of this node was rolled back, and its line of the audit with it.
  exchange.auditedStatus = null;
  await replay(deps, exchange, use, row);
  return row;
}

/**
 * Returns the row that the handler wrote with its work, or writes one; `taken` if another node has written it meanwhile. A failing store
 * does not undo committed work.
 */
async function keep(deps: Deps, exchange: Exchange, use: IdempotencyUse): Promise<IdempotencyRow | 'taken' | null> {
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
