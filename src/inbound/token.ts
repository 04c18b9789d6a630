/** The token of ours that a report carries: in the address it came to, in the head of the returned mail, or anywhere in it. */
import { fieldsOf, ownPartsOf, textOf } from '../mail/mime-read.ts';
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

/** Returns the token of a return path, from the surest place that has one. `envelope`: recipients of the SMTP session, where known. */
export function findReturnPathToken(notice: Notice, envelope: readonly string[] = []): string | null {
  const { mail, original, feedback, delivery, lines } = notice;
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
    ) ??
    firstMatch(RETURN_PATH, lines) ??
    firstInParts(notice);
  return token?.toLowerCase() ?? null;
}

/** Returns the token in the address of an unsubscribe mail. */
export function findUnsubscribeToken({ mail }: Notice, envelope: readonly string[] = []): string | null {
  return firstMatch(UNSUBSCRIBE, envelope) ?? firstMatch(UNSUBSCRIBE, fieldsOf(mail.headers, ENVELOPE));
}

/** Returns the mark of the delivery in the head of the returned mail (messages/delivery/return-path.ts). */
export function findCopyToken({ original }: Notice): string | null {
  const [value] = fieldsOf(original, new Set(['x-posthorn-delivery']));
  return value === undefined
    ? null
    : (/^\s{0,20}([0-9a-hjkmnp-tv-z]{43})(?:\s|$)/i.exec(value)?.[1]?.toLowerCase() ?? null);
}

/** Returns the X-Message-Id or Message-ID of the returned mail, the latter with its angle brackets. */
export function findMessageId({ original }: Notice): string | null {
  for (const name of ['x-message-id', 'message-id']) {
    const value =
      fieldsOf(original, new Set([name]))[0]
        ?.trim()
        .slice(0, 998) ?? '';
    if (value !== '') return /<[^<>\s]+>/.exec(value)?.[0] ?? value.split(/\s/, 1)[0] ?? null;
  }
  return null;
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
