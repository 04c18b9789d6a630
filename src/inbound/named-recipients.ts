/**
 * Finds the recipients that a notice in prose is about. Addresses occur in several ways; the first way that names one counts, since the
 * later ones also catch postmasters, help desks and the sender:
 *
 * 1. the header `X-Failed-Recipients`
 * 2. at the begin of a line, the reason behind or below it (qmail, exim, sendmail, Postfix, Yahoo, Exchange, Domino)
 * 3. in a quoted command or reply (`RCPT TO:<a@b>`, `550 <a@b>... User unknown`)
 * 4. behind a label (`Recipient: a@b`)
 * 5. anywhere in the prose, if the returned mail was addressed to it
 * 6. in the subject or the To field of the returned mail, else anywhere in the prose
 */
import { addressesIn, type FoundAddress } from '../mail/addresses-in.ts';
import { fieldsOf } from '../mail/mime-read.ts';
import type { HeaderField } from '../mail/header.ts';
import { indentOf } from './diagnostic.ts';
import type { Notice } from './notice.ts';

interface NamedRecipient {
  address: string;
  /** The lines that may hold the reason: from its name to the next recipient's. Empty if only a header names it. */
  lines: readonly string[];
  /** The line with the only one that a notice names, whose reason may stand anywhere. */
  line?: string;
}

const MOST_RECIPIENTS = 100;
/** Most lines that belong to one recipient. */
const MOST_LINES = 30;

const FAILED = new Set(['x-failed-recipients', 'x-failed-recipient', 'x-bounced-recipient']);
const SENDER = new Set(['from', 'sender', 'return-path', 'reply-to', 'errors-to', 'x-envelope-from']);
const RECIPIENT = new Set(['to', 'delivered-to', 'envelope-to', 'x-original-to', 'x-rcpt-to', 'x-envelope-to']);
const ADDRESSEE = new Set(['to', 'cc', 'bcc', 'apparently-to']);

