/** The token of ours that a report carries: in the address it came to, in the head of the returned mail, or anywhere in it. */
import { fieldsOf, ownPartsOf, textOf, wordsOf } from '../mail/mime-read.ts';
import type { Notice } from './notice.ts';

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
export function findReturnPathToken(notice: Notice, envelope: readonly string[] = []): string | null {
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
export function findTokenInText(notice: Notice): string | null {
  const token = firstMatch(RETURN_PATH, notice.lines) ?? firstInParts(notice);
  return token?.toLowerCase() ?? null;
}

export function findUnsubscribeToken({ mail }: Notice, envelope: readonly string[] = []): string | null {
  return firstMatch(UNSUBSCRIBE, envelope) ?? firstMatch(UNSUBSCRIBE, fieldsOf(mail.headers, ENVELOPE));
}

/** Returns what the subject of an unsubscribe mail says whom it is from. Mail programs may fold a long word. */
export function findWish({ mail }: Notice): string | null {
  const [, words] = /\bunsubscribe[\s:]{1,10}([\w-][\w\s-]{60,2000})/i.exec(wordsOf(mail.headers, 'subject')) ?? [];
  return words?.replace(/\s+/g, '') ?? null;
}

/** Returns the mark of the delivery in the head of the returned mail (messages/delivery/return-path.ts). */
export function findCopyToken({ original }: Notice): string | null {
  const [value] = fieldsOf(original, new Set(['x-posthorn-delivery']));
  return value === undefined
    ? null
    : (/^\s{0,20}([0-9a-hjkmnp-tv-z]{43})(?:\s|$)/i.exec(value)?.[1]?.toLowerCase() ?? null);
}

/** The form of our own message ids. */
const OWN_MESSAGE_ID = /^<?msg_[0-7][0-9a-hjkmnp-tv-z]{25}(?=[@>\s]|$)/i;

/**
 * Returns the X-Message-Id of the returned mail if it is one of ours, else its Message-ID with the angle brackets: other programs
 * write a field of that name, too.
 */
export function findMessageId({ original }: Notice): string | null {
  const marks = fieldsOf(original, new Set(['x-message-id'])).map(idIn);
  const [own] = marks.filter((mark) => OWN_MESSAGE_ID.test(mark));
  const [standard = ''] = fieldsOf(original, new Set(['message-id'])).map(idIn);
  return own ?? [standard, ...marks].find((id) => id !== '') ?? null;
}

function idIn(value: string): string {
  const text = value.trim().slice(0, 998);
  return /<[^<>\s]+>/.exec(text)?.[0] ?? text.split(/\s/, 1)[0] ?? '';
}

function firstInParts({ mail }: Notice): string | null {
  for (const part of ownPartsOf(mail)) {
    const token = part.parts.length > 0 ? null : firstMatch(RETURN_PATH, [textOf(part)]);
    if (token !== null) return token;
  }
  return null;
}

function firstMatch(form: RegExp, texts: readonly string[]): string | null {
  for (const text of texts) {
    const token = form.exec(text)?.[1];
    if (token !== undefined) return token;
  }
  return null;
}
