import assert from 'node:assert/strict';
import { createLookUpCache } from '../../src/base/look-up-cache.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

/** A source whose answers come when the test says so. */
function source(): {
  load: (key: string, before: string | undefined) => Promise<string>;
  asked: [key: string, before: string | undefined][];
  answer(value: string): void;
  fail(): void;
} {
  const open: { resolve(value: string): void; reject(error: Error): void }[] = [];
  const asked: [string, string | undefined][] = [];
  return {
    asked,
    load(key, before) {
      asked.push([key, before]);
      return new Promise((resolve, reject) => open.push({ resolve, reject }));
    },
    answer: (value) => open.shift()?.resolve(value),
    fail: () => open.shift()?.reject(new Error('away')),
  };
}

const options = { max: 2, freshMs: 1000 };
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('base/look-up-cache', () => {
  it('asks once for many, and again when the answer is no longer fresh, handing on the old one', async () => {
    const clock = new FakeClock();
    const { load, asked, answer } = source();
    const cache = createLookUpCache({ clock }, options, load);
    const both = Promise.all([cache.get('a'), cache.get('a')]);
    answer('1');
    assert.deepEqual(await both, ['1', '1']);
    clock.advance(999);
    assert.equal(await cache.get('a'), '1');
    clock.advance(1);
    const next = cache.get('a');
    answer('2');
    assert.equal(await next, '2');
    assert.deepEqual(asked, [
      ['a', undefined],
      ['a', '1'],
    ]);
  });

  it('lets nobody join a look-up that began before the change', async () => {
    const { load, answer } = source();
    const cache = createLookUpCache({ clock: new FakeClock() }, options, load);
    const early = cache.get('a');
    cache.forget('a');
    const late = cache.get('a');
    answer('old');
    answer('new');
    assert.equal(await early, 'old');
    assert.equal(await late, 'new');
    assert.equal(await cache.get('a'), 'new');
  });

  it('keeps no failure', async () => {
    const { load, asked, answer, fail } = source();
    const cache = createLookUpCache({ clock: new FakeClock() }, options, load);
    const first = cache.get('a');
    fail();
    await assert.rejects(first, /away/);
    const second = cache.get('a');
    answer('1');
    assert.equal(await second, '1');
    assert.equal(asked.length, 2);
  });

  it('drops the one not used for longest', async () => {
    const { load, asked, answer } = source();
    const cache = createLookUpCache({ clock: new FakeClock() }, options, load);
    for (const key of ['a', 'b', 'a', 'c', 'a', 'b']) {
      const got = cache.get(key);
      answer(key);
      assert.equal(await got, key);
    }
    assert.deepEqual(
      asked.map(([key]) => key),
      ['a', 'b', 'c', 'b'],
    );
  });

  it('keeps only what is worth it', async () => {
    const { load, asked, answer } = source();
    const cache = createLookUpCache(
      { clock: new FakeClock() },
      { ...options, keep: (value) => value !== 'none' },
      load,
    );
    for (const value of ['none', 'some']) {
      const got = cache.get('a');
      answer(value);
      assert.equal(await got, value);
      await settle();
    }
    assert.equal(await cache.get('a'), 'some');
    assert.equal(asked.length, 2);
  });
});
