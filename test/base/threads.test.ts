import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { ownMemory } from '../../src/base/bytes.ts';
import { createThreads, ThreadRefusal, type Threads } from '../../src/base/threads.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

interface Input {
  say?: unknown;
  fall?: 'throw' | 'exit' | 'ready';
  bytes?: Uint8Array;
  turns?: number;
}
interface Output {
  said: unknown;
  bytes: number;
}

describe('base/threads', () => {
  let clock: FakeClock;
  let threads: Threads<Input, Output>;
  beforeEach(() => {
    clock = new FakeClock();
    const entry = new URL('../support/fakes/odd-worker.ts', import.meta.url);
    threads = createThreads({ clock }, { entry, count: 2, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 });
  });
  afterEach(() => threads.close());

  const refused = (why: ThreadRefusal['why']) => (error: unknown) =>
    error instanceof ThreadRefusal && error.why === why;

  it('answers each job with its own, also when more wait than there are threads', async () => {
    const jobs = [0, 1, 2, 3, 4].map((say) => threads.run({ say }));
    assert.deepEqual(
      (await Promise.all(jobs)).map(({ said }) => said),
      [0, 1, 2, 3, 4],
    );
  });

  it('hands memory over', async () => {
    const bytes = new Uint8Array(100_000);
    assert.equal((await threads.run({ say: 1, bytes }, ownMemory([bytes]))).bytes, 100_000);
    assert.equal(bytes.length, 0);
    const part = Buffer.from('a small one comes from a pool');
    assert.deepEqual(ownMemory([part]), []);
    assert.equal((await threads.run({ say: 1, bytes: part }, ownMemory([part]))).bytes, part.length);
    assert.notEqual(part.length, 0);
  });

  for (const fall of ['throw', 'exit'] as const) {
    it(`refuses the job in which a thread dies (${fall}), and only that`, async () => {
      const results = await Promise.allSettled([
        threads.run({ fall }),
        threads.run({ fall }),
        threads.run({ say: 'alive' }),
      ]);
      assert.deepEqual(
        results.map(({ status }) => status),
        ['rejected', 'rejected', 'fulfilled'],
      );
      assert.ok(results[0].status === 'rejected' && refused('died')(results[0].reason));
    });
  }

  describe('with a job ahead', () => {
    let one: Threads<Input, Output>;
    beforeEach(() => {
      const entry = new URL('../support/fakes/odd-worker.ts', import.meta.url);
      const some = { entry, count: 1, ahead: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 };
      one = createThreads({ clock }, some);
    });
    afterEach(() => one.close());

    it('answers in their order, and limits the time of each', async () => {
      const jobs = [0, 1, 2].map((say) => one.run({ say, turns: 20 - 10 * say }));
      assert.deepEqual(
        (await Promise.all(jobs)).map(({ said }) => said),
        [0, 1, 2],
        'also if one takes longer than the next',
      );
      const stuck = one.run({ fall: 'ready' });
      const next = one.run({ say: 'next' });
      await Promise.resolve();
      clock.advance(5000);
      await assert.rejects(stuck, (error) => error instanceof ThreadRefusal && error.isOfJob);
      assert.equal((await next).said, 'next');
    });

    it('does the job behind one in which it dies in another, unless its memory was handed over', async () => {
      await one.run({ say: 'loaded' });
      const bytes = new Uint8Array(100_000);
      const dying = one.run({ fall: 'exit' });
      const results = await Promise.allSettled([dying, one.run({ say: 'alive' })]);
      assert.deepEqual(
        results.map(({ status }) => status),
        ['rejected', 'fulfilled'],
      );
      const [again, gone] = await Promise.allSettled([
        one.run({ fall: 'throw' }),
        one.run({ say: 'gone', bytes }, ownMemory([bytes])),
      ]);
      assert.ok(again.status === 'rejected' && refused('died')(again.reason));
      assert.ok(gone.status === 'rejected' && gone.reason instanceof ThreadRefusal && !gone.reason.isOfJob);
    });
  });

  it('refuses what cannot be handed over', async () => {
    await assert.rejects(threads.run({ say: () => undefined }), refused('died'));
    assert.equal((await threads.run({ say: 'next' })).said, 'next');
  });

  it('starts its threads before there is work, ends them when none comes, and starts none after its end', async () => {
    threads.start();
    threads.start();
    assert.equal(threads.loaded, 0, 'none has said yet that it is loaded');
    await Promise.all([threads.run({ say: 'one' }), threads.run({ say: 'other' })]);
    assert.equal(threads.loaded, 2);
    clock.advance(1000);
    assert.deepEqual([threads.loaded, clock.nextAt()], [0, null]);
    await threads.close();
    threads.start();
    assert.equal(clock.nextAt(), null);
  });

  it('says that a thread cannot start, and tries again after a minute', async () => {
    const failures: unknown[] = [];
    const entry = new URL('../support/fakes/no-worker.ts', import.meta.url);
    const some = { entry, count: 1, mostWaiting: 1, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 };
    let told = (): void => undefined;
    const broken = createThreads(
      { clock },
      {
        ...some,
        couldNotStart: (error) => {
          failures.push(error);
          told();
        },
      },
    );
    const failed = (): Promise<void> => new Promise((resolve) => (told = resolve));
    const first = failed();
    broken.start();
    await first;
    broken.start();
    clock.advance(59_999);
    broken.start();
    assert.equal(clock.nextAt(), null, 'no thread is running');
    clock.advance(1);
    const second = failed();
    broken.start();
    await second;
    assert.equal(failures.length, 2);
    await assert.rejects(
      broken.run({}),
      (error) => error instanceof ThreadRefusal && error.why === 'died' && !error.begun,
    );
    assert.equal(failures.length, 2, 'a job is told itself');
    await broken.close();
  });

  it('refuses a job, and says so, where the system has no room for a thread', async () => {
    const failures: unknown[] = [];
    // Node throws at once where the system has no room for a thread; here it is the name of the file that throws.
    const entry = Object.defineProperty(new URL('file:///none.ts'), 'href', {
      get: () => {
        throw new Error('EAGAIN');
      },
    });
    const some = { count: 1, mostWaiting: 1, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 };
    const notBegun = (error: unknown): boolean => error instanceof ThreadRefusal && !error.begun;
    const none = createThreads<Input, Output>(
      { clock },
      { ...some, entry, couldNotStart: (error) => failures.push(error) },
    );
    none.start();
    assert.equal(failures.length, 1);
    await assert.rejects(none.run({ say: 1 }), refused('died'));
    await assert.rejects(none.run({ say: 1 }), notBegun);
    await assert.rejects(none.run({ say: 2 }), refused('died'), 'the refused one does not wait any more');
    await none.close();
  });

  it('refuses all jobs that wait where a thread has died and the system has no room for the next one', async () => {
    const file = new URL('../support/fakes/odd-worker.ts', import.meta.url);
    let starts = 0;
    const entry = Object.defineProperty(new URL(file), 'href', {
      get: () => {
        if (starts++ > 0) throw new Error('EAGAIN');
        return file.href;
      },
    });
    const some = { count: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 };
    const one = createThreads<Input, Output>({ clock }, { ...some, entry });
    const jobs = await Promise.allSettled([one.run({ fall: 'exit' }), one.run({ say: 1 }), one.run({ say: 2 })]);
    assert.deepEqual(
      jobs.map((job) => job.status === 'rejected' && refused('died')(job.reason)),
      [true, true, true],
    );
    await one.close();
  });

  it('ends a thread that takes too long', async () => {
    const slow = threads.run({});
    clock.advance(24_999);
    clock.advance(1);
    await assert.rejects(slow, refused('slow'));
    assert.equal((await threads.run({ say: 'next' })).said, 'next');
  });

  it('gives the first job of a thread time to load its module', async () => {
    const entry = new URL('../support/fakes/odd-worker.ts', import.meta.url);
    const some = createThreads<Input, Output>(
      { clock },
      { entry, count: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 },
    );
    const first = some.run({ say: 'loaded' });
    assert.equal(clock.nextAt(), clock.now() + 25_000);
    await first;
    const slow = some.run({});
    assert.equal(clock.nextAt(), clock.now() + 5000);
    clock.advance(5000);
    await assert.rejects(slow, refused('slow'));
    await some.close();
  });

  it('counts the time of the first job from when the thread says that it is ready', async () => {
    const entry = new URL('../support/fakes/odd-worker.ts', import.meta.url);
    const some = createThreads<Input, Output>(
      { clock },
      { entry, count: 1, mostWaiting: 3, idleMs: 1000, jobMs: 5000, maxHeapMb: 64 },
    );
    const slow = some.run({ fall: 'ready' });
    assert.equal(clock.nextAt(), clock.now() + 25_000);
    while (clock.nextAt() !== clock.now() + 5000) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(5000);
    await assert.rejects(slow, refused('slow'));
    await some.close();
  });

  it('refuses more than may wait', async () => {
    const jobs = Promise.allSettled([0, 1, 2, 3, 4].map((say) => threads.run({ say })));
    await assert.rejects(threads.run({ say: 5 }), refused('full'));
    await jobs;
  });

  it('ends idle threads, and refuses everything once it is closed', async () => {
    await threads.run({ say: 1 });
    assert.equal(clock.nextAt(), clock.now() + 1000);
    clock.advance(1000);
    assert.equal(clock.nextAt(), null);
    const last = threads.run({});
    const closing = threads.close();
    await assert.rejects(last, refused('closed'));
    await closing;
    await assert.rejects(threads.run({ say: 1 }), refused('closed'));
    assert.equal(clock.nextAt(), null);
  });

  it('keeps the limit of young objects of a thread where NODE_OPTIONS has one for the main thread', () => {
    const module = path.resolve(import.meta.dirname, '../../src/base/threads.ts');
    const thread = `
      let kept = [];
      for (let round = 0; round < 100; round++) kept = Array.from({ length: 20000 }, (_, n) => ({ n }));
      const young = require('node:v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
      require('node:worker_threads').parentPort.postMessage(young.space_size);`;
    const program = `
      import(${JSON.stringify(module)}).then(() => {
        const limits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 64 };
        const worker = new (require('node:worker_threads').Worker)(${JSON.stringify(thread)}, { eval: true, resourceLimits: limits });
        worker.on('message', (bytes) => console.log(bytes));
      });`;
    const bytes = execFileSync(process.execPath, ['--import', 'tsx', '-e', program], {
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '--max-semi-space-size=16' },
    });
    assert.ok(Number(bytes) <= 4 * 2 ** 20, bytes);
  });
});
