import assert from 'node:assert/strict';
import { createCursors } from '../../src/api/cursor.ts';
import { pageReply, wantedPage } from '../../src/api/page.ts';
import { entriesOf } from '../../src/client/pages.ts';
import type { Page } from '../../src/client/types.ts';

describe('api/page: a request looks at a bounded number of entries', () => {
  const cursors = createCursors(Buffer.alloc(32));
  const LIST = 'numbers';
  const LOOKED_AT = 10;

  /** Multiples of 25 up to 100, of ten numbers a request. */
  function read(query: { after?: string; before?: string; limit?: number }): Page<number> {
    const wanted = wantedPage(cursors, LIST, query);
    const backwards = wanted.before !== undefined;
    const from = Number(wanted.after ?? wanted.before ?? 0);
    const stop = backwards ? Math.max(0, from - LOOKED_AT) : Math.min(100, from + LOOKED_AT);
    const data = Array.from({ length: 101 }, (_, n) => n).filter(
      (n) => n > 0 && n % 25 === 0 && (backwards ? n < from && n >= stop : n > from && n <= stop),
    );
    const hasMore = backwards ? stop > 0 : stop < 100;
    const reply = pageReply(cursors, LIST, '/v1/numbers', wanted, {
      data,
      hasMore,
      first: String(backwards ? stop : (data[0] ?? from)),
      last: String(backwards ? from : stop),
    });
    assert.ok('body' in reply);
    return reply.body as Page<number>;
  }

  it('a page that is not full, even an empty one, says that there is more and where', () => {
    const first = read({});
    assert.deepEqual([first.data, first.has_more], [[], true]);
    assert.ok(first.next_cursor);
    const back = read({ before: cursors.write(LIST, '45') });
    assert.deepEqual([back.data, back.has_more], [[], true]);
    assert.ok(back.previous_cursor);
  });

  it('the client goes on by itself until the end', async () => {
    const all: number[] = [];
    for await (const one of entriesOf(
      (after) => Promise.resolve(read(after === undefined ? {} : { after })),
      undefined,
    ))
      all.push(one);
    assert.deepEqual(all, [25, 50, 75, 100]);
  });
});
