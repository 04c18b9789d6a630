import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readDmarcReport } from '../../src/mail/aggregate-reports.ts';
import { dmarcXml } from '../support/harness/dmarc.ts';

const one = dmarcXml('acme.test', [{ ip: '192.0.2.1', count: 12 }]);

describe('mail/dmarc-report', () => {
  it('reads what a receiver saw', () => {
    const report = readDmarcReport(
      dmarcXml('Acme.test', [
        { ip: '192.0.2.1', count: 12 },
        { ip: '2001:DB8::1', count: 3, dkim: 'fail', spf: 'fail', disposition: 'quarantine' },
      ]),
    );
    assert.deepEqual(
      [report?.organization, report?.id, report?.domain, report?.policy],
      ['isp.test', 'r1', 'acme.test', 'none'],
    );
    assert.deepEqual([report?.from, report?.until], [1_769_817_600_000, 1_769_903_999_000]);
    assert.deepEqual(report?.records[1], {
      source_ip: '2001:db8::1',
      count: 3,
      disposition: 'quarantine',
      dkim: 'fail',
      spf: 'fail',
      header_from: 'acme.test',
      envelope_from: 'rp.acme.test',
      dkim_domain: 'acme.test',
      dkim_selector: 'ph1',
      dkim_result: 'fail',
      spf_domain: 'rp.acme.test',
      spf_result: 'fail',
    });
  });

  for (const [reason, xml, expected] of [
    [
      'prefixes of a namespace',
      one.replace(/<(\/?)([a-z_]+)>/g, '<$1d:$2>').replace('<d:feedback>', '<d:feedback xmlns:d="urn:x">'),
      1,
    ],
    ['comments and CDATA', one.replace('192.0.2.1', '<!-- x --><![CDATA[192.0.2.1]]>'), 1],
    [
      'a record that stands elsewhere',
      one.replace(
        '</policy_published>',
        '<record><row><source_ip>192.0.2.9</source_ip><count>1</count></row></record></policy_published>',
      ),
      1,
    ],
    ['no address', one.replace('192.0.2.1', 'localhost'), 0],
    ['no count', one.replace('<count>12', '<count>-12'), 0],
    ['a document that is cut off', one.slice(0, one.indexOf('</row>')), 1],
    [
      'an entity of its own is not followed',
      one
        .replace('<feedback>', '<!DOCTYPE x [<!ENTITY ip "192.0.2.1">]><feedback>')
        .replace('192.0.2.1</source', '&ip;</source'),
      0,
    ],
  ] as const)
    it(`${reason}: ${String(expected)}`, () => {
      assert.equal(readDmarcReport(xml)?.records.length, expected);
    });

  for (const [reason, xml] of [
    ['nothing', ''],
    ['another document', '<html><body>Hello</body></html>'],
    ['no domain', one.replace('acme.test', '')],
    ['no time', one.replace('1769817600', 'yesterday')],
    ['an end before its begin', one.replace('1769903999', '1')],
  ] as const)
    it(`is no report: ${reason}`, () => {
      assert.equal(readDmarcReport(xml), null);
    });

  it('keeps within its limits: 5,000 records, texts of 100, any depth', () => {
    const many = dmarcXml(
      'acme.test',
      Array.from({ length: 5_100 }, () => ({ ip: '192.0.2.1', count: 1 })),
    );
    assert.equal(readDmarcReport(many)?.records.length, 5_000);
    assert.equal(readDmarcReport(one.replace('isp.test', 'x'.repeat(9_000)))?.organization.length, 100);
    assert.equal(readDmarcReport('<feedback>'.repeat(100_000)), null);
  });

  for (const [place, value, kept] of [
    ['disposition', 'pass', 'none'],
    ['disposition', 'None', 'none'],
    ['spf', 'unknown', 'unknown'],
    ['spf', 'error', 'error'],
  ] as const)
    it(`takes the ${place} ${value}, which reporters write, for ${kept}`, () => {
      const said = one
        .replace('<disposition>none', `<disposition>${place === 'disposition' ? value : 'none'}`)
        .replace(
          '</domain><result>pass</result></spf>',
          `</domain><result>${place === 'spf' ? value : 'pass'}</result></spf>`,
        );
      const report = readDmarcReport(said);
      const [record] = report?.records ?? [];
      assert.deepEqual([place === 'spf' ? record?.spf_result : record?.disposition, report?.unsound], [kept, 0]);
    });

  it('keeps enumerations as enumerations, and names as host names', () => {
    const odd = one
      .replace('<disposition>none', `<disposition>${'x'.repeat(250)}`)
      .replace('<spf>pass', '<spf>PASS')
      .replace('<header_from>acme.test', '<header_from>a b<br>')
      .replace('<envelope_from>rp.acme.test', '<envelope_from>Bob@RP.acme.test.')
      .replace('<selector>ph1', '<selector>../../x')
      .replace('<p>none', '<p>later');
    const report = readDmarcReport(odd) ?? assert.fail();
    const [record] = report.records;
    assert.deepEqual(
      [
        record?.disposition,
        record?.spf,
        record?.header_from,
        record?.envelope_from,
        record?.dkim_selector,
        report.policy,
      ],
      ['unknown', 'pass', '', 'rp.acme.test', '', 'unknown'],
    );
    assert.equal(report.unsound, 1);
    assert.equal(readDmarcReport(one)?.unsound, 0);
    assert.equal(readDmarcReport(one.replace('<domain>acme.test', '<domain>acme test')), null);
    assert.equal(readDmarcReport(one.replace('<source_ip>192.0.2.1', '<source_ip>::::'))?.records.length, 0);
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.nat(one.length), fc.string(), (at, text) => {
        const report = readDmarcReport(one.slice(0, at) + text + one.slice(at));
        assert.ok(report === null || report.records.length <= 1);
      }),
    );
  });
});
