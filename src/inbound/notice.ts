/** Splits a mail about a mail: fields for programs, text for people, and the head of the other mail, from its part or below a line in the text. */
import type { Arrival } from './finding.ts';
import { soughtAddress } from '../mail/address.ts';
import { addressesIn } from '../mail/addresses-in.ts';
import { isAutoReplied, isMarkedAutoReply } from '../mail/auto-reply.ts';
import {
  isDeliveryStatus,
  readDeliveryReport,
  type DeliveryReport,
  isFeedbackReport,
  readFeedbackReport,
  type FeedbackReport,
} from '../mail/delivery-report.ts';
import type { HeaderField } from '../mail/header.ts';
import {
  fieldOf,
  fieldsOf,
  isMessage,
  octetsOf,
  ownPartsOf,
  partsOf,
  readHead,
  textOf,
  wordsOf,
  type MailPart,
} from '../mail/mime-read.ts';
import { textFromHtml } from '../mail/text-from-html.ts';
import { foldText, type BounceWords } from './bounce-words.ts';

export interface Notice {
  mail: MailPart;
  arrival: Arrival;
  /** Decoded, without the subject of the returned mail. */
  subject: string;
  /** True if the subject of the returned mail is known. Else that of the notice may repeat it. */
  isSubjectKnown: boolean;
  /** Lines of the text for people, without the returned mail and its subject. */
  lines: readonly string[];
  /** The head of the returned mail; empty without one. */
  original: readonly HeaderField[];
  delivery: DeliveryReport | null;
  feedback: FeedbackReport | null;
}

/** Longer prose does not belong to a notice. */
const LONGEST_TEXT = 24 * 1024;
const MOST_LINES = 600;
const LONGEST_LINE = 1000;

