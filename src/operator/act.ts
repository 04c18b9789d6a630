/** The audit line of an operator's act: written in the act's own transaction where that is simple, else directly after it. */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import type { Committer } from '../storage/commit.ts';
import type { Rows } from '../storage/rows.ts';
import type { AuditRow } from '../storage/tables.ts';

export interface Act {
  /** Who acts, as the audit log names them. */
  readonly actor: string;
  readonly requestId: string;
  /** The account that the act is about, once it is known. */
  concerns(accountId: string): void;
  /** The audit line, for the act to commit with its own rows; it then counts as written. */
  rows(): Rows;
  /** The same for an act of many commits: no rows after the first time. */
  rowsOnce(): Rows;
}

export interface RunningAct extends Act {
  /** Writes the line where the act has not. */
  done(): Promise<void>;
  /** Writes what it failed for, whatever the act has written before. */
  failed(error: unknown): Promise<void>;
}

/** Who acts, as the audit log names them. */
export type Acting = Pick<AuditRow, 'actor' | 'ip' | 'method' | 'user_agent'>;

const commandLine: Acting = { actor: 'operator', ip: null, method: 'CLI', user_agent: null };

/** Begins an act of the operator, or of a member who may do what the operator may; `endpoint` is the operation's name. */
export function beginAct(
  deps: { commit: Committer; clock: Clock },
  endpoint: string,
  acting: Acting = commandLine,
): RunningAct {
  const { commit, clock } = deps;
  const startedAt = clock.monotonic();
  const requestId = newId('req', clock.now());
  let accountId: string | null = null;
  let isWritten = false;

  function line(end: Pick<AuditRow, 'status' | 'result' | 'error_code'>): AuditRow {
    const at = clock.now();
    return {
      id: newId('aud', at),
      at,
      account_id: accountId,
      key_id: null,
      ...acting,
      endpoint,
      ...end,
      request_id: requestId,
      ms: Math.round(clock.monotonic() - startedAt),
      idempotency_replayed: 0,
    };
  }

  function rows(): Rows {
    isWritten = true;
    return { audit: [line({ status: 200, result: 'ok', error_code: null })] };
  }

  return {
    actor: acting.actor,
    requestId,
    concerns(id) {
      accountId = id;
    },
    rows,
    rowsOnce: () => (isWritten ? {} : rows()),
    async done() {
      if (!isWritten) await commit.insert(rows());
    },
    async failed(error) {
      const [status, code] = error instanceof Problem ? [error.status, error.code] : [500, 'internal_error'];
      await commit.insert({ audit: [line({ status, result: status < 500 ? 'refused' : 'failed', error_code: code })] });
    },
  };
}
