/** The dashboard's schema tables, template previews. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { chartHtml } from '../../src/dashboard/chart.ts';
import { headersOf, healthOf } from '../../src/dashboard/pages/webhooks.ts';
import { checkPage, highlighted, previewPage } from '../../src/dashboard/preview.ts';
import { postmanCollection } from '../../src/dashboard/postman.ts';
import { schemaLines } from '../../src/dashboard/schema-table.ts';
import { proseHtml } from '../../src/dashboard/words.ts';
import { Problem } from '../../src/base/problem.ts';

describe('dashboard/schema-table', () => {
  const schemas = {
    Person: {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 10 },
        friends: { type: 'array', items: { $ref: '#/components/schemas/Person' } },
      },
      required: ['name'],
    },
  };
  it('has a line a member, with those of what it holds below, and comes to an end', () => {
    const lines = schemaLines({ $ref: '#/components/schemas/Person' }, schemas);
    assert.deepEqual(
      lines.map(({ name }) => name),
      [
        'name',
        'friends',
        'friends[].name',
        'friends[].friends',
        'friends[].friends[].name',
        'friends[].friends[].friends',
      ],
    );
    assert.deepEqual(lines[0], {
      name: 'name',
      type: 'string',
      limits: 'at most 10 characters',
      required: true,
      description: '',
    });
    assert.equal(lines[1]?.type, 'array of object');
  });
  for (const [why, schema, type, limits] of [
    ['alternatives', { anyOf: [{ type: 'string' }, { type: 'null' }] }, 'string or null', ''],
    ['the same twice', { anyOf: [{ type: 'string' }, { type: 'string' }] }, 'string', ''],
    ['values', { enum: ['a', 'b'] }, '"a", "b"', ''],
    ['one value', { const: 'list' }, '"list"', ''],
    ['a range', { type: 'integer', minimum: 1, maximum: 1000 }, 'integer', '1 to 1,000'],
    [
      'a safe integer is no limit',
      { type: 'integer', minimum: -9007199254740991, maximum: 9007199254740991 },
      'integer',
      '',
    ],
    ['a default', { type: 'integer', default: 5, minimum: 1 }, 'integer', 'at least 1, usually 5'],
    ['nothing said', {}, 'any', ''],
    ['an unknown reference', { $ref: '#/components/schemas/None' }, 'any', ''],
  ] as const) {
    it(`tells ${why}`, () => {
      const [line] = schemaLines({ properties: { x: schema } }, {});
      assert.deepEqual([line?.type, line?.limits], [type, limits]);
    });
  }
});

describe('dashboard/postman', () => {
  it('has a folder a tag, variables in paths, and no key', () => {
    const file = postmanCollection('x', 'https://mail.example', [
      {
        tag: 'messages',
        name: 'Read',
        description: '',
        method: 'GET',
        path: '/v1/messages/{id}',
        query: [{ name: 'expand', description: 'more' }],
        body: null,
      },
      {
        tag: 'messages',
        name: 'Send',
        description: '',
        method: 'POST',
        path: '/v1/messages',
        query: [],
        body: '{"to":"a@b"}',
      },
      { tag: 'keys', name: 'List', description: '', method: 'GET', path: '/v1/keys', query: [], body: null },
    ]) as {
      item: { name: string; item: { request: { url: { raw: string; query: object[] }; body?: { raw: string } } }[] }[];
      auth: object;
    };
    assert.deepEqual(
      file.item.map(({ name, item }) => [name, item.length]),
      [
        ['messages', 2],
        ['keys', 1],
      ],
    );
    assert.equal(file.item[0]?.item[0]?.request.url.raw, '{{base_url}}/v1/messages/:id');
    assert.deepEqual(file.item[0].item[0].request.url.query, [
      { key: 'expand', value: '', description: 'more', disabled: true },
    ]);
    assert.equal(file.item[0].item[1]?.request.body?.raw, '{"to":"a@b"}');
    assert.match(JSON.stringify(file.auth), /\{\{api_key\}\}/);
  });
});

describe('dashboard/highlight', () => {
  it('colours both languages, marks lines with faults, and numbers them', () => {
    const html = highlighted('<p>{{ name }}\n{% if x %}\n{{#each y}}', [{ line: 2, column: 4, message: 'no <end>' }]);
    assert.match(html, /<span class="html">&lt;p&gt;<\/span><span class="out">\{\{ name \}\}<\/span>/);
    assert.match(
      html,
      /<li class="wrong"><code><span class="tag">\{% if x %\}<\/span><\/code><em>column 4: no &lt;end&gt;<\/em>/,
    );
    assert.match(html, /<span class="tag">\{\{#each y\}\}/);
    assert.match(
      highlighted('x', [{ line: null, column: null, message: 'all of it' }]),
      /^<p class="wrong"><em>all of it/,
    );
  });
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
        const found = {
          variables: [text],
          missing: [text],
          sample: text,
          parts: [
            { name: 'html', source: text, rendered: text, faults: [] },
            { name: 'text', source: text, rendered: text, faults: [{ line: 1, column: 2, message: text }] },
          ],
        };
        for (const html of [checkPage(found), previewPage(found)]) {
          const tags = html.replace(/<style>[^<]*<\/style>/, '').match(/<[^>]*>/g) ?? [];
          for (const tag of tags)
            assert.match(
              tag,
              /^<(?:!doctype html|html lang="en"|meta charset="utf-8"|iframe sandbox class="(?:light|dark)" title="HTML(?:, dark)?" srcdoc="[^"]*"|\/?(?:html|head|body|title|main|h2|p|ol|ul|li|div|code|span|em|strong|pre|style|iframe|details|summary|mark|label)(?: class="[a-z]+")?|input type="radio" name="look" id="[a-z]+"(?: checked)?)>$/,
            );
        }
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
      [...html.matchAll(/class="mark" x1="([\d.]+)"/g)].map(([, x]) => Number(x)),
      [60 + (720 - 60) / 2],
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
