/** The words of a subject as they are indexed and looked for: between white space, without case. Pure. */
import type { MessageWordRow } from '../../storage/tables.ts';

/** Characters of a word that are indexed; the rest is cut off. */
export const LONGEST_WORD = 64;

/** Returns each word once. */
export function subjectWords(subject: string): string[] {
  const words = subject.toLowerCase().split(/\s+/);
  return [...new Set(words.map((word) => word.slice(0, LONGEST_WORD)))].filter((word) => word !== '');
}

export const wordRows = (accountId: string, messageId: string, subject: string): MessageWordRow[] =>
  subjectWords(subject).map((word) => ({ account_id: accountId, word, message_id: messageId }));
