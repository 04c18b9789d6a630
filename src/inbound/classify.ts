/**
 * Decides what a mail is, the surest signs first: what programs wrote, then its recipient, then prose. An answering machine also writes from the
 * null sender and quotes our mail, so prose is a bounce only by a sign that none gives. Pure and linear, for a thread: anyone can send mail.
 */
import {
  isAutoReplied,
  isAutoSubmitted,
  isDispositionNotification,
  isMarkedAutoReply,
  isMarkedRejected,
} from '../mail/auto-reply.ts';
import { addressesIn } from '../mail/addresses-in.ts';
import { type ReportAction, readComplainant, readDeliveryReport } from '../mail/delivery-report.ts';
import { fieldOf, ownPartsOf, readMail, type MailPart, textOf, fieldsOf, wordsOf } from '../mail/mime-read.ts';
import { aggregateIn, isAggregatePart } from './aggregate.ts';
import { namedRecipients, reportedRecipients, type ReadBy, printable, toRuled } from './bounce.ts';
import { foldText, type BounceWords } from './bounce-words.ts';
import { quotesPermanent, quotesServer, statusOfWords, withoutReplies } from './diagnostic.ts';
import {
  nothingFound,
  type Finding,
  type FindingKind,
  type FoundRecipient,
  unknownArrival,
  type Arrival,
} from './finding.ts';
import {
  hasNullSender,
  isAnswer,
  isFromDaemon,
  isFromRecipient,
  localPartOfFrom,
  openNotice,
  type Notice,
} from './notice.ts';
import { isByOwnRule, type Judge } from '../messages/delivery/classify.ts';
import { soughtDomain } from '../mail/address.ts';
import { tagList } from '../mail/dkim/key-record.ts';
import type { HeaderField } from '../mail/header.ts';
import { addresseesOf, addressesOf } from './named-recipients.ts';

type Answer = Pick<Finding, 'kind'> & Partial<Finding>;

/** Reads a mail. Never throws. */
export function readReport(by: ReadBy, bytes: Uint8Array, arrival: Arrival = unknownArrival): Finding {
  const { words } = by;
  const { recipients: envelope } = arrival;
  const notice = openNotice(readMail(bytes), words, arrival);
  const answer =
    complaint(notice) ??
    deliveryReport(notice, by) ??
    rejection(notice, by) ??
    receipt(notice) ??
    unsubscribe(notice, envelope) ??
    aggregateReport(notice) ??
    prose(notice, by);
  const token = findReturnPathToken(notice, envelope);
  return {
    ...nothingFound,
    token: token ?? findTokenInText(notice),
    isTokenInText: token === null,
    messageId: findMessageId(notice),
    copy: findCopyToken(notice),
    ...answer,
  };
}

const complaint = (notice: Notice): Answer | null =>
  notice.feedback !== null || hasProviderSubject(notice) ? complaintOf(notice) : null;

/** Reads a delivery report (RFC 3464): one recipient that failed makes it a bounce, one that is late a delay; success changes nothing. */
function deliveryReport(notice: Notice, by: ReadBy): Answer | null {
  const { mail, delivery } = notice;
  if (delivery === null || delivery.recipients.length === 0) return null;
  const recipients = reportedRecipients(delivery, notice, by, actionInProse(notice, by.words)).filter(
    ({ address }) => address !== '',
  );
  const actions = new Set(recipients.map(({ action }) => action));
  const kind: FindingKind = actions.has('failed') ? 'bounce' : actions.has('delayed') ? 'delay' : 'other';
  if (recipients.length === 0) return null;
  const isWellFormed =
    mail.type === 'multipart/report' && mail.params.get('report-type')?.toLowerCase() === 'delivery-status';
  return { kind, recipients, isWellFormed };
}

/** Returns what the prose says became of the mail, for a report whose fields do not say it. */
const actionInProse = (notice: Notice, words: BounceWords): (() => ReportAction | null) => {
  let kind: FindingKind | null = null;
  return () => ACTIONS[(kind ??= kindOfProse(notice, words))] ?? null;
};

const ACTIONS: Readonly<Partial<Record<FindingKind, ReportAction>>> = { bounce: 'failed', delay: 'delayed' };

const receipt = ({ mail }: Notice): Answer | null => (isDispositionNotification(mail) ? { kind: 'auto_reply' } : null);

