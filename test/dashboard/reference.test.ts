/** The dashboard's template previews, charts and words. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { chartHtml } from '../../src/dashboard/chart.ts';
import { headersOf, healthOf } from '../../src/dashboard/pages/webhooks.ts';
import { inputsOf } from '../../src/dashboard/view-forms.ts';
import { loadViews } from '../../src/dashboard/views.ts';
import { proseHtml } from '../../src/dashboard/words.ts';
import { Problem } from '../../src/base/problem.ts';

describe('dashboard: the preview of a template', () => {
  const { alone } = loadViews(inputsOf([]));
  it('lets nothing through as markup of its own', () => {
    const piece = fc.constantFrom(
      '<script>',
      '"',
      "'",
      '{{',
      '}}',
      '{%',
      '%}',
      '<!--',
      '-->',
      '\n',
      'a',
      '&',
      '<',
      '>',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (parts) => {
        const text = parts.join('');
        const html = alone('preview', {
          variables: [text],
          faults: [{ name: text, line: 1, column: 2, message: text, source: text }],
          frames: [{ theme: 'light', html: text }],
        });
        for (const tag of html.match(/<[^>]*>/g) ?? [])
          assert.match(
            tag,
            /^<(?:!doctype html|html lang="en" data-theme=""|meta charset="utf-8"|iframe sandbox class="(?:light|dark)" title="HTML(?:, dark)?" srcdoc="[^"]*"|\/?(?:html|head|body|title|main|h2|p|ol|ul|li|div|code|span|em|strong|pre|style|iframe|details|summary|mark|label)(?: class="[a-z]+")?|input type="radio" name="look" id="[a-z]+"(?: checked)?)>$/,
          );
      }),
    );
  });
});

describe('dashboard: small things', () => {
  it('a chart is its numbers too, and nothing in it is markup', () => {
    const html = chartHtml({
      yAxis: 'Recipients',
      label: '<b>"x"',
      kind: 'lines',
      unit: 'ms',
      step: 'minute',
      times: [0, 60_000],
      series: [{ name: 'p50', values: [null, 1234] }],
    });
    assert.match(html, /<td>1970-01-01 00:01<td class="n">1,234<\/tr><tr><td>1970-01-01 00:00<td class="n">–/);
    assert.match(html, /aria-label="&lt;b&gt;&quot;x&quot;"/);
    assert.doesNotMatch(html, /<b>/);
  });
  it('a chart shows moments as lines where they were, and those outside of it not', () => {
    const DAY = 86_400_000;
    const marks = [DAY * 1.5, DAY * 3, -1].map((at) => ({ at, text: 'a <list>' }));
    const html = chartHtml({
      yAxis: 'Recipients',
      label: 'x',
      kind: 'bars',
      step: 'day',
      times: [0, DAY, 2 * DAY],
      series: [{ name: 'sent', values: [1, 2, 3] }],
      marks,
    });
    assert.deepEqual(
      [...html.matchAll(/class="mark" x1="([\d.]+%)"/g)].map(([, x]) => x),
      ['50%'],
    );
    assert.match(html, /<title>1970-01-02 12:00:00 UTC: a &lt;list&gt;<\/title>/);
  });
  it('backticks are code, and what is in them is text', () => {
    for (const [text, html] of [
      ['`a` or `b`', '<code>a</code> or <code>b</code>'],
      ['`<b>`', '<code>&lt;b&gt;</code>'],
      ['one ` alone', 'one &#x60; alone'],
      ['``', '<code></code>'],
    ] as const)
      assert.equal(proseHtml(text), html);
  });
  it('headers are read a line each', () => {
    assert.deepEqual(headersOf('X-A: 1\r\n\n X-B :two: three \n'), { 'X-A': '1', 'X-B': 'two: three' });
    for (const bad of ['no colon', ': nothing before it']) assert.throws(() => headersOf(bad), Problem);
  });
  it('the health of an endpoint is that of its last attempts', () => {
    const fine = { next_attempt_at: null, rests_until: null };
    const [ok, bad] = [{ status: 'delivered' }, { status: 'failed' }] as const;
    assert.deepEqual(healthOf(fine, [], 0), { sampled: 0, rate: null, nextAt: null, restsUntil: null });
    const resting = { next_attempt_at: '2026-02-02', rests_until: '2026-02-01' };
    const attempts = [ok, bad, bad, ok];
    assert.deepEqual(healthOf(resting, attempts, 0), {
      sampled: 4,
      rate: 0.5,
      nextAt: '2026-02-02',
      restsUntil: '2026-02-01',
    });
    assert.equal(healthOf(resting, attempts, Date.parse('2026-02-01')).restsUntil, null, 'a rest that is over is none');
  });
});
