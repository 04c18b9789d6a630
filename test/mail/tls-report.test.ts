import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readTlsReport } from '../../src/mail/aggregate-reports.ts';
import { tlsReportJson } from '../support/harness/tls-report.ts';

const json = tlsReportJson({
  domain: 'dest.test',
  type: 'sts',
  successes: 5326,
  failures: 3,
  details: [
    {
      'result-type': 'certificate-expired',
      'sending-mta-ip': '192.0.2.1',
      'receiving-mx-hostname': 'mx.dest.test',
      'receiving-ip': '192.0.2.2',
      'failed-session-count': 3,
      'failure-reason-code': 'CERT_HAS_EXPIRED',
    },
  ],
});

describe('mail/tls-report', () => {
  it('reads the members of RFC 8460 section 4.4 that are kept', () => {
    assert.deepEqual(readTlsReport(json), {
      organization: 'isp.test',
      from: Date.parse('2026-01-31T00:00:00Z'),
      until: Date.parse('2026-01-31T23:59:59Z'),
      id: 't1',
      policies: [
        {
          type: 'sts',
          domain: 'dest.test',
          successes: 5326,
          failures: 3,
          details: [
            {
              result: 'certificate-expired',
              source_ip: '192.0.2.1',
              mx: 'mx.dest.test',
              ip: '192.0.2.2',
              reason: 'CERT_HAS_EXPIRED',
              sessions: 3,
            },
          ],
        },
      ],
    });
  });

  for (const [reason, text] of [
    ['no JSON', '{"organization-name":'],
    ['a list', '[]'],
    [
      'no policies',
      JSON.stringify({
        'date-range': { 'start-datetime': '2026-01-31T00:00:00Z', 'end-datetime': '2026-01-31T23:59:59Z' },
      }),
    ],
    ['no range', JSON.stringify({ policies: [] })],
    [
      'a range that ends before it begins',
      JSON.stringify({
        policies: [],
        'date-range': { 'start-datetime': '2026-01-31T00:00:00Z', 'end-datetime': '2026-01-30T00:00:00Z' },
      }),
    ],
  ] as const)
    it(`is no report: ${reason}`, () => {
      assert.equal(readTlsReport(text), null);
    });

  it('takes what others get wrong: counts that are texts, control characters', () => {
    const odd = JSON.parse(json) as { policies: { policy: object; summary: object }[] };
    Object.assign(odd.policies[0]?.policy ?? {}, { 'policy-domain': 'DEST.test\r\n' });
    Object.assign(odd.policies[0]?.summary ?? {}, { 'total-successful-session-count': '7' });
    const read = readTlsReport(JSON.stringify(odd))?.policies[0];
    assert.deepEqual([read?.domain, read?.successes], ['dest.test', 0]);
  });

  it('leaves out what no report has: millions of values before they take memory, and details beyond five thousand', () => {
    const range = { 'start-datetime': '2026-01-31T00:00:00Z', 'end-datetime': '2026-01-31T23:59:59Z' };
    const withDetails = (policies: number, details: number): string => {
      const policy = { policy: { 'policy-domain': 'dest.test' }, 'failure-details': Array(details).fill({}) };
      return JSON.stringify({ 'date-range': range, policies: Array(policies).fill(policy) });
    };
    const details = readTlsReport(withDetails(200, 100))?.policies.map((one) => one.details.length);
    assert.deepEqual(details, [...Array<number>(50).fill(100), ...Array<number>(150).fill(0)]);
    assert.equal(readTlsReport(withDetails(200, 500)), null);
    assert.equal(readTlsReport(withDetails(1, 0).replace(']}', `,{"20":1}`.repeat(100_000) + ']}')), null);
  });

  it('never throws', () => {
    const range = { 'start-datetime': '2026-01-31', 'end-datetime': '2026-02-01' };
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const read = readTlsReport(
          JSON.stringify({ policies: [value, { policy: value, summary: value }], 'date-range': range }),
        );
        assert.ok(read !== null && read.policies.length <= 2);
      }),
    );
  });
});
