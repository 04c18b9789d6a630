/**
 * Form tokens against requests forged by other sites (CSRF): a MAC over the session's id, so that nothing has to be stored
 * and a token of one session is not valid in another. Before the sign-in, the token is bound to a cookie for guests.
 *
 * Pages are compressed and repeat what the address says, such as a search, so a stable secret in them could be guessed from
 * the lengths of answers (BREACH). Each page therefore has the MAC under a random mask, and no two pages share a token.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

export type FormTokens = ReturnType<typeof createFormTokens>;

const MAC_BYTES = 32;

/** Creates them. `secret` has at least 32 bytes. */
export function createFormTokens(secret: Buffer) {
  const macFor = (bound: string): Buffer => createHmac('sha256', secret).update(bound).digest();
  return {
    /** Returns a token for the forms of one page, bound to this session or cookie. */
    for(bound: string): string {
      const mask = randomBytes(MAC_BYTES);
      return Buffer.concat([mask, masked(macFor(bound), mask)]).toString('base64url');
    },
    isRight(bound: string, token: string): boolean {
      const bytes = Buffer.from(token, 'base64url');
      if (bound === '' || bytes.length !== 2 * MAC_BYTES) return false;
      const mac = masked(bytes.subarray(MAC_BYTES), bytes.subarray(0, MAC_BYTES));
      return equalInConstantTime(macFor(bound).toString('base64url'), mac.toString('base64url'));
    },
  };
}

/** Returns the bytes XOR the mask, which undoes itself. */
const masked = (bytes: Buffer, mask: Buffer): Buffer => Buffer.from(bytes.map((byte, at) => byte ^ (mask[at] ?? 0)));
