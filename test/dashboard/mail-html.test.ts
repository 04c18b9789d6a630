import assert from 'node:assert/strict';
import { withoutHints } from '../../src/dashboard/mail-html.ts';

describe('dashboard/mail-html', () => {
  for (const [html, shown, reason] of [
    ['<link rel="preconnect" href="//x.test">', '<bgsound rel="preconnect" href="//x.test">', 'a hint'],
    ['<LINK/rel=dns-prefetch href=//x.test>', '<bgsound/rel=dns-prefetch href=//x.test>', 'in other spelling'],
    ['<link\nrel=preload>', '<bgsound\nrel=preload>', 'on two lines'],
    [
      '<svg><style><p><link rel=preconnect href=//x.test>',
      '<svg><style><p><bgsound rel=preconnect href=//x.test>',
      'where some parsers see a style sheet and others elements',
    ],
    [
      '<iframe srcdoc="&lt;link rel=preconnect&gt;">',
      '<iframe data-srcdoc="&lt;link rel=preconnect&gt;">',
      'in a document inside',
    ],
    ['<iframe id="x"SRCDOC = x>', '<iframe id="x"data-srcdoc = x>', 'without a space before it'],
    ['<linked>a link, srcdoc</linked>', '<linked>a link, srcdoc</linked>', 'another element, and text'],
    ['<meta name="color-scheme" content="dark"><a href="/">link</a>', null, 'what asks for nothing'],
  ] as const) {
    it(`shows ${html.replaceAll('\n', ' ')}: ${reason}`, () => {
      assert.equal(withoutHints(html), shown ?? html);
    });
  }
});
