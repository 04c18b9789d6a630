/**
 * Passwords: at least 12 characters, stored as scrypt (RFC 7914) with its parameters beside the hash, so that they can be
 * raised later. One hash takes 32 MiB and a thread of the pool that commits need too; hence one at a time, in a short queue.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { Problem } from '../base/problem.ts';

export const SHORTEST_PASSWORD = 12;
/** Longer ones add nothing and cost time. */
const LONGEST_PASSWORD = 256;
const COST = { N: 2 ** 15, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
const MOST_WAITING = 20;
const form = /^scrypt\$(\d{1,8})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9_-]{22})\$([A-Za-z0-9_-]{43})$/;

/** Throws a Problem for a password that is too short, too long or one letter over and over. */
export function checkPassword(password: string): void {
  const { length } = password;
  if (length < SHORTEST_PASSWORD)
    throw new Problem('invalid_field', `a password has at least ${String(SHORTEST_PASSWORD)} characters`, {
      field: 'password',
    });
  if (length > LONGEST_PASSWORD)
    throw new Problem('field_too_long', `a password has at most ${String(LONGEST_PASSWORD)} characters`, {
      field: 'password',
    });
  if (new Set(password).size < 4)
    throw new Problem('invalid_field', 'a password needs at least four different characters', { field: 'password' });
}

export interface Passwords {
  /** The text to store. */
  hash(password: string): Promise<string>;
  /** Takes as long without a stored hash as with one. */
  matches(password: string, stored: string | null): Promise<boolean>;
}

/** Throws `service_unavailable` where too many wait already. */
export function createPasswords(): Passwords {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (waiting >= MOST_WAITING)
      throw new Problem('service_unavailable', 'many people are signing in at this moment; try again soon');
    waiting++;
    const mine = last.then(work, work);
    last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      waiting--;
    }
  }

  return {
    hash: (password) =>
      inTurn(async () => {
        const salt = randomBytes(SALT_BYTES);
        const hash = await derive(password, salt, COST);
        return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64url'), hash.toString('base64url')].join('$');
      }),
    matches: (password, stored) =>
      inTurn(async () => {
        const [, N, r, p, salt, hash] = (stored === null ? null : form.exec(stored)) ?? [];
        if (salt === undefined || hash === undefined) {
          await derive(password, randomBytes(SALT_BYTES), COST);
          return false;
        }
        const cost = { N: Number(N), r: Number(r), p: Number(p) };
        const found = await derive(password, Buffer.from(salt, 'base64url'), cost);
        return timingSafeEqual(found, Buffer.from(hash, 'base64url'));
      }),
  };
}

/** The same password typed on two machines may come in two forms of Unicode: NFKC makes them one (RFC 8265 section 4). */
function derive(password: string, salt: Buffer, cost: { N: number; r: number; p: number }): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const text = password.slice(0, 4 * LONGEST_PASSWORD).normalize('NFKC');
    scrypt(text, salt, HASH_BYTES, { ...cost, maxmem: 256 * cost.N * cost.r }, (error, hash) => {
      if (error === null) resolve(hash);
      else reject(error);
    });
  });
}
