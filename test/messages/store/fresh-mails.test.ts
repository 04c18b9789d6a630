import assert from 'node:assert/strict';
import { FreshMails } from '../../../src/messages/store/fresh-mails.ts';
import { contentRow, deliveryRow, messageRow } from '../../support/harness/mail-rows.ts';

const MEBIBYTE = 1024 * 1024;

describe('messages/store/fresh-mails', () => {
  const add = (fresh: FreshMails, id: string, bytes: number): void =>
    fresh.add({
      message: messageRow(),
      delivery: deliveryRow({ id }),
      content: contentRow({ raw: Buffer.alloc(bytes) }),
      attachments: [],
      facts: null,
    });

  it('gives a mail once', () => {
    const fresh = new FreshMails();
    add(fresh, 'dlv_1', 100);
    assert.equal(fresh.take('dlv_1')?.delivery.id, 'dlv_1');
    assert.deepEqual([fresh.take('dlv_1'), fresh.bytes], [null, 0]);
  });

  it('keeps long texts as bytes, which weigh less', () => {
    const weight = (text: string): number => {
      const fresh = new FreshMails();
      const content = contentRow({ html: text, text: null });
      fresh.add({ message: messageRow(), delivery: deliveryRow(), content, attachments: [], facts: null });
      return fresh.bytes;
    };
    const short = weight('x'.repeat(20_000));
    assert.deepEqual([weight('x'.repeat(40_000)) - short, weight('ł'.repeat(40_000)) - short], [0, 40_000]);
    // To encode a longer one would hold the main loop.
    assert.equal(weight('x'.repeat(200_000)) - short, 360_000);
  });

  it('holds no more than its memory: those that wait longest go first, and one that is larger is kept alone', () => {
    const fresh = new FreshMails();
    for (let n = 0; n < 40; n++) add(fresh, `dlv_${String(n)}`, MEBIBYTE);
    assert.ok(fresh.bytes <= 20 * MEBIBYTE && fresh.bytes > 18 * MEBIBYTE);
    assert.deepEqual([fresh.take('dlv_0'), fresh.take('dlv_39')?.delivery.id], [null, 'dlv_39']);
    add(fresh, 'large', 25 * MEBIBYTE);
    assert.deepEqual([fresh.take('dlv_38'), fresh.take('large')?.delivery.id, fresh.bytes], [null, 'large', 0]);
  });
});
