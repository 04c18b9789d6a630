/**
 * Mail that was taken and then sent back by a filter of the recipient (Sieve `reject`, RFC 5429) or by the program that stores it
 * (Dovecot's delivery agent, of a full mailbox). Both write a disposition notification, the form of read receipts, so the words
 * and the mark of RFC 3834 tell them apart: mail programs also say "deleted" of a mail that was never opened.
 */
import { isDispositionNotification, isMarkedRejected } from '../mail/auto-reply.ts';
import { readDeliveryReport } from '../mail/delivery-report.ts';
import { fieldOf, ownPartsOf, readHead, textOf } from '../mail/mime-read.ts';
import { isByOwnRule, type Judge } from '../messages/delivery/classify.ts';
import { namedRecipients, printable, reportedRecipients, toRuled, type ReadBy } from './bounce.ts';
import { foldText, type BounceWords } from './bounce-words.ts';
import type { FoundRecipient } from './finding.ts';
import type { Notice } from './notice.ts';

const DELETED = /^\s*automatic-action\s*\/[^;]{0,100};\s*(?:deleted|rejected|refused)\b/i;
/** The beginning of a subject that says so; our own subject follows it. */
const REJECTED = /^\s*(?:automatically )?(?:rejected|refused)(?:\s*:| mail\b| message\b)/i;
const LONGEST_REASON = 500;
/** The code of a reply that says as much. */
const PERMANENT = 550;
/** From the sentence on. */
const LINES_BEFORE_REASON = 4;

/** Returns the recipient that such a mail is about; null for any other mail. */
export function rejectionIn(notice: Notice, by: ReadBy): FoundRecipient[] | null {
  const { words } = by;
  const { mail, subject, lines } = notice;
  const part = [...ownPartsOf(mail)].find(({ type }) => type === 'message/disposition-notification');
  const fields = part === undefined ? '' : textOf(part);
  const isSaid = REJECTED.test(subject) || lines.some((line) => saysRejected(line, subject, words));
  const isDeleted = isDispositionNotification(mail) && DELETED.test(fieldOf(readHead(fields), 'disposition') ?? '');
  if (!isMarkedRejected(mail.headers) && !(isDeleted && isSaid)) return null;
  const reason = reasonIn(lines, words);
  const { recipients, ...report } = readDeliveryReport(fields);
  const failed = recipients.map((one) => ({ ...one, action: 'failed' as const }));
  // The words around the reason only announce it.
  const explaining = reason.length > 0 ? { ...notice, subject: '', lines: reason } : notice;
  const found =
    failed.length > 0
      ? reportedRecipients({ ...report, recipients: failed }, explaining, by)
      : namedRecipients('failed', notice, by);
  return found.map((one) => ({ ...one, ...explained(one, reason, by.judge) }));
}

/** Takes the reason for the words of a person: unless an own rule knows them, the recipient does not want the mail. */
function explained(
  { diagnostic, verdict, rule }: FoundRecipient,
  reason: readonly string[],
  judge: Judge,
): Pick<FoundRecipient, 'diagnostic' | 'verdict' | 'rule'> {
  const text = reason.join(' ').trim().slice(0, LONGEST_REASON).toWellFormed();
  const said = { diagnostic: diagnostic ?? printable(text === '' ? null : text) };
  const isOwn = rule !== null && isByOwnRule({ rule });
  if (isOwn || (verdict !== null && verdict.class !== 'undetermined')) return { ...said, verdict, rule };
  const byReason = judge({ phase: 'report', code: PERMANENT, enhanced: null, text });
  if (isByOwnRule(byReason)) return { ...said, ...toRuled(byReason) };
  return { ...said, verdict: { class: 'block', reason: 'policy' }, rule: null };
}

/** Receipts repeat our subject behind their own words, so a line with the end of theirs may quote it. */
function saysRejected(line: string, subject: string, words: BounceWords): boolean {
  const repeated = foldText(subject.slice(subject.indexOf(':') + 1)).trim();
  const text = foldText(line);
  return words.rejection(repeated === '' ? text : text.replaceAll(repeated, ''));
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
