/** A report for which no thread can be had waits; it is not closed as one that could not be read. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
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

describe('a report that no thread reads', () => {
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
