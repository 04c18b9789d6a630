/** Templates and data that want to cost more than they may, one of each kind. */

export interface Hostile {
  name: string;
  source: string;
  variables: Record<string, unknown>;
  /** The text of the fault; null if it is done within the limits. */
  fault: RegExp | null;
}

const doubled = (times: number): string =>
  `{% assign x = "0123456789" %}${'{% assign x = x | append: x %}'.repeat(times)}`;
const list = (times: number): string =>
  `{% assign l = "a,b,c,d,e,f,g,h" | split: "," %}${'{% assign l = l | concat: l %}'.repeat(times)}`;
const long = 'a '.repeat(40_000);
const filled = (piece: string): string => piece.repeat(Math.floor(60_000 / piece.length));

export const hostileTemplates: readonly Hostile[] = [
  {
    name: 'nested loops',
    source: '{% for a in (1..300) %}{% for b in (1..300) %}{{ a }}{% endfor %}{% endfor %}',
    variables: {},
    fault: /loops run more than/,
  },
  {
    name: 'nested loops that are left at once',
    source: '{% for a in (1..40000) %}{% for b in (1..49999) %}{% break %}{% endfor %}{% endfor %}',
    variables: {},
    fault: /turns|longer than 250 ms/,
  },
  {
    name: 'huge range',
    source: '{% for a in (1..1000000000) %}{{ a }}{% endfor %}',
    variables: {},
    fault: /loops run more than/,
  },
  {
    name: 'huge range through filters',
    source: '{{ (1..1000000000) | join: "," | size }}',
    variables: {},
    fault: /a range is longer/,
  },
  {
    name: 'each over a long list, in itself',
    source: '{{#each l}}{{#each ../l}}{{this}}{{/each}}{{/each}}',
    variables: { l: Array.from({ length: 1000 }, (_, n) => n) },
    fault: /loops run more than/,
  },
  {
    name: 'blocks nested too deep',
    source: '{{#if a}}'.repeat(40) + '{{/if}}'.repeat(40),
    variables: { a: 1 },
    fault: /deeper than 32/,
  },
  {
    name: 'parentheses nested too deep',
    source: `{{#if ${'(not '.repeat(2000)}a${')'.repeat(2000)}}}{{/if}}`,
    variables: {},
    fault: /nested too deep/,
  },
  {
    name: 'a long condition',
    source: `{% if ${'a or '.repeat(5000)}a %}{% endif %}`,
    variables: {},
    fault: /nested too deep/,
  },
  { name: 'text that doubles', source: doubled(40), variables: {}, fault: /grows longer|more than/ },
  { name: 'list that doubles', source: list(40), variables: {}, fault: /grows longer|more than/ },
  {
    name: 'output that doubles',
    source: `${doubled(12)}{% for i in (1..49000) %}{{ x }}{% endfor %}`,
    variables: {},
    fault: /output is longer/,
  },
  {
    name: 'captures in captures',
    source: `{% assign y = "x" %}${'{% capture y %}{{ y }}{{ y }}{% endcapture %}'.repeat(60)}`,
    variables: {},
    fault: /output is longer/,
  },
  {
    name: 'replace that multiplies',
    source: `${doubled(16)}{{ x | replace: "", x }}`,
    variables: {},
    fault: /grows longer/,
  },
  {
    name: 'replace of each character, again and again',
    source: `{% for i in (1..40000) %}{% assign y = long | replace: "a", "b" | replace: "b", "a" %}{% endfor %}`,
    variables: { long },
    fault: /longer than 250 ms/,
  },
  {
    name: 'split and sort, again and again',
    source: `{% for i in (1..40000) %}{% assign y = long | split: " " | sort | sort_natural | uniq %}{% endfor %}`,
    variables: { long },
    fault: /longer than 250 ms/,
  },
  {
    name: 'where over a long list, again and again',
    source: `{% for i in (1..40000) %}{% assign y = l | where: "n", 3 | map: "n" %}{% endfor %}`,
    variables: { l: Array.from({ length: 5000 }, (_, n) => ({ n })) },
    fault: /longer than 250 ms/,
  },
  {
    name: 'contains in a long text, again and again',
    source: `{% for i in (1..49000) %}{% if long contains "ab" %}{% endif %}{% endfor %}`,
    variables: { long },
    fault: /longer than 250 ms/,
  },
  {
    name: 'blanks that are taken off',
    source: `{% for i in (1..49000) %}{% assign y = blanks | rstrip | lstrip | squish | strip_newlines | truncatewords: 3 %}{% endfor %}`,
    variables: { blanks: `x${' '.repeat(90_000)}x` },
    fault: /longer than 250 ms/,
  },
  {
    name: 'tags that are taken off',
    source: `{% for i in (1..49000) %}{% assign y = tags | strip_html | escape_once | newline_to_br %}{% endfor %}`,
    variables: { tags: '<!-- <script <style '.repeat(4000) },
    fault: /longer than 250 ms/,
  },
  { name: 'dates that pad', source: '{{ "now" | date: "%999999999d" }}', variables: {}, fault: /99 characters/ },
  {
    name: 'dates in many words',
    source: '{% for i in (1..40000) %}{{formatDate "now" "dddd D MMMM YYYY HH:mm:ss A"}}{% endfor %}',
    variables: {},
    fault: /longer than 250 ms|output is longer/,
  },
  {
    name: 'an endless list as JSON',
    source: `${doubled(16)}{% assign l = x | split: "," %}${'{% assign l = l | concat: l %}'.repeat(12)}{{ l | json }}`,
    variables: {},
    fault: /longer|more than/,
  },
  { name: 'many tags', source: filled('{{a}}'), variables: {}, fault: null },
  { name: 'many blocks', source: filled('{{#if a}}b{{/if}}\n'), variables: {}, fault: null },
  { name: 'one tag of many filters', source: `{{ a${filled(' | upcase')} }}`, variables: { a: 'x' }, fault: null },
  {
    name: 'a long text that is looked for in a longer one',
    source: '{{ hay | replace: needle, "" | size }}{% if hay contains needle %}{% endif %}',
    variables: { hay: 'a'.repeat(64_000), needle: `${'a'.repeat(15_990)}b${'a'.repeat(15_990)}` },
    fault: /looked for in a longer one/,
  },
  { name: 'lists within lists', source: `{{ a${'.first'.repeat(60)} }}`, variables: {}, fault: null },
  {
    name: 'one tag of many values',
    source: `{{#if (or ${filled('a.x ')})}}y{{/if}}`,
    variables: { a: Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`k${String(n)}`, 0])) },
    fault: null,
  },
  { name: 'one path of many steps', source: `{{ a${filled('[b]')} }}`, variables: { a: 'x' }, fault: null },
];
