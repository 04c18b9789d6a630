/**
 * SMTP TLS reports (RFC 8460): the addresses that ask for them (section 3), the report itself (section 4.4), the mail that carries it (section
 * 5.3), and reading those of others.
 */
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import { dateTime } from './message-head.ts';
import { hostNameOr, oneOf } from './report-values.ts';

export type TlsPolicyType = (typeof tlsPolicies)[number];
const tlsPolicies = ['tlsa', 'sts', 'no-policy-found'] as const;

/** Section 4.3. */
export const tlsFailures = [
  'starttls-not-supported',
  'certificate-host-mismatch',
  'certificate-expired',
  'certificate-not-trusted',
  'validation-failure',
  'tlsa-invalid',
  'dnssec-invalid',
  'dane-required',
  'sts-policy-fetch-error',
  'sts-policy-invalid',
  'sts-webpki-invalid',
] as const;
export type TlsFailure = (typeof tlsFailures)[number];

export interface TlsReport {
  organization: string;
  /** Milliseconds since the epoch; `until` is the last second of the range. */
  from: number;
  until: number;
  contact: string;
  id: string;
  policies: readonly TlsReportPolicy[];
}

export interface TlsReportPolicy {
  type: string;
  /** The lines of the policy. */
  strings: readonly string[];
  domain: string;
  mxHosts: readonly string[];
  successes: number;
  failures: number;
  details: readonly TlsFailureDetail[];
}

/** Empty texts are left out of the report. */
export interface TlsFailureDetail {
  result: string;
  sourceIp: string;
  mx: string;
  ip: string;
  reason: string;
  sessions: number;
}

const MOST_ADDRESSES = 5;

/** Returns the addresses to which the one valid record asks reports to be sent: `mailto:` and `https:` URIs; null where it asks for none. */
export function readTlsReportRecord(texts: readonly string[]): readonly string[] | null {
  const records = texts.filter((text) => /^v\s*=\s*TLSRPTv1\s*;/.test(text));
  if (records.length !== 1) return null;
  for (const field of (records[0] ?? '').slice(0, 2000).split(';').slice(1)) {
    const [name, value] = [field.slice(0, field.indexOf('=')).trim(), field.slice(field.indexOf('=') + 1)];
    if (name !== 'rua') continue;
    const uris = value.split(',').map((uri) => uri.trim());
    const known = uris.filter((uri) =>
      /^(?:mailto:[^\s@,?]{1,64}@[^\s@,?]{1,253}|https:\/\/[^\s]{1,1000})$/i.test(uri),
    );
    return known.length === 0 ? null : known.slice(0, MOST_ADDRESSES);
  }
  return null;
}

/** Returns the report as JSON. */
export function writeTlsReport({ organization, from, until, contact, id, policies }: TlsReport): string {
  return JSON.stringify({
    'organization-name': organization,
    'date-range': { 'start-datetime': seconds(from), 'end-datetime': seconds(until) },
    'contact-info': contact,
    'report-id': id,
    policies: policies.map(({ type, strings, domain, mxHosts, successes, failures, details }) => ({
      policy: {
        'policy-type': type,
        ...(strings.length === 0 ? {} : { 'policy-string': strings }),
        'policy-domain': domain,
        ...(mxHosts.length === 0 ? {} : { 'mx-host': mxHosts }),
      },
      summary: { 'total-successful-session-count': successes, 'total-failure-session-count': failures },
      ...(details.length === 0 ? {} : { 'failure-details': details.map(writeDetail) }),
    })),
  });
}

