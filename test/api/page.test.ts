import assert from 'node:assert/strict';
import { createCursors, answerPage } from '../../src/api/page.ts';
import { entriesOf } from '../../src/client/transport.ts';
import type { Page } from '../../src/client/types.ts';

describe('api/page: a request looks at a bounded number of entries', () => {
  const cursors = createCursors(Buffer.alloc(32));
  const LIST = JSON.stringify(['/v1/numbers one', []]);
  const LOOKED_AT = 10;

  /** Multiples of 25 up to 100, of ten numbers a request. */
  async function read(query: { after?: string; before?: string; limit?: number }): Promise<Page<{ id: string }>> {
    const call = { query, caller: { accountId: 'one' }, search: '' };
    const reply = await answerPage(cursors, '/v1/numbers', call, ({ after, before }) => {
      const backwards = before !== undefined;
      const from = Number(after ?? before ?? 0);
      const stop = backwards ? Math.max(0, from - LOOKED_AT) : Math.min(100, from + LOOKED_AT);
      const found = Array.from({ length: 101 }, (_, n) => n).filter(
        (n) => n > 0 && n % 25 === 0 && (backwards ? n < from && n >= stop : n > from && n <= stop),
      );
      return Promise.resolve({
        data: found.map((n) => ({ id: String(n) })),
        hasMore: backwards ? stop > 0 : stop < 100,
        first: String(backwards ? stop : (found[0] ?? from)),
        last: String(backwards ? from : stop),
      });
    });
    assert.ok('body' in reply);
    return reply.body as Page<{ id: string }>;
  }

  it('a page that is not full, even an empty one, says that there is more and where', async () => {
    const first = await read({});
    assert.deepEqual([first.data, first.has_more], [[], true]);
    assert.ok(first.next_cursor);
    const back = await read({ before: cursors.write(LIST, '45') });
    assert.deepEqual([back.data, back.has_more], [[], true]);
    assert.ok(back.previous_cursor);
  });

  it('takes a cursor whatever the order of the values of a filter', async () => {
    const ask = (query: object) =>
      answerPage(cursors, '/v1/numbers', { query, caller: { accountId: 'one' }, search: '' }, () =>
        Promise.resolve({ data: [{ id: '1' }], hasMore: true }),
      );
    const reply = await ask({ status: ['sent', 'failed'] });
    assert.ok('body' in reply);
    const { next_cursor: after } = reply.body as Page<{ id: string }>;
    assert.equal((await ask({ status: ['failed', 'sent'], after })).status, 200);
  });

  it('the client goes on by itself until the end', async () => {
    const all: string[] = [];
    for await (const one of entriesOf((after) => read(after === undefined ? {} : { after }), undefined))
      all.push(one.id);
    assert.deepEqual(all, ['25', '50', '75', '100']);
  });
});
