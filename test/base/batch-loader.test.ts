import assert from 'node:assert/strict';
import { createBatchLoader } from '../../src/base/batch-loader.ts';

describe('base/batch-loader', () => {
  const asked: string[][] = [];
  beforeEach(() => {
    asked.length = 0;
  });
  const loading = async (ids: readonly string[]): Promise<Map<string, string>> => {
    asked.push([...ids]);
    await new Promise((resolve) => setImmediate(resolve));
    return new Map(ids.filter((id) => id !== 'none').map((id) => [id, id.toUpperCase()]));
  };

  it('asks once for what is wanted in one moment, each id once', async () => {
    const loader = createBatchLoader(loading);
    assert.deepEqual(await Promise.all(['a', 'b', 'a', 'none'].map((id) => loader.load(id))), [
      'A',
      'B',
      'A',
      undefined,
    ]);
    assert.deepEqual(asked, [['a', 'b', 'none']]);
  });

  it('puts what comes meanwhile into the next batch', async () => {
    const loader = createBatchLoader(loading);
    const first = loader.load('a');
    while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await Promise.all([first, loader.load('b'), loader.load('c')]), ['A', 'B', 'C']);
    assert.deepEqual(asked, [['a'], ['b', 'c']]);
  });

  it('cuts what is too much for one query', async () => {
    const loader = createBatchLoader(loading, 2);
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((id) => loader.load(id)));
    assert.deepEqual(
      asked.map((ids) => ids.length),
      [2, 2, 1],
    );
  });

  it('rejects all of a batch that failed, and none of the next', async () => {
    let broken = true;
    const loader = createBatchLoader<string>(
      (ids) => (broken ? Promise.reject(new Error('no disk')) : loading(ids)),
      2,
    );
    const results = await Promise.allSettled(['a', 'b'].map((id) => loader.load(id)));
    assert.deepEqual(
      results.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    broken = false;
    assert.equal(await loader.load('a'), 'A');
  });
});
