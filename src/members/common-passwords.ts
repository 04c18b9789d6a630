/**
 * Finds passwords that are guessed first: the commonest (config/common-passwords.json: the 3,000 commonest of public leaks, and
 * those of them that are long enough here), words made from them, keyboard patterns, and names that everyone knows about the
 * login. A password gets a score for the parts that must be guessed; spelling and a year at the end add little. Pure.
 */
import common from '../../config/common-passwords.json' with { type: 'json' };

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

/** Returns whether the character is the obvious next one after those before. */
function follows(text: string, at: number): boolean {
  if (at === 0) return false;
  const before = text.charAt(at - 1);
  const here = text.charAt(at);
  const step = here.charCodeAt(0) - before.charCodeAt(0);
  if (Math.abs(step) <= 1 || isBeside(before, here)) return true;
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

/** How far each row of keys is shifted to the right. */
const OFFSETS = [0, 0.5, 0.75, 1.25];
/** The rows of QWERTY, QWERTZ and AZERTY. */
const keyboards = [
  ['1234567890-=', 'qwertyuiop[]', "asdfghjkl;'", 'zxcvbnm,./'],
  ['1234567890-=', 'qwertzuiopü+', 'asdfghjklöä#', 'yxcvbnm,.-'],
  ['1234567890-=', 'azertyuiop^$', 'qsdfghjklmù*', 'wxcvbn,;:!'],
].map(
  (rows) =>
    new Map(
      rows.flatMap((keys, row) => Array.from(keys, (key, n) => [key, { row, x: n + (OFFSETS[row] ?? 0) }] as const)),
    ),
);
const SHIFTED = '!@#$%^&*()';

/** Returns whether two keys are neighbours on a keyboard; 0 also comes before 1. */
function isBeside(one: string, other: string): boolean {
  const [left, right] = [unshifted(one), unshifted(other)];
  if (left === '0' && right === '1') return true;
  return keyboards.some((places) => {
    const [a, b] = [places.get(left), places.get(right)];
    return a !== undefined && b !== undefined && Math.abs(a.row - b.row) <= 1 && Math.abs(a.x - b.x) <= 1;
  });
}

function unshifted(key: string): string {
  const place = SHIFTED.indexOf(key);
  return place < 0 ? key : '1234567890'.charAt(place);
}
