/** Splits the source into tokens of both languages in one pass, without the white space that tags remove (`~`, `-`, a block tag alone on its line). */
import { syntax } from './fault.ts';

export type Token =
  | { kind: 'text'; text: string }
  /** `{{ … }}`; `raw` for `{{{ … }}}` and `{{& … }}`. */
  | { kind: 'output'; body: string; bodyAt: number; at: number; raw: boolean }
  /** `{{#…}}`, `{{^…}}`, `{{/…}}`, `{{else…}}`. */
  | { kind: 'open' | 'inverse' | 'close' | 'else'; body: string; bodyAt: number; at: number }
  /** `{% name rest %}`. */
  | { kind: 'tag'; name: string; body: string; bodyAt: number; at: number };

interface Found {
  /** Null for comments: they only affect the white space around them. */
  token: Exclude<Token, { kind: 'text' }> | null;
  /** The text of the tag: of `raw`, or an escaped `{{`. */
  literal?: string;
  end: number;
  trimBefore?: boolean;
  trimAfter?: boolean;
  /** True for a tag whose line is removed if nothing else is on it. */
  standalone?: boolean;
}

/** Splits the source. `look` is called for each tag and may throw if that takes too long. */
export function tokenize(source: string, look: () => void): Token[] {
  const parts: (string | Found)[] = [];
  let from = 0;
  let next = 0;
  for (;;) {
    const at = source.indexOf('{', next);
    if (at < 0 || at === source.length - 1) break;
    const second = source[at + 1];
    if (second !== '{' && second !== '%') {
      next = at + 1;
      continue;
    }
    look();
    const marked = second === '{' && source[at - 1] === '\\' && at > from;
    // Two backslashes are one backslash of text, followed by a tag.
    const escaped = marked && !(source[at - 2] === '\\' && at - 1 > from);
    const found: Found = escaped
      ? { token: null, literal: '{{', end: at + 2 }
      : second === '{'
        ? mustache(source, at)
        : liquidTag(source, at);
    parts.push(source.slice(from, marked ? at - 1 : at), found);
    from = found.end;
    next = found.end;
  }
  parts.push(source.slice(from));
  return joined(parts);
}

const isTrim = (char: string | undefined): boolean => char === '~' || char === '-';

function mustache(source: string, at: number): Found {
  if (source.startsWith('{{{{', at)) throw syntax(`'{{{{' (raw blocks) is not part of this language`, at);
  let start = at + 2;
  const trimBefore = isTrim(source[start]);
  if (trimBefore) start++;
  if (source.startsWith('!', start)) return comment(source, at, start, trimBefore);
  const raw = source[start] === '{';
  if (raw) start++;
  const close = endOf(source, start, raw ? '}' : '}}');
  if (close < 0) throw syntax(`'{{' is never closed`, at);
  let end = close + (raw ? 1 : 0);
  // `{{{x}~}}`: the mark is between the braces.
  let trimAfter = false;
  if (raw && isTrim(source[end])) {
    trimAfter = true;
    end++;
  }
  if (raw && !source.startsWith('}}', end)) throw syntax(`'{{{' is never closed`, at);
  end += 2;
  let bodyEnd = close;
  if (!raw && bodyEnd > start && isTrim(source[bodyEnd - 1])) {
    trimAfter = true;
    bodyEnd--;
  }
  const token = mustacheToken(source, at, start, bodyEnd, raw);
  return { token, end, trimBefore, trimAfter, standalone: token.kind !== 'output' };
}

function mustacheToken(
  source: string,
  at: number,
  start: number,
  end: number,
  raw: boolean,
): NonNullable<Found['token']> {
  const inside = (from: number) => ({ body: source.slice(from, end), bodyAt: from, at });
  if (raw) return { kind: 'output', ...inside(start), raw };
  const first = behindBlanks(source, start, end);
  switch (source[first]) {
    case '#':
      if (source[first + 1] === '*' || source[first + 1] === '>')
        throw syntax('decorators and partials are not part of this language', at);
      return { kind: 'open', ...inside(first + 1) };
    case '^':
      // `{{^}}` is an old spelling of `{{else}}`.
      return { kind: source.slice(first + 1, end).trim() === '' ? 'else' : 'inverse', ...inside(first + 1) };
    case '/':
      return { kind: 'close', ...inside(first + 1) };
    case '>':
    case '*':
      throw syntax('partials and decorators are not part of this language', at);
    case '&':
      return { kind: 'output', ...inside(first + 1), raw: true };
    case 'e':
      if (/^else(?![^\s~-])/.test(source.slice(first, Math.min(end, first + 5))))
        return { kind: 'else', ...inside(first + 4) };
      break;
    default:
      break;
  }
  return { kind: 'output', ...inside(start), raw: false };
}

