import assert from 'node:assert/strict';
import fc from 'fast-check';
import { textFromHtml } from '../../src/mail/text-from-html.ts';

/** [html, text, reason] */
const rows: readonly (readonly [string, string, string])[] = [
  ['', '', 'nothing'],
  ['hello', 'hello', 'no markup'],
  ['<p>a</p><p>b</p>', 'a\n\nb', 'paragraphs'],
  ['<div>a</div><div>b</div>', 'a\nb', 'lines'],
  ['a<br>b<br/>c<br><br>d', 'a\nb\nc\n\nd', 'line breaks'],
  ['  a \n\t b  ', 'a b', 'white space is one space'],
  ['a<b>b</b> <i>c</i>', 'ab c', 'inline elements join'],
  ['<h1>T</h1>x', 'T\n\nx', 'headings'],
  ['<ul><li>a<li>b</ul>c', '* a\n* b\n\nc', 'bullets, end tags left out'],
  ['<ol><li>a</li><li>b</li></ol>', '1. a\n2. b', 'numbers'],
  ['<ul><li>a<ul><li>b</ul></ul>', '* a\n  * b', 'lists in lists'],
  ['<ul><li><p>a</p></li><li><p>b</p></li></ul>', '* a\n* b', 'paragraphs in lists'],
  ['<a href="https://x.test/">here</a>', 'here (https://x.test/)', 'a link'],
  ['<a href="https://x.test/?a=1&amp;b=2">x</a>', 'x (https://x.test/?a=1&b=2)', 'entities in a link'],
  ['<a href="https://x.test">https://x.test</a>', 'https://x.test', 'a link that shows its address'],
  ['<a href="https://x.test">x.test</a>', 'x.test', 'or nearly'],
  ['<a href="mailto:a@b.c">write</a>, <a href="mailto:a@b.c">a@b.c</a>', 'write (a@b.c), a@b.c', 'addresses'],
  ['<a href="#top">up</a> <a name="x">y</a> <a href="javascript:x()">z</a>', 'up y z', 'no address of use'],
  [
    "<a href='https://x.test/1'>a</a> <a href=https://x.test/2>b</a>",
    'a (https://x.test/1) b (https://x.test/2)',
    'other quotes',
  ],
  ['<a href="https://x.test/"><img src="x" alt="Shop"></a>', 'Shop (https://x.test/)', 'a picture for a link'],
  ['<a href="https://x.test/"><img src="x"></a>', 'https://x.test/', 'a picture without words'],
  ['a<img src="x" alt="">b', 'ab', 'decoration'],
  ['<style>p { color: red }</style><script>if (a < b) x("</p>")</script>a', 'a', 'style and script'],
  ['<head><title>t</title><meta name="x"></head><body>a</body>', 'a', 'the title'],
  ['<!-- a > b --><!DOCTYPE html><?xml x?>c', 'c', 'comments and declarations'],
  ['<!--[if mso]><p>Outlook</p><![endif]-->c', 'c', 'conditional comments'],
  ['<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d', 'a b\nc\n\nd', 'tables row by row'],
  ['<pre>  a\n   b</pre>', '  a\n   b', 'preformatted'],
  ['a<hr>b', `a\n\n${'-'.repeat(40)}\n\nb`, 'a rule'],
  ['a &lt; b &amp;&amp; c &gt; d &copy; &euro;&nbsp;5', 'a < b && c > d © € 5', 'entities'],
  ['&#65;&#x42;&#128; &#0;&#xd800;&#x110000;', 'AB€ \ufffd\ufffd\ufffd', 'numbers'],
  ['&unknown; &amp &; &#; &#x;', '&unknown; & &; &#; &#x;', 'what is no reference stays'],
  ['&amp;lt;', '&lt;', 'decoded once'],
  ['a < b, c <3 d', 'a < b, c <3 d', 'a < that opens nothing'],
  ['<p title="a > b">c</p>', 'c', '> in a quoted value'],
  ["<p title=it's>a</p><p>b's</p>", "a\n\nb's", 'a stray quote'],
  ['<div style="display: none">preview</div>a', 'a', 'what is hidden'],
  ['<span style="DISPLAY:NONE">a<span>b</span>c</span>d', 'd', 'with what is in it'],
  ['a\u00ad\u200bb\u0000\u0007c', 'abc', 'what cannot be seen'],
  ['a<p', 'a', 'the source ends in a tag'],
  ['a<!-- b', 'a', 'the source ends in a comment'],
  ['a<script>b', 'a', 'the source ends in a script'],
  ['</p></ul></a></pre></x>a', 'a', 'ends of nothing'],
  ['<li>a', '* a', 'an item without a list'],
  ['<A HREF="HTTPS://X.TEST/">a</A><BR>b', 'a (HTTPS://X.TEST/)\nb', 'capitals'],
  [
    '<a href="https://x.test/1">a<a href="https://x.test/2">b',
    'a (https://x.test/1)b (https://x.test/2)',
    'links that are not closed',
  ],
];

describe('mail/text-from-html', () => {
  for (const [html, text, reason] of rows) {
    it(`reads ${JSON.stringify(html).slice(0, 60)}: ${reason}`, () => {
      assert.equal(textFromHtml(html), text);
    });
  }

  it('never throws, and leaves no tag or control character', () => {
    const pieces = fc.constantFrom(
      '<',
      '>',
      '"',
      "'",
      '=',
      '<a href="',
      '<p>',
      '</p>',
      '<!--',
      '-->',
      '<script>',
      '</script>',
      '&amp;',
      '<li>',
      '<ul>',
      '<pre>',
      '\n',
      'x',
      '<div style="display:none">',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(pieces).map((all) => all.join('')),
          fc.string({ unit: 'binary' }),
        ),
        (html) => {
          const text = textFromHtml(html);

          assert.doesNotMatch(text, /[\x00-\x08\x0b\x0e-\x1f\x7f]/);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
