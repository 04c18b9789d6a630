/** Returns the JSON of a TLS report (RFC 8460 section 4.4) about 31 January 2026, with these policies. */
export function tlsReportJson(
  ...policies: readonly {
    domain: string;
    type: string;
    successes: number;
    failures: number;
    details: readonly Readonly<Record<string, unknown>>[];
  }[]
): string {
  return JSON.stringify({
    'organization-name': 'isp.test',
    'date-range': { 'start-datetime': '2026-01-31T00:00:00Z', 'end-datetime': '2026-01-31T23:59:59Z' },
    'contact-info': 'tls@isp.test',
    'report-id': 't1',
    policies: policies.map(({ domain, type, successes, failures, details }) => ({
      policy: { 'policy-type': type, 'policy-string': ['mode: testing'], 'policy-domain': domain, 'mx-host': ['mx'] },
      summary: { 'total-successful-session-count': successes, 'total-failure-session-count': failures },
      'failure-details': details,
    })),
  });
}