/** True for a mail to our own address, or one that a mail program made for its user ("unsubscribe" and nothing else). */
function unsubscribe(notice: Notice, envelope: readonly string[]): Answer | null {
  const token = findUnsubscribeToken(notice, envelope);
  if (token === null && !isPlainUnsubscribe(notice)) return null;
  const [from] = addressesIn(fieldOf(notice.mail.headers, 'from')?.slice(0, 1000) ?? '');
  const feedback = { type: 'opt-out', source: 'other', userAgent: null, arrivalDate: null } as const;
  const recipients = from === undefined ? [] : [complainant(from.address)];
  return { kind: 'unsubscribe', token, wish: findWish(notice), recipients, feedback };
}

const isPlainUnsubscribe = ({ mail, subject }: Notice): boolean =>
  fieldOf(mail.headers, 'x-apple-unsubscribe') !== null || /^unsubscribe$/i.test(subject.trim());

/** Finds an aggregate report by RFC 7489 section 7.2.1.1 (subject, file name) and RFC 8460 section 5.3 (types, header). */
function aggregateReport({ mail, subject }: Notice): Answer | null {
  const isTls =
    fieldOf(mail.headers, 'tls-report-domain') !== null || mail.params.get('report-type')?.toLowerCase() === 'tlsrpt';
  const isDmarc = /^\s*(?:\[[^\]]{0,40}\]\s*)?report[- ]domain:/i.test(subject);
  const parts = [...ownPartsOf(mail)];
  // People write of a "report domain", too.
  const isReport = isTls || (isDmarc && parts.some(isFile)) || parts.some(isAggregatePart);
  if (!isReport) return null;
  const aggregate = aggregateIn(mail);
  return aggregate === null ? { kind: 'report' } : { kind: 'report', aggregate };
}

const isFile = ({ type, parts }: MailPart): boolean => parts.length === 0 && !/^text\/(?:plain|html)$/.test(type);

function prose(notice: Notice, by: ReadBy): Answer {
  const kind = kindOfProse(notice, by.words);
  if (kind !== 'bounce' && kind !== 'delay') {
    // An answer may bring our mail back, with fields in it that its sender has named so.
    const marked = isAnswer(notice.mail, notice.arrival, by.words) ? null : markedComplaint(notice);
    return marked ?? { kind };
  }
  const action = kind === 'bounce' ? 'failed' : 'delayed';
  return { kind, recipients: namedRecipients(action, notice, by) };
}

function kindOfProse(notice: Notice, words: BounceWords): FindingKind {
  const { mail, original, arrival } = notice;
  const said = saidIn(notice, words);
  const { title, text } = said;
  if (fieldOf(mail.headers, 'x-failed-recipients') !== null) return said.late ? 'delay' : 'bounce';
  if (words.autoReplySubjects(title)) return 'auto_reply';
  // The subject of the returned mail may itself mention an approval.
  if (words.challenge(title) && !said.failureInTitle) return 'auto_reply';
  if (words.challenge(text) && !said.failureInTitle && !said.quotesReply) return 'auto_reply';
  if (!isFromDaemon(mail, arrival, words)) return kindFromOthers(notice, words, said);
  if (!said.failure && isMarkedAutoReply(mail.headers)) return 'auto_reply';
  if (said.late) return 'delay';
  if (!said.failureInTitle && (words.success(title) || words.success(text))) return 'other';
  if (said.failure || said.quotesReply) return 'bounce';
  if (original.length > 0 && statusOfWords(text, words) !== null) return 'bounce';
  return automaticOrNot(mail, words, text);
}

/** The meaning of the prose, computed once. */
type Said = ReturnType<typeof saidIn>;

function saidIn({ subject, lines }: Notice, words: BounceWords) {
  const title = foldText(subject);
  const text = foldText(lines.join('\n'));
  const failureInTitle = words.failure(title);
  return {
    title,
    text,
    failure: failureInTitle || words.failure(text),
    /** Words of a subject that no answering machine writes. */
    failureInTitle,
    late: isLate(title, lines, failureInTitle, words),
    /** A reply or a status is quoted, as only mail servers do. */
    quotesReply: lines.some((line) => quotesServer(line, words)),
    /** The same, and not in what a person's mail program has quoted. */
    quotesReplyItself: lines.some((line) => !line.startsWith('>') && quotesServer(line, words)),
  };
}

/** The end of a sentence. An empty line ends one too; a colon does not, since a list of recipients follows it. */
const SENTENCE_END = /\n\n|[.!?;](?=\s)|[。！？；]/;

