/**
 * Checks and hashes passwords: at least 12 characters, stored as scrypt (RFC 7914) with its parameters, so that these can be
 * raised later. A hash needs 32 MiB and a thread of the pool that commits need too, so there is only one at a time (turns.ts).
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import type { UsedUp } from '../base/budgets.ts';
import { Problem } from '../base/problem.ts';
import { guessedEasily } from './common-passwords.ts';
import { Turns, type Share } from './turns.ts';

export const SHORTEST_PASSWORD = 12;
/** Longer passwords add nothing and cost time. */
const LONGEST_PASSWORD = 256;
const COST = { N: 2 ** 15, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
const form = /^scrypt\$(\d{1,8})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9_-]{22})\$([A-Za-z0-9_-]{43})$/;

/**
 * Throws a Problem for a password that is too short, too long or easy to guess. `context`: what a guesser knows, such as the
 * address that signs in and the name of the host.
 */
export function checkPassword(password: string, context: readonly string[] = []): void {
  const { length } = password;
  if (length < SHORTEST_PASSWORD)
    throw new Problem('invalid_field', `The password must have at least ${String(SHORTEST_PASSWORD)} characters.`, {
      field: 'password',
    });
  if (length > LONGEST_PASSWORD)
    throw new Problem('field_too_long', `The password must have at most ${String(LONGEST_PASSWORD)} characters.`, {
      field: 'password',
    });
  const why = guessedEasily(password, context);
  if (why !== null) throw new Problem('invalid_field', why, { field: 'password' });
}

/** The check that runs in one turn. */
export interface PasswordCheck {
  /** Compares with a stored hash; it takes as long without one. */
  readonly matches: (password: string, stored: string | null) => Promise<boolean>;
}

/** The queue of new passwords: setting one needs a link or a session. */
const SETTING: Share = { name: 'new passwords', isKnown: true };

export function createPasswords(usedUp?: UsedUp) {
  const turns = new Turns(usedUp);
  const check: PasswordCheck = {
    async matches(password, stored) {
      const [, N, r, p, salt, hash] = (stored === null ? null : form.exec(stored)) ?? [];
      if (salt === undefined || hash === undefined) {
        await derive(password, randomBytes(SALT_BYTES), COST);
        return false;
      }
      const cost = { N: Number(N), r: Number(r), p: Number(p) };
      const found = await derive(password, Buffer.from(salt, 'base64url'), cost);
      return timingSafeEqual(found, Buffer.from(hash, 'base64url'));
    },
  };
  return {
    /** Returns the hash to store. */
    hash: (password: string): Promise<string> =>
      turns.take(SETTING, async () => {
        const salt = randomBytes(SALT_BYTES);
        const hash = await derive(password, salt, COST);
        return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64url'), hash.toString('base64url')].join('$');
      }),
    /** Runs `work` when its turn has come; no other password is checked meanwhile. Throws `service_unavailable`. */
    inTurn: <T>(share: Share, work: (check: PasswordCheck) => Promise<T>): Promise<T> =>
      turns.take(share, () => work(check)),
  };
}

export type Passwords = ReturnType<typeof createPasswords>;

/** Hashes the NFKC form, since the same password typed on two machines may have two forms of Unicode (RFC 8265 section 4). */
function derive(password: string, salt: Buffer, cost: { N: number; r: number; p: number }): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const text = password.slice(0, 4 * LONGEST_PASSWORD).normalize('NFKC');
    scrypt(text, salt, HASH_BYTES, { ...cost, maxmem: 256 * cost.N * cost.r }, (error, hash) => {
      if (error === null) resolve(hash);
      else reject(error);
    });
  });
}