const COMMAND_OR_REPLY = /\brcpt to\s*:|^\s{0,20}(?:<<<\s*)?[45][0-5][0-9][ -]/i;
const LABEL = /^\s{0,40}(?:[^\s:]+[ \t]+){0,4}[^\s:]{1,40}\s{0,4}[:：]\s{0,40}[<"']?$/;
const LABEL_OF_OTHERS =
  /^\W{0,10}(?:from|sender|reply-to|reply to|return-path|message-id|message id|in-reply-to|references|cc|date|subject|contact|help|von|absender|de|da|от|отправитель|差出人|发件人)\b/i;
const IDS = /^\W{0,10}(?:message-id|message id|in-reply-to|references|id|feedback-id|x-[a-z-]*id)\s*:/i;
/** A line that begins with an address and is about it. */
const LISTED = /^[\s>*•\-–]{0,40}[<"']?[^\s<>@"',;:()]{1,128}@[^\s<>@"',;:()]{1,255}[>"']?\s{0,4}(?:$|[:;(])/;
const PROSE_BEFORE = /[\p{L},]$/u;

/** An address, and its line in the prose. */
interface Place extends FoundAddress {
  line: number;
}

/** Returns the addresses that the notice names, in order, without the sender of the returned mail and without postmasters. */
export function recipientsNamedIn(notice: Notice): NamedRecipient[] {
  const inHeader = addressesOf(notice.mail.headers, FAILED);
  const places = placesOf(notice);
  if (inHeader.length > 0) {
    const linesOf = linesByRecipient(notice);
    return distinct(inHeader.map((address) => ({ address, lines: linesOf(address) })));
  }
  const mine = ownAddresses(notice);
  const others = places.filter(({ address }) => !mine.has(address.toLowerCase()) && !isPostmaster(address));
  return firstWay(notice, others) ?? firstWay(notice, places) ?? [];
}

export function addressesOf(headers: readonly HeaderField[], names: ReadonlySet<string>): string[] {
  return fieldsOf(headers, names).flatMap((value) => addressesIn(value.slice(0, 10_000)).map(({ address }) => address));
}

/** Returns the addresses in To, Cc and the like of the returned mail. */
export const addresseesOf = (original: readonly HeaderField[]): string[] => addressesOf(original, ADDRESSEE);

function firstWay(notice: Notice, places: readonly Place[]): NamedRecipient[] | null {
  const { lines, subject, original } = notice;
  const addressees = addresseesOf(original);
  const known = new Set(addressees.map((address) => address.toLowerCase()));
  const listed = [...listedIn(lines, places).values()];
  if (listed.length > 0) return listed.slice(0, MOST_RECIPIENTS);
  const inSubject = addressesIn(subject.slice(0, 1000)).map(({ address }) => address);
  const elsewhere = inSubject.length > 0 ? inSubject : addressees;
  for (const isOne of [
    inCommandOrReply,
    behindLabel,
    (_: unknown, { address }: Place) => known.has(address.toLowerCase()),
    () => elsewhere.length === 0,
  ]) {
    const found = distinct(
      places.filter((place) => isOne(lines, place)).map((place, at, all) => named(lines, place, 0, all[at + 1])),
    );
    // The beginning of a recipient's reply may be above the line with the address.
    if (found.length > 1) return found;
    if (found.length > 0) return found.map(({ address, lines: [line = ''] }) => ({ address, lines: [], line }));
  }
  return elsewhere.length === 0 ? null : distinct(elsewhere.map((address) => ({ address, lines: [] })));
}

function placesOf({ lines }: Notice): Place[] {
  return lines.flatMap((text, line) => (IDS.test(text) ? [] : addressesIn(text).map((found) => ({ ...found, line }))));
}

/** Returns the addresses that begin a line, by key, with the lines of all places: some notices list one first, and again with a reply. */
function listedIn(lines: readonly string[], places: readonly Place[]): Map<string, NamedRecipient> {
  const listed = places.filter((place) => atLineStart(lines, place));
  const found = new Map<string, NamedRecipient>();
  for (const [at, place] of listed.entries()) {
    const key = place.address.toLowerCase();
    const before = found.get(key)?.lines ?? [];
    if (before.length >= 2 * MOST_LINES) continue;
    const { address, lines: own } = named(lines, place, place.end, listed[at + 1]);
    found.set(key, {
      address: found.get(key)?.address ?? address,
      lines: before.length === 0 ? own : [...before, '', ...own],
    });
  }
  return found;
}

function atLineStart(lines: readonly string[], { line, start, end }: Place): boolean {
  const text = lines[line] ?? '';
  if (isWrapped(lines, line)) return false;
  if (!/^[\s>*•\-–]*(?:\d{1,3}[.)]\s+)?$/.test(text.slice(0, start))) return false;
  const rest = text.slice(end);
  if (/^\s*(?:$|[:;([<\-–—.,=])/.test(rest)) return true;
  // An address at the begin of a wrapped line of prose does not begin a list of recipients.
  return !PROSE_BEFORE.test(lines[line - 1] ?? '') && !/^\s*(?:wrote|schrieb|a écrit)/i.test(rest);
}

/** True for a line that continues the recipient's above: Postfix and Exim indent, and a reply often begins with the address. */
function isWrapped(lines: readonly string[], line: number): boolean {
  let indent = indentOf(lines[line] ?? '');
  for (let above = line - 1; above >= 0 && above >= line - MOST_LINES; above--) {
    const text = lines[above] ?? '';
    if (text === '' || indent === 0) return false;
    if (indentOf(text) >= indent) continue;
    if (LISTED.test(text)) return true;
    indent = indentOf(text);
  }
  return false;
}

const inCommandOrReply = (lines: readonly string[], { line }: Place): boolean =>
  COMMAND_OR_REPLY.test(lines[line] ?? '');

function behindLabel(lines: readonly string[], { line, start }: Place): boolean {
  const before = (lines[line] ?? '').slice(0, start);
  return LABEL.test(before) && !LABEL_OF_OTHERS.test(before);
}

/** Returns the recipient at this place, with its line from the column `from` and the lines below it. */
function named(lines: readonly string[], place: Place, from: number, next: Place | undefined): NamedRecipient {
  const own = (lines[place.line] ?? '').slice(from).replace(/^[\s:;,.–-]+/, '');
  const end = Math.min(
    next === undefined ? lines.length : Math.max(next.line, place.line + 1),
    place.line + MOST_LINES,
  );
  return { address: place.address, lines: [own, ...lines.slice(place.line + 1, end)] };
}

/** Finds the lines below the one that begins with an address; none if no line does. */
export function linesByRecipient(notice: Notice): (address: string) => readonly string[] {
  const listed = listedIn(notice.lines, placesOf(notice));
  return (address) => listed.get(address.toLowerCase())?.lines ?? [];
}

/** Returns the addresses of the returned mail's sender: the notice came to them. */
function ownAddresses({ mail, original }: Notice): ReadonlySet<string> {
  const addresses = [
    ...addressesOf(mail.headers, RECIPIENT),
    ...addressesOf(mail.headers, SENDER),
    ...addressesOf(original, SENDER),
  ];
  return new Set(addresses.map((address) => address.toLowerCase()));
}

const isPostmaster = (address: string): boolean =>
  /^(?:mailer-daemon|postmaster|abuse|noreply|no-reply)@/i.test(address);

function distinct(recipients: readonly NamedRecipient[]): NamedRecipient[] {
  const seen = new Map<string, NamedRecipient>();
  for (const recipient of recipients) {
    const key = recipient.address.toLowerCase();
    if (!seen.has(key)) seen.set(key, recipient);
  }
  return [...seen.values()].slice(0, MOST_RECIPIENTS);
}
