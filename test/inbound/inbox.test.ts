/** The order in which mails are read, what may wait, and failures of ours. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { budgets } from '../../src/base/budgets.ts';
import { Inbox } from '../../src/inbound/inbox.ts';
import type { Session } from '../../src/inbound/listener.ts';
import type { Stranger } from '../../src/inbound/mx-budgets.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

interface Mail {
  id: string;
  raw: Buffer;
}

const stranger = (network: string, deliveryId: string | null = null): Stranger => ({ network, deliveryId });

describe('inbox', () => {
  let clock: FakeClock;
  /** The mails that were read and loaded, and the failures, in order. */
  let seen: string[];
  /** Mails in the database, and acts that fail. */
  let left: (Stranger & { id: string })[];
  let failing: Set<string>;
  let release: () => void;
  /** Ends when mails that come are written. */
  let writing: Promise<void>;

  beforeEach(() => {
    clock = new FakeClock();
    seen = [];
    left = [];
    failing = new Set();
  });

  const fails = (id: string): Promise<void> => (failing.has(id) ? Promise.reject(new Error(id)) : Promise.resolve());
  const open = (mostReading = 1, mostBuffered = 100): Inbox<Mail> => {
    const gate = new Promise<void>((resolve) => (release = resolve));
    return new Inbox<Mail>(
      { clock },
      {
        bounds: { all: 'unread_mails', each: 'unread_mails_network' },
        mostBuffered,
        mostAtWork: 8,
        mostReading,
        mailOf: (_session, raw) => ({ id: 'written', raw }),
        write: () => writing,
        alsoFull: () => Promise.resolve(null),
        left: async () => {
          await fails('left');
          return left;
        },
        load: (id) => {
          seen.push(`load ${id}`);
          return Promise.resolve(id.startsWith('gone') ? null : { id, raw: Buffer.alloc(10) });
        },
        read: async ({ id }) => {
          seen.push(id);
          await gate;
          await fails(`read ${id}`);
          return () => fails(id);
        },
        failed: (error) => seen.push(`failed ${(error as Error).message}`),
      },
    );
  };
  const take = (inbox: Inbox<Mail>, id: string, network: string, deliveryId?: string): void =>
    inbox.take({ id, raw: Buffer.alloc(10) }, stranger(network, deliveryId));
  const settle = async (): Promise<void> => {
    for (let turns = 0; turns < 50; turns++) await turn();
  };

  it('reads mail with a token first, and networks in turn', async () => {
    const inbox = open();
    take(inbox, 'first', 'eve');
    for (const id of ['e1', 'e2', 'e3']) take(inbox, id, 'eve');
    take(inbox, 'b1', 'bob');
    for (const id of ['t1', 't2']) take(inbox, id, 'eve', 'dlv_1');
    take(inbox, 't3', 'bob', 'dlv_2');
    release();
    await settle();
    assert.deepEqual(seen, ['first', 't1', 't3', 't2', 'e1', 'b1', 'e2', 'e3']);
  });

  it('has several with a token at the reader, and one without', () => {
    const inbox = open(3);
    for (const id of ['t1', 't2', 't3', 't4']) take(inbox, id, 'eve', 'dlv_1');
    assert.deepEqual(seen, ['t1', 't2', 't3']);
    const other = open(3);
    seen.length = 0;
    for (const id of ['e1', 'e2']) take(other, id, 'eve');
    assert.deepEqual(seen, ['e1']);
  });

  it('loads what was not kept in memory, and passes over what is gone', async () => {
    const inbox = open(1, 25);
    for (const id of ['e1', 'e2', 'e3', 'gone']) take(inbox, id, 'eve');
    release();
    await settle();
    assert.deepEqual(seen, ['e1', 'e2', 'load e3', 'e3', 'load gone']);
  });

  it('takes what others have left, each once', async () => {
    const inbox = open();
    release();
    take(inbox, 'e1', 'eve');
    left = ['e1', 'e2'].map((id) => ({ id, ...stranger('eve') }));
    inbox.takeLeft();
    await settle();
    assert.deepEqual(seen, ['e1', 'load e2', 'e2']);
  });

  it('rests after a failure of ours, logs it once, and tries again', async () => {
    for (const what of ['e1', 'read e1', 'left']) {
      seen = [];
      failing = new Set([what]);
      const inbox = open();
      release();
      inbox.takeLeft();
      await settle();
      take(inbox, 'e1', 'eve');
      await settle();
      failing.clear();
      clock.advance(9999);
      await settle();
      assert.deepEqual(
        seen.filter((one) => one !== 'e1'),
        [`failed ${what}`],
      );
      take(inbox, 'e2', 'eve');
      clock.advance(1);
      await settle();
      assert.deepEqual(
        seen
          .slice(-3)
          .filter((one) => one.startsWith('e'))
          .sort(),
        ['e1', 'e2'],
        what,
      );
      await inbox.stop();
    }
  });

  it('has a budget for each network, and one for all', () => {
    const inbox = open();
    take(inbox, 'first', 'ana');
    for (let n = 0; n < budgets.unread_mails_network.most; n++) take(inbox, `e${String(n)}`, 'eve');
    assert.equal(inbox.fullLine(stranger('eve')), 'unread_mails_network');
    assert.equal(inbox.fullLine(stranger('bob')), null);
    for (let n = 0; n < budgets.unread_mails.most; n++) take(inbox, `x${String(n)}`, String(n));
    assert.equal(inbox.fullLine(stranger('bob')), 'unread_mails');
  });

  it('keeps room for a network that comes for the first time, when many send what they can', () => {
    for (const networks of [20, 200, 2000]) {
      const inbox = open();
      for (let round = 0; round < 600; round++)
        for (let n = 0; n < networks; n++)
          if (inbox.fullLine(stranger(String(n))) === null) take(inbox, `${String(n)} ${String(round)}`, String(n));
      assert.equal(inbox.fullLine(stranger('bob')), null, String(networks));
      assert.equal(inbox.fullLine(stranger('0')), 'unread_mails');
    }
  });

  it('counts the mails that are being written', async () => {
    const inbox = open();
    let written: () => void = () => undefined;
    writing = new Promise<void>((resolve) => (written = resolve));
    const session = {} as Session<never>;
    const stored = Array.from({ length: 5000 }, (_, n) => n).flatMap((n) => {
      const one = stranger(String(n % 200));
      return inbox.fullLine(one) === null ? [inbox.store(session, Buffer.alloc(1), 1, one)] : [];
    });
    assert.ok(stored.length < budgets.unread_mails.most);
    assert.equal(inbox.fullLine(stranger('bob')), null);
    written();
    await Promise.all(stored);
    assert.equal(inbox.fullLine(stranger('bob')), null);
  });

  it('keeps room for mail with a token, whatever comes without one', () => {
    const inbox = open();
    for (let n = 0; n <= budgets.unread_mails.most; n++) take(inbox, `e${String(n)}`, n < 500 ? 'eve' : String(n));
    assert.equal(inbox.fullLine(stranger('bob')), 'unread_mails');
    assert.equal(inbox.fullLine(stranger('eve', 'dlv_1')), null);
    for (let n = 0; n < budgets.unread_mails_network.most; n++) take(inbox, `t${String(n)}`, 'eve', 'dlv_1');
    assert.equal(inbox.fullLine(stranger('eve', 'dlv_1')), 'unread_mails_network');
    assert.equal(inbox.fullLine(stranger('bob', 'dlv_2')), null);
  });
});
