import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { chartHtml, roundUp } from '../../src/dashboard/chart.ts';
import { chipsOf, linkTo, pagerOf, placeWithin } from '../../src/dashboard/links.ts';
import { readSearch } from '../../src/dashboard/search-text.ts';
import { comparedLines } from '../../src/dashboard/pages/templates.ts';
import {
  agoText,
  browserText,
  bytesText,
  faultText,
  helpers,
  numberText,
  percentText,
  spanText,
} from '../../src/dashboard/words.ts';
import { htmlFaults } from '../support/harness/html.ts';

const S = 1000;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;

describe('dashboard/words', () => {
  // A helper without arguments hides the member of that name: the paths of the API page were empty.
  it('has no helper whose name a view uses for a value', () => {
    const folder = new URL('../../src/dashboard/views/', import.meta.url);
    const hidden = readdirSync(folder).flatMap((file) =>
      [...readFileSync(new URL(file, folder), 'utf8').matchAll(/\{\{\{?(\w+)\}\}/g)]
        .map(([, name = '']) => name)
        .filter((name) => Object.hasOwn(helpers, name))
        .map((name) => `${file}: ${name}`),
    );
    assert.deepEqual(hidden, []);
  });

  for (const [ms, text] of [
    [0, '0 s'],
    [999, '1 s'],
    [59 * S, '59 s'],
    [M, '1 min'],
    [59 * M + 59 * S, '59 min'],
    [H, '1 h'],
    [H + 5 * M, '1 h 5 min'],
    [10 * H + 5 * M, '10 h'],
    [D, '1 d'],
    [D + 3 * H, '1 d 3 h'],
    [12 * D + H, '12 d'],
    [-5, '0 s'],
  ] as const) {
    it(`says ${text} for ${String(ms)} ms`, () => {
      assert.equal(spanText(ms), text);
    });
  }

  it('says when, before and after', () => {
    assert.equal(agoText(0, 3 * D), '3 d ago');
    assert.equal(agoText(12 * D, 0), 'in 12 d');
    assert.equal(agoText(5, 10), 'now');
  });

  it('writes numbers, shares and sizes', () => {
    assert.equal(numberText(1_234_567), '1,234,567');
    assert.deepEqual(
      [0, 1, 0.9907, 0.0004, null].map((share) => percentText(share)),
      ['0 %', '100 %', '99.07 %', '0.040 %', '–'],
    );
    assert.deepEqual([0, 1023, 1024, 26_214_400, 5e12].map(bytesText), [
      '0 B',
      '1023 B',
      '1.0 KiB',
      '25.0 MiB',
      '4.5 TiB',
    ]);
  });

  it('lets no value out of its helper unescaped', () => {
    const options = { data: { root: { now: 0 } }, hash: {} };
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.constantFrom('<script>', '"onload="', '2026-01-31T00:00:00Z<b>')),
        (text) => {
          for (const name of ['time', 'ago', 'badge']) {
            const shown = String(helpers[name]?.call({}, text, options));
            assert.doesNotMatch(shown.replace(/^<(?:time|span)[^<>]*>/, '').replace(/<\/(?:time|span)>$/, ''), /[<>"]/);
          }
        },
      ),
    );
  });
});

describe('dashboard/chart', () => {
  for (const [most, top] of [
    [0, 1],
    [1, 1],
    [2, 2],
    [3, 3],
    [7, 8],
    [11, 12],
    [13, 15],
    [99, 100],
    [101, 120],
    [4210, 5000],
    [0.07, 0.08],
  ] as const) {
    it(`has ${String(top)} above ${String(most)}`, () => {
      assert.equal(roundUp(most), top);
    });
  }

  it('draws well-formed SVG of any numbers, and has them in titles', () => {
    const base = { label: 'a "chart"', kind: 'bars', yAxis: 'Recipients', step: 'day' } as const;
    const one = chartHtml({
      ...base,
      times: [0, D],
      series: [
        { name: 'delivered', values: [3, 0] },
        { name: 'bounced', values: [1, null] },
      ],
    });
    assert.match(one, /<title>1 Jan: delivered 3, bounced 1<\/title>/);
    assert.match(one, /<title>2 Jan: delivered 0, bounced –<\/title>/);
    assert.match(one, /aria-label="a &quot;chart&quot;"/);
    const soFar = chartHtml({ ...base, now: D + 1, times: [0, D], series: [{ name: 'delivered', values: [3, 1] }] });
    assert.match(soFar, /per day \(UTC\); lighter: today so far</);
    assert.equal(soFar.match(/class="bar [\w-]* partial"/g)?.length, 1);
    assert.doesNotMatch(one, /so far|partial/);
    const number = fc.option(fc.nat({ max: 1e9 }));
    fc.assert(
      fc.property(fc.array(number, { maxLength: 60 }), fc.constantFrom('bars', 'lines'), (values, kind) => {
        const times = values.map((_, at) => at * D);
        const svg = chartHtml({ ...base, kind, times, series: [{ name: 'sent', values }] });
        assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
        assert.deepEqual(htmlFaults(svg.replaceAll(/<(\w+)([^>]*)\/>/g, '<$1$2></$1>')), []);
      }),
      { numRuns: 50 },
    );
  });
});

