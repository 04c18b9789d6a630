/** A report that ends its process is kept unread, and the next is read. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { createThreads, ThreadRefusal } from '../../src/base/threads.ts';
import { nothingFound } from '../../src/inbound/finding.ts';
import type { InboundContext } from '../../src/inbound/context.ts';
import { Receiver } from '../../src/inbound/receive.ts';
import type { ReadResult } from '../../src/inbound/report-reader.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const mail = (id: string, now: number) => ({
  id,
  received_at: now,
  client_ip: '192.0.2.1',
  sender: '',
  recipients_json: '[]',
  size: 5,
  raw: Buffer.from('To: x'),
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
    db: { prepared: { all: () => Promise.resolve([]) } },
    recorder: {
      record: (_: unknown, write: (tx: object) => Promise<unknown>) =>
        write({ all: (_: string, [state]: unknown[]) => Promise.resolve([closed.push(state)]) }),
    },
    forward: { operatorAddress: null },
  };
  const parts = {
    budgets: { noteReading: () => undefined, giveBack: () => undefined, noteGood: () => undefined },
    kept: { of: () => assert.fail(), trim: () => Promise.resolve() },
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
    },
  };
  const { inbox } = new Receiver(deps as unknown as InboundContext, parts);
  const stranger = { network: '192.0.2.0/24', deliveryId: null };
  after(async () => {
    await inbox.stop();
    await workers.close();
  });

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
      inbox.take({ ...mail('rep_1', clock.now()), raw: Buffer.from(deed) }, stranger);
      if (deed === 'loop') {
        await turn();
        clock.advance(5000);
      }
      inbox.take({ ...mail('rep_2', clock.now()), raw: Buffer.from('say') }, stranger);
      while (closed.length < 2) await turn();
      assert.deepEqual(closed, ['unreadable', 'done']);
    });
});
