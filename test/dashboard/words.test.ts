import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readCookie, writeCookie } from '../../src/dashboard/cookies.ts';
import { barChart, niceTop } from '../../src/dashboard/chart.ts';
import { diffLines } from '../../src/dashboard/diff.ts';
import { chipsOf, linkTo, pagerOf, placeWithin, spanOf } from '../../src/dashboard/links.ts';
import { searchOf } from '../../src/dashboard/pages/messages.ts';
import { createFormTokens } from '../../src/dashboard/tokens.ts';
import { agoText, bytesText, helpers, numberText, percentText, spanText } from '../../src/dashboard/words.ts';
import { htmlFaults } from '../support/harness/html.ts';

const S = 1000;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;

describe('dashboard/words', () => {
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
    [3, 5],
    [7, 10],
    [11, 20],
    [99, 100],
    [101, 200],
    [4210, 5000],
  ] as const) {
    it(`has ${String(top)} above ${String(most)}`, () => {
      assert.equal(niceTop(most), top);
    });
  }

  it('draws well-formed SVG of any numbers, and says them in titles', () => {
    const one = barChart(
      ['<b>', 'tue'],
      [
        { name: 'delivered', values: [3, 0] },
        { name: 'bounced', values: [1, 0] },
      ],
      'a "chart"',
    );
    assert.match(one, /<title>&#60;b&#62;: delivered 3, bounced 1<\/title>/);
    assert.match(one, /<title>tue: nothing<\/title>/);
    assert.match(one, /aria-label="a &#34;chart&#34;"/);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 1e9 }), { maxLength: 60 }), (values) => {
        const svg = barChart(values.map(String), [{ name: 'sent', values }], 'x');
        assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
        assert.deepEqual(
          htmlFaults(svg.replaceAll('/>', '></rect>').replaceAll(/<(line[^>]*)><\/rect>/g, '<$1></line>')),
          [],
        );
      }),
      { numRuns: 50 },
    );
  });
});

describe('dashboard/diff', () => {
  it('shows what went and what came', () => {
    assert.deepEqual(
      diffLines('a\nb\nc', 'a\nx\nc\nd').map(({ mark, text }) => mark + text),
      [' a', '-b', '+x', ' c', '+d'],
    );
    assert.deepEqual(diffLines('', ''), []);
  });

  it('holds both texts whole', () => {
    const lines = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 20 });
    fc.assert(
      fc.property(lines, lines, (a, b) => {
        const diff = diffLines(a.join('\n'), b.join('\n'));
        const side = (mark: string): string[] => diff.filter((line) => line.mark !== mark).map(({ text }) => text);
        assert.deepEqual(side('+'), a);
        assert.deepEqual(side('-'), b);
      }),
    );
  });

  it('does not compare what is very long', () => {
    const long = Array.from({ length: 5000 }, (_, n) => String(n)).join('\n');
    assert.equal(diffLines(long, long).length, 10_000);
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
    assert.equal(spanOf(new URLSearchParams('range=24h'), 'all', D).since, '1970-01-01T00:00:00.000Z');
    assert.equal(spanOf(new URLSearchParams('range=24h&since=kept'), 'all', D).since, 'kept');
    assert.equal(spanOf(new URLSearchParams('range=nonsense'), 'all', D).value, '30d');
    assert.equal(spanOf(new URLSearchParams(), 'all', D).since, null);
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
    ['', {}],
  ] as const) {
    it(`search for ${JSON.stringify(wanted)} where ${JSON.stringify(text)} was typed`, () => {
      assert.deepEqual(searchOf(text), wanted);
    });
  }
});

describe('dashboard/cookies', () => {
  it('are read among others, and only by their whole name', () => {
    assert.equal(readCookie('a=1; posthorn_session=x%20y; b=2', 'session', false), 'x y');
    assert.equal(readCookie('xposthorn_session=x', 'session', false), '');
    assert.equal(readCookie('posthorn_session=x', 'session', true), '', 'behind TLS only the bound one counts');
    assert.equal(readCookie('__Host-posthorn_session=x', 'session', true), 'x');
    assert.equal(readCookie('posthorn_session=%E0%A4%A', 'session', false), '', 'not UTF-8');
    assert.equal(readCookie(`posthorn_session=${'x'.repeat(9000)}`, 'session', false), '');
    assert.equal(readCookie(undefined, 'session', false), '');
  });

  it('come back as they were written, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.boolean(), (text, secure) => {
        const pair = writeCookie('say', text, secure).split('; ', 1)[0];
        assert.doesNotMatch(writeCookie('say', text, secure), /[\r\n]/);
        assert.equal(readCookie(pair, 'say', secure), text);
      }),
    );
  });
});

describe('dashboard/tokens', () => {
  const tokens = createFormTokens(Buffer.alloc(32, 1));

  it('are those of one cookie', () => {
    assert.ok(tokens.isRight('a', tokens.for('a')));
    assert.ok(!tokens.isRight('b', tokens.for('a')));
    assert.ok(!tokens.isRight('', tokens.for('')), 'no cookie, no form');
    assert.ok(!createFormTokens(Buffer.alloc(32, 2)).isRight('a', tokens.for('a')));
  });
});
