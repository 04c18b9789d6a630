/** Bodies come back as they were sent, and large ones take little room. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { bodyOf, filesOf, packedBody, rowsInPieces, wholeRaw } from '../../../src/messages/store/stored-content.ts';
import type { AttachmentRow } from '../../../src/storage/tables.ts';
import { contentRow } from '../../support/harness/mail-rows.ts';

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

  it('stores large files and mails in pieces, from which they are made again', async () => {
    const MIB = 2 ** 20;
    const fileOf = (size: number, position: number): AttachmentRow => ({
      content_id: 'cnt',
      position,
      filename: `${String(position)}.bin`,
      content_type: 'a/b',
      cid: null,
      disposition: 'attachment',
      bytes: Buffer.alloc(size, `${String(position)} bytes`),
    });
    const files = [5 * MIB + 1, 0, 2 * MIB, 10, 4 * MIB].map(fileOf);
    const raw = Buffer.alloc(4 * MIB + 5, 'From: a@b.example\r\n');
    const mails = [raw, raw.subarray(0, 2 * MIB), raw.subarray(0, 100)].map((bytes, at) =>
      contentRow({ id: `raw${String(at)}`, raw: bytes }),
    );
    const { contents, attachments } = rowsInPieces({ contents: mails, attachments: files });
    const rowsOf = (id: string): AttachmentRow[] =>
      attachments.filter((row) => row.content_id === id).sort((a, b) => a.position - b.position);
    assert.equal(
      new Set(attachments.map((row) => `${row.content_id} ${String(row.position)}`)).size,
      attachments.length,
    );
    assert.ok(
      [...attachments.map(({ bytes }) => bytes), ...contents.map((row) => row.raw)].every(
        (one) => (one?.length ?? 0) <= 2 * MIB,
      ),
    );
    assert.deepEqual(filesOf(rowsOf('cnt')), files);
    for (const [at, { id, raw: first }] of contents.entries()) {
      assert.deepEqual(filesOf(rowsOf(id)), []);
      assert.deepEqual(await wholeRaw(first, () => Promise.resolve(rowsOf(id))), mails[at]?.raw);
    }
  });
});
