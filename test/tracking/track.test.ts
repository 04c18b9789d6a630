import assert from 'node:assert/strict';
import { planHtml, trackedHtml, trackPaths } from '../../src/tracking/rewrite.ts';
import { readToken, type TrackingKey } from '../../src/tracking/token.ts';

const key: TrackingKey = { tag: Buffer.from('abc'), sign: Buffer.alloc(32, 1), seal: Buffer.alloc(32, 2) };

describe('tracking/track', () => {
  it('counts only the links that are tracked: who follows all of those has followed all', () => {
    const [way, ...others] = ['https://acme.test/leave', 'https://acme.test/a', 'https://acme.test/b'];
    const html = [way, ...others].map((url) => `<a href="${url}">x</a>`).join('');
    const marked = trackedHtml(html, planHtml(html), {
      key,
      stamp: { deliveryId: 'dlv_00000000000000000000000001', host: null },
      base: 'https://mail.test',
      opens: false,
      clicks: true,
      unsubscribeUrl: null,
      untouched: [way],
    });
    const hrefs = [...marked.matchAll(/href="([^"]*)"/g)].map(([, href = '']) => href);
    assert.equal(hrefs[0], way);
    const tokens = hrefs
      .slice(1)
      .map((href) => readToken([key], href.slice(`https://mail.test${trackPaths.click}`.length)));
    assert.deepEqual(
      tokens.map((token) => (token?.kind === 'click' ? [token.url, token.links] : null)),
      others.map((url) => [url, 2]),
    );
  });
});
