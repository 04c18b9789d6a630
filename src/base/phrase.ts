/**
 * Phrases to look for in what strangers write, as data: words that must follow each other, whatever punctuation is between them,
 * however they are accented or capitalised. They become regular expressions that cannot run away, since no
 * phrase can say "as often as you like".
 *
 * A phrase is words with spaces between. `reject*` is any word that begins so, `(user|mailbox)` is one of several,
 * `[the|this]` one of several or nothing, `...` up to 40 characters of anything. Nothing else has a meaning. Scripts that
 * write without spaces need none: each of their characters counts as a word.
 */

/** A text made ready to be searched. */
export interface Wording {
  /** Lower-case words with one space before and after each: no punctuation, accents, addresses, host names or URLs. */
  words: string;
  /** The host names and URLs that were taken out, a space before and after each: their words are not about this mail. */
  names: string;
}

export type PhraseIndex = ReturnType<typeof createPhraseIndex>;

type Reading = { kind: 'ok'; pattern: RegExp; starts: ReadonlySet<string> } | { kind: 'bad'; why: string };

const LONGEST_TEXT = 1000;
/** Each gap multiplies the work on a hostile text by its length. */
const MOST_GAPS = 2;
/** Phrases are found by the first letters of their first word. */
const KEY_LENGTH = 3;

