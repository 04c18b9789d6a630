/** Counts how submissions end, by the code of the reply: it looks at the answers of a listener's handlers. */
import type { Handlers } from './listener.ts';
import type { SmtpRefusal } from './smtp-refusal.ts';

const TAKEN = 250;
const FAULT = 451;

/** Calls `ended` with 250 for each accepted mail, and the code of each refusal: of a sign-in, a sender, a recipient or a mail. */
export function countEndings<User>(handlers: Handlers<User>, ended: (code: number) => void): Handlers<User> {
  async function seen<Result>(answer: Promise<Result>, code: (result: Result) => number | null): Promise<Result> {
    try {
      const result = await answer;
      const one = code(result);
      if (one !== null) ended(one);
      return result;
    } catch (error) {
      ended(FAULT); // so the listener answers then
      throw error;
    }
  }
  const signIn: NonNullable<Handlers<User>['authenticate']> = (session, name, password) =>
    seen(
      handlers.authenticate?.(session, name, password) ?? Promise.reject(new Error('there is nothing to sign in to')),
      (result) => ('user' in result ? null : result.code),
    );
  const refusalOnly = (refusal: SmtpRefusal | null): number | null => refusal?.code ?? null;

  return {
    ...handlers,
    ...(handlers.authenticate === undefined ? {} : { authenticate: signIn }),
    sender: (session, address) => seen(handlers.sender(session, address), refusalOnly),
    recipient: (session, address) => seen(handlers.recipient(session, address), refusalOnly),
    data: (session, mail, size) =>
      seen(handlers.data(session, mail, size), (result) => (typeof result === 'string' ? TAKEN : result.code)),
  };
}
