import assert from 'node:assert/strict';
import fc from 'fast-check';
import Handlebars from 'handlebars';
import { Liquid } from 'liquidjs';
import { compile, render, type Part, type RenderOptions } from '../../../src/templates/mixed/index.ts';

const NOW = Date.UTC(2026, 0, 31, 9, 30);
const options = (variables: object, more: Partial<RenderOptions> = {}): RenderOptions => ({
  variables: variables as Record<string, unknown>,
  strict: false,
  locale: 'en',
  timezone: 'UTC',
  now: NOW,
  // A clock that stands still: what is told here must not hang on how busy the machine is.
  monotonic: () => 0,
  ...more,
});

/** The output, or the first fault's message behind `!`. */
function out(source: string, variables: object = {}, part: Part = 'html', more: Partial<RenderOptions> = {}): string {
  const compiled = compile(source, part);
  const result = compiled.ok ? render(compiled.template, options(variables, more)) : compiled;
  return 'output' in result ? result.output : `!${'faults' in result ? (result.faults[0]?.message ?? '') : ''}`;
}

const data = {
  name: '<Ann> & "Bob"',
  plan: 'pro',
  zero: 0,
  no: false,
  list: [],
  user: { first_name: 'J', 'odd key': 7 },
  items: [
    { t: 'a', q: 1 },
    { t: 'b', q: 2 },
  ],
  words: ['x', 'y', 'z'],
  nums: [1, 2],
  when: '2026-01-31T09:30:00Z',
  price: 1234.5,
};

type Row = readonly [source: string, expected: string, reason: string, part?: Part];

const golden: readonly Row[] = [
  [
    '{{#each items}}{{t}}{% if q > 1 %}!{% endif %}{% if plan == "pro" %}P{% endif %};{{/each}}',
    'aP;b!P;',
    'Liquid in Handlebars',
  ],
  ['{% for i in items %}{{#if i.q}}{{i.t}}{{forloop.index}}{{/if}}{% endfor %}', 'a1b2', 'Handlebars in Liquid'],
  [
    '{{#each items}}{% for j in items %}{{@index}}{{forloop.index0}} {% endfor %}{{/each}}',
    '00 01 10 11 ',
    'both loop data',
  ],
  [
    '{% assign x = name | upcase %}{{#with user}}{{first_name}}:{{x}}:{{../plan}}{{/with}}',
    'J:&lt;ANN&gt; &amp; &quot;BOB&quot;:pro',
    'one scope',
  ],
  ['a {{- plan -}} b {{~plan~}} c', 'aprobproc', 'both trims'],
  [
    '{{#if a}}{% if b %}x{{/if}}{% endif %}',
    `!'{{/if}}' does not belong to the innermost open block ({% if %}) line 1 col 21`,
    'improper nesting',
  ],
];

