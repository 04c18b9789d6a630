/**
 * Submission (RFC 6409, RFC 8314) for programs that speak only SMTP: a client that signs in with an API key may send, under the same
 * rules as over the API, and the mail leaves with its body unchanged. 250 means what 202 means: the mail is durable.
 */
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { parseMailbox } from '../mail/address.ts';
import type { Handlers } from './listener.ts';
import { noKeyInClear, refusalOf, refuse, type SmtpRefusal } from './smtp-refusal.ts';
import { SubmissionAcceptor } from './submission-acceptor.ts';
import {
  callerByKey,
  callerOfSession,
  createRefusalLog,
  createUnknownKeys,
  isTrusted,
  submissionAudit,
  type CallerResult,
  type SubmissionDeps,
  type SubmissionSession,
  type SubmissionSettings,
  type Submitter,
} from './submission-session.ts';

export function submissionHandlers(deps: SubmissionDeps, settings: SubmissionSettings): Handlers<Submitter> {
  const logged = createRefusalLog(deps);
  const unknownKey = createUnknownKeys(deps);
  const acceptor = new SubmissionAcceptor(deps, settings);
  const callerOf = (session: SubmissionSession): Promise<CallerResult> => callerOfSession(deps, settings, session);

  return {
    // The key alone says who sends: programs have the user names of other services (`resend`, `api`, the key twice).
    async authenticate(session, _name, password) {
      const refused = (caller: Caller | null, refusal: SmtpRefusal): Promise<SmtpRefusal> =>
        logged(session, 'AUTH', caller, refusal);
      if (!session.isSecure && !isTrusted(settings, session.ip)) return refused(null, noKeyInClear);
      const result = await callerByKey(deps, password, session.ip);
      if (!('caller' in result))
        return result.of === undefined ? refused(null, unknownKey(session, result)) : refused(result.of, result);
      const { caller } = result;
      return { user: { token: password, keyId: caller.keyId } };
    },
    isTrusted: (ip) => isTrusted(settings, ip),
    async sender(session) {
      const result = await callerOf(session);
      if (!('caller' in result)) return logged(session, 'MAIL', null, result);
      const { caller } = result;
      const wait = deps.takeRequest(caller.accountId, caller.plan);
      if (wait === null) return null;
      const refusal = refuse(450, `4.7.1 rate limit: try again in ${String(wait)} seconds`);
      return logged(session, 'MAIL', caller, refusal);
    },
    recipient(session, address) {
      const parsed = parseMailbox(address, settings);
      if (parsed.kind === 'bad') return Promise.resolve(refuse(553, `5.1.3 ${parsed.why}`));
      if (session.recipients.length >= settings.recipients)
        return Promise.resolve(refuse(452, `4.5.3 at most ${String(settings.recipients)} recipients at once`));
      return Promise.resolve(null);
    },
    tooLarge(session, step) {
      const refusal = refuse(552, '5.3.4 the mail is too large');
      void callerOf(session)
        .then((found) => logged(session, step, 'caller' in found ? found.caller : null, refusal))
        .catch(deps.failed);
    },
    async data(session, bytes) {
      const started = deps.clock.monotonic();
      const result = await callerOf(session);
      if (!('caller' in result)) return logged(session, 'DATA', null, result);
      const { caller } = result;
      deps.noteUse(caller.keyId, session.ip, 'SMTP');
      try {
        const { mail, digest } = await deps.reader.read(bytes);
        if (mail.kind === 'refused') return await logged(session, 'DATA', caller, refuse(554, mail.text));
        const id = await acceptor.accept(session, caller, { mail, digest, started });
        return `2.0.0 queued as ${id}`;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        const refusal = refusalOf(error);
        await deps.audit.write(
          submissionAudit(deps, session, { step: 'DATA', caller, code: refusal.code, problem: error.code, started }),
        );
        return refusal;
      }
    },
  };
}
