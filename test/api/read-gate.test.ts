/** Reads run a few at a time; accounts take turns, each in the order of its reads; who is gone takes no turn. */
import assert from 'node:assert/strict';
import { createReadGate } from '../../src/api/read-gate.ts';

describe('api/read-gate', () => {
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('lets in as many as it may, in order, and skips who has gone', async () => {
    const gate = createReadGate(2);
    const begun: number[] = [];
    const ends: (() => void)[] = [];
    const gone = new Set<number>();
    const reads = [0, 1, 2, 3, 4, 5].map((n) =>
      gate.run(
        'acc',
        () => gone.has(n),
        () => {
          begun.push(n);
          return new Promise<number>((resolve) => ends.push(() => resolve(n)));
        },
      ),
    );
    await settled();
    assert.deepEqual(begun, [0, 1]);
    gone.add(2).add(3).add(0);
    ends[0]?.();
    assert.equal(await reads[0], 0, 'what has begun is not given up');
    assert.deepEqual(await Promise.all([reads[2], reads[3]]), [null, null]);
    await settled();
    assert.deepEqual(begun, [0, 1, 4]);
    ends[1]?.();
    await settled();
    assert.deepEqual(begun, [0, 1, 4, 5]);
    for (const end of ends) end();
    assert.deepEqual(await Promise.all(reads), [0, 1, null, null, 4, 5]);
    assert.equal(
      await gate.run(
        'acc',
        () => true,
        () => Promise.resolve(1),
      ),
      null,
    );
    assert.equal(
      await gate.run(
        'acc',
        () => false,
        () => Promise.resolve(1),
      ),
      1,
    );
  });

  it('many slow reads of one account do not hold up those of another', async () => {
    const gate = createReadGate(2);
    const begun: string[] = [];
    const ends: (() => void)[] = [];
    const read = (account: string): Promise<unknown> =>
      gate.run(
        account,
        () => false,
        () => {
          begun.push(account);
          return new Promise<void>((resolve) => ends.push(resolve));
        },
      );
    const reads = [...Array.from({ length: 10 }, () => read('one')), read('two')];
    for (let ended = 0; ended < reads.length; ended++) {
      await settled();
      ends[ended]?.();
    }
    await Promise.all(reads);
    // The first waiting read of `one` was before that of `two`.
    assert.equal(begun.indexOf('two'), 3);
  });

  it('an account whose reads take very long leaves places to others', async () => {
    const gate = createReadGate();
    const stays = (): boolean => false;
    const ends: (() => void)[] = [];
    const slow = Array.from({ length: 20 }, () =>
      gate.run('one', stays, () => new Promise<void>((resolve) => ends.push(resolve))),
    );
    await settled();
    const first = await Promise.race([gate.run('two', stays, () => Promise.resolve('two')), settled()]);
    assert.equal(first, 'two');
    for (let ended = 0; ended < slow.length; ended++) {
      await settled();
      ends[ended]?.();
    }
    await Promise.all(slow);
  });

  it('gives the place of a read that failed to the next', async () => {
    const gate = createReadGate(1);
    const stays = (): boolean => false;
    const failed = gate.run('acc', stays, () => Promise.reject(new Error('no')));
    const next = gate.run('acc', stays, () => Promise.resolve(2));
    await assert.rejects(failed, /no/);
    assert.equal(await next, 2);
  });
});
