/** The result of reading a mail. `posthorn inbound parse` prints it; `receive` turns it into changes. */
import type { Aggregate } from './aggregate.ts';
import type { LoopClaim } from './feedback-loops.ts';
import type { ReportAction } from '../mail/delivery-report.ts';
import type { FeedbackSource, Verdict } from '../messages/delivery/delivery.ts';

/**
 * - bounce: a delivery has failed. delay: it has not yet.
 * - complaint: a recipient, or a program in their name, calls the mail abuse (RFC 5965).
 * - auto_reply: an answering machine, a challenge, a read receipt: not about the delivery.
 * - unsubscribe: to the address of List-Unsubscribe.
 * - report: DMARC aggregate or TLS-RPT.
 * - other: notices of success, mails of people, what cannot be read.
 */
export type FindingKind = 'bounce' | 'delay' | 'complaint' | 'auto_reply' | 'unsubscribe' | 'report' | 'other';

export interface FoundRecipient {
  address: string;
  /** The address we wrote to, if the report names another one. */
  original: string | null;
  /** Null in complaints and unsubscribe mails, and if a report does not say it. */
  action: ReportAction | null;
  /** `5.1.1` as the report says: of the reply that it quotes, or of its Status field; null if it says none. */
  status: string | null;
  /** The status that its words mean, if it has none. */
  impliedStatus: string | null;
  /** The remote's words, at most 1,000 characters. */
  diagnostic: string | null;
  /** `550` of the reply that the report quotes. */
  code: number | null;
  /** Its class and reason; null unless a delivery failed or is late. */
  verdict: Verdict | null;
  /** The rule that gave the verdict, as `posthorn classify` names it; null if none did. */
  rule: string | null;
}

export interface Feedback {
  /** Feedback type of RFC 5965 section 7.3 and its registry, lower case. */
  type: string;
  source: FeedbackSource;
  userAgent: string | null;
  /** As written. */
  arrivalDate: string | null;
}

export interface Finding {
  kind: FindingKind;
  /** The text after `b+` (in lower case) or `unsub+` in an address of ours; null if there is none. Its form is checked, not its signature. */
  token: string | null;
  /** The token occurs only in the text of the mail, which may quote another mail of ours. */
  isTokenInText: boolean;
  /** Of an unsubscribe mail: what its subject says behind `unsubscribe`; null if that cannot be a token (tracking/unsubscribe-link.ts). */
  wish: string | null;
  /** X-Message-Id of the returned mail if it is one of ours, else its Message-ID. */
  messageId: string | null;
  /** `X-Posthorn-Delivery` of the returned mail: proves the delivery if one of our keys made it. */
  copy: string | null;
  recipients: readonly FoundRecipient[];
  /** Of a complaint, and of an unsubscribe mail (`opt-out`). */
  feedback: Feedback | null;
  /** `multipart/report; report-type=delivery-status` with a recipient in it (RFC 3464, RFC 6522): it counts from any sender. */
  isWellFormed: boolean;
  /** The content of an aggregate report (kind `report`), if it can be read. */
  aggregate?: Aggregate;
  /** Of a complaint: the domains that the returned mail names as its author's and its signers', in lower case. */
  returned?: { authors: readonly string[]; signers: readonly string[] };
  /** The feedback loop that a complaint claims to come from. */
  loop?: LoopClaim | null;
}

/** A finding as programs get it: the line of `posthorn inbound parse --json` without the file. */
export type FindingRecord = ReturnType<typeof findingRecord>;

export function findingRecord({ kind, token, messageId, recipients, feedback }: Finding) {
  return {
    kind,
    token,
    message_id: messageId,
    recipients: recipients.map(({ address, original, action, status, impliedStatus, diagnostic, verdict, rule }) => ({
      address,
      /** The original recipient, if the report names another one. */
      original,
      action,
      status: status ?? impliedStatus,
      /** The source of `status`: the report, or our reading of its words. */
      status_from: status !== null ? ('report' as const) : impliedStatus !== null ? ('words' as const) : null,
      diagnostic,
      class: verdict?.class ?? null,
      reason: verdict?.reason ?? null,
      rule,
    })),
    feedback_type: feedback?.type ?? null,
    feedback_source: kind === 'complaint' ? (feedback?.source ?? null) : null,
  };
}

/** The result for a mail without a meaning. */
export const nothingFound: Finding = {
  kind: 'other',
  token: null,
  isTokenInText: false,
  wish: null,
  messageId: null,
  copy: null,
  recipients: [],
  feedback: null,
  isWellFormed: false,
};

/** The facts of a mail to us besides its own text: its session, and the mail of ours that it answers. */
export interface Arrival {
  /** The recipients of the SMTP session, which come before any header. */
  recipients: readonly string[];
  /** Its sender, empty for the null sender; null if the mail did not come by SMTP. */
  sender: string | null;
  /** The delivery whose token one of the recipients carries. */
  about: SentMail | null;
}

/** A mail of ours, to one recipient. */
export interface SentMail {
  address: string;
  subject: string;
}

/** Of a mail in a file. */
export const unknownArrival: Arrival = { recipients: [], sender: null, about: null };
