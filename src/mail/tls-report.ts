/** Reads SMTP TLS reports of other senders (RFC 8460 section 4.4). */
import { isIP } from 'node:net';
import { hostNameOr, oneOf } from './report-values.ts';

const tlsPolicies = ['tlsa', 'sts', 'no-policy-found'] as const;

/** Section 4.3. */
const tlsFailures = [
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

export interface TlsReport {
  organization: string;
  /** Milliseconds since the epoch; `until` is the last second of the range. */
  from: number;
  until: number;
  id: string;
  policies: readonly TlsReportPolicy[];
}

export interface TlsReportPolicy {
  type: string;
  domain: string;
  successes: number;
  failures: number;
  details: readonly TlsFailureDetail[];
}

/** Texts that a report leaves out are empty. */
export interface TlsFailureDetail {
  result: string;
  source_ip: string;
  mx: string;
  ip: string;
  reason: string;
  sessions: number;
}

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
      domain,
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
      source_ip: addressOf(detail['sending-mta-ip']),
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

/** A count beyond is false. The sum of all that are kept stays an integer that SQLite has. */
const MOST_SESSIONS = 999_999_999_999;

const countOf = (value: unknown): number =>
  typeof value === 'number' && value >= 0 && value <= MOST_SESSIONS ? Math.floor(value) : 0;

function timeOf(value: unknown): number | null {
  const at = typeof value === 'string' ? Date.parse(value) : NaN;
  return at >= 0 && at < 2 ** 42 ? at : null;
}
