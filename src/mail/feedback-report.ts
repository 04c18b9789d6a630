/**
 * Complaints (abuse reports): the machine-readable part of RFC 5965 (`message/feedback-report`), with what RFC 6591 adds for
 * failed authentication and RFC 6590 says of redaction. Incomplete reports give what they have.
 */
import { readAddress } from './delivery-report.ts';
import { parseHeaders } from './header.ts';

export interface FeedbackReport {
  /** `abuse`, `fraud`, `virus`, `not-spam`, `opt-out`, `auth-failure`, `other` ...; lower case; null if it is missing. */
  feedbackType: string | null;
  userAgent: string | null;
  /** The recipient who complained, if the report names one. */
  complainants: readonly string[];
  originalMailFrom: string | null;
  originalEnvelopeId: string | null;
  /** As written. */
  arrivalDate: string | null;
}

const LONGEST_VALUE = 500;
const MOST_COMPLAINANTS = 100;
/** RFC 6590 section 2, and what providers write in its place. */
const REDACTED = /^(?:redacted|removed|hidden|undisclosed|unknown|anonym\w*|x{3,}|\*{3,})(?:@|$)/i;

export const isFeedbackReport = (type: string): boolean => type === 'message/feedback-report';

/** Reads the part's text (line ends LF). Never throws. */
export function readFeedbackReport(text: string): FeedbackReport {
  const values = new Map<string, string[]>();
  // Some generators leave blank lines between the fields.
  for (const { name, value } of parseHeaders(text.replace(/\n\s*\n/g, '\n').replace(/^\s+/, ''))) {
    const key = name.toLowerCase();
    const list = values.get(key);
    if (list === undefined) values.set(key, [value]);
    else if (list.length < MOST_COMPLAINANTS) list.push(value);
  }
  const first = (name: string): string | null => values.get(name)?.[0]?.slice(0, LONGEST_VALUE) ?? null;
  const named = [...(values.get('original-rcpt-to') ?? []), ...(values.get('removal-recipient') ?? [])];
  return {
    feedbackType: /^[a-z0-9-]{1,40}/.exec(first('feedback-type')?.toLowerCase() ?? '')?.[0] ?? null,
    userAgent: first('user-agent'),
    complainants: [...new Set(named.map(readComplainant).filter((address) => address !== null))],
    originalMailFrom: readComplainant(first('original-mail-from') ?? ''),
    originalEnvelopeId: first('original-envelope-id'),
    arrivalDate: first('arrival-date') ?? first('received-date'),
  };
}

/** Returns an address that names the recipient; null if it was redacted, which leaves the local part out or replaces it. */
export function readComplainant(value: string): string | null {
  const address = readAddress(value);
  return address === null || !/^[^@]+@[^@]+$/.test(address) || REDACTED.test(address) ? null : address;
}
