/** The words of a subject as they are indexed and looked for: between white space, without case. Pure. */
import type { MessageWordRow } from '../../storage/tables.ts';

/** Characters of a word that are indexed; the rest is cut off. */
const LONGEST_WORD = 64;

/** Returns the word as it is indexed. A character that is cut in two is replaced: SQLite would give back another text than it was given. */
export const indexedWord = (word: string): string => word.toLowerCase().slice(0, LONGEST_WORD).toWellFormed();

/** Returns each word once. */
export function subjectWords(subject: string): string[] {
  const words = subject.toLowerCase().split(/\s+/);
  return [...new Set(words.map(indexedWord))].filter((word) => word !== '');
}

export const wordRows = (accountId: string, messageId: string, subject: string): MessageWordRow[] =>
  subjectWords(subject).map((word) => ({ account_id: accountId, word, message_id: messageId }));
