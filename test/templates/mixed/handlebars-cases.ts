/** What Handlebars' guide tells of its language, a case each: the engine itself says what they print. */

export interface HandlebarsCase {
  source: string;
  data: Record<string, unknown>;
}

const people = { people: [{ name: 'Ana', tags: ['x', 'y'] }, { name: 'Bo', tags: [] }], city: 'Graz', first: 'Eva', zero: 0, none: null, empty: '', list: [], yes: true, no: false, html: `<b>"a" & 'b'</b>` }; // prettier-ignore
const nested = { a: { b: { c: 'deep', 'x y': 'odd', '#tag': 'hash', this: 'self' }, list: ['p', 'q'] }, keys: { one: 1, two: 2, '': 'none' }, 'top key': 'T', 'foo-bar': 'F', '@at': 'A', this: 'own', key: 'two' }; // prettier-ignore

const of = (data: Record<string, unknown>, ...sources: string[]): HandlebarsCase[] =>
  sources.map((source) => ({ source, data }));

export const handlebarsCases: Readonly<Record<string, readonly HandlebarsCase[]>> = {
  'output and escaping': of(people,
    '{{city}}', '{{ city }}{{  zero }}', '[{{none}}{{missing}}{{empty}}]', '{{yes}} {{no}}', '{{{html}}}', '{{&html}}', '{{& html }}', '\\{{city}}', 'a \\{{city}} b {{city}}', '\\\\{{city}}', 'x \\\\\\{{city}}',
    'a\\b {{city}}', "Alan's\nnote: {{city}}", '" " {{zero}} " "', '{{zero.x}}|{{none.x}}|{{missing.x.y}}', 'é{{city}}ü', '{ {{city}} }', '{{city}}\n\n{{first}}\n', '$& {{city}} $1'),
  'paths': of(nested,
    '{{a.b.c}}', '{{a/b/c}}', '{{a.b.[x y]}}', '{{a.b.[#tag]}}', '{{a.b.[this]}}', '{{a/b/[this]}}', '{{[top key]}}', '{{[@at]}}', '{{[this]}}', '{{foo-bar}}', '{{a.list.[1]}}', '{{this.a.b.c}}', '{{./a.b.c}}',
    '{{this/a/b/c}}', '{{#with a}}{{./b.c}}{{this.b.c}}{{../key}}{{/with}}', '{{#with a}}{{#with b}}{{c}}{{../../key}}{{../list.[0]}}{{/with}}{{/with}}',
    '{{a.b.missing}}', '{{#with keys}}{{one}}{{two}}{{/with}}', '{{@root.key}}', '{{#with a.b}}{{@root.a.list.[0]}}{{/with}}', '{{#with a}}{{#if b}}{{b.c}}{{../key}}{{/if}}{{/with}}'),
  'comments': of(people, 'a{{! gone }}b', 'a{{!-- gone }} --}}b', '  {{! alone }}\nb', 'a\n{{!-- alone --}}\nb', ' {{~! x ~}}  b', ' {{! x ~}}  b', ' {{~!-- x --}}  b', 'a{{!}}b', '{{!-- two\nlines --}}b', 'a {{! a }} b\n'),
  'if and unless': of(people,
    '{{#if yes}}a{{/if}}{{#if no}}b{{/if}}', '{{#if zero}}a{{else}}b{{/if}}', '{{#if zero includeZero=true}}a{{else}}b{{/if}}', '{{#if zero includeZero=false}}a{{else}}b{{/if}}', '{{#if empty}}a{{else}}b{{/if}}', '{{#if list}}a{{else}}b{{/if}}',
    '{{#if people}}a{{/if}}', '{{#if missing}}a{{else if none}}b{{else if yes}}c{{else}}d{{/if}}', '{{#if no}}a{{^}}b{{/if}}', '{{#unless no}}a{{else}}b{{/unless}}', '{{#unless yes}}a{{else}}b{{/unless}}', '{{#unless list}}none{{/unless}}',
    '{{#if no}}a{{else unless no}}b{{/if}}', '{{#unless zero includeZero=true}}a{{else}}b{{/unless}}', '{{^if no}}a{{else}}b{{/if}}', '{{#if this.yes}}{{this.city}}{{/if}}', '{{#if yes}}{{#if no}}a{{else}}b{{/if}}{{else}}c{{/if}}', '{{#if html}}{{html}}{{/if}}', '{{#if [yes]}}a{{/if}}', '{{#if (lookup this "yes")}}a{{/if}}'),
  'each': of({ ...people, ...nested },
    '{{#each people}}{{name}}{{/each}}', '{{#each people}}{{this.name}} of {{../city}};{{/each}}', '{{#each people}}{{@index}}{{@first}}{{@last}} {{/each}}', '{{#each keys}}{{@key}}={{this}};{{/each}}', '{{#each keys}}{{@index}}{{@first}}{{@last}}{{/each}}',
    '{{#each list}}a{{else}}none{{/each}}', '{{#each missing}}a{{else}}none{{/each}}', '{{#each empty}}a{{else}}none{{/each}}', '{{#each people}}{{#each tags}}{{../name}}{{this}}{{@../index}}{{@index}} {{else}}-{{/each}}{{/each}}', '{{#each people as |p|}}{{p.name}}{{/each}}',
    '{{#each people as |p i|}}{{i}}{{p.name}}{{#each p.tags as |t j|}}{{i}}{{j}}{{t}}{{p.name}}{{/each}}{{/each}}', '{{#each keys as |v k|}}{{k}}:{{v}} {{/each}}', '{{#each a.list}}{{.}}{{#unless @last}},{{/unless}}{{/each}}', '{{#each a.list}}{{this}}{{/each}}', '{{#each people}}{{#if @first}}first {{/if}}{{name}}{{/each}}',
    '{{#each people}}{{#with this}}{{name}}{{../name}}{{/with}}{{/each}}', '{{#each people}}{{@root.city}}{{/each}}', '{{#each people}}{{#if tags}}{{name}}: {{#each tags}}{{this}}{{/each}}{{/if}}{{/each}}', '{{#each people~}} {{name}} {{~/each}}', '{{#each a.list}}{{lookup ../keys ../key}}{{/each}}', '{{#each .}}{{#if @last}}end{{/if}}{{/each}}'),
  'with, lookup and sections': of({ ...people, ...nested },
    '{{#with a.b}}{{c}}{{/with}}', '{{#with missing}}a{{else}}none{{/with}}', '{{#with zero}}[{{this}}]{{else}}none{{/with}}', '{{#with a as |x|}}{{x.b.c}}{{x.list.[1]}}{{/with}}', '{{lookup keys key}}', '{{lookup a.list 1}}', '{{lookup keys "one"}}', '{{lookup (lookup a "b") "c"}}', '{{lookup keys "absent"}}',
    '{{#people}}{{name}}{{/people}}', '{{#a}}{{b.c}}{{/a}}', '{{#yes}}{{city}}{{/yes}}', '{{#no}}x{{/no}}', '{{#list}}x{{/list}}', '{{#missing}}x{{/missing}}', '{{^missing}}none{{/missing}}', '{{^list}}none{{/list}}', '{{^people}}none{{/people}}', '{{#zero}}[{{this}}]{{/zero}}', '{{#people}}{{name}}{{^}}none{{/people}}', '{{#list}}x{{else}}none{{/list}}',
    '{{#missing}}x{{else if yes}}y{{/missing}}', '{{#people}}{{@index}}{{/people}}', '{{#a.list}}{{.}}{{/a.list}}', '{{^no}}{{city}}{{else}}b{{/no}}', '{{#people as |p|}}{{p.name}}{{/people}}', '{{#a}}{{#b}}{{c}}{{../../city}}{{/b}}{{/a}}'),
  'white space': of(people,
    ' {{~city~}} ! ', ' {{~city}} ! ', ' {{city~}} ! ', 'a {{~#if yes~}} b {{~/if~}} c', 'a {{#if yes~}} b {{~/if}} c', 'a {{~#if no~}} b {{~else~}} c {{~/if~}} d', 'a {{~#if no}} b {{^~}} c {{/if~}} d', '{{#if yes}}\n  b\n{{/if}}\n', 'a\n  {{#if yes}}\n  b\n  {{/if}}\nc', 'a\n{{#if no}}\nb\n{{else}}\nc\n{{/if}}\nd',
    '<ul>\n{{#each people}}\n  <li>{{name}}</li>\n{{/each}}\n</ul>\n', 'a {{#if yes}}\nb\n{{/if}} c', '{{#people}}\n{{name}}\n{{^}}\n{{none}}\n{{/people}}\n', '{{#each people}}{{~name~}} , {{/each}}', ' {{~{city}~}} ! ', '{{#if yes}}\n{{#if yes}}\na\n{{/if}}\n{{/if}}', '\r\n{{#if yes}}\r\nb\r\n{{/if}}\r\nc', 'a\n\n{{~#if yes~}}\n\nb\n\n{{~/if~}}\n\nc', ' {{~city~}} {{city}} {{city}} ', 'a\n{{! x }}\n{{#if yes}}\nb\n{{/if}}'),
  'faults': of(people, '{{#if yes}}', '{{/if}}', '{{#if yes}}{{/unless}}', '{{city', '{{#each people}}{{/with}}', '{{{city}}', '{{#if yes}}a{{else}}b{{else}}c{{/if}}', '{{city city}}', '{{a/this/b}}', '{{people..name}}', '{{foo bar}}', '{{#people}}{{/city}}', '{{[a b}}'),
}; // prettier-ignore

