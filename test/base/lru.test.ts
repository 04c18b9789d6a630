import assert from 'node:assert/strict';
import { createLru } from '../../src/base/lru.ts';

describe('createLru', () => {
  it('drops the entry that was not used for longest', () => {
    const cache = createLru<string, number>(2);
    cache.set('a', 1);
    cache.set('b', 2);
    cache.get('a');
    cache.set('c', 3);
    assert.deepEqual([cache.get('a'), cache.get('b'), cache.get('c')], [1, undefined, 3]);
    assert.equal(cache.size, 2);
  });

  it('counts an entry once, however often it is replaced', () => {
    const cache = createLru<string, number>(2);
    cache.set('a', 1);
    for (let n = 0; n < 10; n++) cache.set('b', n);
    assert.deepEqual([cache.get('a'), cache.get('b')], [1, 9]);
    cache.delete('a');
    cache.set('c', 3);
    assert.deepEqual([cache.get('b'), cache.get('c')], [9, 3]);
  });
});
