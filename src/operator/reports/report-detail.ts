/** The detail of a report (`reports.detail_json`), and the bounce that it means. */
import { isSuppressing, type FeedbackSource } from '../../messages/delivery/delivery.ts';
import { bouncedBy } from '../../messages/delivery/reported.ts';
import type { ReportRecipient } from './report-parser.ts';

export interface ReportDetail {
  feedback_type?: string | null;
  /** Rows of older versions have none. */
  feedback_source?: FeedbackSource | null;
  /** True for a delivery report (RFC 3464). Rows of older versions have none: their bounces counted like one. */
  well_formed?: boolean;
  /** Rows of older versions have no `rule`. */
  recipients?: readonly (Omit<ReportRecipient, 'rule'> & { rule?: string | null })[];
}

/** Returns the bounce of the delivery whose address has this key; null if the report says that it did not fail. */
export const bounceIn = (
  { recipients = [], well_formed: isWellFormed = true }: ReportDetail,
  key: string,
): ReturnType<typeof bouncedBy> =>
  bouncedBy(
    recipients.map((one) => ({
      ...one,
      code: null,
      verdict: one.class === null || one.reason === null ? null : { class: one.class, reason: one.reason },
    })),
    key,
    isWellFormed ? 'report' : 'notice',
  );

/** Returns whether the bounce puts the address on the suppression list. */
export function isSuppressingReport(detail: ReportDetail, key: string): boolean {
  const change = bounceIn(detail, key);
  return change?.kind === 'bounced' && isSuppressing(change.verdict);
}