/**
 * Decides whether a notice is about a delay. Warnings of a delay also announce what comes later, so a sentence about the future never counts as
 * given up. Words that attempts go on outweigh all but a plain denial. Beside a subject of failure or a permanent reply they must be the notice's
 * own: servers write "do not resend your message", and our subject may say "will be retried". For words that only say "late" the subject decides.
 */
function isLate(title: string, lines: readonly string[], failureInTitle: boolean, words: BounceWords): boolean {
  const text = foldText(lines.join('\n'));
  const own = withoutReplies(lines);
  const isRefused = failureInTitle || lines.some(quotesPermanent);
  const goesOn = words.retrying(isRefused ? foldText(own.join('\n')) : `${title}\n${text}`);
  if (!goesOn && (failureInTitle || !(words.delay(title) || words.delay(text)))) return false;
  return !isOver(own, words);
}

/** True if a sentence says that the mail has been given up, and not that it may be. */
function isOver(lines: readonly string[], words: BounceWords): boolean {
  return lines
    .join('\n')
    .split(SENTENCE_END)
    .map((sentence) => ` ${foldText(sentence)} `)
    .some((sentence) => words.givenUp(sentence) && !words.promise(sentence));
}

/** The marks of forwards and of replies, in the languages of mail programs. */
const PASSED_ON =
  /^\s*(?:fwd?|wg|tr|rv|enc|vb|pd|doorst|转发|轉寄|re|aw|sv|vs|antw|odp|rif|res|ynt|回复|答复|回覆)\s*[:：]/;

/** Judges a mail that no daemon sent. Gateways also bounce in the name of people or with the null sender; then words, which people use as well, are not enough. */
function kindFromOthers(notice: Notice, words: BounceWords, said: Said): FindingKind {
  const { mail, original, arrival } = notice;
  if (isMarkedAutoReply(mail.headers)) return 'auto_reply';
  const isAnswering = isAutoReplied(mail.headers);
  const isOfRecipient = isFromRecipient(mail, arrival);
  if (isAnswering && isOfRecipient) return 'auto_reply';
  // Answering machines write from the null sender as well.
  const isFromNull = hasNullSender(mail, arrival) && !isAnswering;
  const isProgram = (isFromNull && !isOfRecipient) || words.nobodies.has(localPartOfFrom(mail));
  const hasProof = said.quotesReplyItself || (original.length > 0 && !isAutoSubmitted(mail.headers));
  // A person who passes a notice on, or asks about one, is not the recipient of our mail.
  const isPassedOn = !isProgram && PASSED_ON.test(said.title);
  const isNotice = said.failureInTitle
    ? (hasProof && !isPassedOn) || isFromNull
    : said.failure && isProgram && hasProof;
  if (isNotice) return said.late ? 'delay' : 'bounce';
  return automaticOrNot(mail, words, said.text);
}

const automaticOrNot = (mail: MailPart, words: BounceWords, text: string): FindingKind =>
  isAutoSubmitted(mail.headers) || words.autoReplyTexts(text) ? 'auto_reply' : 'other';

/**
 * Mail that a filter of the recipient (Sieve `reject`, RFC 5429) or its store (Dovecot, full mailbox) took and then sent back. Both write a
 * disposition notification, the form of read receipts; the mark of RFC 3834 tells them apart.
 */

const LONGEST_REASON = 500;
/** The code of a reply that says as much. */
const PERMANENT = 550;

function rejection(notice: Notice, by: ReadBy): Answer | null {
  const { mail, lines } = notice;
  if (!isMarkedRejected(mail.headers)) return null;
  const part = [...ownPartsOf(mail)].find(({ type }) => type === 'message/disposition-notification');
  // Behind the sentence that says so stands the reason; what is around it only announces it.
  const at = lines.findIndex((line) => by.words.rejection(foldText(line)));
  const [, behind = ''] = /: (.*)$/.exec(lines[at] ?? '') ?? [];
  const reason = [behind, ...lines.slice(at + 1)];
  const { recipients, ...report } = readDeliveryReport(part === undefined ? '' : textOf(part));
  const failed = recipients.map((one) => ({ ...one, action: 'failed' as const }));
  const found =
    failed.length > 0
      ? reportedRecipients({ ...report, recipients: failed }, { ...notice, subject: '', lines: reason }, by)
      : namedRecipients('failed', notice, by);
  return { kind: 'bounce', recipients: found.map((one) => explained(one, reason, by.judge)) };
}

