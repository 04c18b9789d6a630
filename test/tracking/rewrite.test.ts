import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { Parser } from 'htmlparser2';
import { simpleParser } from 'mailparser';
import { markHtml, MOST_LINKS, planHtml } from '../../src/tracking/rewrite.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';

const marked = (html: string): string =>
  markHtml(html, planHtml(html), { linkUrl: (_, number) => `T${String(number)}`, pixelUrl: null });
const withPixel = (html: string): string => markHtml(html, planHtml(html), { linkUrl: () => null, pixelUrl: 'P' });
const IMAGE = '<img src="P" alt="" width="1" height="1" style="border:0">';
/** Of a short document without images. */
const PIXEL = `<div style="width:1px;height:1px;background-image:url('P')"></div><!--[if mso]>${IMAGE}<![endif]-->`;

/** Returns a document as its reader sees it: tags with their attributes, and text, without the values of `href` in links. */
function shapeOf(html: string): string {
  const seen: string[] = [];
  const parser = new Parser({
    onopentag: (name, attributes) => {
      const { href: _href, ...others } = attributes;
      seen.push(`<${name} ${JSON.stringify(name === 'a' || name === 'area' ? others : attributes)}>`);
    },
    ontext: (text) => seen.push(text),
    onclosetag: (name) => seen.push(`</${name}>`),
    oncomment: (text) => seen.push(`<!--${text}-->`),
  });
  parser.end(html);
  return seen.join('');
}

/** Every other byte is as it was: putting the old values back where the marks are gives the old document. */
function assertOnlyHrefs(html: string): void {
  const { links } = planHtml(html);
  const after = markHtml(html, planHtml(html), { linkUrl: (_, number) => `~~${String(number)}~~`, pixelUrl: null });
  let rest = after;
  let restored = '';
  for (const [index, { start, end }] of links.entries()) {
    const mark = `~~${String(index + 1)}~~`;
    const at = rest.indexOf(mark);
    assert.ok(at >= 0);
    restored += rest.slice(0, at) + html.slice(start, end);
    rest = rest.slice(at + mark.length);
  }
  assert.equal(restored + rest, html);
  assert.equal(shapeOf(after), shapeOf(html));
}

