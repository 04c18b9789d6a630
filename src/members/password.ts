/**
 * Checks and hashes passwords: at least 12 characters, stored as scrypt (RFC 7914) with its parameters, so that these can be
 * raised later. A hash needs 32 MiB and a thread of the pool that commits need too, so there is only one at a time.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { budgets, type UsedUp } from '../base/budgets.ts';
import { Problem, invalid } from '../base/problem.ts';
import common from '../../config/common-passwords.json' with { type: 'json' };
import { createGate } from '../scheduling/gate.ts';

export const SHORTEST_PASSWORD = 12;
/** Longer passwords add nothing and cost time. */
const LONGEST_PASSWORD = 256;
const COST = { N: 2 ** 15, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
const form = /^scrypt\$(\d{1,8})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9_-]{22})\$([A-Za-z0-9_-]{43})$/;

/** Throws a Problem for a password that is too short, too long or easy to guess. `context`: what a guesser knows, such as address and host name. */
export function checkPassword(password: string, context: readonly string[] = []): void {
  const { length } = password;
  if (length < SHORTEST_PASSWORD)
    throw invalid('password', `The password must have at least ${String(SHORTEST_PASSWORD)} characters.`);
  if (length > LONGEST_PASSWORD)
    throw new Problem('field_too_long', `The password must have at most ${String(LONGEST_PASSWORD)} characters.`, {
      field: 'password',
    });
  const why = guessedEasily(password, context);
  if (why !== null) throw invalid('password', why);
}

export interface PasswordCheck {
  /** Compares with a stored hash; it takes as long without one. */
  readonly matches: (password: string, stored: string | null) => Promise<boolean>;
}

/** Names the one that asks for a turn. */
export interface Share {
  name: string;
  /** True for a device that has signed in before, and for a session. */
  isKnown: boolean;
}

/** The queue of new passwords: setting one needs a link or a session. */
const SETTING: Share = { name: 'new passwords', isKnown: true };

/**
 * One password is checked at a time: the shares (addresses, devices) take turns, and within a share the order of coming holds, so no client can
 * make others wait by asking often. All strangers together have one turn among the known devices.
 */
