import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { markdownHtml } from '../../src/dashboard/markdown.ts';
import { htmlFaults } from '../support/harness/html.ts';

describe('markdown of the list of changes', () => {
  const rows: [markdown: string, html: string, why: string][] = [
    ['# A\n\n## B\n### C', '<h2>A</h2>\n<h2>B</h2>\n<h3>C</h3>', 'the page has the only h1'],
    ['- one\n- two', '<ul><li>one</li>\n<li>two</li></ul>', 'a list'],
    ['- one\n  goes on\n- two', '<ul><li>one goes on</li>\n<li>two</li></ul>', 'an item of two lines'],
    ['a\nb\n\nc', '<p>a b</p>\n<p>c</p>', 'paragraphs'],
    ['text\n- item\ntext', '<p>text</p>\n<ul><li>item</li></ul>\n<p>text</p>', 'a list ends with what is no item'],
    [
      '`a*b` and **bold `c`**',
      '<p><code>a*b</code> and <strong>bold <code>c</code></strong></p>',
      'marks in code are text',
    ],
    ['[x](https://a.example/?b=1&c)', '<p><a href="https://a.example/?b=1&amp;c" rel="noreferrer">x</a></p>', 'a link'],
    ['[the API](docs/api.md#x)', '<p>the API</p>', 'documents are not served'],
    ['[x](javascript:alert(1))', '<p>x)</p>', 'no link runs a script'],
    ['<b onclick=x>&amp;"', '<p>&lt;b onclick=x&gt;&amp;amp;&quot;</p>', 'HTML is text'],
    ['`open **never', '<p>`open **never</p>', 'marks that never close are text'],
    ['#no heading', '<p>#no heading</p>', 'no space, no heading'],
    ['', '', 'nothing'],
  ];
  for (const [markdown, html, why] of rows)
    it(`${why}: ${JSON.stringify(markdown)}`, () => {
      assert.equal(markdownHtml(markdown), html);
    });

  it('lets no tag through that it did not make itself, and is well formed', () => {
    const piece = fc.constantFrom(
      '<',
      '>',
      '"',
      '`',
      '**',
      '[',
      '](',
      ')',
      'https://x.test',
      '\n',
      '- ',
      '## ',
      '&',
      ' ',
      'a',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const html = markdownHtml(pieces.join(''));
        assert.doesNotMatch(html, /<(?!\/?(?:p|ul|li|h[2-6]|code|strong|a)\b)/);
        assert.deepEqual(
          htmlFaults(`<!doctype html><html lang="en"><head><title>x</title></head><body>${html}</body></html>`),
          [],
        );
      }),
    );
  });

  it('reads our own list of changes, in little time', () => {
    const text = readFileSync(path.join(import.meta.dirname, '../../CHANGELOG.md'), 'utf8');
    const html = markdownHtml(text);
    assert.match(html, /<h3>Added<\/h3>[\s\S]*<li><strong>Messages<\/strong>/);
    assert.doesNotMatch(html, /\*\*|\]\(/);
    assert.equal(markdownHtml('[`**'.repeat(50_000)).length > 0, true);
  });
});
