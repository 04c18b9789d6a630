/** Splits the inside of a tag into names, numbers, texts and marks. */
import { syntax, type Faulty } from './fault.ts';

export interface Lexeme {
  /** `segment`: Handlebars' `[any text]`, a name with characters that names cannot have. */
  kind: 'string' | 'number' | 'name' | 'mark' | 'segment';
  text: string;
  at: number;
  /** True if white space comes before it. */
  spaced: boolean;
}

/** Quotes that word processors write, and invisible characters: a name that held one would never be found in the data. */
const STRAY = /[\p{Pi}\p{Pf}\p{Cf}\u201a\u201e]/u;
const NAME = /[^\s!"#%&'()*+,./:;<=>@[\\\]^`{|}~\p{Pi}\p{Pf}\p{Cf}\u201a\u201e]+/uy;
const NUMBER = /-?\d+(?:\.\d+)?(?=\.\.|[\s,|:=<>!)\]}~]|$)/y;
const BLANKS = /\s+/y;
const MARKS = [
  '==',
  '!=',
  '<>',
  '<=',
  '>=',
  '../',
  './',
  '..',
  '.',
  '|',
  ':',
  ',',
  '=',
  '<',
  '>',
  '(',
  ')',
  '[',
  ']',
  '@',
  '/',
];
/** The language of a tag: `[name]` at the start of a path is a name in Handlebars, but in Liquid the value of `name`. */
export type Language = 'handlebars' | 'liquid';

const BEFORE_SEGMENT: ReadonlySet<string> = new Set(['.', '/', './', '../']);

/** Returns whether the next bracket has a literal name. */
function isSegment(last: Lexeme | undefined, spaced: boolean, behind: string | undefined, language: Language): boolean {
  const joined = last !== undefined && !spaced;
  if (joined && last.kind === 'mark' && BEFORE_SEGMENT.has(last.text)) return true;
  if (language === 'liquid' || behind === '"' || behind === "'") return false;
  return !joined || last.text === '(' || last.text === '=';
}

const unquoted = (text: string): string => (/^(["']).*\1$/.test(text) ? text.slice(1, -1) : text);

function matched(pattern: RegExp, body: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(body)?.[0] ?? null;
}

export function readLexemes(body: string, bodyAt: number, language: Language, look: () => void): Lexeme[] {
  const lexemes: Lexeme[] = [];
  let at = 0;
  while (at < body.length) {
    if (lexemes.length % LEXEMES_A_LOOK === LEXEMES_A_LOOK - 1) look();
    const blanks = matched(BLANKS, body, at)?.length ?? 0;
    at += blanks;
    if (at >= body.length) break;
    const { length, ...lexeme } = lexemeAt(body, at, { bodyAt, language, last: lexemes.at(-1), spaced: blanks > 0 });
    lexemes.push(lexeme);
    at += length;
  }
  return lexemes;
}

/** Lexemes between two looks at the clock. */
const LEXEMES_A_LOOK = 32;

function lexemeAt(
  body: string,
  at: number,
  { bodyAt, language, last, spaced }: { bodyAt: number; language: Language; last: Lexeme | undefined; spaced: boolean },
): Lexeme & { length: number } {
  const make = (kind: Lexeme['kind'], text: string, length = text.length) => ({
    kind,
    text,
    at: bodyAt + at,
    spaced,
    length,
  });
  const char = body[at] ?? '';
  if (char === '"' || char === "'") {
    const end = body.indexOf(char, at + 1);
    if (end < 0) throw syntax(`the text that begins with ${char} is never closed`, bodyAt + at);
    return make('string', body.slice(at + 1, end), end + 1 - at);
  }
  if (char === '[' && isSegment(last, spaced, body[at + 1], language)) {
    const end = body.indexOf(']', at + 1);
    if (end < 0) throw syntax(`'[' is never closed`, bodyAt + at);
    return make('segment', unquoted(body.slice(at + 1, end)), end + 1 - at);
  }
  const afterDot = last?.kind === 'mark' && last.text === '.' && !spaced;
  const number = afterDot ? null : matched(NUMBER, body, at);
  if (number !== null) return make('number', number);
  const name = matched(NAME, body, at);
  if (name !== null) return make('name', name);
  const mark = MARKS.find((one) => body.startsWith(one, at));
  if (mark === undefined) throw notUnderstood(char, bodyAt + at);
  return make('mark', mark);
}

function notUnderstood(char: string, at: number): Faulty {
  if (/\p{Cf}/u.test(char))
    return syntax(
      `there is an invisible character (U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}): remove it`,
      at,
    );
  return syntax(
    STRAY.test(char) ? `'${char}' is not a quote here: write " or '` : `'${char}' is not understood here`,
    at,
  );
}