const HEADER_LINE = /^[>\s]{0,20}([A-Za-z][A-Za-z0-9-]{1,40}):(?:\s|$)/;
/** In prose an indented head is a summary of the mail, with more prose below it. */
const OUTER_HEADER_LINE = /^(?:> ?){0,5}([A-Za-z][A-Za-z0-9-]{1,40}):(?:\s|$)/;
const RULE = /^\s{0,20}[-=*_#+~]{2}/;
/** No prose has a line of these. */
const OF_A_MAIL = new Set(['received', 'message-id', 'return-path', 'mime-version', 'dkim-signature']);
const FINAL_RECIPIENT = /^[>\s]{0,20}final-recipient:/im;
const FILE_TYPES = new Set(['text/plain', 'application/octet-stream']);
const HEAD_TYPES = new Set(['text/rfc822-headers', 'message/rfc822-headers', 'message/global-headers', 'text/rfc822']);

export function openNotice(mail: MailPart, words: BounceWords, arrival: Arrival): Notice {
  const own = [...ownPartsOf(mail)];
  const prose = linesOf(own);
  const inner = wrappedReport(mail, own, prose);
  if (inner !== null) return openNotice(inner, words, arrival);
  const cut = whereOriginalBegins(prose, words);
  const looseReport = (): DeliveryReport | null => {
    // An answer may quote a report about other mail, and a person one that they got.
    if (isAnswer(mail, arrival, words) || isFromPerson(mail, arrival, words)) return null;
    const isQuoting = hasNullSender(mail, arrival) && !isFromDaemon(mail, arrival, words);
    return reportInProse(isQuoting ? prose.filter((line) => !line.startsWith('>')) : prose) ?? reportInFile(own);
  };
  const deliveryPart = own.find(({ type }) => isDeliveryStatus(type));
  // A complaint that was forwarded whole counts; one inside a mail that bounced does not.
  const feedbackIn = deliveryPart === undefined ? [...partsOf(mail)] : own;
  const feedbackPart = feedbackIn.find(({ type }) => isFeedbackReport(type));
  const original = originalPart(own) ?? readHead(outdented(prose.slice(cut.start)));
  return {
    mail,
    arrival,
    ...withoutOurSubject(
      { subject: wordsOf(mail.headers, 'subject'), lines: prose.slice(0, cut.end) },
      original,
      arrival.about?.subject ?? null,
    ),
    original,
    delivery: deliveryPart === undefined ? looseReport() : reportIn(deliveryPart),
    feedback: feedbackPart === undefined ? null : readFeedbackReport(textOf(feedbackPart)),
  };
}

/** Returns the mail inside that has the report. Gateways wrap a report in its sender's name, or without text; a person who forwards one does neither. */
function wrappedReport(mail: MailPart, own: readonly MailPart[], prose: readonly string[]): MailPart | null {
  if (own.some(({ type }) => isDeliveryStatus(type))) return null;
  const [inner] = own.find(({ type }) => isMessage(type))?.parts ?? [];
  if (inner === undefined || ![...ownPartsOf(inner)].some(({ type }) => isDeliveryStatus(type))) return null;
  const isSilent = prose.every((line) => line === '');
  return isSilent || fieldOf(mail.headers, 'from') === fieldOf(inner.headers, 'from') ? inner : null;
}

/** Reads a report part: its fields are ASCII or UTF-8, whatever a wrong charset says. */
function reportIn(part: MailPart): DeliveryReport {
  const report = readDeliveryReport(textOf(part));
  return report.recipients.length > 0 ? report : readDeliveryReport(octetsOf(part).replace(/\r\n?/g, '\n'));
}

/** Reads a report that is attached as a file of a general type, as some gateways do. */
function reportInFile(own: readonly MailPart[]): DeliveryReport | null {
  const file = own.find(
    (part) => FILE_TYPES.has(part.type) && isAttached(part) && FINAL_RECIPIENT.test(octetsOf(part)),
  );
  return file === undefined ? null : reportIn(file);
}

/** Reads a report in the text, since gateways and people pass reports on as text, quoted or not. */
function reportInProse(lines: readonly string[]): DeliveryReport | null {
  if (!lines.some((line) => FINAL_RECIPIENT.test(line))) return null;
  return readDeliveryReport(lines.map((line) => line.replace(/^(?:> ?)+/, '')).join('\n'));
}

function originalPart(own: readonly MailPart[]): readonly HeaderField[] | null {
  for (const part of own) {
    const mail = isMessage(part.type) ? part.parts[0] : undefined;
    if (mail !== undefined && mail.headers.length > 0) return mail.headers;
    if (HEAD_TYPES.has(part.type)) return readHead(textOf(part));
  }
  return null;
}

/** Returns the plain text of alternatives; html if there is no other part. */
function linesOf(own: readonly MailPart[]): string[] {
  const shown = own.filter((part) => part.parts.length === 0 && !isAttached(part));
  const plain = shown.filter(({ type }) => type === 'text/plain' || type.startsWith('multipart/')).map(textOf);
  const texts = plain.some((text) => text.trim() !== '')
    ? plain
    : shown.filter(({ type }) => type === 'text/html').map((part) => textFromHtml(textOf(part).slice(0, LONGEST_TEXT)));
  return texts
    .join('\n')
    .slice(0, LONGEST_TEXT)
    .split('\n', MOST_LINES)
    .map((line) => line.slice(0, LONGEST_LINE).trimEnd());
}

const isAttached = ({ headers }: MailPart): boolean =>
  /^\s*attachment/i.test(fieldOf(headers, 'content-disposition') ?? '');

/** Returns the `end` of the prose and the `start` of the returned mail, as indices of lines. */
function whereOriginalBegins(lines: readonly string[], words: BounceWords): { end: number; start: number } {
  for (const [index, line] of lines.entries()) {
    if (line === '') continue;
    if (words.originalBegins(foldText(line))) {
      const next =
        index +
        1 +
        Math.max(
          0,
          lines.slice(index + 1).findIndex((one) => one !== '' && !isRule(one)),
        );
      if (RULE.test(line) || HEADER_LINE.test(lines[next] ?? '')) return { end: index, start: next };
    }
    if (isHeadOfMail(lines, index)) return { end: index, start: index };
  }
  return { end: lines.length, start: lines.length };
}

const isRule = (line: string): boolean => /^[\s\-=*_#]+$/.test(line);

/** Returns whether there are three header lines at least, folded ones between them, one of them such as no prose has. */
function isHeadOfMail(lines: readonly string[], from: number): boolean {
  if (!OUTER_HEADER_LINE.test(lines[from] ?? '')) return false;
  let count = 0;
  let isMail = false;
  for (const line of lines.slice(from, from + 40)) {
    const name = OUTER_HEADER_LINE.exec(line)?.[1]?.toLowerCase();
    if (name === undefined && !/^[\s>]/.test(line)) break;
    if (name === undefined) continue;
    count += 1;
    isMail ||= OF_A_MAIL.has(name);
    if (isMail && count >= 3) return true;
  }
  return false;
}

/** Removes the quote marks or spaces that its first line has. */
function outdented(lines: readonly string[]): string {
  const first = lines.findIndex((line) => line !== '');
  const mark = /^[>\s]*/.exec(lines[first] ?? '')?.[0] ?? '';
  return lines
    .slice(Math.max(0, first))
    .map((line) => (line.startsWith(mark) ? line.slice(mark.length) : line))
    .join('\n');
}

/** Takes our own subject out of a notice that repeats it: `Your payment failed and will be retried` says nothing of what the host has done. */

/** Fewer characters may be a word that the notice has of itself. Those of the scripts of East Asia count three times. */
const SHORTEST = 8;
const LONGEST = 300;
const MOST_SUBJECTS = 5;

/** `Subject: `, `The subject of the message is: `, and the like in the languages of mail systems. */
const LABELLED =
  /^([>\s*\-•]{0,20}(?:(?:the|your|message|mail|original|der|le|el|il|o) ){0,3}(?:subject|betreff|objet|sujet|asunto|assunto|oggetto|onderwerp|ämne|emne|aihe|temat|předmět|predmet|tárgy|subiect|konu|тема|θέμα|件名|主题|主題|主旨|제목)(?: (?:of|line)(?: \p{L}{1,10}){0,2})?(?: (?:is|was))?\s{0,4}[:：])\s{0,10}(\S.*)$/iu;
const ANY_LABEL = /^[>\s]{0,20}[\p{L}-]{1,30}\s?[:：](?:\s|$)/u;

const DENSE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Hangul}]/gu;

