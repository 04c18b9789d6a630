import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  readTlsReport,
  readTlsReportRecord,
  tlsReportMail,
  writeTlsReport,
  type TlsReport,
} from '../../src/mail/tls-report.ts';

const records: [reason: string, texts: string[], expected: readonly string[] | null][] = [
  ['a mail address', ['v=TLSRPTv1; rua=mailto:reports@dest.test'], ['mailto:reports@dest.test']],
  [
    'both kinds',
    ['v=TLSRPTv1;rua=mailto:a@dest.test,https://dest.test/v1/tls;'],
    ['mailto:a@dest.test', 'https://dest.test/v1/tls'],
  ],
  [
    'spaces, and other records beside it',
    ['v=spf1 -all', 'v=TLSRPTv1 ; rua = mailto:a@dest.test , mailto:b@dest.test'],
    ['mailto:a@dest.test', 'mailto:b@dest.test'],
  ],
  ['two records say nothing', ['v=TLSRPTv1; rua=mailto:a@dest.test', 'v=TLSRPTv1; rua=mailto:b@dest.test'], null],
  ['no rua', ['v=TLSRPTv1; x=y'], null],
  ['another version', ['v=TLSRPTv2; rua=mailto:a@dest.test'], null],
  ['schemes that we do not call', ['v=TLSRPTv1; rua=http://dest.test/,ftp://dest.test/,mailto:'], null],
  ['an address with more than an address', ['v=TLSRPTv1; rua=mailto:a@dest.test?subject=x'], null],
  [
    'more than five',
    [`v=TLSRPTv1; rua=${Array.from({ length: 9 }, (_, at) => `mailto:a${at}@d.test`).join(',')}`],
    [0, 1, 2, 3, 4].map((at) => `mailto:a${at}@d.test`),
  ],
  ['nothing', [], null],
];

const report: TlsReport = {
  organization: 'mail.posthorn.test',
  from: Date.parse('2026-01-31T00:00:00Z'),
  until: Date.parse('2026-01-31T23:59:59Z'),
  contact: 'ops@acme.test',
  id: '2026-01-31.dest.test@mail.posthorn.test',
  policies: [
    {
      type: 'sts',
      strings: ['version: STSv1', 'mode: testing', 'mx: mx.dest.test', 'max_age: 604800'],
      domain: 'dest.test',
      mxHosts: ['mx.dest.test'],
      successes: 5326,
      failures: 3,
      details: [
        {
          result: 'certificate-expired',
          sourceIp: '192.0.2.1',
          mx: 'mx.dest.test',
          ip: '192.0.2.2',
          reason: 'CERT_HAS_EXPIRED',
          sessions: 3,
        },
      ],
    },
  ],
};

describe('mail/tls-report', () => {
  for (const [reason, texts, expected] of records)
    it(`record: ${reason}`, () => {
      assert.deepEqual(readTlsReportRecord(texts), expected);
    });

  it('writes the members of RFC 8460 section 4.4, and reads them back', () => {
    const text = writeTlsReport(report);
    assert.deepEqual(JSON.parse(text), {
      'organization-name': 'mail.posthorn.test',
      'date-range': { 'start-datetime': '2026-01-31T00:00:00Z', 'end-datetime': '2026-01-31T23:59:59Z' },
      'contact-info': 'ops@acme.test',
      'report-id': '2026-01-31.dest.test@mail.posthorn.test',
      policies: [
        {
          policy: {
            'policy-type': 'sts',
            'policy-string': ['version: STSv1', 'mode: testing', 'mx: mx.dest.test', 'max_age: 604800'],
            'policy-domain': 'dest.test',
            'mx-host': ['mx.dest.test'],
          },
          summary: { 'total-successful-session-count': 5326, 'total-failure-session-count': 3 },
          'failure-details': [
            {
              'result-type': 'certificate-expired',
              'sending-mta-ip': '192.0.2.1',
              'receiving-mx-hostname': 'mx.dest.test',
              'receiving-ip': '192.0.2.2',
              'failed-session-count': 3,
              'failure-reason-code': 'CERT_HAS_EXPIRED',
            },
          ],
        },
      ],
    });
    assert.deepEqual(readTlsReport(text), report);
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

  it('takes what others get wrong: one line for a list, counts that are texts, control characters', () => {
    const odd = JSON.parse(writeTlsReport(report)) as { policies: { policy: object; summary: object }[] };
    Object.assign(odd.policies[0]?.policy ?? {}, { 'mx-host': '*.dest.test', 'policy-domain': 'DEST.test\r\n' });
    Object.assign(odd.policies[0]?.summary ?? {}, { 'total-successful-session-count': '7' });
    const read = readTlsReport(JSON.stringify(odd))?.policies[0];
    assert.deepEqual([read?.mxHosts, read?.domain, read?.successes], [['*.dest.test'], 'dest.test', 0]);
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

  it('puts it into a mail of CRLF lines that waives TLS policies', () => {
    const mail = tlsReportMail({
      from: 'ops@acme.test',
      to: 'tls@dest.test',
      date: new Date(report.until),
      messageId: '<x@acme.test>',
      domain: 'dest.test',
      submitter: 'mail.posthorn.test',
      report,
      gzip: Buffer.alloc(300, 7),
    }).toString('latin1');
    assert.doesNotMatch(mail, /[^\r]\n|\r[^\n]/);
    assert.ok(mail.split('\r\n').every((line) => line.length <= 78 || line.startsWith(' filename=')));
    assert.match(mail, /^TLS-Report-Domain: dest\.test\r$/m);
    assert.match(mail, /^TLS-Required: No\r$/m);
    assert.match(mail, /^ filename="acme\.test!dest\.test!1769817600!1769903999!001\.json\.gz"\r$/m);
    assert.match(mail, /multipart\/report; report-type="tlsrpt"/);
  });
});
