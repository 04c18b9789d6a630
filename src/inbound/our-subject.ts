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

/** Fewer characters may be a word that the notice has of itself. */
const SHORTEST = 8;
const LONGEST = 300;
const MOST_SUBJECTS = 5;

/** `Subject: `, `The subject of the message is: `, and the like in the languages of mail systems. */
const LABELLED =
  /^([>\s*\-•]{0,20}(?:(?:the|your|message|mail|original|der|le|el|il|o) ){0,3}(?:subject|betreff|objet|sujet|asunto|assunto|oggetto|onderwerp|ämne|emne|aihe|temat|předmět|predmet|tárgy|subiect|konu|тема|θέμα|件名|主题|主題|主旨|제목)(?: (?:of|line)(?: \p{L}{1,10}){0,2})?(?: (?:is|was))?\s{0,4}[:：])\s{0,10}(\S.*)$/iu;
const ANY_LABEL = /^[>\s]{0,20}[\p{L}-]{1,30}\s?[:：](?:\s|$)/u;

/**
 * Returns the notice's own words: without what follows a label of a subject, and without the returned mail's subject. `sent`: the
 * subject of our mail, where the token of the notice says which one it is.
 */
export function withoutOurSubject(
  { subject, lines }: Prose,
  original: readonly HeaderField[],
  sent: string | null,
): Prose {
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
  const patterns = [...new Set(found)].slice(0, MOST_SUBJECTS).flatMap(patternOf);
  const cleaned = patterns.reduce((text, pattern) => text.replace(pattern, ''), own.join('\n')).split('\n');
  const title = patterns.reduce((text, pattern) => text.replace(pattern, ''), subject);
  // A notice whose subject is ours and nothing else says no more by it.
  return {
    subject: /\p{L}/u.test(title) || sent !== null ? title : subject,
    lines: cleaned.map((line) => line.trimEnd()),
  };
}

const indent = (line: string): number => /^[>\s]{0,80}/.exec(line)?.[0].length ?? 0;

/** Returns what finds this subject, also where a line was wrapped in it. */
function patternOf(subject: string): RegExp[] {
  const text = subject.trim().slice(0, LONGEST);
  if (text.length < SHORTEST) return [];
  const words = text.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'));
  return [new RegExp(words.join('\\s{1,80}'), 'giu')];
}
