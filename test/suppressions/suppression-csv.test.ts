import assert from 'node:assert/strict';
import { allPages, type EntryPage } from '../../src/suppressions/suppression-csv.ts';

describe('suppressions/suppression-csv', () => {
  it('goes on behind a page that is empty, until the list ends', async () => {
    const asked: (string | undefined)[] = [];
    const pages: EntryPage[] = [
      { data: [], has_more: true, last: 'sup_9' },
      { data: [], has_more: true, last: 'sup_5' },
      { data: [], has_more: false, last: null },
    ];
    for await (const data of allPages((after) => {
      asked.push(after);
      return Promise.resolve(pages[asked.length - 1] ?? { data: [], has_more: false, last: null });
    }))
      assert.deepEqual(data, []);
    assert.deepEqual(asked, [undefined, 'sup_9', 'sup_5']);
  });
});
