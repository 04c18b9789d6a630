/**
 * Phrases to look for in what strangers write, as data: words that must follow each other, whatever stands between them as
 * punctuation, however they are accented or capitalised. They become regular expressions that cannot run away, since no
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
  /** The host names and URLs that were taken out, a space before and after each: their words were not said of this mail. */
  names: string;
}

export type CompiledPhrases = { kind: 'ok'; pattern: RegExp } | { kind: 'bad'; why: string };

/** What stands behind it in a text is not read. */
const LONGEST_TEXT = 1000;
const LONGEST_PHRASE = 2000;
/** Each gap multiplies the work on a hostile text by its length. */
const MOST_GAPS = 2;

const ADDRESS = /[a-z0-9.!#$%&*+/?^_`{|}~=-]{1,64}@[a-z0-9._:-]{1,255}/g;
const URL = /(?:https?:\/\/|\bwww\.)[^\s<>"]{1,400}/g;
const DOTTED = /[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,9}/g;
/** Of two labels, only what ends like a domain is taken for one: `found.Please` only lacks a space. */
const DOMAIN_END = /\.(?:[a-z]{2}|com|net|org|edu|gov|mil|int|info|biz|name|dev|app|test|example|invalid|local|lan)$/;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]/gu;
const BETWEEN_WORDS = /[^\p{L}\p{N}]+/gu;
const APOSTROPHES = /['’‘`´]/g;
const ACCENTS = /[\u0300-\u036f]/g;

/** Reads the first 1,000 characters. */
export function wordingOf(text: string): Wording {
  const names: string[] = [];
  const take = (name: string): string => {
    names.push(name);
    return ' ';
  };
  const plain = unaccented(text.slice(0, LONGEST_TEXT))
    .replace(URL, take)
    .replace(ADDRESS, ' ')
    .replace(DOTTED, (dotted) => (isName(dotted) ? take(dotted) : dotted));
  return { words: ` ${wordsOf(plain).join(' ')} `, names: ` ${names.join(' ')} ` };
}

/** One pattern that finds any of the phrases in the `words` of a wording. */
export function compilePhrases(phrases: readonly string[]): CompiledPhrases {
  const sources: string[] = [];
  for (const phrase of phrases) {
    const read = readPhrase(phrase);
    if (read.kind === 'bad') return { kind: 'bad', why: `${JSON.stringify(phrase.slice(0, 60))}: ${read.why}` };
    sources.push(read.source);
  }
  return { kind: 'ok', pattern: new RegExp(` (?:${sources.join('|')})`, 'u') };
}

type Reading = { kind: 'ok'; source: string } | { kind: 'bad'; why: string };

const bad = (why: string): Reading => ({ kind: 'bad', why });

/** What stands by itself between spaces: a group, a gap, or a word. */
const ELEMENT = /\([^()[\]]*\)(?!\S)|\[[^()[\]]*\](?!\S)|[^\s()[\]|]+(?!\S)/g;

/** Each part brings the space behind it, so that parts may be left out. */
function readPhrase(phrase: string): Reading {
  if (phrase.length > LONGEST_PHRASE) return bad(`longer than ${String(LONGEST_PHRASE)} characters`);
  if (phrase.replace(ELEMENT, '').trim() !== '')
    return bad('a bracket or bar that stands in no group, or next to a word');
  const elements = phrase.match(ELEMENT) ?? [];
  if (elements.filter((element) => element === '...').length > MOST_GAPS)
    return bad(`more than ${String(MOST_GAPS)} gaps`);
  if (!elements.some((element) => !element.startsWith('[') && wordsOf(unaccented(element)).length > 0))
    return bad('no word that must be there');
  return { kind: 'ok', source: elements.map(elementSource).join('') };
}

function elementSource(element: string): string {
  if (element === '...') return '(?:.{0,40} )?';
  if (!/^[([]/.test(element)) return wordSource(element);
  const choices = element
    .slice(1, -1)
    .split('|')
    .map((choice) => choice.trim().split(/\s+/).map(wordSource).join(''));
  return `(?:${choices.join('|')})${element.startsWith('[') ? '?' : ''}`;
}

/** `e-mail` is two words, `不存在` three. */
function wordSource(word: string): string {
  const words = wordsOf(unaccented(word));
  if (words.length === 0) return '';
  return `${words.join(' ')}${word.endsWith('*') ? '[^ ]{0,20}' : ''} `;
}

/** Compatibility forms (full-width letters and signs) become the usual ones. */
const unaccented = (text: string): string =>
  text.normalize('NFKD').replace(ACCENTS, '').normalize('NFC').toLowerCase().replace(APOSTROPHES, '');

const wordsOf = (text: string): string[] =>
  text
    .replace(UNSPACED, ' $& ')
    .split(BETWEEN_WORDS)
    .filter((word) => word !== '');

function isName(dotted: string): boolean {
  const dots = dotted.split('.').length - 1;
  return DOMAIN_END.test(dotted) || (dots > 1 && /[a-z]/.test(dotted));
}
