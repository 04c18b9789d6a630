/**
 * Tokens of forms against requests forged by other sites: a MAC over the session's cookie, so that nothing has to be stored
 * and a token of one session is none of another. Who has no session yet is bound to a cookie of its own.
 */
import { createHmac } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

export interface FormTokens {
  /** The token for forms shown to the holder of this cookie. */
  for(cookie: string): string;
  isRight(cookie: string, token: string): boolean;
}

/** `secret`: at least 32 bytes. */
export function createFormTokens(secret: Buffer): FormTokens {
  const tokenFor = (cookie: string): string => createHmac('sha256', secret).update(cookie).digest('base64url');
  return {
    for: tokenFor,
    isRight: (cookie, token) => cookie !== '' && equalInConstantTime(tokenFor(cookie), token),
  };
}
