/** Renders the constructs that other services document for their templates: as they do there, or with a fault that says which words to write. */
import assert from 'node:assert/strict';
import { compile, render } from '../../../src/templates/mixed/index.ts';

const data = {
  name: 'Ann',
  user: { first: 'Jo', roles: ['admin', 'dev'], profile: { male: false, female: true } },
  items: [
    { name: 'a', price: 5, kind: { id: 'x' } },
    { name: 'b', price: 7, kind: { id: 'y' } },
  ],
  score: 10,
  limit: 5,
  on: true,
  off: false,
  none: [],
  when: '2026-01-31T09:30:00Z',
  person: { name: 'Paul', child: { name: 'Cid' } },
  orders: [{ id: 1, lines: [{ sku: 's1' }, { sku: 's2' }] }],
};

/** The output, or `!` and the message of the first fault. */
function out(source: string): string {
  const compiled = compile(source, 'html');
  if (!compiled.ok) return `!${compiled.faults[0]?.message ?? ''}`;
  const result = render(compiled.template, {
    variables: data,
    strict: false,
    locale: 'en',
    timezone: 'UTC',
    now: Date.UTC(2026, 0, 31),
    monotonic: () => 0,
  });
  return result.ok ? result.output : `!${result.faults[0]?.message ?? ''}`;
}

const handlebars: readonly (readonly [source: string, expected: string])[] = [
  ['{{#if user.profile.male}}Sir{{else if user.profile.female}}Madam{{else}}you{{/if}}', 'Madam'],
  ['{{#unless off}}u{{/unless}}', 'u'],
  ['{{#greaterThan score limit}}more{{else}}less{{/greaterThan}}', 'more'],
  ['{{#lessThan score limit}}less{{else if on}}on{{/lessThan}}', 'on'],
  ['{{#greaterThan limit score}}a{{else equals score 10}}b{{/greaterThan}}', 'b'],
  ['{{#equals name "Ann"}}y{{else}}n{{/equals}}', 'y'],
  ['{{#equal name "Bob"}}y{{else}}n{{/equal}}', 'n'],
  ['{{#notEquals name "Bob"}}y{{/notEquals}}', 'y'],
  ['{{#and on score}}both{{else}}no{{/and}}{{#or off none}}one{{else}}none{{/or}}', 'bothnone'],
  ['{{#each items}}{{@index}}:{{this.name}}{{#if @last}}.{{else}},{{/if}}{{/each}}', '0:a,1:b.'],
  ['{{#each user.roles}}{{this}} {{else}}none{{/each}}{{#each none}}x{{else}}none{{/each}}', 'admin dev none'],
  ['{{#each items}}{{../name}}{{@root.name}}{{/each}}', 'AnnAnnAnnAnn'],
  ['{{#greaterThan (length items) 1}}many{{/greaterThan}}', 'many'],
  ['{{insert name}} {{insert nobody "default=Customer"}}', 'Ann Customer'],
  ["{{formatDate when 'MMMM DD, YYYY h:mm A'}}", 'January 31, 2026 9:30 AM'],
  ['{{formatDate when "dddd h:mm A" "-0800"}}', 'Saturday 1:30 AM'],
  ['{{formatDate when "H:mm" "America/Toronto"}}', '4:30'],
  ['{{#with user}}{{first}}{{/with}}', 'Jo'],
  ['{{#ifEquals name "Ann"}}y{{/ifEquals}}', "!There is no helper 'ifEquals' line 1 col 4"],
  ['{{> header}}', '!Partials and decorators are not part of this language line 1 col 1'],
];

const mustachio: readonly (readonly [source: string, expected: string])[] = [
  ['{{#each items}}{{name}}{{@index}}{{/each}}', 'a0b1'],
  ['{{#items}}{{name}}{{/items}}{{#person}}{{name}}{{/person}}', 'abPaul'],
  ['{{#person.child}}{{name}} of {{../name}}{{/person.child}}', 'Cid of Ann'],
  ['{{^nobody}}none{{/nobody}}{{^none}}empty{{/none}}{{^on}}off{{/on}}', 'noneempty'],
  ['{{#on}}yes{{/on}}{{#off}}yes{{/off}}', 'yes'],
  ['{{#each orders}}{{#each lines}}{{../id}}{{sku}}{{../../name}} {{/each}}{{/each}}', '1s1Ann 1s2Ann '],
  ['{{#each user.roles}}{{.}},{{/each}}', 'admin,dev,'],
  ['{{{name}}}{{& name}}{{! a comment }}', 'AnnAnn'],
  [
    '<div>{{{@content}}}</div>',
    "!There are no layouts: write this template's text in place of '@content' line 1 col 9",
  ],
];

const lists: readonly (readonly [source: string, expected: string])[] = [
  ['{{ items | where: "kind.id", "y" | map: "name" }}', 'b'],
  ['{{ items | reject: "kind.id", "y" | map: "kind.id" }}', 'x'],
  ['{{ items | sort: "kind.id" | map: "name" | join }}{{ items | has: "kind.id", "z" }}', 'a bfalse'],
  ['{{ items | where: "kind.none.at.all" | size }}', '0'],
  ['{{ when | date: "%H:%M %Z", "America/Toronto" }}', '04:30 EST'],
  ['{{ when | date: "%H:%M", "Mars/Base" }}', "!'Mars/Base' is not a time zone such as 'Europe/Vienna' line 1 col 11"],
  ['{{@level}}', "!There is no '@level': known are @index, @key, @first, @last, @root line 1 col 3"],
];

const mergeTags: readonly (readonly [source: string, expected: string])[] = [
  ['Dear *|FNAME|*,', '!`*|FNAME|*` is a merge tag of another service: write `{{{ FNAME }}}` line 1 col 6'],
  [
    'a\n*|IF:PLAN=pro|*',
    '!`*|IF:PLAN=pro|*` is a merge tag of another service: write it as a tag of Handlebars or Liquid line 2 col 1',
  ],
  ['a *| b, *|c, d|* and {{#each items as |x|}}*{{/each}}', 'a *| b, *|c, d|* and **'],
];

describe('templates/mixed: dialects of other services', () => {
  for (const [dialect, rows] of Object.entries({
    'SendGrid, Mailgun': handlebars,
    Postmark: mustachio,
    lists,
    mergeTags,
  }))
    for (const [source, expected] of rows)
      it(`${dialect}: ${source}`, () => {
        assert.equal(out(source), expected);
      });
});
