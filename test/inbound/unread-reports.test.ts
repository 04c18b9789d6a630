/** Reports that are not read: for want of a process they wait; one that ends its process is kept unread, and the next is read. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { createThreads, ThreadRefusal } from '../../src/base/threads.ts';
import { nothingFound } from '../../src/inbound/finding.ts';
import { Receiver, type ReceiveDeps } from '../../src/inbound/receive.ts';
import type { ReadResult } from '../../src/inbound/report-reader.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const unstarted: ReadResult = { kind: 'unreadable', why: 'unstarted', ms: 0 };

const mail = (id: string, now: number) => ({
  id,
  received_at: now,
  client_ip: '192.0.2.1',
  sender: '',
  recipients_json: '[]',
  size: 5,
  raw: Buffer.from('To: x'),
});

describe('a report that no process reads', () => {
  it('waits a minute for the next try, with one line in the log, and holds up no stop', async () => {
    const clock = new FakeClock();
    const errors: string[] = [];
    let reads = 0;
    const deps = {
      clock,
      keys: [],
      log: { error: (_: object, text: string) => errors.push(text) },
      db: { prepared: { all: () => Promise.resolve([mail('rep_1', clock.now())]) } },
      reader: {
        read: () => {
          reads += 1;
          return Promise.resolve(unstarted);
        },
        close: () => Promise.resolve(),
      },
    };
    const receiver = new Receiver(deps as unknown as ReceiveDeps);
    const settle = async (): Promise<void> => {
      for (let turns = 0; turns < 20; turns++) await turn();
    };
    for (const id of ['rep_1', 'rep_2', 'rep_3']) receiver.take(mail(id, clock.now()));
    await settle();
    const first = reads;
    assert.ok(first > 0 && first < 3, 'only those that were on their way');
    assert.match(errors.join(), /^no thread could be started[^]*in a minute$/);
    clock.advance(59_999);
    await settle();
    assert.equal(reads, first);
    clock.advance(1);
    await settle();
    assert.ok(reads > first && errors.length === 2, `${String(reads)} reads, ${String(errors.length)} lines`);
    await receiver.stop();
  });
});

describe('a report that harms its reader', () => {
  const clock = new FakeClock();
  const entry = new URL('../support/fakes/hostile-worker.ts', import.meta.url);
  const workers = createThreads<{ deed: string; what?: string }, unknown>(
    { clock },
    { entry, count: 1, mostWaiting: 9, idleMs: 60_000, jobMs: 5000, maxHeapMb: 64, confined: { maxRssMb: 256 } },
  );
  const closed: unknown[] = [];
  const deps = {
    clock,
    keys: [],
    log: { warn: () => undefined, info: () => undefined, error: () => undefined },
    db: {
      prepared: { all: () => Promise.resolve([]) },
      commit: {
        transact: (work: (tx: object) => Promise<unknown>) =>
          work({ all: (_: string, [state]: unknown[]) => Promise.resolve([closed.push(state)]) }),
      },
    },
    budgets: { noteReading: () => undefined, giveBack: () => undefined },
    trim: () => Promise.resolve(),
    forward: { operatorAddress: null },
    reader: {
      async read(bytes: Uint8Array): Promise<ReadResult> {
        const [deed = '', what] = Buffer.from(bytes).toString().split(' ');
        try {
          await workers.run({ deed, ...(what === undefined ? {} : { what }) });
          return { kind: 'read', finding: nothingFound, ms: 1 };
        } catch (error) {
          assert.ok(error instanceof ThreadRefusal && error.begun);
          return { kind: 'unreadable', why: error.why, ms: 1 };
        }
      },
      close: () => workers.close(),
    },
  };
  const receiver = new Receiver(deps as unknown as ReceiveDeps);
  after(() => receiver.stop());

  for (const deed of [
    'loop',
    'heap',
    'buffers',
    'read /var/lib/posthorn/posthorn.db',
    'connect 25',
    'program /bin/sh',
    'thread 1',
    'late',
  ])
    it(`is kept unread, and the next is read: ${deed}`, async () => {
      await workers.run({ deed: 'say' });
      closed.length = 0;
      receiver.take({ ...mail('rep_1', clock.now()), raw: Buffer.from(deed) });
      if (deed === 'loop') {
        await turn();
        clock.advance(5000);
      }
      receiver.take({ ...mail('rep_2', clock.now()), raw: Buffer.from('say') });
      while (closed.length < 2) await turn();
      assert.deepEqual(closed, ['unreadable', 'done']);
    });
});
