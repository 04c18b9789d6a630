/** Mails that came back, and aggregate reports. */
import { bytes, computed, flag, integer, orNull, table, text, time, type RowOf } from '../table.ts';

/** A mail that came to one of our own addresses, and the kind that was recognized. */
export const reports = table(
  {
    id: text().says('Id of the report.', 'rep_01jz5w8q3hf2m9d4x6k7c1b0na'),
    kind: orNull(text()).says('Kind that it was classified as; null before it has been read.', 'bounce'),
    received_at: time().says('When it was received.', '2026-01-31T09:32:10.004Z'),
    client_ip: text(),
    recipient: computed(text().says('The recipient of the message that it is about.', 'ana@example.net')),
    sender: text().says('Its envelope sender; empty for the null sender.'),
    recipients_json: text(),
    /** `raw` is empty for a report that was counted. */
    size: integer().says(
      'Bytes received. Of a bounce the first 512 KiB are kept, of anything else the first 32 KiB.',
      4211,
    ),
    /**
     * `forwarded`: sent on to the operator. `kept`: not sent on, because no address is set or there was too much mail.
     * `unverified`: about a delivery, but nothing proves that.
     */
    state: text<'new' | 'done' | 'unmatched' | 'unverified' | 'unreadable' | 'forwarded' | 'kept'>(),
    verified: computed(
      flag().says(
        'False: it names this message but proves nothing, so it changed no status and suppressed no address. The operator can confirm it.',
        true,
      ),
    ),
    account_id: orNull(text()),
    message_id: orNull(text()),
    delivery_id: orNull(text()),
    detail_json: text(),
    raw: bytes(),
  },
  { hasLargeValues: true },
);
export type ReportRow = RowOf<typeof reports>;

const ofReporter = {
  id: text(),
  /** The mail that brought it (`reports.id`). */
  report_id: text(),
  org: text(),
  /** The reporter's own name for the report. */
  report_key: text(),
  domain: text(),
  from_at: integer(),
  until_at: integer(),
} as const;

/** A line of a TLS report that we received about mail to us: the sessions with the same result. */
export const tlsReportRows = table({
  ...ofReporter,
  policy: text(),
  /** Empty for success. */
  result: text(),
  mx: text(),
  source_ip: text(),
  ip: text(),
  reason: text(),
  sessions: integer(),
});
export type TlsReportLineRow = RowOf<typeof tlsReportRows>;

/** A record of a DMARC aggregate report about mail in our name. */
export const dmarcRows = table({
  ...ofReporter,
  source_ip: text(),
  count: integer(),
  disposition: text(),
  /** Aligned: `pass` or `fail`. */
  dkim: text(),
  spf: text(),
  header_from: text(),
  envelope_from: text(),
  /** The results of the first signature and of the first SPF check, aligned or not. */
  dkim_domain: text(),
  dkim_selector: text(),
  dkim_result: text(),
  spf_domain: text(),
  spf_result: text(),
});
export type DmarcRow = RowOf<typeof dmarcRows>;

/** An aggregate report that has been counted, by the domain it is about. */
export const aggregateReports = table({
  kind: text<'dmarc' | 'tls'>(),
  org: text(),
  report_key: text(),
  domain: text(),
  from_at: integer(),
  /** The mail that brought it first (`reports.id`). */
  report_id: text(),
});
export const AGGREGATE_KEY = 'kind, org, report_key, domain, from_at';
