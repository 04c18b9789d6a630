/** The audit line of a request: one for every use of a key, refused uses included. */
import { newId } from '../base/id.ts';
import type { ProblemCode } from '../base/problem.ts';
import { actorOf } from '../keys/caller.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { Exchange } from './exchange.ts';

export type { AuditRow } from '../storage/tables.ts';

/** How it ended. `idempotency_mismatch`: the first response was given again although the body was another. */
type AuditResult = AuditRow['result'];

/** Where audit lines go. Neither may drop a line silently. */
export interface AuditSink {
  /** Resolves when the line is committed: for writes and refusals, before the answer. */
  write(row: AuditRow): Promise<void>;
  /** Takes the line for the next batch, within 100 ms: for reads. */
  later(row: AuditRow): void;
}

const LONGEST_PATH = 200;
const LONGEST_AGENT = 512;

/** `monotonic` is the clock's reading now, for the duration. */
export function auditRow(exchange: Exchange, status: number, code: ProblemCode | null, monotonic: number): AuditRow {
  const caller = exchange.key.kind === 'known' ? exchange.key.caller : null;
  return {
    id: newId('aud', exchange.at),
    at: exchange.at,
    account_id: caller?.accountId ?? null,
    key_id: caller?.keyId ?? null,
    actor: caller === null ? 'api' : actorOf(caller),
    ip: exchange.ip,
    method: exchange.method,
    endpoint: exchange.route?.path ?? exchange.path.slice(0, LONGEST_PATH),
    status,
    result: resultOf(exchange, status),
    error_code: code,
    request_id: exchange.requestId,
    ms: Math.round(monotonic - exchange.started),
    idempotency_replayed: exchange.replay === null ? 0 : 1,
    user_agent: exchange.header('user-agent')?.slice(0, LONGEST_AGENT).toWellFormed() ?? null,
  };
}

function resultOf(exchange: Exchange, status: number): AuditResult {
  if (exchange.replay === 'mismatch') return 'idempotency_mismatch';
  if (status >= 500) return 'failed';
  return status >= 400 ? 'refused' : 'ok';
}
