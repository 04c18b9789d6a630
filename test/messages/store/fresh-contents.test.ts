import assert from 'node:assert/strict';
import { FreshContents } from '../../../src/messages/store/fresh-contents.ts';
import { contentRow } from '../../support/harness/mail-rows.ts';

const MEBIBYTE = 1024 * 1024;

describe('messages/store/fresh-contents', () => {
  const add = (fresh: FreshContents, id: string, bytes: number): void =>
    fresh.add({ content: { ...contentRow(), id, raw: Buffer.alloc(bytes) }, attachments: [], facts: null });

  it('gives a content once', () => {
    const fresh = new FreshContents();
    add(fresh, 'cnt_1', 100);
    assert.equal(fresh.take('cnt_1')?.content.id, 'cnt_1');
    assert.deepEqual([fresh.take('cnt_1'), fresh.bytes], [null, 0]);
  });

  it('holds no more than its memory: those that wait longest go first, and one that is larger is not kept', () => {
    const fresh = new FreshContents();
    for (let n = 0; n < 40; n++) add(fresh, `cnt_${String(n)}`, MEBIBYTE);
    assert.ok(fresh.bytes <= 32 * MEBIBYTE && fresh.bytes > 30 * MEBIBYTE);
    assert.deepEqual([fresh.take('cnt_0'), fresh.take('cnt_39')?.content.id], [null, 'cnt_39']);
    add(fresh, 'large', 33 * MEBIBYTE);
    assert.equal(fresh.take('large'), null);
  });
});