/** Returns the notice's own words, without labelled and returned subjects. `sent`: our mail's, if the token says which one it is. */
function withoutOurSubject(
  { subject, lines }: Pick<Notice, 'subject' | 'lines'>,
  original: readonly HeaderField[],
  sent: string | null,
) {
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
  // Of a subject that we know to be ours: a notice may begin as any other does.
  const withoutCut = (text: string): string => withoutBeginning(withoutWhole(text), sent?.trim() ?? '');
  const title = withoutCut(subject);
  return {
    // A notice whose subject is ours and nothing else says no more by it.
    subject: /\p{L}/u.test(title) || sent !== null ? title : subject,
    isSubjectKnown: found.some((one) => one !== ''),
    lines: withoutCut(own.join('\n'))
      .split('\n')
      .map((line) => line.trimEnd()),
  };
}

const indent = (line: string): number => /^[>\s]{0,80}/.exec(line)?.[0].length ?? 0;

const isLong = (text: string): boolean => text.length + 2 * (text.match(DENSE)?.length ?? 0) >= SHORTEST;

/** Removes the beginning of our subject, as far as it goes: mail systems cut what they repeat. */
function withoutBeginning(text: string, ours: string): string {
  let length = 1;
  while (length < ours.length && !isLong(ours.slice(0, length))) length++;
  const at = isLong(ours) ? text.indexOf(ours.slice(0, length)) : -1;
  if (at < 0) return text;
  while (length < ours.length && text[at + length] === ours[length]) length++;
  return text.slice(0, at) + text.slice(at + length);
}

/** Returns what finds this subject, also if a line was wrapped in it. */
function patternOf(subject: string): RegExp {
  const words = subject.split(/\s+/).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'));
  return new RegExp(words.join('\\s{1,80}'), 'giu');
}

/** Returns whether a mail system wrote it. Judges by its From (local part or display name), its return path, or a form that only mail servers write (RFC 3464). */
export function isFromDaemon(mail: MailPart, { sender }: Pick<Arrival, 'sender'>, words: BounceWords): boolean {
  const from = fromOf(mail);
  if (/^\s*<\s*>/.test(from) || words.senders.has(localPartOfFrom(mail)) || words.senderNames(foldText(from)))
    return true;
  if (mail.type === 'multipart/report' && mail.params.get('report-type')?.toLowerCase() === 'delivery-status')
    return true;
  const [field = ''] = returnPathsOf(mail);
  return [field, sender ?? ''].some((path) =>
    words.senders.has(/^\s*<?([^@<>\s]{1,64})/.exec(path.toLowerCase())?.[1] ?? ''),
  );
}

/** Answering machines have it too (RFC 3834 section 3.3). */
export const hasNullSender = (mail: MailPart, { sender }: Pick<Arrival, 'sender'>): boolean =>
  sender === '' || returnPathsOf(mail).some((value) => /^<\s*>/.test(value.trim()));

/** True if the sender is known, and is neither a mail system nor another program. */
const isFromPerson = (mail: MailPart, arrival: Pick<Arrival, 'sender'>, words: BounceWords): boolean =>
  (arrival.sender !== null || returnPathsOf(mail).length > 0) &&
  !(hasNullSender(mail, arrival) || words.nobodies.has(localPartOfFrom(mail)) || isFromDaemon(mail, arrival, words));

const returnPathsOf = ({ headers }: MailPart): string[] => fieldsOf(headers, new Set(['return-path']));

/** True for the answer of a person's mailbox (RFC 3834): whatever failure it mentions, it is not the one who reports it. */
export const isAnswer = (mail: MailPart, arrival: Pick<Arrival, 'sender'>, words: BounceWords): boolean =>
  (isMarkedAutoReply(mail.headers) ||
    isAutoReplied(mail.headers) ||
    words.autoReplySubjects(foldText(wordsOf(mail.headers, 'subject')))) &&
  !isFromDaemon(mail, arrival, words);

export function isFromRecipient(mail: MailPart, { about }: Pick<Arrival, 'about'>): boolean {
  const [first, ...others] = addressesIn(fromOf(mail));
  return about !== null && first !== undefined && others.length === 0 && isSame(first.address, about.address);
}

const isSame = (one: string, other: string): boolean => soughtAddress(one) === soughtAddress(other);

const fromOf = (mail: MailPart): string => wordsOf(mail.headers, 'from').slice(0, 1000);

/** Returns the local part in lower case; of `MAILER-DAEMON` alone, and of `MAILER-DAEMON <>`, the name. */
export function localPartOfFrom(mail: MailPart): string {
  const from = fromOf(mail);
  const [first] = addressesIn(from);
  return (
    (first?.address ?? from)
      .toLowerCase()
      .replace(/^[<"\s]+/, '')
      .split(/[@>\s]/, 1)[0] ?? ''
  );
}
