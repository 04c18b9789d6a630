import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { newId } from '../../src/base/id.ts';
import {
  clickTokens,
  openToken,
  readToken,
  trackingKeys,
  type LinkPlace,
  type TrackingKey,
} from '../../src/tracking/token.ts';

const bytes = (seed: string): Buffer => createHash('sha256').update(seed).digest();
/** A keyring whose keys follow from their ids. */
const keyringOf = (...keyIds: string[]) => ({
  keyIds,
  derive: (purpose: string, id = keyIds[0] ?? '') => bytes(`${purpose} ${id}`),
});
const keys = trackingKeys(keyringOf('new', 'old'));
const [key, old] = keys as [TrackingKey, TrackingKey];
const deliveryId = newId('dlv', 1_770_000_000_000);
const stamp = { deliveryId, host: null };
const place: LinkPlace = { link: 3, links: 7, part: 'html', url: 'https://shop.test/a?x=1&y=ž' };
const token = clickTokens(key, stamp)(place);

describe('tracking/token', () => {
  it('reads back what was written, whatever the link', () => {
    fc.assert(
      fc.property(
        fc.webUrl({ withQueryParameters: true, withFragments: true }),
        fc.integer({ min: 1, max: 65_535 }),
        fc.constantFrom('html' as const, 'text' as const),
        fc.option(fc.domain(), { nil: null }),
        (url, link, part, host) => {
          const written = clickTokens(key, { deliveryId, host })({ url, link, links: link, part });
          assert.match(written, /^[A-Za-z0-9_-]+$/, 'of characters that need no quoting in html');
          const read = readToken(keys, written);
          assert.ok(read?.kind === 'click');
          assert.deepEqual(
            [read.deliveryId, read.url, read.link, read.links, read.part],
            [deliveryId, url, link, link, part],
          );
        },
      ),
    );
  });

  it('is the same at each try, and another for each link and recipient', () => {
    assert.equal(clickTokens(key, stamp)(place), token);
    assert.notEqual(clickTokens(key, stamp)({ ...place, link: 4 }), token);
    assert.notEqual(clickTokens(key, { ...stamp, deliveryId: newId('dlv', 1_770_000_000_000) })(place), token);
  });

  it('knows an open from a click', () => {
    assert.deepEqual(readToken(keys, openToken(key, stamp))?.kind, 'open');
    assert.equal(readToken(keys, token)?.kind, 'click');
  });

  it('outlives the rotation of keys, but not the loss of one', () => {
    const before = clickTokens(old, stamp)(place);
    assert.equal(readToken(keys, before)?.deliveryId, deliveryId);
    assert.equal(readToken(trackingKeys(keyringOf('new')), before), null);
    assert.equal(readToken(trackingKeys(keyringOf('other')), token), null, 'the keys of somebody else');
  });

  it('belongs to the host it was published on', () => {
    const own = readToken(keys, clickTokens(key, { deliveryId, host: 'track.acme.test' })(place));
    assert.deepEqual([own?.isOf('track.acme.test'), own?.isOf('track.evil.test')], [true, false]);
    assert.equal(readToken(keys, token)?.isOf('track.acme.test'), false, 'published for all, it is none of a domain');
  });

  it('cannot be changed anywhere', () => {
    for (let at = 0; at < token.length; at++) {
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      assert.equal(readToken(keys, changed), null, `character ${String(at)}`);
    }
  });

  for (const [text, why] of [
    ['', 'nothing'],
    [token.slice(0, -1), 'cut off'],
    [`${token}A`, 'a character more'],
    [`${token}=`, 'padding, which is another spelling'],
    [` ${token}`, 'a space before it'],
    [token.replaceAll('_', '/').replaceAll('-', '+') + (/[-_]/.test(token) ? '' : '+'), 'the other alphabet'],
    ['A'.repeat(100_000), 'far too long'],
    ['💌', 'other characters'],
  ] as const) {
    it(`reads nothing in ${why}`, () => {
      assert.equal(readToken(keys, text), null);
    });
  }

  it('reads no forged token: no redirect to an address that we did not send', () => {
    const made = new Set([token]);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ maxLength: 300 }),
          fc.base64String({ maxLength: 400 }),
          fc.uint8Array({ maxLength: 300 }).map((raw) => Buffer.from(raw).toString('base64url')),
          // Ours, with other bytes in the middle: a target of one's own under a true head and a true MAC.
          fc.tuple(fc.nat({ max: 200 }), fc.webUrl()).map(([at, url]) => {
            const raw = Buffer.from(token, 'base64url');
            return Buffer.concat([raw.subarray(0, at), Buffer.from(url), raw.subarray(at)]).toString('base64url');
          }),
          fc.webUrl().map((url) => {
            const raw = Buffer.from(token, 'base64url');
            const mac = createHash('sha256').update(url).digest().subarray(0, 16);
            return Buffer.concat([raw.subarray(0, 37), Buffer.from(url), mac]).toString('base64url');
          }),
        ),
        (text) => {
          if (!made.has(text)) assert.equal(readToken(keys, text), null);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
