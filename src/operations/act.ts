/** One act of a person or of the running server, and its audit row: in the act's own transaction if that is simple, else directly after it. */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { isStorageTrouble, type Committer } from '../storage/commit.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import type { AuditRow, RequestDetailsRow } from '../storage/tables.ts';
import { auditRow, type ActWords, type Deed } from './audit-row.ts';

export interface Act {
  /** The name of the person or program that acts, in the form of the audit. */
  readonly actor: string;
  readonly acting: Acting;
  readonly requestId: string;
  /** Names the account that the act is about, once it is known. */
  concerns(accountId: string): void;
  /** Says what the act is done to, and how that was before and is after. */
  on(deed: Deed): void;
  /** Says that it only tells what it would do: it has no row. */
  changesNothing(): void;
  /** The audit row, for the act to commit with its own rows; it then counts as written. */
  rows(): Rows;
}

export interface RunningAct extends Act {
  /** The row of an act that ends with this status; it then counts as written. */
  row(status: number): AuditRow;
  /** Writes the row if the act has not, or has written another ending; adds to a written row what the act has told since. */
  done(status?: number): Promise<void>;
  /** Writes why it failed, whatever the act has written before. If the database does not take writes, the log alone says so. */
  failed(error: unknown): Promise<void>;
}

/** The actor, and the way in: `CLI`, `DASHBOARD`, `SYSTEM`, or the HTTP method. */
export type Acting = Pick<AuditRow, 'actor' | 'ip' | 'method' | 'user_agent'> & Partial<Pick<AuditRow, 'key_id'>>;

export const commandLine: Acting = { actor: 'operator', ip: null, method: 'CLI', user_agent: null };

/** The facts about an operation that the audit needs. */
export interface Audited {
  name: string;
  words: ActWords | null;
  /** The value of the column `endpoint`; by default the name. */
  endpoint?: string;
  /** The path as it was asked, if it differs from the endpoint. */
  path?: string | null;
}

export function beginAct(
  { commit, clock }: { commit: Committer; clock: Clock },
  { name, words, endpoint = name, path = null }: Audited,
  acting: Acting,
): RunningAct {
  const startedAt = clock.monotonic();
  const requestId = newId('req', clock.now());
  let accountId: string | null = null;
  let deed: Deed = {};
  let written: AuditRow | null = null;
  let isDry = false;

  const row = (status: number, problem: Problem | null = null): AuditRow =>
    auditRow({
      at: clock.now(),
      accountId,
      actor: acting.actor,
      keyId: acting.key_id ?? null,
      ip: acting.ip,
      userAgent: acting.user_agent,
      method: acting.method,
      endpoint,
      operation: name,
      words,
      deed,
      status,
      code: problem?.code ?? (status >= 500 ? 'internal_error' : null),
      path,
      field: problem?.field ?? null,
      requestId,
      ms: clock.monotonic() - startedAt,
    });

  const taken = (status: number): AuditRow => (written = row(status));

  /** An act of many commits has its row in the first one, and knows only at its end how much it did. */
  async function complete({ id, status, before_json, after_json, summary }: AuditRow): Promise<void> {
    const now = row(status);
    if (now.before_json === before_json && now.after_json === after_json && now.summary === summary) return;
    const values = [now.before_json, now.after_json, now.summary, id];
    const sql = 'UPDATE audit SET before_json = ?, after_json = ?, summary = ? WHERE id = ? RETURNING id';
    await commit.transact(async (tx) => {
      const changed = await tx.all(sql, values);
      // The commit that had the row has failed, and the act went on.
      if (changed.length === 0) await insertRows(tx, [{ audit: [now] }]);
    });
  }

  return {
    actor: acting.actor,
    acting,
    requestId,
    concerns(id) {
      accountId = id;
    },
    on(more) {
      deed = { ...deed, ...more };
    },
    changesNothing() {
      isDry = true;
    },
    row: taken,
    rows: () => ({ audit: [taken(200)] }),
    async done(status = 200) {
      if (isDry) return;
      if (written?.status === status) await complete(written);
      else await commit.insert({ audit: [taken(status)] });
    },
    async failed(error) {
      // A database that could not write the act cannot write its row either, and a lost PostgreSQL is waited for with each write.
      if (isDry || isStorageTrouble(error)) return;
      const problem = error instanceof Problem ? error : null;
      await commit.insert({
        audit: [row(problem?.status ?? 500, problem)],
        ...(problem === null ? {} : { request_details: [detailsOf(requestId, accountId, problem)] }),
      });
    },
  };
}

const LONGEST_MESSAGE = 500;

const detailsOf = (requestId: string, accountId: string | null, { message }: Problem): RequestDetailsRow => ({
  request_id: requestId,
  account_id: accountId,
  query: null,
  error_message: message.slice(0, LONGEST_MESSAGE).toWellFormed(),
  body: null,
});