/** Skips blanks, without a regular expression, which takes as long as the rest of a small tag. */
function behindBlanks(source: string, from: number, to: number): number {
  let at = from;
  while (at < to && (source[at] === ' ' || source[at] === '\n' || source[at]?.trim() === '')) at++;
  return at;
}

/** Reads `{{! … }}`, or `{{!-- … --}}`, which may contain `}}`. */
function comment(source: string, at: number, start: number, trimBefore: boolean): Found {
  const long = source.startsWith('!--', start);
  let close = long ? source.indexOf('--', start + 3) : source.indexOf('}}', start);
  while (long && close >= 0 && !/^--[~-]?\}\}/.test(source.slice(close, close + 5)))
    close = source.indexOf('--', close + 1);
  if (close < 0) throw syntax(`the comment is never closed`, at);
  const end = source.indexOf('}}', close) + 2;
  const trimAfter = long ? isTrim(source[close + 2]) && source[close + 3] === '}' : trimsAfter(source, close);
  return { token: null, end, trimBefore, trimAfter, standalone: true };
}

/** Returns whether a mark is before the `}}` of a short comment. Several hyphens are a drawn line and part of the comment, as in Handlebars. */
const trimsAfter = (source: string, close: number): boolean =>
  source[close - 1] === '~' || (source[close - 1] === '-' && source[close - 2] !== '-');

function liquidTag(source: string, at: number): Found {
  const { start, close, end, trimBefore, trimAfter } = tagAt(source, at);
  const { name, length } = headOf(source.slice(start, Math.min(close, start + LONGEST_HEAD)));
  const bodyAt = start + length;
  const common = { end, trimBefore, trimAfter };
  if (name === '#') return { ...common, token: null };
  if (name === 'raw') {
    const last = rawEnd(source, end, at);
    const begun = trimAfter ? source.slice(end, last.from).trimStart() : source.slice(end, last.from);
    const literal = last.trimBefore ? begun.trimEnd() : begun;
    return { ...common, token: null, literal, end: last.end, trimAfter: last.trimAfter };
  }
  if (name === 'comment') {
    const last = commentEnd(source, end, at);
    return { ...common, token: null, end: last.end, trimAfter: last.trimAfter };
  }
  return { ...common, token: { kind: 'tag', name, body: source.slice(bodyAt, close), bodyAt, at } };
}

interface TagPlace {
  start: number;
  close: number;
  end: number;
  trimBefore: boolean;
  trimAfter: boolean;
}

function tagAt(source: string, at: number): TagPlace {
  const trimBefore = isTrim(source[at + 2]);
  const start = at + (trimBefore ? 3 : 2);
  const found = tagEnd(source, start);
  if (found < 0) throw syntax(`'{%' is never closed`, at);
  const trimAfter = found > start && isTrim(source[found - 1]);
  return { start, close: trimAfter ? found - 1 : found, end: found + 2, trimBefore, trimAfter };
}

/** Tags that may be followed by any words, as in Liquid; `liquid` may have comments. */
const WITHOUT_VALUES: ReadonlySet<string> = new Set(['#', 'comment', 'endcomment', 'raw', 'endraw', 'liquid']);

/** Returns the place of the `%}` of a tag. Only values have quotes, in which a `%}` is text: the apostrophe of a comment begins none. */
function tagEnd(source: string, start: number): number {
  const { name } = headOf(source.slice(start, start + LONGEST_HEAD));
  return WITHOUT_VALUES.has(name) ? source.indexOf('%}', start) : endOf(source, start, '%}');
}

/** White space and a name that are longer are not read as the head of a tag. */
const LONGEST_HEAD = 1000;

