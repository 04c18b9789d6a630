import assert from 'node:assert/strict';
import { FreshMails } from '../../../src/messages/store/fresh-mails.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
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
    const fresh = new FreshMails(new FakeClock());
    add(fresh, 'dlv_1', 100);
    assert.equal(fresh.take('dlv_1')?.delivery.id, 'dlv_1');
    assert.deepEqual([fresh.take('dlv_1'), fresh.bytes], [null, 0]);
  });

  it('keeps long texts as bytes, which weigh less', () => {
    const weight = (text: string): number => {
      const fresh = new FreshMails(new FakeClock());
      const content = contentRow({ html: text, text: null });
      fresh.add({ message: messageRow(), delivery: deliveryRow(), content, attachments: [], facts: null });
      return fresh.bytes;
    };
    const short = weight('x'.repeat(20_000));
    assert.deepEqual([weight('x'.repeat(40_000)) - short, weight('ł'.repeat(40_000)) - short], [0, 40_000]);
    // To encode a longer one would hold the main loop.
    assert.equal(weight('x'.repeat(200_000)) - short, 360_000);
  });

  it('holds no more than its memory: the oldest stay, as they go next, until they have waited long', () => {
    const clock = new FakeClock();
    const fresh = new FreshMails(clock);
    const kept = (n: number): boolean => fresh.take(`dlv_${String(n)}`) !== null;
    for (let n = 0; n < 40; n++) add(fresh, `dlv_${String(n)}`, MEBIBYTE);
    assert.ok(fresh.bytes <= 28 * MEBIBYTE && fresh.bytes > 26 * MEBIBYTE);
    assert.deepEqual([kept(0), kept(39)], [true, false]);
    clock.advance(3_000);
    add(fresh, 'dlv_40', 2 * MEBIBYTE);
    assert.deepEqual([kept(1), kept(2), kept(40)], [false, true, true]);
  });

  it('keeps a mail alone that is larger than its memory', () => {
    const fresh = new FreshMails(new FakeClock());
    add(fresh, 'large', 40 * MEBIBYTE);
    add(fresh, 'next', 100);
    assert.deepEqual([fresh.take('next'), fresh.take('large')?.delivery.id, fresh.bytes], [null, 'large', 0]);
  });
});