/** An address. A colon behind it begins the text about it: `a@b:blocked`. */
const ADDRESS = /[a-z0-9.!#$%&*+/?^_`{|}~=-]{1,64}@(?:\[[a-z0-9.:]{1,60}\]|[a-z0-9._-]{1,255})/g;
const URL = /(?:https?:\/\/|\bwww\.)[^\s<>"]{1,400}/g;
const DOTTED = /[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,9}/g;
/** Two labels are taken for a domain only if they end like one: `found.Please` only lacks a space. */
const DOMAIN_END = /\.(?:[a-z]{2}|com|net|org|edu|gov|mil|int|info|biz|name|dev|app|test|example|invalid|local|lan)$/;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]/gu;
const BETWEEN_WORDS = /[^\p{L}\p{N}]+/gu;
const APOSTROPHES = /['’‘`´]/g;
/** French and Italian articles: `l'adresse`, `dell'utente`. */
const ELISIONS = /(?<![\p{L}\p{N}])(l|d|dell|all|nell|un|qu)['’]/gu;
const ACCENTS = /[\u0300-\u036f]/g;

/** Reads the first 1,000 characters. */
export function wordingOf(text: string): Wording {
  const names: string[] = [];
  const take = (name: string): string => {
    names.push(name);
    return ' ';
  };
  let plain = unaccented(text.slice(0, LONGEST_TEXT));
  if (plain.includes('://') || plain.includes('www.')) plain = plain.replace(URL, take);
  if (plain.includes('@')) plain = plain.replace(ADDRESS, ' ');
  if (plain.includes('.')) plain = plain.replace(DOTTED, (dotted) => (isName(dotted) ? take(dotted) : dotted));
  return { words: ` ${wordsOf(plain).join(' ')} `, names: ` ${names.join(' ')} ` };
}

/** Creates an index. A text is read once, and at each word only those phrases are tried that begin like it. */
export function createPhraseIndex() {
  const byStart = new Map<string, { list: number; pattern: RegExp }[]>();
  let lists = 0;
  return {
    /** Adds a list; returns its number. Throws for a phrase that cannot be read. */
    add(phrases: readonly string[]): number {
      const list = lists++;
      for (const phrase of phrases) {
        const read = readPhrase(phrase);
        if (read.kind === 'bad') throw new Error(`"${phrase}": ${read.why}`);
        for (const start of read.starts) {
          const there = byStart.get(start) ?? [];
          byStart.set(start, there);
          there.push({ list, pattern: read.pattern });
        }
      }
      return list;
    },
    /** Returns the numbers of the lists of which a phrase is in the `words` of a wording. */
    find(words: string): ReadonlySet<number> {
      const found = new Set<number>();
      for (let at = 1, end = words.indexOf(' ', at); end > 0; at = end + 1, end = words.indexOf(' ', at)) {
        for (const { list, pattern } of byStart.get(words.slice(at, Math.min(end, at + KEY_LENGTH))) ?? []) {
          if (found.has(list)) continue;
          pattern.lastIndex = at;
          if (pattern.test(words)) found.add(list);
        }
      }
      return found;
    },
  };
}

export function faultOfPhrase(phrase: string): string | null {
  const read = readPhrase(phrase);
  return read.kind === 'bad' ? read.why : null;
}

/** A token between spaces: a group, a gap, or a word. */
const ELEMENT = /\([^()[\]]*\)(?!\S)|\[[^()[\]]*\](?!\S)|[^\s()[\]|]+(?!\S)/g;

interface Element {
  optional: boolean;
  isGap: boolean;
  /** Each is a row of words; the last word of a row may be only the beginning of one. */
  choices: readonly { words: readonly string[]; open: boolean }[];
}

function readPhrase(phrase: string): Reading {
  const plain = unaccented(phrase);
  const elements = (plain.match(ELEMENT) ?? []).map(elementOf);
  const why = faultOf(plain, elements);
  if (why !== null) return { kind: 'bad', why };
  const needed = elements.findIndex(({ optional }) => !optional);
  const starts = elements.slice(0, needed + 1).flatMap(({ choices }) => choices.map(({ words }) => keyOf(words)));
  return { kind: 'ok', pattern: new RegExp(elements.map(sourceOf).join(''), 'uy'), starts: new Set(starts) };
}

function faultOf(plain: string, elements: readonly Element[]): string | null {
  if (plain.replace(ELEMENT, '').trim() !== '') return 'a bracket or bar outside of a group, or next to a word';
  if (elements.filter(({ isGap }) => isGap).length > MOST_GAPS) return `more than ${String(MOST_GAPS)} gaps`;
  const needed = elements.findIndex(({ optional }) => !optional);
  if (needed < 0) return 'no word that must be there';
  if (elements.slice(0, needed).some(({ isGap }) => isGap)) return 'a gap before the first word that must be there';
  const choices = elements.flatMap((element) => element.choices);
  if (choices.some(({ words }) => words.length === 0)) return 'nothing where a word should be';
  if (choices.some(({ words, open }) => open && (words.at(-1) ?? '').length < KEY_LENGTH))
    return `fewer than ${String(KEY_LENGTH)} letters before *`;
  return null;
}

function elementOf(text: string): Element {
  if (text === '...') return { optional: true, isGap: true, choices: [] };
  const isGroup = /^[([]/.test(text);
  const choices = isGroup ? text.slice(1, -1).split('|') : [text];
  return {
    optional: text.startsWith('['),
    isGap: false,
    // `e-mail` is two words, `不存在` three.
    choices: choices.map((choice) => ({ words: wordsOf(choice), open: choice.trim().endsWith('*') })),
  };
}

const keyOf = (words: readonly string[]): string => (words[0] ?? '').slice(0, KEY_LENGTH);

/** Returns the regular expression of an element. Each part contains the space behind it, so that it may be left out. */
function sourceOf({ optional, isGap, choices }: Element): string {
  if (isGap) return '(?:.{0,40} )?';
  const rows = choices.map(({ words, open }) => `${words.join(' ')}${open ? '[^ ]{0,20}' : ''} `);
  return `(?:${rows.join('|')})${optional ? '?' : ''}`;
}

/** Returns the text in lower case without accents. Compatibility forms (full-width letters and signs) become the usual ones. */
const unaccented = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(ACCENTS, '')
    .normalize('NFC')
    .toLowerCase()
    .replace(ELISIONS, '$1 ')
    .replace(APOSTROPHES, '');

const wordsOf = (text: string): string[] =>
  text
    .replace(UNSPACED, ' $& ')
    .split(BETWEEN_WORDS)
    .filter((word) => word !== '');

function isName(dotted: string): boolean {
  const dots = dotted.split('.').length - 1;
  return DOMAIN_END.test(dotted) || (dots > 1 && /[a-z]/.test(dotted));
}