const seconds = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`;

const writeDetail = ({ result, sourceIp, mx, ip, reason, sessions }: TlsFailureDetail): Record<string, unknown> => ({
  'result-type': result,
  ...(sourceIp === '' ? {} : { 'sending-mta-ip': sourceIp }),
  ...(mx === '' ? {} : { 'receiving-mx-hostname': mx }),
  ...(ip === '' ? {} : { 'receiving-ip': ip }),
  'failed-session-count': sessions,
  ...(reason === '' ? {} : { 'failure-reason-code': reason }),
});

const MOST_POLICIES = 200;
const MOST_DETAILS = 500;
/** Of all policies together: all of them are handed to the main loop. */
const MOST_DETAILS_IN_ALL = 5000;
/** Of JSON, the largest reports have some ten thousand. In memory an object of nine characters takes three hundred octets. */
const MOST_VALUES = 100_000;

/**
 * Reads a report of another sender, or returns null for other content. Wrong or missing members become empty, unknown policies and results
 * `unknown`; what is beyond the limits is left out.
 */
export function readTlsReport(text: string): TlsReport | null {
  if (hasTooMuch(text)) return null;
  const report = objectIn(parsed(text));
  if (report === null || !Array.isArray(report['policies'])) return null;
  const range = objectIn(report['date-range']) ?? {};
  const [from, until] = [timeOf(range['start-datetime']), timeOf(range['end-datetime'])];
  if (from === null || until === null || until < from) return null;
  const left = { details: MOST_DETAILS_IN_ALL };
  return {
    organization: textOf(report['organization-name'], 100),
    from,
    until,
    contact: textOf(report['contact-info'], 200),
    id: textOf(report['report-id'], 100),
    policies: report['policies'].slice(0, MOST_POLICIES).flatMap((one) => readPolicy(objectIn(one), left)),
  };
}

/** Returns whether JSON has more values than a report has: each one follows a comma or a bracket. It is found before the values take memory. */
function hasTooMuch(json: string): boolean {
  let left = MOST_VALUES;
  for (let at = 0; at < json.length && left >= 0; at++) {
    const code = json.charCodeAt(at);
    if (code === 0x2c || code === 0x5b || code === 0x7b) left--;
  }
  return left < 0;
}

function readPolicy(entry: Record<string, unknown> | null, left: { details: number }): TlsReportPolicy[] {
  const policy = objectIn(entry?.['policy']);
  const domain = hostNameOr(textOf(policy?.['policy-domain'], 253)) ?? '';
  if (entry === null || policy === null || domain === '') return [];
  const summary = objectIn(entry['summary']) ?? {};
  const most = Math.min(MOST_DETAILS, left.details);
  const details = Array.isArray(entry['failure-details']) ? entry['failure-details'].slice(0, most) : [];
  left.details -= details.length;
  return [
    {
      type: oneOf(tlsPolicies, textOf(policy['policy-type'], 40)) ?? 'unknown',
      strings: textsOf(policy['policy-string']),
      domain,
      mxHosts: textsOf(policy['mx-host']),
      successes: countOf(summary['total-successful-session-count']),
      failures: countOf(summary['total-failure-session-count']),
      details: details.flatMap((one) => readDetail(objectIn(one))),
    },
  ];
}

function readDetail(detail: Record<string, unknown> | null): TlsFailureDetail[] {
  if (detail === null) return [];
  return [
    {
      result: oneOf(tlsFailures, textOf(detail['result-type'], 60)) ?? 'unknown',
      sourceIp: addressOf(detail['sending-mta-ip']),
      mx: hostNameOr(textOf(detail['receiving-mx-hostname'], 253)) ?? '',
      ip: addressOf(detail['receiving-ip']),
      reason: textOf(detail['failure-reason-code'], 100),
      sessions: countOf(detail['failed-session-count']),
    },
  ];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''));
  } catch {
    return null;
  }
}

const objectIn = (value: unknown): Record<string, unknown> | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;

const textOf = (value: unknown, most: number): string =>
  typeof value === 'string'
    ? value
        .slice(0, most)
        .replace(/[\x00-\x1f\x7f]/g, ' ')
        .trim()
        .toWellFormed()
    : '';

function addressOf(value: unknown): string {
  const text = textOf(value, 60).toLowerCase();
  return isIP(text) === 0 ? '' : text;
}

/** Returns the texts of a list. Some reporters write one line where a list belongs. */
const textsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? (value as unknown[]).slice(0, 100) : [value])
    .map((one) => textOf(one, 1000))
    .filter((one) => one !== '');

/** A count beyond is false. The sum of all that are kept stays an integer that SQLite has. */
const MOST_SESSIONS = 999_999_999_999;

const countOf = (value: unknown): number =>
  typeof value === 'number' && value >= 0 && value <= MOST_SESSIONS ? Math.floor(value) : 0;

function timeOf(value: unknown): number | null {
  const at = typeof value === 'string' ? Date.parse(value) : NaN;
  return at >= 0 && at < 2 ** 42 ? at : null;
}

export interface TlsReportMail {
  from: string;
  to: string;
  date: Date;
  /** With angle brackets. */
  messageId: string;
  /** The domain that is reported about, and ours. */
  domain: string;
  submitter: string;
  report: Pick<TlsReport, 'from' | 'until' | 'id'>;
  /** The report's JSON, in gzip. */
  gzip: Buffer;
}

/** Returns the mail of section 5.3, ASCII with CRLF. It must arrive however bad TLS is, so it waives the domain's policies (RFC 8689 section 5). */
export function tlsReportMail(mail: TlsReportMail): Buffer {
  const { from, to, date, messageId, domain, submitter, report, gzip } = mail;
  const boundary = `=_tlsrpt_${createHash('sha256').update(messageId).digest('base64url').slice(0, 24)}`;
  // Section 5.1: the sender in the name is the domain of contact-info, which is the mail's own.
  const sender = from.slice(from.lastIndexOf('@') + 1);
  const file = `${sender}!${domain}!${unix(report.from)}!${unix(report.until)}!001.json.gz`;
  return Buffer.from(
    [
      `From: <${from}>`,
      `To: <${to}>`,
      `Date: ${dateTime(date)}`,
      `Message-ID: ${messageId}`,
      `Subject: Report Domain: ${domain}`,
      ` Submitter: ${submitter}`,
      ` Report-ID: <${report.id}>`,
      `TLS-Report-Domain: ${domain}`,
      `TLS-Report-Submitter: ${submitter}`,
      'TLS-Required: No',
      'Auto-Submitted: auto-generated',
      'MIME-Version: 1.0',
      `Content-Type: multipart/report; report-type="tlsrpt";\r\n boundary="${boundary}"`,
      '',
      `--${boundary}`,
      'Content-Type: text/plain; charset=us-ascii',
      'Content-Transfer-Encoding: 7bit',
      '',
      'This is an aggregate report (RFC 8460) about TLS on connections',
      'to the mail hosts of a domain:',
      domain,
      '',
      `--${boundary}`,
      'Content-Type: application/tlsrpt+gzip',
      'Content-Transfer-Encoding: base64',
      `Content-Disposition: attachment;\r\n filename="${file}"`,
      '',
      ...(gzip.toString('base64').match(/.{1,76}/g) ?? []),
      `--${boundary}--`,
      '',
    ].join('\r\n'),
    'latin1',
  );
}

const unix = (at: number): string => String(Math.floor(at / 1000));