export function createPasswords(usedUp: UsedUp = () => undefined) {
  const line = { most: 1, waiting: budgets.sign_in_waiting_network.most };
  const [turns, strangers] = [createGate(line), createGate(line)];

  async function inTurn<T>(share: Share, work: () => Promise<T>): Promise<T> {
    const gate = share.isKnown ? turns : strangers;
    const isFull = gate.sizes().waiting >= budgets.sign_in_waiting.most;
    const leave = isFull ? null : await gate.enter(share.name);
    if (leave === null) {
      if (!share.isKnown) usedUp(isFull ? 'sign_in_waiting' : 'sign_in_waiting_network');
      throw new Problem('service_unavailable', 'Many people are signing in at this moment. Try again soon.');
    }
    try {
      return share.isKnown ? await work() : await inTurn({ name: 'strangers', isKnown: true }, work);
    } finally {
      leave();
    }
  }

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
    hash: (password: string): Promise<string> =>
      inTurn(SETTING, async () => {
        const salt = randomBytes(SALT_BYTES);
        const hash = await derive(password, salt, COST);
        return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64url'), hash.toString('base64url')].join('$');
      }),
    /** Runs `work` when its turn has come; no other password is checked meanwhile. Throws `service_unavailable`. */
    inTurn: <T>(share: Share, work: (check: PasswordCheck) => Promise<T>): Promise<T> =>
      inTurn(share, () => work(check)),
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

/**
 * Finds passwords that are guessed first: the commonest (config/common-passwords.json: the 3,000 commonest of public leaks, and
 * those of them that are long enough here), words made from them, keyboard patterns, and names that everyone knows about the
 * login. A password gets a score for the parts that must be guessed; spelling and a year at the end add little. Pure.
 */

/** The least score: three common words, or six letters that do not follow from those before. */
const LEAST_SCORE = 6;
/** A word of the 3,000 counts like two letters. */
const WORD_SCORE = 2;
const SHORTEST_WORD = 4;
const LONGEST_WORD = 20;

const commonest: ReadonlySet<string> = new Set(common);
const words: ReadonlySet<string> = new Set(common.filter((word) => /^[a-z]{4,20}$/.test(word)));

/** Returns why the password would be guessed early, for the person who chose it; null if it would not. */
export function guessedEasily(password: string, context: readonly string[] = []): string | null {
  const text = password.normalize('NFKC').toLowerCase();
  if (!commonest.has(text) && scoreOf(text, contextWords(context)) >= LEAST_SCORE) return null;
  return 'This password would be among the first that are guessed: it is made of common words, of a pattern, or of the names of this login and host. Four or five random words make a good one.';
}

/** Returns the texts and the names in them: `ana@mail.example.net` has `ana`, `mail` and `example`. */
function contextWords(context: readonly string[]): ReadonlySet<string> {
  const texts = context.map((text) => text.normalize('NFKC').toLowerCase());
  const parts = texts.flatMap((text) => [text, ...text.split(/[^\p{L}\p{N}]+/u)]);
  return new Set(['posthorn', ...parts].filter((part) => part.length >= 3));
}

function scoreOf(text: string, personal: ReadonlySet<string>): number {
  const plain = unspelled(text);
  const names = [...personal].filter((name) => text.includes(name) || plain.includes(name));
  let score = 0;
  for (let at = 0; at < text.length;) {
    const here = names.filter((name) => text.startsWith(name, at) || plain.startsWith(name, at));
    if (here.length > 0) {
      at += Math.max(...here.map((name) => name.length));
      continue;
    }
    const word = longestAt(
      at,
      LONGEST_WORD,
      (from, to) => to - from >= SHORTEST_WORD && (words.has(text.slice(from, to)) || words.has(plain.slice(from, to))),
    );
    if (word > 0) {
      score += WORD_SCORE;
      at += word;
    } else if (/^(?:19|20)\d\d$/.test(text.slice(at, at + 4))) {
      score += 1;
      at += 4;
    } else {
      if (!follows(text, at)) score += 1;
      at += 1;
    }
  }
  return score;
}

/** Returns the length of the longest piece from `at` on for which `is` holds; 0 for none. */
function longestAt(at: number, longest: number, is: (from: number, to: number) => boolean): number {
  for (let length = longest; length > 0; length--) if (is(at, at + length)) return length;
  return 0;
}

/** The rows of QWERTY, QWERTZ and AZERTY, also backwards, with the signs above the digits and the columns of QWERTY. */
const ROWS =
  '1234567890-= !@#$%^&*() qwertyuiop asdfghjkl; zxcvbnm,./ qwertzuiopü+ yxcvb azertyuiop^ qsdfghjklm wxcvbn 1qaz2wsx3edc4rfv';
const KEYS = `${ROWS} ${Array.from(ROWS).reverse().join('')}`;

/** Returns whether the character is the obvious next one after those before. */
function follows(text: string, at: number): boolean {
  if (at === 0) return false;
  const before = text.charAt(at - 1);
  const here = text.charAt(at);
  const step = here.charCodeAt(0) - before.charCodeAt(0);
  if (Math.abs(step) <= 1 || KEYS.includes(before + here)) return true;
  // Three characters that occurred before: a repetition.
  return at >= 2 && text.slice(0, at).includes(text.slice(at - 2, at + 1));
}

/** Letters that characters stand for: `p@ssw0rd` is `password`. */
const letters: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '8': 'b',
  '@': 'a',
  $: 's',
  '!': 'i',
  '+': 't',
  '|': 'l',
};
const unspelled = (text: string): string => text.replaceAll(/[0134578@$!+|]/g, (one) => letters[one] ?? one);