const rules: readonly Row[] = [
  ['\\{{plan}}', '{{plan}}', 'escaped braces'],
  ['\\{{{{plan}}}}', '{{pro}}', 'a tag between escaped braces'],
  ['{% raw %}{{% endraw %}{{plan}}}', '{pro}', 'a tag behind raw braces'],
  ['{% raw %}{{ plan }}{% if %}{% endraw %}', '{{ plan }}{% if %}', 'raw'],
  ['a{% comment %}{{ plan }}{% if %}{% endcomment %}b{{! no }}c{{!-- no }} --}}d{% # no %}e', 'abcde', 'comments'],
  ['{{{name}}}{{& name}}{{ name | raw }}', '<Ann> & "Bob"'.repeat(3), 'raw output'],
  ['{{ name }}', '&lt;Ann&gt; &amp; &quot;Bob&quot;', 'escaped in html'],
  ['{{ name }}', '<Ann> & "Bob"', 'not in text', 'text'],
  ['{{ a }}|', 'x Bcc: y|', 'one line in a subject', 'subject'],
  ['a\nb {{ a }}', 'a b x Bcc: y', 'one line in a subject whose text has two', 'subject'],
  ['{{ name | escape }}', '&lt;Ann&gt; &amp; &quot;Bob&quot;', 'no double escaping'],
  [
    '{% capture c %}<b>{{ name }}</b>{% endcapture %}{{ c }}',
    '<b>&lt;Ann&gt; &amp; &quot;Bob&quot;</b>',
    'capture is safe',
  ],
  ['{{ nl | newline_to_br }}', '&lt;i&gt;<br />\nx', 'escapes what it makes safe'],
  ['{{#if zero}}T{{else}}F{{/if}}{% if zero %}T{% else %}F{% endif %}', 'FT', 'truth by language'],
  ['{{#if list}}T{{else}}F{{/if}}{% if list %}T{% else %}F{% endif %}', 'FT', 'empty lists too'],
  ['{{#unless no}}a{{/unless}}{% unless no %}b{% endunless %}', 'ab', 'unless'],
  ['{{#if no}}a{{else if plan}}b{{else}}c{{/if}}', 'b', 'else if'],
  ['{{#if no}}a{{else each words}}{{this}}{{/if}}', 'xyz', 'else with a block'],
  ['{{#each words}}{{@index}}{{this}}{{#unless @last}},{{/unless}}{{/each}}', '0x,1y,2z', 'each'],
  ['{{#each user}}{{@key}}={{.}};{{/each}}', 'first_name=J;odd key=7;', 'each over an object'],
  ['{{#each list}}x{{else}}none{{/each}}{% for i in list %}x{% else %}none{% endfor %}', 'nonenone', 'else of loops'],
  ['{{#each items as |it n|}}{{n}}{{it.t}}{{/each}}', '0a1b', 'block parameters'],
  ['{{#each items}}{{#each ../words}}{{../t}}{{this}} {{/each}}{{/each}}', 'ax ay az bx by bz ', 'the context above'],
  ['{{#items}}{{t}}{{/items}}{{^list}}-{{/list}}{{#user}}{{first_name}}{{/user}}', 'ab-J', 'sections'],
  [
    '{{user.first_name}}{{user["odd key"]}}{{user.[odd key]}}{{items[1].t}}{{items.1.t}}{{words.[0]}}{{@root.plan}}',
    'J77bbxpro',
    'paths',
  ],
  ['{{words.size}}{{words.length}}{{words.first}}{{words.last}}{{plan.size}}', '33xz3', 'sizes'],
  ['{{#with user}}{{plan}}{{this.plan}}{{/with}}', 'pro', 'this does not fall through'],
  [
    '{{constructor}}{{__proto__}}{{words.constructor}}{{user.hasOwnProperty}}{{user.toString}}',
    '',
    'own properties only',
  ],
  ['{{"x"}}{{7}}{{true}}{{-1.5}}', 'x7true1.5', 'literals print; a minus trims'],
  ['{{ words | join: "-" | upcase }}', 'X-Y-Z', 'filters'],
  ['{{ nothing | default: "none" }}{{default nothing "none"}}', 'nonenone', 'default of both'],
  ['{{#if (and (eq plan "pro") (gt items.length 1))}}y{{/if}}', 'y', 'calls in parentheses'],
  ['{{#equal plan "pro"}}y{{/equal}}', 'y', "Mailgun's spelling"],
  ['{{#equals plan "pro"}}y{{else}}n{{/equals}}{{#greaterThan "10" 9}}y{{/greaterThan}}', 'yy', 'spellings of others'],
  ['{{insert nothing "default=Customer"}}', 'Customer', 'insert'],
  ['{{lookup words 1}}{{length words}}', 'y3', 'lookup and length'],
  [
    '{{formatDate when "dddd, D MMMM YYYY HH:mm"}}|{{ when | date: "%Y-%m-%d %H:%M" }}',
    'Saturday, 31 January 2026 09:30|2026-01-31 09:30',
    'dates',
  ],
  [
    '{{formatDate when "D MMMM h:mm A" "-0800"}}|{{formatDate when "HH:mm" "+05:30"}}|{{formatDate when "HH:mm" "Asia/Tokyo"}}',
    '31 January 1:30 AM|15:00|18:30',
    'dates at an offset, and in a zone',
  ],
  ['{{ "now" | date: "%Y-%m-%d" }}', '2026-01-31', 'now is fixed'],
  ['{{ "2026-01-01T00:00:00Z" | date: "%H:%M", "America/Toronto" }}', '19:00', 'a zone of its own'],
  ['{{ price | money: "EUR" }} {{ price | money }}', '€1,234.50 1,234.50', 'money'],
  [
    '{{ "9007199254740993.10" | money: "EUR" }} {{ "1.005" | money }} {{ "-3" | money }}',
    '€9,007,199,254,740,993.10 1.01 -3.00',
    'money of a text is exact',
  ],
  ['Total {{ totl | money: "EUR" }}', 'Total ', 'money of a missing value'],
  ['{{ "😀😀😀😀😀" | truncate: 4 }}|{{ "😀" | size }}|{{ "😀😀" | truncate: 2 }}', '😀...|1|😀😀', 'whole characters'],
  ['{{{ html | json }}}', '"\\u003c/script\\u003e \\u0026"', 'json within a script'],
  ['{{ html | json }}', '"</script> &"', 'json in text', 'text'],
  ['{{ evil }} <r@x.test>', 'xevil@x.test y <r@x.test>', 'a value makes no second mailbox', 'address'],
  ['{{ 10.1 | minus: 2.2 }} {{ 7 | divided_by: 2 }} {{ 1 | plus: 2 | times: 3 }}', '7.9 3 9', 'arithmetic'],
  [
    '{% for i in (1..3) reversed %}{{ i }}{% endfor %}{% for i in words limit: 1 offset: 1 %}{{ i }}{% endfor %}',
    '321y',
    'options of loops',
  ],
  ['{% for i in words %}{% if i == "y" %}{% break %}{% endif %}{{ i }}{% endfor %}', 'x', 'break'],
  ['{% for i in words %}{% if i == "y" %}{% continue %}{% endif %}{{ i }}{% endfor %}', 'xz', 'continue'],
  ['{% case plan %}{% when "a", "pro" %}P{% else %}E{% endcase %}', 'P', 'case'],
  ['{% cycle "a", "b" %}{% cycle "a", "b" %}{% cycle "a", "b" %}', 'aba', 'cycle'],
  ['{% increment n %}{% increment n %}{% decrement n %}', '011', 'counters'],
  ['{% liquid\n assign a = 1\n if a == 1\n echo "one"\n endif %}', 'one', 'liquid'],
  [
    '{% tablerow i in words cols: 2 %}{{ i }}{% endtablerow %}',
    '<tr class="row1">\n<td class="col1">x</td><td class="col2">y</td></tr>\n<tr class="row2"><td class="col1">z</td></tr>\n',
    'tablerow',
  ],
  ['a\n{{#if plan}}\n  b\n{{/if}}\nc', 'a\n  b\nc', 'block tags alone on a line'],
  ['{{#with user}}{% assign x = first_name %}{{/with}}{{ x }}', 'J', 'assign writes to the top'],
  [
    '{{ 5.0 }} {{ 20 | divided_by: 8.0 }} {{ 10 | plus: 2.0 }} {{ "3.0" | times: 2 }} {{ 6 | divided_by: 4 }} {{ 5.0 | ceil }}',
    '5.0 2.5 12.0 6.0 1 5',
    'fractions stay fractions',
  ],
  [
    '{% if 5 == 5.0 %}y{% endif %}{% if 5.0 > 4 %}y{% endif %}{% for i in (1.0..2.0) %}{{ i }}{% endfor %}',
    'yy12',
    'and are numbers',
  ],
  [
    '!{% if plan %}\n {% assign x = 1 %}\n{% endif %}{% for i in words %} {% endfor %}{% case plan %} {% when "pro" %} {% endcase %}!',
    '!!',
    'blank Liquid blocks print nothing',
  ],
  ['!{% if plan %} {{#if no}} {{/if}}{% endif %}{{#if plan}} {{/if}}!', '!  !', 'those of Handlebars print'],
  [
    '{% case plan %}{% when "pro" %}a{% else %}b{% when "pro" %}c{% endcase %}{% case plan %}{% when "x" %}a{% else %}b{% else %}c{% endcase %}',
    'acbc',
    'else within case',
  ],
  ['{% if user contains nil %}y{% endif %}{% if words contains nil %}y{% endif %}', '', 'nothing is contained'],
  [
    '{{ items | map: "t" | join: "," }} {{ items | where: "q", 2 | map: "t" }} {{ items | reject: "q", 2 | map: "t" }} {{ items | find: "q", 2 | json }} {{ items | find_index: "q", 2 }} {{ items | has: "q", 3 }} {{ items | sum: "q" }}',
    'a,b b a {&quot;t&quot;:&quot;b&quot;,&quot;q&quot;:2} 1 false 3',
    'filters of lists',
  ],
  [
    '{{ words | reverse | join }} {{ words | concat: words | uniq | join }} {{ "b,A,c" | split: "," | sort_natural | join }} {{ "b,A,c" | split: "," | sort | join }} {{ " a  b " | split: " " | json }}',
    'z y x x y z A b c A b c [&quot;a&quot;,&quot;b&quot;]',
    'order',
  ],
  [
    '{{ "abc" | replace: "", "-" }} {{ "a-b-c" | remove: "-" }} {{ "hello" | slice: -3, 2 }} {{ "a b c" | truncatewords: 2, "" }} {{ "abcdef" | truncate: 4 }} {{ "x" | truncate: 0 }}',
    '-a-b-c- abc ll a b a... ...',
    'texts',
  ],
  ['{% assign 1st = "x" %}{{#if zero includeZero=true}}y{{/if}}{{^if no}}z{{/if}}', 'yz', 'includeZero, inverse if'],
  [
    '{% assign k = "plan" %}{% if [k] == "pro" %}y{% endif %}{{user.[odd key]}}{{[plan]}}',
    'y7pro',
    'brackets by language',
  ],
  ['\\\\{{plan}}', '\\pro', 'two backslashes are one'],
];