describe('tracking/rewrite', () => {
  for (const [html, expected, why] of [
    ['<a href="https://a.test/">x</a>', '<a href="T1">x</a>', 'double quotes'],
    ["<a href='https://a.test/'>x</a>", "<a href='T1'>x</a>", 'single quotes'],
    ['<a href=https://a.test/>x</a>', '<a href=T1>x</a>', 'no quotes'],
    ['<a href = "http://a.test" >x</a>', '<a href = "T1" >x</a>', 'spaces around the sign'],
    ['<A HREF="HTTP://A.TEST">x</A>', '<A HREF="T1">x</A>', 'capitals'],
    ['<a\nclass="b"\nhref="https://a.test/"\n>x</a>', '<a\nclass="b"\nhref="T1"\n>x</a>', 'over several lines'],
    ['<a href="  https://a.test/ ">x</a>', '<a href="T1">x</a>', 'spaces that a browser takes away'],
    ['<a href="https://a.test/?x=1&amp;y=2"/>', '<a href="T1"/>', 'an entity, and a tag that closes itself'],
    ['<a href="&#104;ttps://a.test/">x</a>', '<a href="T1">x</a>', 'an entity at the beginning'],
    ['<a href="&#x68;ttp&#58;//a.test/&#x20;"\tid=1>x</a>', '<a href="T1"\tid=1>x</a>', 'entities alone'],
    ['<a title="a > b" href="https://a.test/">x</a>', '<a title="a > b" href="T1">x</a>', 'a bracket in an attribute'],
    [
      '<a href="https://a.test/" href="https://b.test/">x</a>',
      '<a href="T1" href="https://b.test/">x</a>',
      'of two, the first counts',
    ],
    [
      '<a href="/x" href="https://b.test/">x</a>',
      '<a href="/x" href="https://b.test/">x</a>',
      'also where it is not to be tracked',
    ],
    [
      '<p><a href="https://a.test/">x<a href="https://b.test/">y',
      '<p><a href="T1">x<a href="T2">y',
      'tags that nobody closes',
    ],
    ['<div <a href="https://a.test/">x</a>', '<div <a href="https://a.test/">x</a>', 'a tag within a tag is none'],
    [
      '<![if mso]><a href="https://a.test/">x</a><![endif]>',
      '<![if mso]><a href="T1">x</a><![endif]>',
      'what Outlook writes',
    ],
    [
      '</p></a href="https://a.test/"><a href=https://b.test',
      '</p></a href="https://a.test/"><a href=https://b.test',
      'a closing tag, and one cut off',
    ],
    [
      '<map name=m><area shape=rect coords="0,0,9,9" href="https://a.test/" alt=x><AREA href=https://b.test/></map>',
      '<map name=m><area shape=rect coords="0,0,9,9" href="T1" alt=x><AREA href=T2></map>',
      'formats finding 9: the links of an image map',
    ],
    ['\ufeff<a href="https://a.test/ž?💌=1">x</a>💌', '\ufeff<a href="T1">x</a>💌', 'other alphabets'],

    ['<a href="mailto:hi@a.test">x</a>', null, 'an address'],
    ['<a href="tel:+420123">x</a>', null, 'a telephone number'],
    ['<a href="#top">x</a>', null, 'a fragment'],
    ['<a href="/x">x</a><a href="//a.test/x">x</a><a href="x.html">x</a>', null, 'what is not absolute'],
    ['<a href="javascript:alert(1)">x</a>', null, 'a script'],
    ['<a href="data:text/html,x">x</a>', null, 'data'],
    ['<a href="cid:logo">x</a><a href="ftp://a.test/">x</a>', null, 'other schemes'],
    ['<a href="">x</a><a href>x</a><a>x</a>', null, 'no target'],
    ['<a href="https://">x</a><a href="http://[bad">x</a>', null, 'no address'],
    ['<a href="{{url}}">x</a>', null, 'what a template left'],
    ['<a href="https://a.test/" data-posthorn-track="off">x</a>', null, 'switched off'],
    ['<a DATA-POSTHORN-TRACK = off href="https://a.test/">x</a>', null, 'switched off in front'],
    ['<a href="https://a.test/unsubscribe?u=1">x</a>', null, 'the way out'],
    ['<a href="https://unsubscribe.a.test/x">x</a>', null, 'the way out by its host'],
    [
      '<a href="https://a.test/mail/opt-out">x</a><a href="https://a.test/?do=Unsubscribe">x</a>',
      null,
      'the way out in other words',
    ],
    [`<a href="https://a.test/${'x'.repeat(5000)}">x</a>`, null, 'longer than a request may be'],
    ['<!-- <a href="https://a.test/">x</a> -->', null, 'a comment'],
    ['<!--[if mso]><a href="https://a.test/">x</a><![endif]-->', null, 'a comment that Outlook reads'],
    ['<style>a[href="https://a.test/"]{}</style>', null, 'a style'],
    ['<script>"<a href=\\"https://a.test/\\">"</script>', null, 'a script element'],
    ['<title><a href="https://a.test/"></title>', null, 'a title'],
    ['<textarea><a href="https://a.test/"></textarea>', null, 'a field'],
    ['<link href="https://a.test/"><img src="https://a.test/"><base href="https://a.test/">', null, 'other elements'],
    ['<are href="https://a.test/"><areas href="https://a.test/">', null, 'an element whose name is like area'],
    ['<abbr href="https://a.test/">x</abbr>', null, 'an element whose name begins like it'],
    ['<a xhref="https://a.test/" data-href="https://a.test/">x</a>', null, 'an attribute whose name ends like it'],
    ['a < b & <3 <a', null, 'no html at all'],
  ] as const) {
    it(`${expected === null ? 'leaves' : 'tracks'} ${why}`, () => {
      assert.equal(marked(html), expected ?? html);
    });
  }

  for (const [href, target, why] of [
    ['https://a.test/?x=1&amp;y=2', 'https://a.test/?x=1&y=2', 'entities decoded'],
    [
      'https://a.test/?x=1&copy=2&lt=3',
      'https://a.test/?x=1&copy=2&lt=3',
      'what only looks like an entity (html 13.2.5.73)',
    ],
    ['HTTPS://A.Test', 'https://a.test/', 'as a browser asks for it'],
    ['https://ž.test/ž', 'https://xn--jha.test/%C5%BE', 'in ASCII'],
    ['https://a.test/a b\n', 'https://a.test/a%20b', 'spaces'],
    ['https://a.test/adopt-outdoor', 'https://a.test/adopt-outdoor', 'a word that only holds the way out'],
    ['https://lists.test:8443/optional', 'https://lists.test:8443/optional', 'a word that begins like it'],
  ] as const) {
    it(`leads to ${why}`, () => {
      assert.deepEqual(
        planHtml(`<a href="${href}">x</a>`).links.map(({ url }) => url),
        [target],
      );
    });
  }

  for (const [html, expected, why] of [
    ['<html><body>x</body></html>', `<html><body>x${PIXEL}</body></html>`, 'at the end of the body'],
    ['<body>x</BODY ></html>', `<body>x${PIXEL}</BODY ></html>`, 'however that is written'],
    ['<html>x</html>\n', `<html>x${PIXEL}</html>\n`, 'of the document'],
    ['<p>x', `<p>x${PIXEL}`, 'or of the text'],
    [
      '<p></body> in a text</p><!-- </body> --></body>',
      `<p></body> in a text</p><!-- </body> -->${PIXEL}</body>`,
      'the last one counts, and none in a comment',
    ],
  ] as const) {
    it(`puts the pixel ${why}`, () => {
      assert.equal(withPixel(html), expected);
    });
  }

  for (const [what, html, expected] of [
    ['a background in a short document', '<p>x</p>', PIXEL],
    ['an image in one with images', '<p>x</p><IMG src=a>', IMAGE],
    ['an image in a long one', `<p>${'x'.repeat(3200)}</p>`, IMAGE],
    ['a background where images are only written about', '<p>&lt;img src=a&gt;</p><!-- <img src=a> -->', PIXEL],
  ] as const)
    it(`the pixel is ${what}, so that it does not weigh with filters`, () => {
      assert.equal(withPixel(html), html + expected);
    });

  it('tracks what comes behind the pixel too', () => {
    const html = '<a href="https://a.test/">x</a></body><a href="https://b.test/">y</a>';
    assert.equal(
      markHtml(html, planHtml(html), { linkUrl: (_, n) => `T${String(n)}`, pixelUrl: 'P' }),
      `<a href="T1">x</a>${PIXEL}</body><a href="T2">y</a>`,
    );
  });

  it('numbers links in their order, also where one is left out', () => {
    const html = '<a href="https://a.test/">x</a><a href="https://b.test/">y</a><a href="https://c.test/">z</a>';
    const linkUrl = ({ url }: { url: string }, number: number): string | null =>
      url.includes('b.test') ? null : `T${String(number)}`;
    assert.equal(
      markHtml(html, planHtml(html), { linkUrl, pixelUrl: null }),
      '<a href="T1">x</a><a href="https://b.test/">y</a><a href="T3">z</a>',
    );
  });

  it('tracks so many links and no more', () => {
    const html = '<a href="https://a.test/">x</a>'.repeat(MOST_LINKS + 5);
    assert.equal(planHtml(html).links.length, MOST_LINKS);
    assertOnlyHrefs(html);
  });

  it('changes nothing outside of href values, whatever the document', () => {
    const piece = fc.constantFrom(
      '<a ',
      'href=',
      '"https://a.test/?x&amp;y"',
      "'http://b.test'",
      'https://c.test/',
      '>',
      '/>',
      '</a>',
      '<',
      '"',
      "'",
      ' ',
      '\n',
      '=',
      '&',
      ';',
      '&#x2f;',
      '<!--',
      '-->',
      '<script>',
      '</script>',
      '<style>',
      '</style>',
      '<title>',
      '</title>',
      '<textarea>',
      '</body>',
      '</html>',
      '<![CDATA[',
      ']]>',
      '<?',
      '?>',
      '<!',
      'x',
      'ž',
      '💌',
      '\0',
      'data-posthorn-track="off"',
      '<p class=x>',
      '<svg><a href="https://d.test/"/>',
      '<a href="https://e.test/">',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        assertOnlyHrefs(pieces.join(''));
      }),
      { numRuns: 3000 },
    );
    fc.assert(fc.property(fc.string({ maxLength: 400, unit: 'binary' }), assertOnlyHrefs));
  });

  it('changes nothing outside of href values in the mails of others', async function () {
    const root = corpus('mime');
    if (root === null) return this.skip(NO_CORPORA);
    const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(root, name))
      .filter((file) => /\.(?:eml|txt)$/.test(file) && statSync(file).size < 500_000);
    let documents = 0;
    let links = 0;
    for (const file of files) {
      // Not always a whole mail: parts other than html are skipped.
      const parsed = await simpleParser(readFileSync(file), { skipTextToHtml: true }).catch(() => null);
      if (parsed === null || parsed.html === false) continue;
      documents++;
      links += planHtml(parsed.html).links.length;
      assertOnlyHrefs(parsed.html);
      assert.equal(withPixel(parsed.html).replace(planHtml(parsed.html).isPlain ? PIXEL : IMAGE, ''), parsed.html);
      for (const href of [/mailto:/i, /^#/, /unsubscribe/i])
        assert.ok(
          !planHtml(parsed.html).links.some(({ start, end }) => href.test(String(parsed.html).slice(start, end))),
        );
    }
    assert.ok(documents > 20 && links > 20, `${String(documents)} documents, ${String(links)} links`);
  });
});
