import assert from 'node:assert/strict';
import { openReportParser, type ReportParser } from '../../src/inbound/report-reader.ts';

const notice = (subject: string, text: string): Buffer =>
  Buffer.from(
    [
      'Return-Path: <>',
      'From: Postmaster@firma.example',
      'To: rp@rp.shop.example',
      `Subject: ${subject}`,
      'Auto-Submitted: auto-replied',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      '',
      text,
    ].join('\r\n'),
  );

describe('notices in Turkish, Polish and of a German Domino', () => {
  let parser: ReportParser;
  before(() => (parser = openReportParser(null, [])));
  after(() => parser.close());

  for (const [name, subject, text, expected] of [
    [
      'a Turkish delay is not a bounce',
      'Teslimat gecikti',
      'jana@firma.example adresine iletiniz henüz teslim edilemedi. Sunucu 2 gün boyunca denemeye devam edecek.',
      ['delay', 'soft', 'other'],
    ],
    [
      'a Turkish refusal says that there is no such user',
      'Teslim edilemedi',
      'İletiniz jana@firma.example adresine teslim edilemedi. Böyle bir kullanıcı yok.',
      ['bounce', 'hard', 'mailbox_not_found'],
    ],
    [
      'a Polish refusal says that there is no such user',
      'Niedostarczona wiadomość',
      'Nie można dostarczyć wiadomości do jana@firma.example: nie ma takiego użytkownika.',
      ['bounce', 'hard', 'mailbox_not_found'],
    ],
    [
      'a German Domino refusal is not an automatic answer',
      'ZUSTELLUNGSFEHLER: Benutzer jana nicht im Domino-Verzeichnis',
      'Ihre Nachricht wurde nicht zugestellt an:\r\n\r\n  jana@firma.example\r\n\r\nweil:\r\n\r\n  Benutzer jana (jana@firma.example) nicht im Domino-Verzeichnis aufgeführt',
      ['bounce', 'hard', 'mailbox_not_found'],
    ],
  ] as const)
    it(name, async () => {
      const { record } = await parser.parse(notice(subject, text));
      const [recipient] = record.recipients;
      assert.deepEqual([record.kind, recipient?.class, recipient?.reason], expected);
    });
});