/** Where this language says otherwise on purpose; what it prints instead. */
export const handlebarsDeviations: readonly (HandlebarsCase & { prints: string; reason: string })[] = [
  { source: '{{#with inner}}{{name}}{{/with}}', data: { name: 'n', inner: { x: 1 } }, prints: 'n', reason: 'names fall through to outer contexts' },
  { source: '{{list}}', data: { list: ['a', 'b'] }, prints: 'ab', reason: 'lists print as in Liquid' },
  { source: '{{object}}', data: { object: { a: 1 } }, prints: '{&quot;a&quot;:1}', reason: 'objects print as JSON' },
  { source: '{{eq}}{{back}}', data: { eq: 'a=b', back: '`' }, prints: 'a=b`', reason: '= and the backtick are not escaped' },
  { source: '{{12}}{{true}}{{"text"}}', data: {}, prints: '12truetext', reason: 'literals print themselves' },
  { source: '{"a":{{x}}}', data: { x: 1 }, prints: '{"a":1}', reason: 'a third brace behind two is text' },
  { source: '{{a.0}}', data: { a: ['x'] }, prints: 'x', reason: 'numbers are names behind a dot' },
  { source: '{{a.size}}{{a.first}}', data: { a: ['x', 'y'] }, prints: '2x', reason: "Liquid's members of lists" },
]; // prettier-ignore
