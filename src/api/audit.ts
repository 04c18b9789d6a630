/** The audit row of a request: one for every use of a key, refused uses included. */
import type { ProblemCode } from '../base/problem.ts';
import { actorOf } from '../keys/caller.ts';
import { auditRow, type Deed } from '../operations/audit-row.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './route.ts';

/** Stores audit rows. Neither method may drop a row silently. */
export interface AuditSink {
  /** Resolves when the row is committed: for writes and refusals, before the answer. */
  write(row: AuditRow): Promise<void>;
  /** Takes the row for the next batch, within 100 ms: for reads. */
  later(row: AuditRow): void;
}

const LONGEST_PATH = 200;

/** `monotonic` is the clock's reading now, for the duration. `reply` is absent where the handler gave none. */
export function exchangeAudit(
  exchange: Exchange,
  status: number,
  code: ProblemCode | null,
  monotonic: number,
  reply?: Reply,
): AuditRow {
  const { route, replay } = exchange;
  const caller = exchange.key.kind === 'known' ? exchange.key.caller : null;
  return auditRow({
    at: exchange.at,
    accountId: caller?.accountId ?? null,
    keyId: caller?.keyId ?? null,
    actor: caller === null ? 'api' : actorOf(caller),
    ip: exchange.ip,
    userAgent: exchange.header('user-agent') ?? null,
    method: exchange.method,
    endpoint: route?.path ?? exchange.path.slice(0, LONGEST_PATH),
    operation: route?.operationId ?? null,
    words: route?.act ?? null,
    deed: route?.act === undefined ? undefined : deedOf(exchange.params, reply),
    status,
    ...(replay === 'mismatch' ? { result: 'idempotency_mismatch' } : {}),
    code,
    isReplay: replay !== null,
    requestId: exchange.requestId,
    ms: monotonic - exchange.started,
  });
}

/** Returns the object that a request was about: the record of the answer, or the object that the path names. */
export function deedOf(params: Readonly<Record<string, string>>, reply?: Reply): Deed {
  const [object = null] = Object.values(params);
  if (reply === undefined || !('body' in reply)) return { object };
  const { body, before = null } = reply;
  return { object, before, after: typeof body === 'object' ? body : null };
}
