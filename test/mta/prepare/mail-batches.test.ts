import assert from 'node:assert/strict';
import { createLog } from '../../../src/base/log.ts';
import { ThreadRefusal } from '../../../src/base/threads.ts';
import type { MailAnswer, MailJob, StoredContent } from '../../../src/mta/prepare/compose.ts';
import { MailBatches, type Order } from '../../../src/mta/prepare/composer.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

const jobOf = (text: string): MailJob => {
  const stored: StoredContent = { id: text, html: null, text, attachments: [], autoText: false };
  return { kind: 'compose', stored, sign: null };
};
const textOf = (job: MailJob): string => (job.kind === 'compose' ? String(job.stored.text) : '');
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const log = createLog({ level: 'error', format: 'json' });
/** An answer that only this process gives. */
const HERE: MailAnswer = { kind: 'unencodable', why: 'made here' };

describe('mta/prepare/mail-batches', () => {
  let clock: FakeClock;
  let batches: MailBatches;
  /** The texts of the jobs that were begun here, and what ends them, in order. */
  let begun: string[];
  let ends: (() => void)[];
  /** The texts of the jobs that were done in a thread by themselves. */
  let alone: string[];

  beforeEach(() => {
    clock = new FakeClock();
    begun = [];
    ends = [];
    alone = [];
    const make = (job: MailJob): Promise<MailAnswer> => {
      begun.push(textOf(job));
      return new Promise((resolve) =>
        ends.push(() => {
          resolve(HERE);
        }),
      );
    };
    const makeAlone = (job: MailJob): Promise<MailAnswer> => {
      alone.push(textOf(job));
      return textOf(job) === 'deadly' ? Promise.reject(new ThreadRefusal('died')) : Promise.resolve(HERE);
    };
    batches = new MailBatches({ clock, log }, make, makeAlone);
  });
  afterEach(() => batches.close());

  const run = (text: string, order: Order = 0): Promise<MailAnswer> => batches.run(order, jobOf(text));
  const endHere = async (): Promise<void> => {
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
      end();
      await turn();
    }
  };
  /** Ends what is begun here until all have their answers: what the thread leaves over is begun only when it has answered. */
  async function endAllHere(all: Promise<unknown>): Promise<void> {
    for (let isDone = false; !isDone;) {
      await endHere();
      isDone = await Promise.race([all.then(() => true), turn().then(() => false)]);
    }
  }
  /** Has the thread started: many jobs are begun, and all end here. */
  async function startThread(): Promise<void> {
    const all = Promise.all(['a', 'b', 'c'].map((text) => run(text)));
    await turn();
    await endAllHere(all);
    begun = [];
  }
  /** Resolves with the answers of jobs that come at once, as soon as the thread makes them. */
  async function fromThread(texts: readonly string[]): Promise<readonly MailAnswer[]> {
    for (;;) {
      const all = Promise.all(texts.map((text) => run(text)));
      await turn();
      if (begun.length === 0) return all;
      // The thread is not loaded yet.
      await endAllHere(all);
      begun = [];
    }
  }

  it('makes one or two here and starts no thread for them', async () => {
    const both = Promise.all([run('a'), run('b')]);
    await turn();
    assert.deepEqual(begun, ['a', 'b']);
    await endHere();
    assert.deepEqual(await both, [HERE, HERE]);
    assert.equal(clock.nextAt(), null);
  });

  it('makes two at a time here until the thread is loaded, the urgent ones first', async () => {
    const all = Promise.all([run('b1', 1), run('b2', 1), run('b3', 1), run('t1'), run('t2')]);
    await turn();
    assert.deepEqual(begun, ['t1', 't2']);
    assert.notEqual(clock.nextAt(), null, 'the thread is started');
    ends.shift()?.();
    await turn();
    ends.shift()?.();
    await turn();
    await endHere();
    await all;
  });

  it('has the thread make many, and gives each its own answer', async () => {
    await startThread();
    const texts = Array.from({ length: 40 }, (_, i) => `text ${String(i)}`);
    const answers = await fromThread(texts);
    assert.deepEqual(begun, []);
    const bodies = answers.map((answer) =>
      answer.kind === 'composed' ? answer.composed.content.body : assert.fail(answer.kind),
    );
    assert.deepEqual(
      bodies.map((body) => Buffer.from(body).toString().trim()),
      texts,
    );
    // All of the thread's pool of 8 KiB would stay in memory with each of them.
    assert.ok(bodies.every((body) => body.buffer.byteLength === body.length));
  });

  it('says of each job of a batch by itself that it failed', async () => {
    await startThread();
    await fromThread(['a', 'b', 'c']);
    const bad: MailJob = { kind: 'sign', unsigned: { head: '', bodyHash: '', timestamp: 1, keys: [] } };
    const answers = await Promise.all([run('a'), batches.run(0, bad), run('b')]);
    assert.deepEqual(
      answers.map((answer) => ('why' in answer ? answer.why : answer.kind)),
      ['composed', 'no DKIM signer', 'composed'],
    );
  });

  it('tells each job of a batch by itself what becomes of it where the thread dies', async () => {
    await startThread();
    await fromThread(['a', 'b', 'c']);
    // A content without a list of attachments is none, and throws if the thread reads it.
    const deadly = { kind: 'compose', stored: { id: 'x', text: 'deadly' }, sign: null } as unknown as MailJob;
    const results = await Promise.allSettled([run('a'), batches.run(0, deadly), run('b')]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.deepEqual([alone, begun], [['a', 'deadly', 'b'], []], 'and it is not done here');
  });

  it('makes the rest here after its end', async () => {
    await startThread();
    await batches.close();
    const all = Promise.all(['a', 'b', 'c', 'd'].map((text) => run(text)));
    await turn();
    await endHere();
    assert.deepEqual(await all, [HERE, HERE, HERE, HERE]);
  });
});