describe('dashboard: comparing versions', () => {
  it('shows what went and what came', async () => {
    assert.deepEqual(
      (await comparedLines('a\nb\nc', 'a\nx\nc\nd')).map(({ mark, text }) => mark + text),
      [' a', '-b', '+x', ' c', '+d'],
    );
    assert.deepEqual(await comparedLines('', ''), []);
  });

  it('holds both texts whole', async () => {
    const lines = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(lines, lines, async (a, b) => {
        const diff = await comparedLines(a.join('\n'), b.join('\n'));
        const side = (mark: string): string[] => diff.filter((line) => line.mark !== mark).map(({ text }) => text);
        assert.deepEqual(side('+'), a);
        assert.deepEqual(side('-'), b);
      }),
    );
  });

  it('shows texts that differ in very many lines one after the other', async () => {
    const linesFrom = (first: number): string => Array.from({ length: 5000 }, (_, n) => String(first + n)).join('\n');
    assert.equal((await comparedLines(linesFrom(0), linesFrom(5000))).length, 10_000);
    assert.equal((await comparedLines(linesFrom(0), linesFrom(1))).length, 5001);
  });
});

describe('dashboard/links', () => {
  const query = new URLSearchParams('status=sent&after=abc&since=x&q=a b');

  it('keep filters and leave cursors behind', () => {
    assert.equal(linkTo('/m', query), '/m?status=sent&q=a+b');
    assert.equal(linkTo('/m', query, { status: null }), '/m?q=a+b');
    assert.equal(linkTo('/m', query, { before: 'c' }), '/m?status=sent&q=a+b&before=c');
    assert.equal(linkTo('/m', new URLSearchParams('q=')), '/m');
  });

  it('lead to the pages beside, with the begin of the range as it was', () => {
    assert.deepEqual(
      pagerOf('/m', new URLSearchParams('range=24h'), { next_cursor: 'n', previous_cursor: null }, '2026'),
      {
        next: '/m?range=24h&after=n&since=2026',
        previous: null,
      },
    );
  });

  it('switch a chip on and off', () => {
    const [sent, bounced] = chipsOf('/m', query, 'status', [
      ['sent', 'Sent'],
      ['bounced', 'Bounced'],
    ]);
    assert.deepEqual([sent?.on, sent?.href], [true, '/m?q=a+b']);
    assert.deepEqual([bounced?.on, bounced?.href], [false, '/m?status=bounced&q=a+b']);
  });

  for (const [wanted, place] of [
    ['/messages?status=sent', '/messages?status=sent'],
    ['/', '/'],
    [null, '/'],
    ['', '/'],
    ['//evil.test', '/'],
    ['/\\evil.test', '/'],
    ['https://evil.test', '/'],
    ['/a\r\nSet-Cookie: x', '/'],
    ['/a b', '/'],
    [`/${'x'.repeat(3000)}`, '/'],
  ] as const) {
    it(`lead from ${JSON.stringify(wanted).slice(0, 40)} to ${place}`, () => {
      assert.equal(placeWithin(wanted), place);
    });
  }

  for (const [text, wanted] of [
    ['ana@example.net', { to: 'ana@example.net' }],
    ['tag:welcome', { tag: 'welcome' }],
    ['from: a@b.c', { from: 'a@b.c' }],
    ['<x@y>', { rfc_message_id: '<x@y>' }],
    ['bat_01jz5w8q3hf2m9d4x6k7c1b0na', { batch_id: 'bat_01jz5w8q3hf2m9d4x6k7c1b0na' }],
    ['Your order', { subject: 'Your order' }],
    ['subject:a@b', { subject: 'a@b' }],
    ['cust5', { q: 'cust5' }],
    ['cust57@yahoo', { to_start: 'cust57@yahoo' }],
    ['@gmail.com', { to_domain: 'gmail.com' }],
    ['domain:yahoo.com', { to_domain: 'yahoo.com' }],
    ['@yahoo', { to_domain: 'yahoo' }],
    ['order_id:4711', { 'metadata[order_id]': '4711' }],
    ['Re: your order', { subject: 'Re: your order' }],
    ['msg_01jz5w8', { id_start: 'msg_01jz5w8' }],
    ['req_01jz5w8q3h', { request_id_start: 'req_01jz5w8q3h' }],
    ['req_01jz5w8q3hf2m9d4x6k7c1b0na', { request_id: 'req_01jz5w8q3hf2m9d4x6k7c1b0na' }],
    ['evt_01jz5w8q3hf2m9d4x6k7c1b0na', { event_id: 'evt_01jz5w8q3hf2m9d4x6k7c1b0na' }],
    ['', {}],
  ] as const) {
    it(`search for ${JSON.stringify(wanted)} where ${JSON.stringify(text)} was typed`, () => {
      assert.deepEqual(readSearch(text).query, wanted);
    });
  }
});

describe('dashboard/words: refused forms', () => {
  for (const [message, field, text] of [
    [
      '203.0.113.300/24 is not an IP address or range.',
      'allowed_ips[0]',
      'Line 1: 203.0.113.300/24 is not an IP address or range.',
    ],
    ['`slug` must be lower-case letters', 'slug', '`slug` must be lower-case letters.'],
    ['Give a number.', 'content_days', 'Content days: Give a number.'],
    ['The password is wrong.', null, 'The password is wrong.'],
    ['there is no lane "mx": see `posthorn queue lanes`', null, 'There is no lane "mx": see `posthorn queue lanes`.'],
    ['backup.dir is full', null, 'backup.dir is full.'],
  ] as const)
    it(text, () => {
      assert.equal(faultText(message, field), text);
    });
});

describe('dashboard/words: browsers', () => {
  for (const [userAgent, text] of [
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.0.0 Safari/537.36',
      'Chrome on Linux',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36 Edg/156.0',
      'Edge on Windows',
    ],
    [
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 14_6) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15',
      'Safari on macOS',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 Version/26.0 Mobile Safari/604.1',
      'Safari on iPhone',
    ],
    ['Mozilla/5.0 (Android 16; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0', 'Firefox on Android'],
    ['curl/8.10.1', 'curl/8.10.1'],
    ['', ''],
  ] as const)
    it(`names ${text === '' ? 'nothing' : text}`, () => {
      assert.equal(browserText(userAgent), text);
    });
});