const wrong: readonly (readonly [string, RegExp])[] = [
  ['{{{{raw}}}}x{{{{/raw}}}}', /raw blocks/],
  ['{{> partial}}', /[Pp]artials/],
  ['{% include "x" %}', /no partials/],
  ['{{#*inline "x"}}{{/inline}}', /[Dd]ecorators/],
  ['{{ plan', /never closed line 1 col 1/],
  ['{% if plan %}', /\{% if %\} is never closed/],
  ['{{#if plan}}', /\{\{#if\}\} is never closed/],
  ['x\n{{/if}}', /closes nothing.* line 2 col 1/],
  ['{{#if a}}{% else %}{{/if}}', /'\{% else %\}' does not belong to the innermost open block \(\{\{#if\}\}\)/],
  ['{% if a %}{{else}}{% endif %}', /'\{\{else\}\}' does not belong to the innermost open block \(\{% if %\}\)/],
  ['{{ plan | shout }}', /There is no filter 'shout' line 1 col 11/],
  ['{{ shout plan }}', /There is no helper 'shout'/],
  ['{{ plan | append }}', /takes 1 value/],
  ['{% shout %}', /There is no tag 'shout'/],
  ['{{ }}', /empty/],
  ['{% for x of y %}{% endfor %}', /'in'/],
  ['{{#if a}}'.repeat(40), /deeper than 32/],
  ['x'.repeat(600 * 1024), /larger than/],
  ['{{ "x }}', /never closed/],
  ['{% assign -x = 1 %}', /cannot begin with '-'/],
  ['{% comment %}{% {{ {%- endcomment %}', /never closed/],
  ['{{ a.[b }}', /never closed/],
  ['{{a/this/b}}', /'this' can only begin a path/],
  ['{% if plan == “pro” %}y{% endif %}', /'“' is not a quote here: write " or ' line 1 col 15/],
  ['{{ ‘x’ }}', /'‘' is not a quote here/],
  ['{{name\u200b}}', /an invisible character \(U\+200B\): remove it line 1 col 7/],
];

/** A text of ten characters, doubled so often. */
const doubled = (times: number): string =>
  `{% assign x = "xxxxxxxxxx" %}${'{% assign x = x | append: x %}'.repeat(times)}`;

const tooMuch: readonly (readonly [string, RegExp])[] = [
  ['{% for i in (1..60000) %}{% endfor %}', /loops run more than/],
  ['{% for i in (1..300) %}{% for j in (1..300) %}{% endfor %}{% endfor %}', /loops run more than/],
  [`{% assign x = "xxxxxxxxxx" %}${'{% assign x = x | append: x %}'.repeat(40)}`, /grows longer/],
  ['{% assign x = "x" | split: "" %}'.concat('{% assign x = x | concat: x %}'.repeat(40)), /list grows/],
  [
    '{% assign x = "0123456789" %}{% for i in (1..10) %}{% assign x = x | append: x %}{% endfor %}{% for i in (1..1000) %}{{ x }}{% endfor %}',
    /output is longer/,
  ],
  ['{{ 1 | divided_by: 0 }}', /divided by 0/],
  ['{{ 1 | money: "no" }}', /not a currency/],
  ...['12,50', '1.234,56', 'abc', '', '1e3'].map(
    (amount) => [`{{ "${amount}" | money: "EUR" }}`, /is not an amount such as 12\.50/] as const,
  ),
  ['{{ words | money }}', /is not an amount/],
  ['{% if "2" > 1 %}{% endif %}', /compares a text with a number line 1 col 11/],
  ['{{ "a,1" | split: "," | concat: nums | sort }}', /cannot be compared/],
  ['{{ nums | map: "x" }}', /from the number 1/],
  ['{{ "abc" | slice: 1.5 }}{{ "abc" | slice: nope }}', /whole number/],
  ['{{ "now" | date: "%9999999999d" }}', /99 characters/],
  ['{{ "now" | date: "%H", "Nowhere" }}', /'Nowhere' is not a time zone/],
  ['{{ "now" | date: "%-_0099999d" }}', /99 characters/],
  [`{{formatDate "now" "${'D'.repeat(301)}"}}`, /300 characters/],
  [`${doubled(14)}{{ x | replace: "", x }}`, /grows longer/],
  [
    `${doubled(19)}{% assign l = x | split: "!" %}${'{% assign l = l | concat: l %}'.repeat(5)}{{ l | join: x }}`,
    /grows longer|more than/,
  ],
  [
    `${doubled(19)}{% assign l = x | split: "!" %}${'{% assign l = l | concat: l %}'.repeat(5)}{{ l }}`,
    /grows longer|more than/,
  ],
  [
    `${doubled(19)}{% assign l = x | split: "!" %}${'{% assign l = l | concat: l %}'.repeat(4)}{{ l | json }}{{ l | sort }}{{ l | sort }}`,
    /longer|more than/,
  ],
];

describe('templates/mixed', () => {
  describe('prints', () => {
    for (const [source, expected, reason, part] of [...golden, ...rules])
      it(`${reason}: ${source.slice(0, 80)}`, () => {
        assert.equal(
          out(
            source,
            { ...data, a: 'x\r\nBcc: y', nl: '<i>\nx', html: '</script> &', evil: 'x<evil@x.test>,\r\n"y"' },
            part,
          ),
          expected,
        );
      });
  });

  it('marks a variable without a value where it would be printed, and only there, in a preview', () => {
    for (const [source, wanted] of [
      ['{{ a.b }}{{{ c }}}{{ d | money: "EUR" }}{{ formatDate e "YYYY" }}', '⟦a.b⟧⟦c⟧⟦d⟧⟦e⟧'],
      ['{{ a | default: "none" }}{{ default b "none" }}', 'nonenone'],
      ['{% if a %}yes{% endif %}{{#if b}}yes{{/if}}{{#each c}}{{ d }}{{/each}}{% for e in f %}{{ e }}{% endfor %}', ''],
      ['{{#each list}}{{ @index }}{{ name }}{{/each}}', '0Ana1⟦name⟧'],
      ['{{ now | date: "%Y" }}{{ n }}{{ empty }}', '2026⟦n⟧'],
    ] as const)
      assert.equal(
        out(source, { list: [{ name: 'Ana' }, {}], n: null, empty: '' }, 'text', { marksMissing: true }),
        wanted,
      );
    assert.equal(out('{{ a }}', {}, 'text', { marksMissing: true, strict: true }), '⟦a⟧');
  });

  describe('refuses', () => {
    for (const [source, message] of wrong)
      it(source.slice(0, 60), () => {
        const compiled = compile(source, 'html');
        assert.ok(!compiled.ok);
        assert.match(compiled.faults[0]?.message ?? '', message);
      });
  });

  describe('gives up', () => {
    for (const [source, message] of tooMuch)
      it(source.slice(0, 60), () => {
        assert.match(out(source, data), message);
      });

    it('when its time is over', () => {
      let time = 0;
      const more = { monotonic: () => (time += 50), limitMs: 250 };
      assert.match(out('{% for i in (1..5000) %}{% endfor %}', {}, 'html', more), /longer than 250 ms/);
    });

    it('when its time is over within one tag', () => {
      const more = (): Partial<RenderOptions> => {
        let time = 0;
        return { monotonic: () => (time += 50), limitMs: 250 };
      };
      for (const source of [
        `{{#if (or ${'a.x '.repeat(1000)})}}y{{/if}}`,
        `{{#if (or ${'(lookup a "x") '.repeat(1000)})}}y{{/if}}`,
        `{% case a %}{% when ${'empty, '.repeat(1000)}1 %}{% endcase %}`,
      ])
        assert.match(out(source, { a: { b: 1 } }, 'html', more()), /longer than 250 ms/, source.slice(0, 40));
    });

    it('leaves a long search to others, and finds in a long text what is short', () => {
      const more = { mostWeight: 64 * 1024, limitMs: 250 };
      const long = { hay: 'a'.repeat(40_000), needle: `${'a'.repeat(4000)}b` };
      for (const source of ['{% if hay contains needle %}{% endif %}', '{{ hay | split: needle | size }}'])
        assert.match(out(source, long, 'html', more), /longer than 250 ms/);
      assert.equal(out('{{ hay | replace: needle, "" | size }}', long), '40000');
      assert.equal(out('{{ hay | remove: "aaaa" | size }}', long, 'html', more), '0');
    });

    it('reads the keys of an object once, however often a template asks for them', () => {
      let reads = 0;
      const a = new Proxy({ b: 1 }, { ownKeys: (target) => (reads++, Reflect.ownKeys(target)) });
      const source = `{{ a.x }}{{ a.y }}{{ a.size }}{{ a.first.first }}{{#if (eq a.size 1)}}y{{/if}}{% if a == empty %}n{% endif %}`;
      assert.equal(out(source, { a }), '1by');
      assert.equal(reads, 1);
    });
  });

  describe('refuses addresses of links that run code', () => {
    const link = (source: string, variables: object = {}, part: Part = 'html'): string => out(source, variables, part);

    it('with the variable, the reason and the place', () => {
      const compiled = compile('<p>\n<a href="{{ user.url }}">', 'html');
      assert.ok(compiled.ok);
      const result = render(compiled.template, options({ user: { url: 'javascript:alert(1)' } }));
      assert.deepEqual(!result.ok && result.faults, [
        {
          code: 'template_render_failed',
          message: "A value begins a link with 'javascript:', which may run code in a browser line 2 col 10",
          line: 2,
          column: 10,
        },
      ]);
    });

    it('however the address is written', () => {
      for (const url of [
        'javascript:x',
        'JaVaScRiPt:x',
        'data:text/html,x',
        'vbscript:x',
        ' \u0001\n\tjavascript:x',
        'java\nscr\tipt\r:x',
        `${' '.repeat(5000)}javascript:x`,
      ])
        for (const value of ['{{ url }}', '{{{ url }}}', '{{& url}}', '{{ url | raw }}', '{{default url "#"}}'])
          assert.match(link(`<a href="${value}">`, { url }), /^!A value begins a link/, `${value} ${url}`);
    });

    it('however it is escaped, where the output is raw', () => {
      for (const url of ['&#106;avascript:x', 'java&Tab;script&colon;x', '&#x0006A;avascript&#58x', 'java&#10script:x'])
        assert.match(link('<a href="{{{ url }}}">', { url }), /^!A value/, url);
      // Escaped once more it is not a scheme.
      assert.equal(link('<a href="{{ url }}">', { url: '&#106;avascript:x' }), '<a href="&amp;#106;avascript:x">');
    });

    it('wherever the attribute is one', () => {
      const url = 'javascript:x';
      for (const source of [
        `<a href='{{ url }}'>`,
        '<a href={{ url }}>',
        '<a class="b"HREF = "\n  {{ url }}\n">',
        '<a\nhref="{{! the address }}{{ none }}{{ url }}">',
        '<a href="{% if url %}{{ url }}{% else %}#{% endif %}">',
        '{{#each list}}<a href="{{this}}">{{/each}}',
        '{% for one in list %}<a href="{% echo one %}">{% endfor %}',
        '<a href="{% cycle url %}">',
        '{% capture all %}<a href="{{ url }}">{% endcapture %}',
        '{% capture one %}{{ url }}{% endcapture %}<a href="{{ one }}">',
        '{% assign one = url | strip %}<a href="{{ one }}">',
        '<a href="{{ blank }}{{ url }}">',
        '<a href="{{ scheme }}:{{ rest }}">',
        '<a href="{{ half }}{{ rest }}">',
        '<svg:a xlink:href="{{ url }}">',
      ])
        assert.match(
          link(source, {
            url,
            list: ['https://a.test', url],
            blank: ' '.repeat(300),
            scheme: 'javascript',
            half: 'java',
            rest: 'script:x',
          }),
          /^!.* begins a link with 'javascript:'/,
          source,
        );
    });

    it('and nothing else', () => {
      const url = 'javascript:x';
      for (const source of [
        '<a href="https://a.test/?u={{ url }}">',
        '<a href="#{{ url }}">',
        '<a data-href="{{ url }}">',
        '<a href="">{{ url }}',
        '<a title="{{ url }}">',
        'href {{ url }}',
        '{{ url }}',
      ])
        assert.equal(link(source, { url }), source.replace('{{ url }}', url), source);
      assert.equal(link('<a href="{{ url }}">', { url }, 'text'), '<a href="javascript:x">');
      for (const good of [
        'https://a.test/javascript:x',
        'mailto:a@b.test',
        'javascript',
        '/data:x',
        '#',
        'database:x',
        '',
      ])
        assert.equal(link('<a href="{{ url }}">', { url: good }), `<a href="${good}">`);
      assert.equal(link('<a href="{{ url | url_encode }}">', { url }), '<a href="javascript%3Ax">');
    });

    it('in time that is linear in what is printed', () => {
      const blanks = Array.from({ length: 40_000 }, () => ' '.repeat(100));
      assert.equal(link('<a href="{{#each blanks}}{{this}}{{/each}}">', { blanks }).length, 4_000_011);
      assert.equal(link('{{#each blanks}}<a href="{{this}}">{{/each}}', { blanks }).length, 40_000 * 111);
    });
  });

  it('names what is missing where that matters', () => {
    const strict = { strict: true };
    assert.match(out('a\n {{ user.last_name }}', data, 'html', strict), /'user\.last_name' is not given line 2 col 5/);
    assert.match(out('{{#each nothing}}{{/each}}', data, 'html', strict), /'nothing'/);
    assert.equal(out('{% if nothing %}x{% endif %}{{ nothing | default: "d" }}', data, 'html', strict), 'd');
  });

  it('formats finding 9: names what is missing in a section, as Handlebars does', () => {
    const strict = { strict: true };
    for (const source of ['{{#gone}}x{{/gone}}', '{{^gone}}x{{/gone}}', '{{#user.gone}}x{{else}}y{{/user.gone}}'])
      assert.match(out(source, { user: {} }, 'html', strict), /gone' is not given/, source);
    assert.equal(
      out('{{#on}}a{{/on}}{{^off}}b{{/off}}{{#none}}c{{/none}}', { on: true, off: false, none: null }, 'html', strict),
      'ab',
    );
    assert.equal(out('{{#gone}}x{{/gone}}{{^gone}}y{{/gone}}', {}, 'html'), 'y');
  });

  describe('ends a tag without values at its first %}, as LiquidJS does', () => {
    const liquid = new Liquid();
    const rows = [
      `a{% # don't shout %}b it's c`,
      `a {%- # don't shout -%} b it's c`,
      `a{% # say "hi %}b "c`,
      `a{% # "%}b" %}c`,
      `a{% # don't\n # won't %}b`,
      `a{% #don't %}b{% # can't %}c{{ plan }}`,
      `a{% if plan %}{% # don't %}it's{% endif %}b`,
      `a{% comment don't %}x{% endcomment %}b it's c`,
      `a{% comment %}don't {% # won't %}{% endcomment %}b it's c`,
      `a{% raw %}don't{% endraw %}b it's c`,
      `a{% liquid\n # don't\n echo "x"\n%}b it's c`,
      `a{%- liquid\n echo "x"\n # don't -%} b it's c`,
      `a{% liquid # don't\n echo plan %}b it's c`,
      `a{% liquid\n echo 'x'\n # it's %}b 'c`,
      `a{% liquid\n comment\n don't\n endcomment\n echo "x"\n%}b it's c`,
      `a{% liquid\n comment\n don't\n endcomment\n if plan\n echo 'y'\n # say "z\n endif\n%}b "c`,
    ];
    for (const row of rows)
      it(JSON.stringify(row), () => {
        // A quote without another one, or without a tag behind it, hides nothing.
        const source = `${row}{% if plan %} 'it"s"{% endif %}`;
        assert.equal(out(source, data, 'text'), liquid.parseAndRenderSync(source, data));
      });

    it('but takes it for text in the quotes of a value', () => {
      assert.equal(out(`{% assign x = "%}" %}{{ x }}`), '%}');
      assert.equal(out(`{% if plan == '%}' %}a{% else %}b{% endif %}`, data), 'b');
    });
  });

  it('trims behind a short comment with either mark, but not behind a drawn line', () => {
    const rows: [source: string, expected: string][] = [
      ['a {{! x -}} b', 'a b'],
      ['a {{! x ~}} b', 'a b'],
      ['a {{-! x -}} b', 'ab'],
      ['a {{! x }} b', 'a  b'],
      ['a {{! ---- x ----}} b', 'a  b'],
    ];
    for (const [source, expected] of rows) assert.equal(out(source), expected, source);
  });

  it('reads the members of a range of any length, as LiquidJS does', () => {
    const liquid = new Liquid();
    for (const range of ['(1..5000)', '(1..3)', '(-2..2)', '(4..4)', '(7..3)']) {
      const source = `{% assign r = ${range} %}{{ r.size }} {{ r.first }} {{ r.last }} {{ r[0] }} {{ r[2] }} {{ r[4999] }}`;
      assert.equal(out(source), liquid.parseAndRenderSync(source), source);
    }
    assert.equal(
      out('{% assign r = (1..1000000000) %}{{ r.size }} {{ r.last }} {{ r[-2] }}'),
      '1000000000 1000000000 999999999',
    );
  });

  it('takes a third brace for text', () => {
    assert.equal(out('{"a":{{n}}}', { n: 1 }), '{"a":1}');
    assert.equal(out('.x{color:{{c}}}', { c: 'red' }), '.x{color:red}');
    assert.equal(out('{{{c}}}}', { c: 'red' }), 'red}');
  });

  describe('prints a date without a zone as it is written, whatever the zone of the template and of the machine', () => {
    const machine = process.env['TZ'];
    beforeEach(() => {
      process.env['TZ'] = 'America/New_York';
    });
    afterEach(() => {
      if (machine === undefined) delete process.env['TZ'];
      else process.env['TZ'] = machine;
    });

    const rows: [when: string, zone: string, printed: string][] = [
      ['2026-12-24', 'UTC', '2026-12-24 00:00'],
      ['2026-12-24', 'America/New_York', '2026-12-24 00:00'],
      ['2026-12-24', 'Pacific/Auckland', '2026-12-24 00:00'],
      ['2026-12-24T18:05', 'UTC', '2026-12-24 18:05'],
      ['2026-12-24T18:05:00.123', 'Europe/Vienna', '2026-12-24 18:05'],
      ['2026-12-24 18:05:00', 'Asia/Kolkata', '2026-12-24 18:05'],
      ['Dec 24, 2026', 'UTC', '2026-12-24 00:00'],
      ['24 Dec 2026 6:05 PM', 'Europe/Vienna', '2026-12-24 18:05'],
      // One with a zone is shown in that of the template.
      ['2026-12-24T18:05Z', 'Europe/Vienna', '2026-12-24 19:05'],
      ['2026-12-24T18:05:00z', 'UTC', '2026-12-24 18:05'],
      ['2026-12-24T18:05:00+02:00', 'UTC', '2026-12-24 16:05'],
      ['2026-12-24 18:05:00-0500', 'UTC', '2026-12-24 23:05'],
      ['2026-12-24 18:05:00+02', 'UTC', '2026-12-24 16:05'],
      ['Thu, 24 Dec 2026 18:05:00 GMT', 'Europe/Vienna', '2026-12-24 19:05'],
      ['Dec 24, 2026 18:05 EST', 'UTC', '2026-12-24 23:05'],
      ['1798135500', 'Europe/Vienna', '2026-12-24 19:05'],
      // Clocks go from 2 to 3 here.
      ['2026-03-29T02:30:00', 'Europe/Vienna', '2026-03-29 03:30'],
    ];
    for (const [when, timezone, printed] of rows) {
      it(`${when} in ${timezone}`, () => {
        const source = '{{ when | date: "%Y-%m-%d %H:%M" }}|{{formatDate when "YYYY-MM-DD HH:mm"}}';
        assert.equal(out(source, { when }, 'text', { timezone }), `${printed}|${printed}`);
      });
    }

    it('no date is none', () => {
      assert.equal(
        out('{{ when | date: "%Y" }}|{{formatDate when "YYYY"}}', { when: '24.12.2026', timezone: 'UTC' }),
        '24.12.2026|',
      );
    });
  });

  describe('takes the name `now` for the time of the request', () => {
    const strict = { strict: true };
    const sources = [
      '{{ now | date: "%Y-%m-%d %H:%M" }}',
      '{{formatDate now "YYYY-MM-DD HH:mm"}}',
      '{% assign t = now | date: "%Y-%m-%d %H:%M" %}{{ t }}',
      '{% echo now | date: "%Y-%m-%d %H:%M" %}',
      '{{#each list}}{{ now | date: "%Y-%m-%d %H:%M" }}{{/each}}',
      '{{#if (eq (formatDate now "YYYY-MM-DD HH:mm") "2026-01-31 09:30")}}2026-01-31 09:30{{/if}}',
    ];

    it('where a date is written of it, also in a strict template, which does not ask for it', () => {
      for (const source of sources) {
        assert.equal(out(source, { list: [1] }, 'html', strict), '2026-01-31 09:30', source);
        const compiled = compile(source, 'html');
        assert.ok(compiled.ok && !compiled.template.variables.includes('now'), source);
      }
    });

    it('but not where the data or the template has the name', () => {
      const given = { now: '2001-02-03T04:05:00Z', list: [1] };
      for (const source of sources.slice(0, 5)) assert.equal(out(source, given), '2001-02-03 04:05', source);
      assert.equal(out('{{ now | date: "%Y" }}', { now: null }), '');
      assert.equal(out('{% assign now = "1999-01-01" %}{{ now | date: "%Y" }}'), '1999');
      assert.equal(out('{% for now in list %}{{ now | date: "%Y" }}{% endfor %}', { list: ['1998-01-01'] }), '1998');
    });

    it('nor where no date is written', () => {
      assert.equal(
        out('{{ now }}{{ now | upcase }}{{ a.now | date: "%Y" }}{{ this.now | date: "%Y" }}', { a: {} }),
        '',
      );
      assert.match(out('{{ now }}', {}, 'html', strict), /'now' is not given/);
      const compiled = compile('{{ now }}', 'html');
      assert.deepEqual(compiled.ok && compiled.template.variables, ['now']);
    });
  });

  it('knows what it asks for', () => {
    const compiled = compile(
      '{{a.b}}{% for x in list %}{{x}}{{y}}{% endfor %}{% assign z = 1 %}{{z}}{{@root.w}}{{#if (eq v 1)}}{{/if}}',
      'html',
    );
    assert.deepEqual(compiled.ok && compiled.template.variables, ['a', 'list', 'y', 'w', 'v']);
  });

  for (const [source, ...paths] of [
    ['{{a.b}}{{@root.w}}{{#if (eq v 1)}}{{/if}}', 'a.b', 'w', 'v'],
    [
      '{{#each items}}{{name}}{{this.price}}{{../total}}{{/each}}',
      'items',
      'items[]',
      'items[].name',
      'items[].price',
      'total',
    ],
    ['{{#each items as |one|}}{{one.name}}{{/each}}', 'items', 'items[]', 'items[].name'],
    ['{% for x in a.list %}{{ x.name | upcase }}{{ y }}{% endfor %}', 'a.list', 'a.list[]', 'a.list[].name', 'y'],
    ['{% for x in xs %}{% for y in x.ys %}{{ y }}{% endfor %}{% endfor %}', 'xs', 'xs[]', 'xs[].ys', 'xs[].ys[]'],
    ['{{#with a}}{{b}}{{/with}}{{#c}}{{d}}{{/c}}', 'a', 'a.b', 'c', 'c[].d'],
    ['{% assign z = q.r %}{{ z.t }}{% for n in (1..3) %}{{ n }}{% endfor %}', 'q.r'],
  ] as const)
    it(`knows what ${source} reads`, () => {
      const compiled = compile(source, 'html');
      assert.deepEqual(compiled.ok && compiled.template.paths, paths);
    });

  it('names a bounded number of paths, of a bounded length', () => {
    const source = '{{#each list}}'.repeat(30) + Array.from({ length: 500 }, (_, n) => `{{name${String(n)}}}`).join('');
    const compiled = compile(source + '{{/each}}'.repeat(30), 'html');
    assert.ok(compiled.ok);
    assert.ok(compiled.template.paths.length <= 200 && compiled.template.paths.every((path) => path.length < 300));
  });

  it('never evaluates data', () => {
    const evil = fc.constantFrom(
      '{{ secret }}',
      '{% if true %}PWN{% endif %}',
      '{{{secret}}}',
      '{{#each items}}',
      '{% raw %}',
      '\\{{',
      '{{/if}}',
      '{{lookup this "secret"}}',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(evil, fc.string()), { maxLength: 5 }), (parts) => {
        const text = parts.join('');
        const variables = { text, list: [text], object: { [text]: text }, secret: 'S3CR3T', items: [1] };
        for (const source of [
          '{{text}}',
          '{{ text | append: text }}',
          '{% for x in list %}{{ x }}{% endfor %}',
          '{% assign y = text %}{{ y | upcase }}',
          '{{#each object}}{{@key}}{{this}}{{/each}}',
          '{% capture c %}{{ text }}{% endcapture %}{{ c }}',
        ]) {
          const result = out(source, variables, 'text');
          assert.ok(
            !result.includes('S3CR3T') && (text.startsWith('!') || !result.startsWith('!')),
            `${source}: ${result}`,
          );
        }
        assert.equal(out('{{text}}', variables, 'text'), text);
      }),
    );
  });

  it('never throws, whatever it is given', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '{{',
        '}}',
        '{%',
        '%}',
        '{{{',
        '}}}',
        '{{#if x}}',
        '{{/if}}',
        '{% if x %}',
        '{% endif %}',
        '{{else}}',
        '{% else %}',
        '{% for i in x %}',
        '{% endfor %}',
        '"',
        "'",
        '|',
        '~',
        '-',
        '{{#each x as |a b|}}',
        '{{/each}}',
        '{% liquid',
        '{% raw %}',
        '{% endraw %}',
        '{{!--',
        '--}}',
        '(1..',
        '[',
        ']',
        '@',
        '../',
        '\\',
      ),
      fc.string({ unit: 'binary', maxLength: 12 }),
    );
    const value = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 25 }), value, (pieces, x) => {
        out(pieces.join(''), { x });
      }),
      { numRuns: 2000 },
    );
  });

  describe('beside the engines it brings together', () => {
    const handlebars = Handlebars.create();
    const liquid = new Liquid({ outputEscape: 'escape' });
    const sources = {
      handlebars: [
        '{{#each items}}{{t}}:{{q}}{{#unless @last}}, {{/unless}}{{/each}}',
        '{{#with user}}Hi {{first_name}} of {{../plan}}{{/with}}',
        '{{#if list}}a{{else}}b{{/if}} {{{name}}} {{name}}',
        '<ul>\n{{#each words}}\n  <li>{{this}}</li>\n{{/each}}\n</ul>\n',
      ],
      liquid: [
        '{% for i in items %}{{ i.t }}{{ forloop.index }}{% unless forloop.last %}, {% endunless %}{% endfor %}',
        '{% assign a = words | join: "," | upcase %}{{ a }} {{ name }}',
        '{% case plan %}{% when "pro" %}1{% else %}2{% endcase %}{% if zero %}T{% endif %}',
      ],
    };
    for (const source of sources.handlebars)
      it(`Handlebars: ${source.slice(0, 50)}`, () => {
        assert.equal(out(source, data), handlebars.compile(source)(data));
      });
    for (const source of sources.liquid)
      it(`Liquid: ${source.slice(0, 50)}`, async () => {
        assert.equal(
          out(source, data),
          ((await liquid.parseAndRender(source, data)) as string).replaceAll('&#34;', '&quot;'),
        );
      });
  });
});
