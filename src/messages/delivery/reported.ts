/**
 * What a mail that came back means for its delivery: from what was read in it to a change. Used when it arrives with proof, and
 * when somebody confirms by hand one that had none.
 */
import { addressKey } from '../../mail/address.ts';
import type { DeliveryChange, Verdict } from './delivery.ts';

export interface ReportedFailure {
  address: string;
  original: string | null;
  code: number | null;
  status: string | null;
  diagnostic: string | null;
  verdict: Verdict | null;
}

const feedbackTypes: ReadonlySet<string> = new Set(['abuse', 'fraud', 'not-spam', 'virus']);
/** They say nothing against a mail (RFC 5965 section 7.3, RFC 6591). */
const WITHOUT_COMPLAINT: ReadonlySet<string> = new Set(['not-spam', 'auth-failure']);

/** True where the recipient does not want our mail: other feedback is noted and suppresses nobody. */
export const isAgainstUs = (feedbackType: string): boolean => !WITHOUT_COMPLAINT.has(feedbackType);

/** `failed`: the recipients that the notice names. `ownKey`: the key of the delivery's address. */
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

/** Null for feedback that says nothing against the mail. */
export function complainedBy(feedback: {
  type: string | null;
  userAgent: string | null;
  arrivalDate: string | null;
}): DeliveryChange | null {
  const type = feedback.type ?? 'abuse';
  if (!isAgainstUs(type)) return null;
  const at = feedback.arrivalDate === null ? NaN : Date.parse(feedback.arrivalDate);
  return {
    kind: 'complained',
    feedbackType: feedbackTypes.has(type) ? type : 'other',
    source: 'arf',
    arrivalDate: Number.isNaN(at) ? null : at,
    userAgent: feedback.userAgent,
  };
}
