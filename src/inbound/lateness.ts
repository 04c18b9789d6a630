/**
 * Decides whether a notice in prose is about a delay. Delay warnings also announce what comes later ("Eventually the mail software will
 * give up, and the message will be returned to you"), so a sentence about the future never counts as the mail having been
 * given up.
 */
import { foldText, type BounceWords } from './bounce-words.ts';

export interface ProseToJudge {
  /** The subject, folded. */
  title: string;
  /** The lines without white space at their ends. */
  lines: readonly string[];
  /** True where the subject says that the mail was not delivered. */
  failureInTitle: boolean;
}

/** The end of a sentence. An empty line ends one too; a colon does not, since a list of recipients follows it. */
const SENTENCE_END = /\n\n|[.!?;](?=\s)|[。！？；]/;

/**
 * Words that say that attempts go on outweigh everything but a plain statement that they do not. Words that only say "late"
 * also occur in notices of mails that were given up, so there the subject decides.
 */
export function isLate({ title, lines, failureInTitle }: ProseToJudge, words: BounceWords): boolean {
  const text = foldText(lines.join('\n'));
  const goesOn = words.retrying(title) || words.retrying(text);
  if (!goesOn && (failureInTitle || !(words.delay(title) || words.delay(text)))) return false;
  return !isOver(lines, words);
}

/** True where a sentence says that the mail has been given up, and not that it may be. */
function isOver(lines: readonly string[], words: BounceWords): boolean {
  return lines
    .join('\n')
    .split(SENTENCE_END)
    .map((sentence) => ` ${foldText(sentence)} `)
    .some((sentence) => words.givenUp(sentence) && !words.promise(sentence));
}
