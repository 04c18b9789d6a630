/** Bulk sends have their turns by account: a flood of one account takes neither the memory of the server nor the turns of others. */
import assert from 'node:assert/strict';
import { createBulkGate } from '../../src/api/send.ts';
import { Problem } from '../../src/base/problem.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

describe('api/bulk-gate', () => {
  let hasStopped = false;
  const isStopping = (): boolean => hasStopped;
  afterEach(() => {
    hasStopped = false;
  });
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  /** A gate whose sends end when the test says so. */
  function begin() {
    const clock = new FakeClock();
    const gate = createBulkGate({ clock });
    const begun: string[] = [];
    const ends = new Map<string, () => void>();
    const send = (account: string, name: string): Promise<string> =>
      gate.run(account, isStopping, () => {
        begun.push(name);
        return new Promise((resolve) =>
          ends.set(name, () => {
            resolve(name);
          }),
        );
      });
    const end = async (name: string): Promise<void> => {
      ends.get(name)?.();
      await settled();
    };
    return { clock, gate, begun, send, end };
  }

  it('runs two of an account and four in all, and the accounts take turns', async () => {
    const { begun, send, end } = begin();
    const all = ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'c1', 'c2', 'd1'].map((name) => send(name.slice(0, 1), name));
    await settled();
    assert.deepEqual(begun, ['a1', 'a2', 'b1', 'c1'], 'a flood of one leaves room for others');
    await end('b1');
    assert.deepEqual(begun.slice(4), ['c2'], 'an account that has its two waits on');
    await end('a1');
    assert.deepEqual(begun.slice(5), ['a3']);
    await end('a2');
    assert.deepEqual(begun.slice(6), ['d1'], 'who had a turn goes behind the others');
    await end('c1');
    assert.deepEqual(begun.slice(7), ['a4']);
    for (const name of ['c2', 'd1', 'a3', 'a4', 'a5']) await end(name);
    assert.deepEqual(await Promise.all(all), ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'c1', 'c2', 'd1']);
  });

  it('gives the turn of one that was refused to the next', async () => {
    const { gate, begun, send, end } = begin();
    const refused = [1, 2, 3].map(() =>
      gate.run('a', isStopping, () => Promise.reject(new Problem('invalid_sender', 'no'))),
    );
    const next = send('a', 'next');
    for (const one of refused) await assert.rejects(one, /no/);
    await settled();
    assert.deepEqual(begun, ['next']);
    await end('next');
    assert.equal(await next, 'next');
  });

  const refusal = (sent: Promise<unknown>): Promise<unknown> =>
    sent.then(
      () => 'sent',
      (error: unknown) => error instanceof Problem && [error.code, error.retryAfter],
    );

  it('refuses an account of which too many wait, and only that one', async () => {
    const { begun, send, end } = begin();
    const flood = Array.from({ length: 258 }, (_, n) => send('a', `a${String(n)}`));
    assert.deepEqual(await refusal(send('a', 'beyond')), ['service_unavailable', 5]);
    const other = send('b', 'b');
    for (let n = 0; n < 258; n++) await end(`a${String(n)}`);
    await end('b');
    assert.equal((await Promise.all([...flood, other])).length, 259);
    assert.deepEqual(begun.slice(0, 3), ['a0', 'a1', 'b']);
  });

  it('refuses at its turn what has waited for half a minute: writes hang', async () => {
    const { clock, begun, send, end } = begin();
    const hanging = [send('a', 'one'), send('a', 'two')];
    const waiting = Array.from({ length: 50 }, (_, n) => refusal(send('a', `later ${String(n)}`)));
    await settled();
    clock.advance(30_001);
    await end('one');
    assert.deepEqual(
      new Set((await Promise.all(waiting)).map((why) => JSON.stringify(why))),
      new Set(['["service_unavailable",5]']),
    );
    await end('two');
    await Promise.all(hanging);
    assert.deepEqual(begun, ['one', 'two']);
  });

  it('refuses at its turn what still waits when the service stops, and ends what has begun', async () => {
    const { begun, send, end } = begin();
    const running = [send('a', 'one'), send('a', 'two')];
    const waiting = Array.from({ length: 50 }, (_, n) => refusal(send('a', `later ${String(n)}`)));
    await settled();
    hasStopped = true;
    await end('one');
    for (const why of await Promise.all(waiting)) assert.deepEqual(why, ['service_unavailable', 5]);
    await end('two');
    assert.deepEqual(await Promise.all(running), ['one', 'two']);
    assert.deepEqual(begun, ['one', 'two']);
  });
});