/** Takes the reason for the words of a person: unless an own rule knows them, the recipient does not want the mail. */
function explained(one: FoundRecipient, reason: readonly string[], judge: Judge): FoundRecipient {
  const text = reason.join(' ').trim().slice(0, LONGEST_REASON).toWellFormed();
  const said = { ...one, diagnostic: one.diagnostic ?? printable(text === '' ? null : text) };
  const isOwn = one.rule !== null && isByOwnRule({ rule: one.rule });
  if (isOwn || (one.verdict !== null && one.verdict.class !== 'undetermined')) return said;
  const byReason = judge({ phase: 'report', code: PERMANENT, enhanced: null, text });
  if (isByOwnRule(byReason)) return { ...said, ...toRuled(byReason) };
  return { ...said, verdict: { class: 'block', reason: 'policy' }, rule: null };
}

/**
 * Complaints: feedback reports (RFC 5965), and returned mails without one (Microsoft's JMRP). Who complained is often redacted; token, copy
 * mark and Message-ID find the delivery then, but not the Feedback-ID, which names a campaign, an account and a stream.
 */

const MOST_COMPLAINANTS = 100;
const MOST_SIGNATURES = 10;
const LONGEST_SIGNATURE = 4096;

/** Microsoft's JMRP puts this header before the returned mail to name the recipient who complained. */
const JMRP = 'x-hmxmroriginalrecipient';
/** The headers of all providers that do so. */
const COMPLAINANT = new Set([JMRP, 'x-original-rcpt-to', 'x-complaint-to', 'x-aol-recipient']);
const PROVIDER_SUBJECT =
  /^(?:complaint about message from|abuse report|email feedback report|spam report|feedback loop|fbl report|client tos notification)\b/;

/** Returns the complaint that only a mark of a provider makes one, which has to be asked for last: a bounce brings a head back as well. */
const markedComplaint = (notice: Notice): Answer | null =>
  notice.delivery === null && marksIn(notice.original, COMPLAINANT).length > 0 ? complaintOf(notice) : null;

function complaintOf(notice: Notice): Answer {
  const { feedback } = notice;
  return {
    kind: 'complaint',
    recipients: complainantsOf(notice).map(complainant),
    feedback: {
      // A report without a type comes from a spam button as well.
      type: feedback?.feedbackType ?? 'abuse',
      source: feedback !== null ? 'arf' : marksIn(notice.original, new Set([JMRP])).length > 0 ? 'jmrp' : 'other',
      userAgent: feedback?.userAgent ?? null,
      arrivalDate: feedback?.arrivalDate ?? null,
    },
    returned: domainsIn(notice.original),
  };
}

function domainsIn(original: readonly HeaderField[]): NonNullable<Finding['returned']> {
  const authors = addressesOf(original, new Set(['from'])).map((address) =>
    soughtDomain(address.slice(address.lastIndexOf('@') + 1)),
  );
  const signers = fieldsOf(original, new Set(['dkim-signature']))
    .slice(0, MOST_SIGNATURES)
    .flatMap((value) => tagList(value.slice(0, LONGEST_SIGNATURE))?.get('d')?.toLowerCase() ?? []);
  return { authors: [...new Set(authors)].slice(0, MOST_COMPLAINANTS), signers };
}

function complainantsOf({ feedback, original }: Notice): readonly string[] {
  const inReport = feedback?.complainants ?? [];
  if (inReport.length > 0) return inReport;
  const marked = marksIn(original, COMPLAINANT)
    .map(readComplainant)
    .filter((address) => address !== null);
  if (marked.length > 0) return [...new Set(marked)];
  const addressees = [...new Set(addresseesOf(original))].slice(0, MOST_COMPLAINANTS);
  const named = addressees.filter((address) => readComplainant(address) !== null);
  // Redacted ones at last: they show how the report was redacted.
  if (named.length > 0) return named;
  return addressees;
}

/** Providers put their fields before the mail, above its trace (RFC 5321 section 4.4). Below it are the sender's, who may use any name. */
function marksIn(original: readonly HeaderField[], names: ReadonlySet<string>): string[] {
  const trace = original.findIndex(({ name }) => name.toLowerCase() === 'received');
  return fieldsOf(trace < 0 ? original : original.slice(0, trace), names);
}

const hasProviderSubject = ({ subject, original, delivery }: Notice): boolean =>
  original.length > 0 && delivery === null && PROVIDER_SUBJECT.test(foldText(subject).trim());

