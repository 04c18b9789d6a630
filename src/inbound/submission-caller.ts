/** The caller that a submitted mail is sent for: by the key that signed in, or by the key of trusted networks. */
import type { Caller } from '../keys/caller.ts';
import { isIpAllowed } from '../keys/ip-list.ts';
import { scopeAllows } from '../keys/scopes.ts';
import type { SubmissionDeps, SubmissionSession, SubmissionSettings } from './submission-deps.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

export type CallerResult = { caller: Caller } | SmtpRefusal;

export const isTrusted = ({ trustedNetworks }: Pick<SubmissionSettings, 'trustedNetworks'>, ip: string): boolean =>
  trustedNetworks.length > 0 && isIpAllowed(trustedNetworks, ip);

type CallerDeps = Pick<SubmissionDeps, 'authenticate' | 'clock' | 'trustedCaller'>;

/** Finds the caller of a session. Asked before each mail: a key may be revoked while its session goes on. */
export async function callerOfSession(
  deps: CallerDeps,
  settings: SubmissionSettings,
  session: SubmissionSession,
): Promise<CallerResult> {
  const token = session.user?.token;
  if (typeof token === 'string') {
    const result = await callerByKey(deps, token, session.ip);
    return 'caller' in result ? result : refuse(535, result.text);
  }
  if (!isTrusted(settings, session.ip)) return refuse(530, '5.7.0 sign in first');
  const caller = await deps.trustedCaller();
  if (caller === null) return refuse(530, '5.7.0 sign in first');
  return checkCaller(caller, deps.clock.now(), session.ip);
}

/** Returns the caller behind a key, or why it may not send; `of` names whose key it was, for the audit log. */
export async function callerByKey(
  { authenticate, clock }: Pick<CallerDeps, 'authenticate' | 'clock'>,
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
