/**
 * Turns a report (a mail that came back) into a change of its delivery: when it arrives with proof, or when an operator
 * confirms one without.
 */
import { addressKey } from '../../mail/address.ts';
import type { DeliveryChange, FeedbackSource, Verdict } from './delivery.ts';

export interface ReportedFailure {
  address: string;
  original: string | null;
  code: number | null;
  status: string | null;
  diagnostic: string | null;
  verdict: Verdict | null;
}

const feedbackTypes: ReadonlySet<string> = new Set(['abuse', 'fraud', 'not-spam', 'virus']);
/** Feedback types that are not complaints (RFC 5965 section 7.3, RFC 6591). */
const WITHOUT_COMPLAINT: ReadonlySet<string> = new Set(['not-spam', 'auth-failure']);

/** The end of the year 9999: RFC 3339 has no later one, and a program that reads events may stop at what is not a time. */
const LAST_TIME = Date.UTC(10_000, 0, 1) - 1;

/** Returns true if the recipient does not want our mail. Other feedback is only recorded and suppresses no address. */
const isAgainstUs = (feedbackType: string): boolean => !WITHOUT_COMPLAINT.has(feedbackType);

/** Returns the bounce of the delivery whose address has the key `ownKey`. `failed`: the recipients that the report names. */
export function bouncedBy(failed: readonly ReportedFailure[], ownKey: string): DeliveryChange {
  const isOwn = (address: string | null): boolean => address !== null && addressKey(address) === ownKey;
  const own = failed.find(({ address, original }) => isOwn(address) || isOwn(original)) ?? failed[0];
  return {
    kind: 'bounced',
    verdict: own?.verdict ?? { class: 'undetermined', reason: 'other' },
    smtpCode: own?.code ?? null,
    enhancedCode: own?.status ?? null,
    smtpReply: own?.diagnostic ?? null,
  };
}

/** Returns the complaint, or null for feedback that is not one. */
export function complainedBy(feedback: {
  type: string | null;
  source: FeedbackSource;
  userAgent: string | null;
  arrivalDate: string | null;
}): DeliveryChange | null {
  const type = feedback.type ?? 'abuse';
  if (!isAgainstUs(type)) return null;
  const at = feedback.arrivalDate === null ? NaN : Date.parse(feedback.arrivalDate);
  return {
    kind: 'complained',
    feedbackType: feedbackTypes.has(type) ? type : 'other',
    source: feedback.source,
    arrivalDate: at >= 0 && at <= LAST_TIME ? at : null,
    userAgent: feedback.userAgent,
  };
}
