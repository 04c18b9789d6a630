import assert from 'node:assert/strict';
import { Liquid } from 'liquidjs';
import { strftime } from '../../../src/templates/mixed/dates.ts';

const AT = Date.UTC(2026, 0, 5, 23, 7, 9, 42);

const rows: readonly (readonly [format: string, expected: string, reason: string])[] = [
  ['%Y-%m-%d %H:%M:%S.%L', '2026-01-05 23:07:09.042', 'the usual'],
  ['%F %T %R %D %r', '2026-01-05 23:07:09 23:07 01/05/26 11:07:09 PM', 'short for others'],
  ['%-d. %e. %_m %03d %-I', '5.  5.  1 005 11', 'flags and widths'],
  ['%A %a %^a %B %b %#b', 'Monday Mon MON January Jan JAN', 'words'],
  ['%j %U %W %V %G %u %w', '005 01 01 02 2026 1 1', 'weeks'],
  ['%s %3N %N %z %:z %Z %%', '1767654429 042 042000000 +0000 +00:00 UTC %', 'the rest'],
  ['%Q %', '%Q %', 'what is no format'],
];

describe('templates/mixed/strftime', () => {
  for (const [format, expected, reason] of rows)
    it(`${reason}: ${format}`, () => {
      assert.equal(strftime(AT, format, 'UTC', 'en'), expected);
    });

  it('follows the zone and the locale', () => {
    assert.equal(strftime(AT, '%d %H:%M %z', 'Europe/Vienna', 'en'), '06 00:07 +0100');
    assert.equal(strftime(AT, '%A, %-d. %B', 'UTC', 'de-AT'), 'Montag, 5. Jänner');
  });

  it('says what LiquidJS says', () => {
    const letters = 'a A b B C d e H I j k l L m M N p P q s S u U w W y Y z'.split(' ');
    for (const zone of ['UTC', 'Asia/Kolkata', 'America/New_York', 'Pacific/Apia']) {
      const liquid = new Liquid({ locale: 'en', timezoneOffset: zone });
      for (const day of [
        '2024-02-29T23:59:59.123Z',
        '2020-12-31T12:00:00Z',
        '2023-01-01T00:00:00Z',
        '1999-07-04T03:05:09Z',
      ])
        for (const letter of letters)
          assert.equal(
            strftime(Date.parse(day), `%${letter}`, zone, 'en'),
            liquid.parseAndRenderSync(`{{ "${day}" | date: "%${letter}" }}`),
            `${day} ${zone} ${letter}`,
          );
    }
  });
});