/** Reads the name of a Liquid tag, `#` for a comment, and how long the text up to its end is. */
export function headOf(text: string): { name: string; length: number } {
  const head = /^\s*(#|[A-Za-z_]\w*)?/.exec(text);
  return { name: head?.[1] ?? '', length: head?.[0].length ?? 0 };
}

/** Finds the end tag of `raw`, whose inside is not read. */
function rawEnd(source: string, from: number, openedAt: number): TagPlace & { from: number } {
  const pattern = /\{%[-~]?\s*endraw\b/g;
  pattern.lastIndex = from;
  const match = pattern.exec(source);
  if (match === null) throw syntax(`{% raw %} is never closed`, openedAt);
  return { ...tagAt(source, match.index), from: match.index };
}

/** Finds the end of a comment, which may contain other comments and `raw`. Its tags are read as tags, so an unclosed one hides the end. */
function commentEnd(source: string, from: number, openedAt: number): TagPlace {
  let depth = 1;
  let inRaw = false;
  for (let at = source.indexOf('{%', from); at >= 0;) {
    const end = source.indexOf('%}', at + 2);
    if (end < 0) break;
    const word = /^[-~]?\s*(\w+)/.exec(source.slice(at + 2, Math.min(end, at + 1000)))?.[1];
    if (inRaw) inRaw = word !== 'endraw';
    else if (word === 'raw') inRaw = true;
    else if (word === 'comment') depth++;
    else if (word === 'endcomment' && --depth === 0) return tagAt(source, at);
    at = source.indexOf('{%', end + 2);
  }
  throw syntax(`{% comment %} is never closed`, openedAt);
}

/** Returns the place of `mark`: the first outside of quotes, else the first of all. */
function endOf(source: string, from: number, mark: string): number {
  const plain = source.indexOf(mark, from);
  if (plain < 0) return -1;
  const end = outsideQuotes(source, from, mark);
  return end < 0 ? plain : end;
}

/** Returns the place of `mark` outside of quotes. An unclosed quote is ignored, or one apostrophe would hide the rest. */
function outsideQuotes(source: string, from: number, mark: string): number {
  let at = from;
  for (;;) {
    const end = source.indexOf(mark, at);
    if (end < 0) return -1;
    const quote = firstQuote(source, at, end);
    if (quote < 0) return end;
    const closed = source.indexOf(source[quote] ?? '"', quote + 1);
    if (closed < 0) return end;
    at = closed + 1;
  }
}

function firstQuote(source: string, from: number, to: number): number {
  for (let at = from; at < to; at++) if (source[at] === '"' || source[at] === "'") return at;
  return -1;
}

const LINE_BEFORE = /(?:^|\n)[ \t]*$/;

/** Joins the parts: removes the white space that tags ask for, and drops empty text. */
function joined(parts: readonly (string | Found)[]): Token[] {
  const tokens: Token[] = [];
  const alone = parts.map((part, n) => typeof part !== 'string' && part.standalone === true && isAlone(parts, n));
  parts.forEach((part, n) => {
    if (typeof part !== 'string') {
      const { literal = '' } = part;
      if (literal !== '') tokens.push({ kind: 'text', text: literal });
      if (part.token !== null) tokens.push(part.token);
      return;
    }
    const [before, after] = [parts[n - 1], parts[n + 1]];
    let text = part;
    if (before !== undefined && typeof before !== 'string') {
      if (before.trimAfter === true) text = text.trimStart();
      else if (alone[n - 1] === true) text = text.replace(/^[ \t]*\r?\n?/, '');
    }
    if (after !== undefined && typeof after !== 'string') {
      if (after.trimBefore === true) text = text.trimEnd();
      else if (alone[n + 1] === true) text = withoutLastBlanks(text);
    }
    if (text !== '') tokens.push({ kind: 'text', text });
  });
  return tokens;
}

/** Removes blanks at the end, without a regular expression, which is quadratic for a hostile text of blanks. */
function withoutLastBlanks(text: string): string {
  let end = text.length;
  while (end > 0 && (text[end - 1] === ' ' || text[end - 1] === '\t')) end--;
  return text.slice(0, end);
}

function isAlone(parts: readonly (string | Found)[], n: number): boolean {
  const [before, after] = [parts[n - 1], parts[n + 1]];
  if (typeof before !== 'string' || typeof after !== 'string') return false;
  const isFirst = n === 1;
  const isLast = n === parts.length - 2;
  const head = before.slice(Math.max(0, before.length - LONGEST_INDENT));
  const begins = isFirst ? LINE_BEFORE.test(head) : /\n[ \t]*$/.test(head);
  return begins && (isLast ? /^[ \t]*(?:\r?\n|$)/ : /^[ \t]*\r?\n/).test(after);
}

/** Blanks before a tag that still count as an indent. */
const LONGEST_INDENT = 200;
