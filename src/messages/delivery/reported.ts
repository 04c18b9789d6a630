/** Turns a report (a mail that came back) into a change of its delivery: when it arrives with proof, or when an operator confirms one without. */
import { soughtAddress } from '../../mail/address.ts';
import type { DeliveryChange, FeedbackSource, Verdict } from './delivery.ts';

export interface Reported {
  address: string;
  /** The address that it was before it was forwarded; null if that is the same, or not known. */
  original: string | null;
  /** RFC 3464 section 2.3.3. */
  action: string | null;
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

/** Returns whether the recipient does not want our mail. Other feedback is only recorded and suppresses no address. */
const isAgainstUs = (feedbackType: string): boolean => !WITHOUT_COMPLAINT.has(feedbackType);

/**
 * What a failure of other addresses alone says of ours, which may have become one of them on the way: in a delivery report (RFC 3464) all, in
 * the prose of a mail system that it failed, but not that it does not exist, and in the letter of a person nothing.
 */
export type StandIn = 'report' | 'notice' | 'letter';

const UNDETERMINED: Verdict = { class: 'undetermined', reason: 'other' };

/**
 * Returns the bounce of the delivery whose address has the key `ownKey`; null if the report says that this one did not fail. An
 * address that was expanded, or forwarded to several, has its mail though one of those failed (RFC 3464 section 2.3.3).
 */
export function bouncedBy(recipients: readonly Reported[], ownKey: string, standIn: StandIn): DeliveryChange | null {
  const isOwn = (address: string | null): boolean => address !== null && soughtAddress(address) === ownKey;
  const tried = recipients.filter(({ address }) => isOwn(address));
  const forwarded = recipients.filter(({ address, original }) => !isOwn(address) && isOwn(original));
  const named = [...tried, ...forwarded];
  const hasFailed = tried.length > 0 ? tried.some(isFailed) : forwarded.every(isFailed);
  const isNamed = named.length > 0;
  if (!hasFailed || (!isNamed && standIn === 'letter')) return null;
  const own = (isNamed ? named : recipients).find(isFailed);
  const verdict = own?.verdict ?? UNDETERMINED;
  return {
    kind: 'bounced',
    verdict: verdict.class === 'hard' && !isNamed && standIn === 'notice' ? UNDETERMINED : verdict,
    smtpCode: own?.code ?? null,
    enhancedCode: own?.status ?? null,
    smtpReply: own?.diagnostic ?? null,
  };
}

const isFailed = ({ action }: Reported): boolean => action === 'failed';

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
