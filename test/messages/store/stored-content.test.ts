/** Bodies come back as they were sent, and large ones take little room. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { bodyOf, packedBody } from '../../../src/messages/store/stored-content.ts';

describe('messages/stored-content', () => {
  it('packs what is large, and leaves what is small', () => {
    const html = Array.from({ length: 500 }, (_, n) => `<tr><td style="padding:8px">Row ${String(n)}</td></tr>`).join(
      '\n',
    );
    const packed = packedBody({ html, text: null });
    assert.deepEqual([packed.html, packed.text], [null, null]);
    assert.ok((packed.packed?.length ?? Infinity) < html.length / 8, String(packed.packed?.length));
    assert.deepEqual(packedBody({ html: '<p>hi</p>', text: null }), { html: '<p>hi</p>', text: null, packed: null });
  });

  it('gives back every body, whatever it is', () => {
    const part = fc.option(
      fc.tuple(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 3000 })).map(([text, n]) => text.repeat(n)),
    );
    fc.assert(
      fc.property(part, part, (html, text) => {
        assert.deepEqual(bodyOf(packedBody({ html, text })), { html, text });
      }),
    );
  });
});
