/**
 * Takes our own subject out of a notice about our mail. Notices repeat it in their subject and their text, and a subject such as
 * `Your payment failed and will be retried` says nothing of what the host that writes has done.
 */
import type { HeaderField } from '../mail/header.ts';
import { wordsOf } from '../mail/mime-read.ts';

interface Prose {
  subject: string;
  lines: readonly string[];
}

/** Fewer characters may be a word that the notice has of itself. Those of the scripts of East Asia count three times. */
const SHORTEST = 8;
/** Notices cut our subject, too. Fewer of its words in a row may be the notice's own, unless they begin it. */
const LEAST_WORDS = 3;
const LONGEST = 300;
const MOST_SUBJECTS = 5;

/** `Subject: `, `The subject of the message is: `, and the like in the languages of mail systems. */
const LABELLED =
  /^([>\s*\-•]{0,20}(?:(?:the|your|message|mail|original|der|le|el|il|o) ){0,3}(?:subject|betreff|objet|sujet|asunto|assunto|oggetto|onderwerp|ämne|emne|aihe|temat|předmět|predmet|tárgy|subiect|konu|тема|θέμα|件名|主题|主題|主旨|제목)(?: (?:of|line)(?: \p{L}{1,10}){0,2})?(?: (?:is|was))?\s{0,4}[:：])\s{0,10}(\S.*)$/iu;
const ANY_LABEL = /^[>\s]{0,20}[\p{L}-]{1,30}\s?[:：](?:\s|$)/u;

const UNSPACED = '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}';
const DENSE = new RegExp(`[${UNSPACED}\\p{Script=Hangul}]`, 'gu');
/** An address is one word, and so is each character of the scripts without spaces. */
const WORD = new RegExp(
  `[${UNSPACED}]|[\\p{L}\\p{N}](?:[^${UNSPACED}\\s<>()[\\]"'“”„«»‘’:;,!?…]*[\\p{L}\\p{M}\\p{N}])?`,
  'gu',
);

/**
 * Returns the notice's own words: without what follows a label of a subject, and without the returned mail's subject, whole or in part.
 * `sent`: the subject of our mail, if the token of the notice says which one it is.
 */
export function withoutOurSubject({ subject, lines }: Prose, original: readonly HeaderField[], sent: string | null) {
  const found = [...(sent === null ? [] : [sent]), wordsOf(original, 'subject')];
  const own: string[] = [];
  let depth: number | null = null;
  for (const line of lines) {
    const [, label, value] = LABELLED.exec(line) ?? [];
    const isWrapped: boolean = depth !== null && line !== '' && indent(line) > depth && !ANY_LABEL.test(line);
    if (label !== undefined && value !== undefined) found.push(value);
    else if (isWrapped) found.push(`${found.pop() ?? ''} ${line.trim()}`);
    own.push(label ?? (isWrapped ? '' : line));
    depth = label === undefined && !isWrapped ? null : (depth ?? indent(line));
  }
  const ours = [...new Set(found.map((one) => one.trim().slice(0, LONGEST)))].filter(isLong).slice(0, MOST_SUBJECTS);
  const withoutWhole = (text: string): string => ours.reduce((left, one) => left.replace(patternOf(one), ''), text);
  const cleaned = withoutWhole(own.join('\n'));
  const title = ours.reduce(withoutParts, withoutWhole(subject));
  return {
    // A notice whose subject is ours and nothing else says no more by it.
    subject: /\p{L}/u.test(title) || sent !== null ? title : subject,
    isSubjectKnown: found.some((one) => one !== ''),
    lines: linesOf(ours.reduce(withoutParts, cleaned)),
    looseLines: linesOf(cleaned),
  };
}

const indent = (line: string): number => /^[>\s]{0,80}/.exec(line)?.[0].length ?? 0;

const linesOf = (text: string): string[] => text.split('\n').map((line) => line.trimEnd());

const isLong = (text: string): boolean => text.length + 2 * (text.match(DENSE)?.length ?? 0) >= SHORTEST;

/** Returns what finds this subject, also if a line was wrapped in it. */
function patternOf(subject: string): RegExp {
  const words = subject.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'));
  return new RegExp(words.join('\\s{1,80}'), 'giu');
}

/** Removes words that follow one another in the subject as well, or begin it and are cut, with its words directly after them. */
function withoutParts(text: string, subject: string): string {
  const wanted = wordsIn(subject);
  const words = wordsIn(text);
  const rowAt = (all: readonly string[], at: number): string => all.slice(at, at + LEAST_WORDS).join(' ');
  const rows = new Set(wanted.slice(LEAST_WORDS - 1).map((_, at) => rowAt(wanted, at)));
  const known = new Set(wanted);
  const [first = '', second = ''] = wanted;
  let at = -1;
  let end = -1;
  return text.replace(WORD, (word) => {
    const [one = '', next = ''] = words.slice(++at, at + 2);
    const row = rowAt(words, at);
    if (rows.has(row) && isLong(row.replaceAll(' ', ''))) end = at + LEAST_WORDS;
    else if (one === first && second.startsWith(next) && isLong(one + next)) end = Math.max(end, at + 2);
    else if (at === end && known.has(one)) end = at + 1;
    return at < end ? '' : word;
  });
}

const wordsIn = (text: string): string[] => (text.match(WORD) ?? []).map((word) => word.toLowerCase());