const complainant = (address: string): FoundRecipient => ({
  address,
  original: null,
  action: null,
  status: null,
  impliedStatus: null,
  diagnostic: null,
  code: null,
  verdict: null,
  rule: null,
});

/** Key number, delivery id, MAC in Crockford's base32: messages/delivery/return-path.ts. Servers on the way may fold the case. */
const RETURN_PATH = /(?<![a-z0-9+])b\+([0-9a-hjkmnp-tv-z][0-7][0-9a-hjkmnp-tv-z]{41})(?=@|=40|$|[\s>"'])/i;
const UNSUBSCRIBE = /(?<![a-z0-9+])unsub\+([a-z0-9._~-]{8,200})@/i;

const ENVELOPE = new Set([
  'to',
  'delivered-to',
  'x-original-to',
  'envelope-to',
  'x-envelope-to',
  'original-recipient',
  'x-rcpt-to',
  'x-forwarded-to',
  'apparently-to',
]);
const RETURNED = new Set([
  'return-path',
  'errors-to',
  'sender',
  'x-envelope-from',
  'envelope-from',
  'x-mailfrom',
  'from',
  'received',
]);

/** Returns the token of a return path in a field that tells whom the mail is for or about. `envelope`: recipients of the SMTP session, if known. */
function findReturnPathToken(notice: Notice, envelope: readonly string[] = []): string | null {
  const { mail, original, feedback, delivery } = notice;
  const token =
    firstMatch(RETURN_PATH, envelope) ??
    firstMatch(RETURN_PATH, fieldsOf(mail.headers, ENVELOPE)) ??
    firstMatch(RETURN_PATH, fieldsOf(original, RETURNED)) ??
    firstMatch(RETURN_PATH, [
      feedback?.originalMailFrom ?? '',
      feedback?.originalEnvelopeId ?? '',
      delivery?.originalEnvelopeId ?? '',
    ]) ??
    firstMatch(
      RETURN_PATH,
      mail.headers.map(({ value }) => value),
    );
  return token?.toLowerCase() ?? null;
}

/** Returns the first token of a return path in the text of the mail. Text may quote another mail of ours, so every other proof comes before. */
const findTokenInText = ({ lines }: Notice): string | null => firstMatch(RETURN_PATH, lines)?.toLowerCase() ?? null;

function findUnsubscribeToken({ mail }: Notice, envelope: readonly string[] = []): string | null {
  return firstMatch(UNSUBSCRIBE, envelope) ?? firstMatch(UNSUBSCRIBE, fieldsOf(mail.headers, ENVELOPE));
}

/** Returns what the subject of an unsubscribe mail says whom it is from. Mail programs may fold a long word. */
function findWish({ mail }: Notice): string | null {
  const [, words] = /\bunsubscribe[\s:]{1,10}([\w-][\w\s-]{60,2000})/i.exec(wordsOf(mail.headers, 'subject')) ?? [];
  return words?.replace(/\s+/g, '') ?? null;
}

/** Returns the mark of the delivery in the head of the returned mail (messages/delivery/return-path.ts). */
function findCopyToken({ original }: Notice): string | null {
  const [value] = fieldsOf(original, new Set(['x-posthorn-delivery']));
  return value === undefined
    ? null
    : (/^\s{0,20}([0-9a-hjkmnp-tv-z]{43})(?:\s|$)/i.exec(value)?.[1]?.toLowerCase() ?? null);
}

/** The form of our own message ids. */
const OWN_MESSAGE_ID = /^<?msg_[0-7][0-9a-hjkmnp-tv-z]{25}(?=[@>\s]|$)/i;

/** Returns the returned mail's X-Message-Id if it is ours (others write one too), else its Message-ID with the angle brackets. */
function findMessageId({ original }: Notice): string | null {
  const marks = fieldsOf(original, new Set(['x-message-id'])).map(idIn);
  const [own] = marks.filter((mark) => OWN_MESSAGE_ID.test(mark));
  const [standard = ''] = fieldsOf(original, new Set(['message-id'])).map(idIn);
  return own ?? [standard, ...marks].find((id) => id !== '') ?? null;
}

function idIn(value: string): string {
  const text = value.trim().slice(0, 998);
  return /<[^<>\s]+>/.exec(text)?.[0] ?? text.split(/\s/, 1)[0] ?? '';
}

function firstMatch(form: RegExp, texts: readonly string[]): string | null {
  for (const text of texts) {
    const token = form.exec(text)?.[1];
    if (token !== undefined) return token;
  }
  return null;
}
