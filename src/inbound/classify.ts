/**
 * What is this mail? Asked in the order in which the answers are sure: programs' own words first (a delivery report, a
 * feedback report, a receipt), then what it was sent to, then prose. An answering machine also writes from the null sender,
 * quotes our mail and says "could not", so prose is a bounce only where something says so that no answering machine says.
 *
 * Pure and linear in the mail's length, for use in a thread (report-worker.ts): the mail may be anybody's.
 */
import { isAutoSubmitted, isDispositionNotification, isMarkedAutoReply } from '../mail/auto-reply.ts';
import { addressesIn } from '../mail/addresses-in.ts';
import { fieldOf, fieldsOf, ownPartsOf, readMail, wordsOf, type MailPart } from '../mail/mime-read.ts';
import { namedRecipient, reportedRecipient } from './bounce.ts';
import { foldText, type BounceWords } from './bounce-words.ts';
import { complainant, complaintIn } from './complaint.ts';
import { CODE_OR_STATUS, statusOfWords } from './diagnostic.ts';
import type { Finding, FindingKind } from './finding.ts';
import { namedRecipients } from './named-recipients.ts';
import { openNotice, type Notice } from './notice.ts';
import { findMessageId, findReturnPathToken, findUnsubscribeToken } from './token.ts';

type Answer = Pick<Finding, 'kind'> & Partial<Finding>;

/** `envelope`: the recipients of the SMTP session, which come before any header. Never throws. */
export function readReport(words: BounceWords, bytes: Uint8Array, envelope: readonly string[] = []): Finding {
  const notice = openNotice(readMail(bytes), words);
  const answer =
    complaint(notice) ??
    deliveryReport(notice, words) ??
    receipt(notice) ??
    unsubscribe(notice, envelope) ??
    aggregateReport(notice) ??
    prose(notice, words);
  return {
    token: findReturnPathToken(notice, envelope),
    messageId: findMessageId(notice),
    recipients: [],
    feedback: null,
    isWellFormed: false,
    ...answer,
  };
}

function complaint(notice: Notice): Answer | null {
  const found = complaintIn(notice);
  return found === null ? null : { kind: 'complaint', ...found };
}

/** RFC 3464: one that failed makes it a bounce, one that is late a delay; success is of no interest. */
function deliveryReport(notice: Notice, words: BounceWords): Answer | null {
  const { mail, delivery } = notice;
  if (delivery === null || delivery.recipients.length === 0) return null;
  const recipients = delivery.recipients
    .map((one) => reportedRecipient(one, notice, words))
    .filter(({ address }) => address !== '');
  const actions = new Set(recipients.map(({ action }) => action));
  const kind: FindingKind = actions.has('failed') ? 'bounce' : actions.has('delayed') ? 'delay' : 'other';
  if (recipients.length === 0) return null;
  const isWellFormed =
    mail.type === 'multipart/report' && mail.params.get('report-type')?.toLowerCase() === 'delivery-status';
  return { kind, recipients, isWellFormed };
}

const receipt = ({ mail }: Notice): Answer | null => (isDispositionNotification(mail) ? { kind: 'auto_reply' } : null);

/** To our own address, or one that a mail program made for its user ("unsubscribe" and nothing else). */
function unsubscribe(notice: Notice, envelope: readonly string[]): Answer | null {
  const token = findUnsubscribeToken(notice, envelope);
  if (token === null && !isPlainUnsubscribe(notice)) return null;
  const [from] = addressesIn(fieldOf(notice.mail.headers, 'from')?.slice(0, 1000) ?? '');
  const feedback = { type: 'opt-out', userAgent: null, arrivalDate: null, feedbackId: null };
  return { kind: 'unsubscribe', token, recipients: from === undefined ? [] : [complainant(from.address)], feedback };
}

const isPlainUnsubscribe = ({ mail, subject }: Notice): boolean =>
  fieldOf(mail.headers, 'x-apple-unsubscribe') !== null || /^unsubscribe$/i.test(subject.trim());

/** RFC 7489 section 7.2.1.1 (subject, file name), RFC 8460 section 5.3 (types, header). */
function aggregateReport({ mail, subject }: Notice): Answer | null {
  const isTls =
    fieldOf(mail.headers, 'tls-report-domain') !== null || mail.params.get('report-type')?.toLowerCase() === 'tlsrpt';
  const isDmarc = /^\s*(?:\[[^\]]{0,40}\]\s*)?report[- ]domain:/i.test(subject);
  return isTls || isDmarc || [...ownPartsOf(mail)].some(isAggregatePart) ? { kind: 'report' } : null;
}

