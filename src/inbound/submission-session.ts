/** A submission session: the parts of the program it uses, its settings, the caller its mails are sent for, its audit log, and what reads its mails. */
import { budgets } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { ThreadRefusal } from '../base/threads.ts';
import { actorOf, type Authenticate, type Caller } from '../keys/caller.ts';
import { isIpAllowed } from '../keys/ip-list.ts';
import { scopeAllows } from '../keys/scopes.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import type { Intake } from '../messages/accept/intake.ts';
import { finishSubmitted } from '../mail/submitted.ts';
import { networkOf } from '../net/ip.ts';
import { auditRow, type ActWords } from '../operations/audit-row.ts';
import { Allowance } from '../scheduling/allowance.ts';
import type { IdempotencyStore } from '../storage/idempotency-store.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { InboundContext } from './context.ts';
import type { Session } from './listener.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';
import { createMailReading } from './mail-reading.ts';
import type { ReadApart, ReadMail } from './submission-worker.ts';

export interface SubmissionDeps extends Pick<InboundContext, 'clock' | 'usedUp' | 'ownAccount'> {
  accept: AcceptDeps;
  /** The turns of mails; shared with the API. */
  intake: Intake;
  authenticate: Authenticate;
  /** Returns the caller whose key programs of trusted networks send with, or null. */
  trustedCaller(): Promise<Caller | null>;
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** Counts a request of the account; the seconds to wait, or null if it may go on. */
  takeRequest(accountId: string, plan: string): number | null;
  audit: { write(row: AuditRow): Promise<void> };
  idempotency: { store: IdempotencyStore; onMismatch: 'replay' | 'error' };
  reader: SubmissionReader;
  /** Called with the error of a write that no session waits for. */
  failed: (error: unknown) => void;
  isVerified(accountId: string, domain: string): Promise<boolean>;
}

export interface SubmissionSettings {
  hostname: string;
  /** CIDR ranges whose clients need no TLS, and no sign-in if there is a key for them. */
  trustedNetworks: readonly string[];
  smtputf8: boolean;
  recipients: number;
  /** Receiver of the notice about a mail that failed for good. */
  notify: 'sender' | 'operator' | 'none';
  operatorAddress: string | null;
}

/** A client that has signed in. Its key is kept and looked up before each mail, since it may be revoked meanwhile. */
export interface Submitter {
  token: string | null;
  keyId: string;
}

export type SubmissionSession = Session<Submitter>;

export type CallerResult = { caller: Caller } | SmtpRefusal;

export const isTrusted = ({ trustedNetworks }: SubmissionSettings, ip: string): boolean =>
  trustedNetworks.length > 0 && isIpAllowed(trustedNetworks, ip);

/** Finds the caller of a session. Asked before each mail: a key may be revoked while its session goes on. */
export async function callerOfSession(
  deps: SubmissionDeps,
  settings: SubmissionSettings,
  session: SubmissionSession,
): Promise<CallerResult> {
  const token = session.user?.token;
  if (typeof token === 'string') {
    const result = await callerByKey(deps, token, session.ip);
    return 'caller' in result ? result : refuse(535, result.text);
  }
  if (!isTrusted(settings, session.ip))
    return refuse(530, `5.7.0 sign in first${session.isSecure ? '' : ', after STARTTLS'}`);
  const caller = await deps.trustedCaller();
  if (caller === null) return refuse(530, '5.7.0 sign in first');
  return checkCaller(caller, deps.clock.now(), session.ip);
}

/** Returns the caller behind a key, or why it may not send; `of` names whose key it was, for the audit log. */
export async function callerByKey(
  { authenticate, clock }: SubmissionDeps,
  token: string,
  ip: string,
): Promise<{ caller: Caller } | (SmtpRefusal & { of?: Caller })> {
  const found = await authenticate(token);
  if (found.kind === 'unknown') return refuse(535, '5.7.8 there is no such API key');
  const result = checkCaller(found.caller, clock.now(), ip);
  return 'caller' in result ? result : { ...result, of: found.caller };
}

