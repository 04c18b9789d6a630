/** Finds the reply that a notice quotes: `mx.example.net said: 550 5.1.1 User unknown`, qmail's `(#5.1.1)`, or words with a known status. */
import { readDiagnostic } from '../mail/diagnostic.ts';
import { foldText, type BounceWords } from './bounce-words.ts';

/** The words of a notice that say why a mail was not delivered. */
export interface Passage {
  text: string;
  /** `550`; null if none is quoted. */
  code: number | null;
  /** `5.1.1`; null if none is quoted. */
  enhanced: string | null;
}

const LONGEST_TEXT = 500;
/** A reply goes on over a few lines, until the paragraph ends. */
const MOST_LINES = 8;

/** Codes that SMTP has (RFC 5321 section 4.2.1), where a reply can begin; an address of four numbers or of a page (`/help#554`) has none such. */
const CODE = /(?:^|[\s:>"'(;,=[]|(?<![\w/])#)([45][0-5][0-9])(?=[ \-](?:[^0-9\s]|[45]\.)|[)\]:;,]|$)/;
const ENHANCED = /(?:^|[^0-9.])([245]\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9]|\.[0-9])/;
const REPLY =
  /(?:^|[\s:>"'(;,=[]|(?<![\w/])#)([45][0-5][0-9])[ \-]{1,4}['"#([]{0,2}([45]\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9]|\.[0-9])/;

/** The next command of a transcript, the next recipient of a list. */
const ANOTHER = /^\s{0,20}(?:>>>|<?[^\s<>@:]{1,128}@[^\s<>@:]{1,255}>?:(?:\s|$))/;
const REPLY_LINE = /^\s{0,20}(?:<<<\s{0,5})?[45][0-5][0-9]([ -])/;

/** A status with its mark: qmail's `#5.1.1`, `Status: 5.1.1`, `ERROR_CODE :5.1.1`; behind a code and a colon; before an address. */
const MARKED = /(?:#|\b(?:status|error|code)(?:[ _]code)?[ :=]{1,3})[45]\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9]|\.[0-9])/i;
const BEHIND_COLON = /(?:^|[\s:>"'(;,#=[])[45][0-5][0-9]: {0,2}[45]\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9]|\.[0-9])/;
const BEFORE_ADDRESS = /(?:^|[^0-9.])[45]\.[0-9]{1,3}\.[0-9]{1,3} <[^<>\s@]{1,128}@/;
/** A status that no word is before. */
const AT_START = /(?:^|[:;,([-])\s{0,4}[45]\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9]|\.[0-9])/;

/** True of a line with a server's reply. Dotted numbers may be a date (`5.1.27`) or version, so a mark or words must be beside them. */
export const quotesServer = (line: string, words: BounceWords): boolean =>
  [REPLY, MARKED, BEHIND_COLON, BEFORE_ADDRESS].some((form) => form.test(line)) ||
  (AT_START.test(line) && statusOfWords(line, words) !== null);

/** Reads the codes of a passage. In prose the status may stand anywhere, as long as it is one of the reply's. */
export function readPassage(text: string): Passage {
  const shown = text.replace(/\s+/g, ' ').trim().slice(0, LONGEST_TEXT).toWellFormed();
  const { code, enhanced } = readDiagnostic(shown);
  const status = enhanced ?? ENHANCED.exec(shown)?.[1] ?? null;
  const isOfReply = code === null || enhanced !== null || status?.startsWith(String(code).charAt(0)) === true;
  return { text: shown, code, enhanced: isOfReply ? status : null };
}

/** Returns the passage with the reason: a quoted reply, a permanent one first, else words that mean a status. */
export function findPassage(shown: readonly string[], words: BounceWords): Passage | null {
  const lines = shown.map(unquoted);
  for (const isOne of [
    (line: string) => REPLY.exec(line)?.[1]?.startsWith('5') === true && quotesPermanent(line),
    (line: string) => CODE.exec(line)?.[1]?.startsWith('5') === true,
    (line: string) => CODE.test(line),
    (line: string) => ENHANCED.test(line),
  ]) {
    const index = lines.findIndex(isOne);
    if (index >= 0) return readPassage(replyFrom(lines, index, words));
  }
  const index = lines.findIndex((line) => statusOfWords(line, words) !== null);
  return index < 0 ? null : readPassage([lines[index], ...following(lines, index, words)].join(' '));
}

/** Within a line a code that begins a reply has a mark before it: a number between words may be one of hours. */
const QUOTED_CODE =
  /(?:^\s{0,20}|[:>"'(;,=[]\s?|(?<![\w/])#\s?)([45][0-5][0-9])(?=[ \-](?:[^0-9\s]|[45]\.)|[)\]:;,]|$)/;

function replyIn(line: string): RegExpExecArray | null {
  const [quoted, withStatus] = [QUOTED_CODE.exec(line), REPLY.exec(line)];
  return quoted !== null && withStatus !== null && withStatus.index < quoted.index
    ? withStatus
    : (quoted ?? withStatus);
}

export const quotesPermanent = (line: string): boolean => replyIn(line)?.[1]?.startsWith('5') === true;

/** Returns the lines without the replies that they quote, which say nothing of what the reporting server does. */
export function withoutReplies(lines: readonly string[]): readonly string[] {
  let isInReply = false;
  return lines.map((line, index) => {
    const at = replyIn(line)?.index;
    isInReply = at !== undefined || (isInReply && line !== '' && indentOf(line) > paragraphIndent(lines, index));
    return isInReply ? line.slice(0, at ?? 0) : line;
  });
}

/** Returns the status that a text's words mean (config/bounce-words.yaml), or null. */
export function statusOfWords(text: string, words: BounceWords): string | null {
  const folded = foldText(text);
  return words.statuses.find(({ phrases }) => phrases(folded))?.status ?? null;
}

/** Returns the text from the code to the end of the paragraph. */
function replyFrom(lines: readonly string[], index: number, words: BounceWords): string {
  const line = lines[index] ?? '';
  const at = (replyIn(line) ?? CODE.exec(line))?.index ?? 0;
  return [line.slice(at).replace(/^[\s:>"'(;,#=[]{1,20}/, ''), ...following(lines, index, words)].join(' ');
}

/** Marks of quoted text; three of them before a command are Sendmail's. */
const MARKS = /^(?:>(?!>> ?[A-Za-z]{4}) ?){1,5}/;
const unquoted = (line: string): string => (line.startsWith('>') ? line.replace(MARKS, '') : line);

/** Returns the spaces that a line begins with, behind the marks of quoted text. */
export const indentOf = (line: string): number => /^\s{0,80}/.exec(unquoted(line))?.[0].length ?? 0;

/** Returns the indent of the paragraph's first line: lines with more were wrapped, so an address there begins no other recipient. */
function paragraphIndent(lines: readonly string[], index: number): number {
  let first = index;
  while (first > 0 && first > index - MOST_LINES && lines[first - 1] !== '') first--;
  return indentOf(lines[first] ?? '');
}

/** Returns the passage from this line to the next reply (RFC 5321 section 4.2.1: a hyphen continues one) or the reporter's own words. */
function following(lines: readonly string[], index: number, words: BounceWords): readonly string[] {
  const rest = lines.slice(index + 1, index + MOST_LINES);
  const indent = paragraphIndent(lines, index);
  let goesOn = /[45][0-5][0-9]-/.test(lines[index] ?? '');
  const end = rest.findIndex((line) => {
    const separator = REPLY_LINE.exec(line)?.[1];
    if (line.trim() === '' || words.givenUp(` ${foldText(line)}`)) return true;
    if (ANOTHER.test(line) && indentOf(line) <= indent) return true;
    if (separator !== undefined && !goesOn) return true;
    goesOn = separator === '-';
    return false;
  });
  return end < 0 ? rest : rest.slice(0, end);
}
