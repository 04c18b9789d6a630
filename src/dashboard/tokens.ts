/**
 * Form tokens against requests forged by other sites (CSRF): a MAC over the session's cookie, so that nothing has to be stored
 * and a token of one session is not valid in another. Before the sign-in, the token is bound to a cookie for guests.
 */
import { createHmac } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

export type FormTokens = ReturnType<typeof createFormTokens>;

/** Creates them. `secret` has at least 32 bytes. */
export function createFormTokens(secret: Buffer) {
  const tokenFor = (cookie: string): string => createHmac('sha256', secret).update(cookie).digest('base64url');
  return {
    /** Returns the token for forms shown to the holder of this cookie. */
    for: tokenFor,
    isRight: (cookie: string, token: string): boolean => cookie !== '' && equalInConstantTime(tokenFor(cookie), token),
  };
}