function checkCaller(caller: Caller, now: number, ip: string): CallerResult {
  if (caller.revokedAt !== null && caller.revokedAt <= now) return refuse(535, '5.7.8 this API key was revoked');
  if (caller.expiresAt !== null && caller.expiresAt <= now) return refuse(535, '5.7.8 this API key has expired');
  if (caller.allowedIps.length > 0 && !isIpAllowed(caller.allowedIps, ip))
    return refuse(535, `5.7.1 this API key may not be used from ${ip}`);
  if (!scopeAllows(caller.scopes, 'send')) return refuse(535, '5.7.1 this API key has not the scope `send`');
  return { caller };
}

/** Counts unknown keys by network, and cuts off one that tries on until the hour ends; good keys still sign in. 256 bits are not guessed. */
export function createUnknownKeys({ clock, usedUp }: SubmissionDeps) {
  const allowance = new Allowance(budgets.submission_keys_network);
  /** Counts a key, and returns the refusal: 421, which ends the session, beyond the budget. */
  return ({ ip }: SubmissionSession, refusal: SmtpRefusal): SmtpRefusal => {
    if (allowance.take(networkOf(ip), 1, clock.now())) return refusal;
    usedUp('submission_keys_network');
    return refuse(421, `4.7.0 ${refusal.text.replace(/^\S+ /, '')}, and your network has tried too many in this hour`);
  };
}

/** Logs refusals. A network without a key gets a few lines a minute: with more, a stranger could fill the disk. */
export function createRefusalLog(deps: SubmissionDeps) {
  const allowance = new Allowance(budgets.submission_audit_network);
  /** Writes the audit row of a refusal, and returns the refusal. */
  return async (
    session: SubmissionSession,
    step: string,
    caller: Caller | null,
    refusal: SmtpRefusal,
  ): Promise<SmtpRefusal> => {
    const fits = caller !== null || allowance.take(networkOf(session.ip), 1, deps.clock.now());
    if (fits)
      await deps.audit.write(submissionAudit(deps, session, { step, caller, code: refusal.code, problem: null }));
    else deps.usedUp('submission_audit_network');
    return refusal;
  };
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

/** Makes the audit row: one for every use of a key, refused uses included. */
export function submissionAudit(
  { clock }: SubmissionDeps,
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

const JOB_MS = 30_000;
/** A process that has ended costs the next mail up to 0.7 s; one that waits has 30 MB. */
const IDLE_MS = 10 * 60_000;
const HEAP_MB = 512;
const MOST_RSS_MB = 768;

export type SubmissionReader = ReturnType<typeof createSubmissionReader>;

/** `mostBytes`: a body whose line ends or long lines are repaired may not become larger. */
export function createSubmissionReader(deps: { clock: Clock }, mostBytes: number) {
  const reading = createMailReading<Buffer, readonly Buffer[], ReadApart>(deps, {
    entry: new URL('./submission-worker.ts', import.meta.url),
    count: 1,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB },
    sizeOf: ({ length }) => length,
    jobOf: (mails) => mails,
  });
  return {
    /** Throws `service_unavailable` if too much is to be read at once, or no process could be had. */
    async read(bytes: Buffer): Promise<ReadMail> {
      try {
        const read = await reading.read(bytes);
        if (!('digest' in read)) return read;
        const { mail, bodyAt, digest } = read;
        if (bodyAt === null && mail.body.length > mostBytes) return tooLarge;
        // A body that was changed is in one memory with those of mails that were read with it.
        return { mail: { ...mail, body: bodyAt === null ? Buffer.from(mail.body) : bytes.subarray(bodyAt) }, digest };
      } catch (cause) {
        if (!(cause instanceof ThreadRefusal)) throw cause;
        if (cause.why === 'slow') return tooSlow;
        throw new Problem('service_unavailable', 'the mail cannot be read now', { retryAfter: 10, cause });
      }
    },
    finish: finishSubmitted,
    close: (): Promise<void> => reading.close(),
  };
}

const tooLarge: ReadMail = {
  mail: { kind: 'refused', text: '5.3.4 the mail is too large once its lines are repaired' },
};
const tooSlow: ReadMail = { mail: { kind: 'refused', text: '5.6.0 the mail takes too long to read' } };
