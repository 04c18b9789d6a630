/** The audit log of submission. */
import { budgets } from '../base/budgets.ts';
import { newId } from '../base/id.ts';
import { actorOf, type Caller } from '../keys/caller.ts';
import { auditRow, type ActWords } from '../operations/audit-row.ts';
import { networkOf } from '../net/ip.ts';
import { Allowance } from '../scheduling/allowance.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { SubmissionDeps, SubmissionSession } from './submission-deps.ts';
import type { SmtpRefusal } from './smtp-refusal.ts';

type AuditDeps = Pick<SubmissionDeps, 'clock' | 'audit' | 'usedUp'>;

export class RefusalLog {
  private readonly deps: AuditDeps;
  private readonly allowance = new Allowance(budgets.submission_audit_network);

  constructor(deps: AuditDeps) {
    this.deps = deps;
  }

  /** Writes the audit row of a refusal, and returns the refusal. */
  async write(
    session: SubmissionSession,
    step: string,
    caller: Caller | null,
    refusal: SmtpRefusal,
  ): Promise<SmtpRefusal> {
    if (caller !== null || this.takeLine(session.ip))
      await this.deps.audit.write(
        submissionAudit(this.deps, session, { step, caller, code: refusal.code, problem: null }),
      );
    return refusal;
  }

  /** A network without a key gets a few lines a minute: with more, a stranger could fill the disk. */
  private takeLine(ip: string): boolean {
    const [network, now] = [networkOf(ip), this.deps.clock.now()];
    const fits = this.allowance.has(network, 1, now);
    if (fits) this.allowance.spend(network, 1, now);
    else this.deps.usedUp('submission_audit_network');
    return fits;
  }
}

interface Audited {
  step: string;
  caller: Caller | null;
  code: number;
  problem: string | null;
  started?: number;
  isReplay?: boolean;
  requestId?: string;
}

/** The audit row: one for every use of a key, refused uses included. */
export function submissionAudit(
  { clock }: Pick<SubmissionDeps, 'clock'>,
  session: SubmissionSession,
  { step, caller, code, problem, started, isReplay = false, requestId }: Audited,
): AuditRow {
  const now = clock.now();
  return auditRow({
    at: now,
    accountId: caller?.accountId ?? null,
    keyId: caller?.keyId ?? null,
    actor: caller === null ? 'smtp' : actorOf(caller),
    ip: session.ip,
    userAgent: session.helo,
    method: 'SMTP',
    endpoint: step,
    operation: step === 'DATA' ? 'submitMessage' : 'signIn',
    words: step === 'DATA' ? submitted : null,
    status: code,
    result: code < 400 ? 'ok' : code === 451 ? 'failed' : 'refused',
    code: problem,
    isReplay,
    requestId: requestId ?? newId('req', now),
    ms: started === undefined ? 0 : clock.monotonic() - started,
  });
}

const submitted: ActWords = { says: 'sent a mail by SMTP', type: 'message' };
