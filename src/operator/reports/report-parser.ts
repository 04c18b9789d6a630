/** The reader of mails that came back, as commands and operations see it: inbound/report-reader.ts, which is handed in. */
import type { Keyring } from '../../base/keyring.ts';
import type { BounceRule } from '../../config/bounce-rule.ts';
import type { FeedbackSource, Verdict } from '../../messages/delivery/delivery.ts';

export interface ReportRecipient {
  address: string;
  /** The original recipient, if the report names another one. */
  original: string | null;
  action: string | null;
  status: string | null;
  diagnostic: string | null;
  class: Verdict['class'] | null;
  reason: Verdict['reason'] | null;
  /** The rule that decided; null if none did. */
  rule: string | null;
}

/** The facts of one mail, as `--json` prints them with the file's name. */
export interface ReportRecord {
  kind: string;
  token: string | null;
  message_id: string | null;
  recipients: readonly ReportRecipient[];
  feedback_type: string | null;
  feedback_source: FeedbackSource | null;
}

export interface ReportParser {
  /** `fault` gives the reason why the mail could not be read; the record then is that of an unknown mail. */
  parse(bytes: Uint8Array): Promise<{ record: ReportRecord; fault: string | null }>;
  close(): Promise<void>;
}

/** Without a keyring only the form of tokens is checked; `rules` are the operator's own. */
export type OpenReportParser = (keyring: Keyring | null, rules: readonly BounceRule[]) => Promise<ReportParser>;

/** Stands for the reader in a program that has none. */
export const noReportParser: OpenReportParser = () =>
  Promise.reject(new Error('this program was built without a listener'));
