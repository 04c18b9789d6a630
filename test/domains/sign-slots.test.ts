import assert from 'node:assert/strict';
import { createSignSlots } from '../../src/domains/sign-slots.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('domains/sign-slots', () => {
  it('runs so many at once, transactional mail first', async () => {
    const slots = createSignSlots(2);
    const started: string[] = [];
    const finish: (() => void)[] = [];
    const run = (order: 0 | 1, name: string): Promise<string> =>
      slots.run(order, () => {
        started.push(name);
        return new Promise((resolve) =>
          finish.push(() => {
            resolve(name);
          }),
        );
      });
    const all = Promise.all([run(1, 'b1'), run(1, 'b2'), run(1, 'b3'), run(0, 't1'), run(0, 't2')]);
    assert.deepEqual(started, ['b1', 'b2']);
    for (const expected of ['b1 b2 t1', 'b1 b2 t1 t2', 'b1 b2 t1 t2 b3', 'b1 b2 t1 t2 b3', 'b1 b2 t1 t2 b3']) {
      finish.shift()?.();
      await turn();
      assert.equal(started.join(' '), expected);
    }
    assert.deepEqual(await all, ['b1', 'b2', 'b3', 't1', 't2']);
  });

  it('gives the room back after a failure', async () => {
    const slots = createSignSlots(1);
    await assert.rejects(
      slots.run(0, () => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.equal(await slots.run(0, () => Promise.resolve('next')), 'next');
  });
});
