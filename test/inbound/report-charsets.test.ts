/** Aggregate reports in the encodings that XML allows. */
import assert from 'node:assert/strict';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';
import { dmarcXml } from '../support/harness/dmarc.ts';

const words = readBounceWords();
const xml = dmarcXml('acme.test', [{ ip: '192.0.2.1', count: 7 }]);
const little = Buffer.from(`\ufeff${xml.replace('UTF-8', 'UTF-16')}`, 'utf16le');

const mail = (file: Buffer): Buffer =>
  Buffer.from(
    [
      'From: noreply@isp.test\nTo: dmarc@mail.posthorn.test\nSubject: Report domain: acme.test\nMIME-Version: 1.0\n',
      'Content-Type: text/xml; name="isp.test!acme.test!1769817600!1769903999.xml"\nContent-Transfer-Encoding: base64\n\n',
      `${file.toString('base64')}\n`,
    ].join(''),
  );

describe('the encoding of an aggregate report', () => {
  for (const [what, file] of [
    ['UTF-8', Buffer.from(xml)],
    ['UTF-8 with a mark', Buffer.from(`\ufeff${xml}`)],
    ['UTF-16, low octet first', little],
    ['UTF-16, high octet first', Buffer.from(little).swap16()],
  ] as const)
    it(`may be ${what}`, () => {
      const finding = readReport({ words, judge }, mail(file));
      const { aggregate } = finding;
      assert.ok(aggregate?.kind === 'dmarc');
      assert.deepEqual(
        aggregate.report.records.map(({ source_ip, count }) => [source_ip, count]),
        [['192.0.2.1', 7]],
      );
    });
});