function isAggregatePart({ type, params, headers }: MailPart): boolean {
  if (type.startsWith('application/tlsrpt')) return true;
  const name =
    params.get('name') ??
    /filename\*?=(?:"([^"]{1,300})"|([^\s;]{1,300}))/i
      .exec(fieldOf(headers, 'content-disposition') ?? '')
      ?.slice(1)
      .join('') ??
    '';
  return /^[^!\s]{1,253}![^!\s]{1,253}!\d{1,12}!\d{1,12}(?:![^.]{0,100})?\.(?:xml|json|zip)(?:\.gz)?$/i.test(name);
}

function prose(notice: Notice, words: BounceWords): Answer {
  const kind = kindOfProse(notice, words);
  if (kind !== 'bounce' && kind !== 'delay') return { kind };
  const action = kind === 'bounce' ? 'failed' : 'delayed';
  return { kind, recipients: namedRecipients(notice, words).map((one) => namedRecipient(one, action, notice, words)) };
}

function kindOfProse(notice: Notice, words: BounceWords): FindingKind {
  const { mail, subject, lines, original } = notice;
  const title = foldText(subject);
  const text = foldText(lines.join('\n'));
  const named = fieldOf(mail.headers, 'x-failed-recipients') !== null;
  if (!named && words.challenge(title)) return 'auto_reply';
  const fromDaemon = isFromDaemon(mail, words);
  const says = words.failure(title) || words.failure(text);
  const isLate = (words.delay(title) || words.delay(text)) && !words.failure(title) && !words.givenUp(text);
  if (!named && words.autoReplySubjects(title)) return 'auto_reply';
  if (!fromDaemon && !named) return fromPerson(notice, words, { title, text, says, isLate });
  if (!named && !says && (isMarkedAutoReply(mail.headers) || words.challenge(text))) return 'auto_reply';
  if (isLate) return 'delay';
  if (!named && (words.success(title) || words.success(text)) && !words.failure(title)) return 'other';
  if (named || says || lines.some((line) => CODE_OR_STATUS.test(line))) return 'bounce';
  if (original.length > 0 && statusOfWords(text, words) !== null) return 'bounce';
  return isAutoSubmitted(mail.headers) || words.autoReplyTexts(text) ? 'auto_reply' : 'other';
}

/** Gateways bounce in the name of people too; then a head that came back or a quoted reply must bear it out. */
function fromPerson(
  { mail, original, lines }: Notice,
  words: BounceWords,
  { title, text, says, isLate }: { title: string; text: string; says: boolean; isLate: boolean },
): FindingKind {
  const automatic = isMarkedAutoReply(mail.headers);
  if (automatic || words.challenge(text)) return 'auto_reply';
  const isBorneOut = original.length > 0 || lines.some((line) => CODE_OR_STATUS.test(line)) || hasNullSender(mail);
  if (words.failure(title) && isBorneOut) return isLate ? 'delay' : 'bounce';
  if (says && (hasNullSender(mail) || (isBorneOut && words.nobodies.has(localPartOfFrom(mail)))))
    return isLate ? 'delay' : 'bounce';
  return isAutoSubmitted(mail.headers) || words.autoReplyTexts(text) ? 'auto_reply' : 'other';
}

/** By its From: the local part, or the name beside it. */
function isFromDaemon(mail: MailPart, words: BounceWords): boolean {
  return words.senders.has(localPartOfFrom(mail)) || words.senderNames(foldText(fromOf(mail)));
}

const fromOf = (mail: MailPart): string => wordsOf(mail.headers, 'from').slice(0, 1000);

/** Lower case; of `MAILER-DAEMON` alone, and of `MAILER-DAEMON <>`, the name. */
function localPartOfFrom(mail: MailPart): string {
  const from = fromOf(mail);
  const [first] = addressesIn(from);
  return (
    (first?.address ?? from)
      .toLowerCase()
      .replace(/^[<"\s]+/, '')
      .split(/[@>\s]/, 1)[0] ?? ''
  );
}

const hasNullSender = (mail: MailPart): boolean =>
  fieldsOf(mail.headers, new Set(['return-path'])).some((value) => /^<\s*>/.test(value.trim()));
