/**
 * Mail that was taken and then sent back by a filter of the recipient (Sieve `reject`, RFC 5429) or by the program that stores it
 * (Dovecot's delivery agent, of a full mailbox). Both write a disposition notification, the form of read receipts, so the words
 * and the mark of RFC 3834 tell them apart: mail programs also say "deleted" of a mail that was never opened.
 */
import { isDispositionNotification, isMarkedRejected } from '../mail/auto-reply.ts';
import { readDeliveryReport } from '../mail/delivery-report.ts';
import { fieldOf, ownPartsOf, readHead, textOf } from '../mail/mime-read.ts';
import { namedRecipients, reportedRecipients } from './bounce.ts';
import { foldText, type BounceWords } from './bounce-words.ts';
import type { FoundRecipient } from './finding.ts';
import type { Notice } from './notice.ts';

const DELETED = /^\s*automatic-action\s*\/[^;]{0,100};\s*(?:deleted|rejected|refused)\b/i;
const LONGEST_REASON = 500;
/** From the sentence on. */
const LINES_BEFORE_REASON = 4;

/** Returns the recipient that such a mail is about; null for any other mail. */
export function rejectionIn(notice: Notice, words: BounceWords): FoundRecipient[] | null {
  const { mail, subject, lines } = notice;
  const part = [...ownPartsOf(mail)].find(({ type }) => type === 'message/disposition-notification');
  const fields = part === undefined ? '' : textOf(part);
  const isSaid = words.rejection(foldText(subject)) || words.rejection(foldText(lines.join('\n')));
  const isDeleted = isDispositionNotification(mail) && DELETED.test(fieldOf(readHead(fields), 'disposition') ?? '');
  if (!isMarkedRejected(mail.headers) && !(isDeleted && isSaid)) return null;
  const reason = reasonIn(lines, words);
  const { recipients, ...report } = readDeliveryReport(fields);
  const failed = recipients.map((one) => ({ ...one, action: 'failed' as const }));
  // The words around the reason only announce it.
  const explaining = reason.length > 0 ? { ...notice, subject: '', lines: reason } : notice;
  const found =
    failed.length > 0
      ? reportedRecipients({ ...report, recipients: failed }, explaining, words)
      : namedRecipients('failed', notice, words);
  return found.map((one) => ({ ...one, ...explained(one, reason) }));
}

/** Takes the reason for the words of a person: the recipient does not want the mail. */
function explained(
  { diagnostic, verdict }: FoundRecipient,
  reason: readonly string[],
): Pick<FoundRecipient, 'diagnostic' | 'verdict'> {
  const isClear = verdict !== null && verdict.class !== 'undetermined';
  const text = reason.join(' ').trim().slice(0, LONGEST_REASON).toWellFormed();
  return {
    diagnostic: diagnostic ?? (text === '' ? null : text),
    verdict: isClear ? verdict : { class: 'block', reason: 'policy' },
  };
}

/** Returns the text after the sentence that says that the mail was rejected, or after one that announces the reason. */
function reasonIn(lines: readonly string[], words: BounceWords): readonly string[] {
  const at = lines.findIndex((line) => words.rejection(foldText(line)));
  const line = lines[at] ?? '';
  const behind = line.slice(line.lastIndexOf(': ') + 1).trim();
  if (behind !== '' && behind !== line.trim()) return [behind, ...lines.slice(at + 1)];
  const announced = lines.slice(at, at + LINES_BEFORE_REASON).findLastIndex((one) => one.endsWith(':'));
  return lines.slice(at + Math.max(announced, 0) + 1);
}
