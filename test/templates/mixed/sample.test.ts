/** Sample data guessed from templates, what given data lacks, and how a preview marks it. */
import assert from 'node:assert/strict';
import { compile, render } from '../../../src/templates/mixed/index.ts';
import {
  completeSample,
  joinSamples,
  markMissing,
  missingIn,
  sampleOf,
  type SampleData,
} from '../../../src/templates/mixed/sample.ts';

function sampleFrom(source: string): SampleData {
  const compilation = compile(source, 'html');
  assert.ok(compilation.ok, source);
  return sampleOf(compilation.template.nodes);
}

const ROWS: readonly [source: string, sample: SampleData][] = [
  ['Hello', {}],
  ['Hello {{ name }}', { name: 'Ana' }],
  ['{{ order.number }} {{ order.total }}', { order: { number: 3, total: 19.9 } }],
  ['{{ user.address.city }}', { user: { address: { city: 'city' } } }],
  [
    '{{#each items}}{{name}}: {{price}}{{/each}}',
    {
      items: [
        { name: 'Ana', price: 19.9 },
        { name: 'Ana', price: 19.9 },
      ],
    },
  ],
  ['{{#each items}}{{this}} {{/each}}', { items: ['item', 'item'] }],
  ['{{#each items}}{{../shop}} {{@index}}{{/each}}', { items: [true, true], shop: 'shop' }],
  ['{{#each items as |one|}}{{one.title}}{{/each}}', { items: [{ title: 'title' }, { title: 'title' }] }],
  [
    '{% for item in order.items %}{{ item.title }}{{ shop }}{% endfor %}',
    { order: { items: [{ title: 'title' }, { title: 'title' }] }, shop: 'shop' },
  ],
  ['{% if paid %}Thanks{% endif %}', { paid: true }],
  ['{% if status == "shipped" %}x{% endif %}', { status: 'shipped' }],
  ['{% case plan %}{% when "pro" %}P{% when "free" %}F{% endcase %}', { plan: 'pro' }],
  ['{{#if user}}{{user.email}}{{/if}}', { user: { email: 'ana@example.net' } }],
  ['{{#with customer}}{{first_name}}{{/with}}', { customer: { first_name: 'Ana' } }],
  ['{{ rest | times: 2 }}', { rest: 42 }],
  ['{{ then | date: "%Y" }}', { then: '2026-01-31' }],
  ['{{ tags | join: ", " }}', { tags: [true, true] }],
  ['{{ items.size }} {{ items.first.name }}', { items: [{ name: 'Ana' }, { name: 'Ana' }] }],
  ['{% assign total = order.sum %}{{ total }}', { order: { sum: 19.9 } }],
  ['{{ orderDate }} {{ resetUrl }}', { orderDate: '2026-01-31', resetUrl: 'https://example.net/' }],
];

describe('templates/mixed/sample', () => {
  for (const [source, sample] of ROWS)
    it(`fits ${source}`, () => {
      assert.deepEqual(sampleFrom(source), sample);
    });

  it('a template renders with its own sample, and lacks nothing', () => {
    for (const [source] of ROWS) {
      const compilation = compile(source, 'html');
      assert.ok(compilation.ok);
      const sample = sampleOf(compilation.template.nodes);
      const result = render(compilation.template, {
        variables: sample,
        strict: false,
        locale: 'en',
        timezone: 'UTC',
        now: 0,
        monotonic: () => 0,
      });
      assert.ok(result.ok, source);
      assert.deepEqual(missingIn(sample, sample), []);
    }
  });

  it('completes what is given, and changes nothing of it', () => {
    const sample = sampleFrom(
      '{{ name }}{% if paid %}x{% endif %}{{ user.city }}{% for item in items %}{{ item.title }}{% endfor %}{{ code }}',
    );
    const items = [{ title: 'title' }, { title: 'title' }];
    const rows: readonly [given: Record<string, unknown>, completed: Record<string, unknown>][] = [
      [{}, { name: 'Ana', paid: true, user: { city: 'city' }, items, code: '482913' }],
      [
        { own: 1, name: null, paid: false, user: {}, items: [{ n: 1 }, 'odd'], code: 0 },
        { own: 1, name: null, paid: false, user: { city: 'city' }, items: [{ n: 1, title: 'title' }, 'odd'], code: 0 },
      ],
      [
        { name: {}, paid: '', user: 'Bo', items: [], code: [] },
        { name: {}, paid: '', user: 'Bo', items: [], code: [] },
      ],
    ];
    for (const [given, completed] of rows) assert.deepEqual(completeSample(sample, given), completed);
    // A name that is a member of every object is a name like any other.
    const odd = JSON.parse('{"__proto__":{"a":1},"constructor":"c"}') as Record<string, unknown>;
    assert.equal(JSON.stringify(completeSample({}, odd)), JSON.stringify(odd));
    assert.deepEqual(Object.keys(completeSample(sampleFrom('{{ constructor }}'), {})), ['constructor']);
  });

  it('joins the samples of subject, html and text', () => {
    const parts = [
      '{{ name }}',
      '{% if order %}{{ order.total }}{% endif %}',
      '{% if order %}{{ order.number }}{% endif %}',
    ];
    assert.deepEqual(joinSamples(parts.map(sampleFrom)), { name: 'Ana', order: { total: 19.9, number: 3 } });
    assert.deepEqual(joinSamples([{ a: true }, { a: 'x' }, { a: true }]), { a: 'x' });
    assert.deepEqual(joinSamples([{ a: 'x' }, { a: { b: 1 } }]), { a: { b: 1 } });
  });

  it('names and marks what is missing, and leaves conditions alone', () => {
    const sample = sampleFrom(
      '{{ name }} {{ order.number }} {% if paid %}{% endif %}{% for i in items %}{{ i.title }}{% endfor %}',
    );
    const data = { order: {}, items: [{ title: 'A' }, {}] };
    assert.deepEqual(missingIn(sample, data), [
      { path: 'name', isText: true },
      { path: 'order.number', isText: true },
      { path: 'items[].title', isText: true },
    ]);
    assert.deepEqual(
      missingIn(sample, {}).map(({ path }) => path),
      ['name', 'order', 'items'],
    );
    assert.deepEqual(markMissing(sample, data), {
      name: '⟦name⟧',
      order: { number: '⟦order.number⟧' },
      items: [{ title: 'A' }, { title: '⟦items[].title⟧' }],
    });
  });

  it('stays small and quick for a hostile source', () => {
    const many = Array.from({ length: 20_000 }, (_, n) => `{{ a${String(n)} }}`).join('');
    assert.ok(Object.keys(sampleFrom(many)).length <= 1000);
    const deep = sampleFrom(`{{ ${Array.from({ length: 60 }, (_, n) => `m${String(n)}`).join('.')} }}`);
    assert.ok(JSON.stringify(deep).length < 2000);
  });

  it('does not double with each list within a list', () => {
    for (const source of [
      `{{ a${'.first'.repeat(60)} }}`,
      `{{ a${'[n]'.repeat(60)} }}`,
      `{{#each a}}${'{{#each this}}'.repeat(30)}x${'{{/each}}'.repeat(31)}`,
      Array.from({ length: 60 }, (_, n) => `{% assign b${String(n + 1)} = b${String(n)} | first %}`).join(''),
    ])
      assert.ok(JSON.stringify(sampleFrom(source)).length < 10_000, source.slice(0, 40));
    const bounded = JSON.stringify(sampleFrom(`{{ a${'.first'.repeat(3000)} }}`));
    assert.ok(bounded.length < 20_000, String(bounded.length));
  });

  it('compares a long list with a large sample only as far as there is room', () => {
    const names = Array.from({ length: 900 }, (_, n) => `n${String(n)}`);
    const sample = sampleFrom(`{{#each l}}${names.map((name) => `{{${name}}}`).join('')}{{/each}}{{ behind }}`);
    const data = { l: Array.from({ length: 30_000 }, () => ({})) };
    assert.equal(missingIn(sample, data).length, 901);
    const completed = completeSample(sample, data) as { l: object[]; behind: string };
    assert.deepEqual([completed.l.length, completed.behind], [30_000, 'behind']);
    assert.ok(JSON.stringify(completed).length < 1_000_000);
    assert.ok(JSON.stringify(markMissing(sample, data)).length < 1_000_000);
    const wide = sampleFrom(`{{#each l}}${names.map((name) => `{{o.${name}}}`).join('')}{{/each}}`);
    assert.ok(JSON.stringify(completeSample(wide, data)).length < 1_000_000);
  });

  it('takes no name of the language for a member', () => {
    assert.deepEqual(missingIn(sampleFrom('{{ toString }}'), {}), [{ path: 'toString', isText: true }]);
    assert.ok(Object.hasOwn(sampleFrom('{{ toString }}'), 'toString'));
  });
});
