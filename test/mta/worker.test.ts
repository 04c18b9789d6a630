import assert from 'node:assert/strict';
import { Lanes } from '../../src/scheduling/lanes.ts';
import type { DeliveryState, DeliveryChange } from '../../src/messages/delivery/delivery.ts';
import { decide } from '../../src/messages/delivery/decide.ts';
import type { Occurrence, Recorded } from '../../src/messages/delivery/record.ts';
import type { Failure, Held, Prepared } from '../../src/mta/prepare/prepare.ts';
import type { NoPassage, Passage } from '../../src/mta/attempt/attempt.ts';
import type { Engine } from '../../src/mta/engine.ts';
import { Group, type Job } from '../../src/mta/due-queue.ts';
import { createWorker, type Attempted } from '../../src/mta/worker.ts';
import { StorageClosed } from '../../src/storage/commit.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { ACCOUNT, HOUR, NOW, deliveryState } from '../support/harness/mail-rows.ts';
import { accepted, deferred } from '../support/harness/outcomes.ts';

const EPOCH = 7;
const ready: Prepared = {
  kind: 'ready',
  messageId: 'msg_1',
  requestId: null,
  stream: 'default',
  envelopeFrom: 'b+x@rp.acme.test',
  recipient: 'ana@dest.test',
  data: [],
  size: 0,
  smtpUtf8: false,
  eightBit: false,
  test: false,
  testOutcome: null,
};
const inner: Passage = { kind: 'inner', startedAt: NOW, destination: { kind: 'discard' } };
const complaint: DeliveryChange = {
  kind: 'complained',
  feedbackType: 'abuse',
  source: 'arf',
  arrivalDate: null,
  userAgent: null,
};

/** A lane of one worker over a queue kept in memory, with every part of it in the test's hand. */
class Bench {
  readonly clock = new FakeClock(NOW);
  readonly states = new Map<string, DeliveryState>();
  /** The commits, one entry for each transaction: `id:kind`. */
  readonly units: string[][] = [];
  readonly attempts: string[] = [];
  /** The mails that the attempts were given to send. */
  readonly kinds: Prepared['kind'][] = [];
  /** The mails that failed before a connection was looked for. */
  readonly failed: Failure[] = [];
  readonly moved: string[] = [];
  readonly done: [id: string, dueAt: number | null][] = [];
  readonly failures: unknown[] = [];
  readonly laneFailures: unknown[] = [];
  /** The error of each write, in order; undefined lets it through. */
  storageErrors: (Error | undefined)[] = [];
  slots = 1;
  prepare: (id: string) => Promise<Prepared> = () => Promise.resolve(ready);
  /** The preparation of a mail before a connection is looked for. */
  failure: (id: string) => Failure | null = () => null;
  sign: (id: string, mail: Prepared) => Promise<Prepared> = (_, mail) => Promise.resolve(mail);
  /** A connection that takes no time, one that takes a while, or none. */
  passageNow: (id: string) => Passage | null = () => inner;
  passage: (id: string) => Promise<Passage | NoPassage> = () => Promise.resolve(inner);
  keptBack: (id: string) => Promise<Held | null> = () => Promise.resolve(null);
  mayGo: (id: string) => boolean = () => true;
  putAside: (id: string, found: NoPassage) => boolean = () => false;
  /** Passages that were not used. */
  left = 0;
  attempt: (id: string, number: number) => Promise<Attempted> = async () => {
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    return { kind: 'done', outcome: accepted(), followUps: [] };
  };
  readonly unwritten: Occurrence[] = [];
  readonly lanes: Lanes<Job>;

  constructor() {
    const engine = {
      clock: this.clock,
      recorder: { record: (occurrences: readonly Occurrence[]) => this.record(occurrences) },
      options: { epoch: EPOCH },
      leaseMs: HOUR,
      extraTime: () => ({ startedAt: 0, until: 0 }),
      placing: {
        begin: async (job: Job) => {
          const prepared = await this.prepare(job.id);
          const failure = this.failure(job.id);
          if (failure !== null) return { kind: 'failed', failure };
          const mail = this.sign(job.id, prepared);
          return { kind: 'preparing', wanted: { messageId: 'msg_1' }, mail, heldNow: () => Promise.resolve(null) };
        },
        keptBack: (job: Job) => this.keptBack(job.id),
        moveOn: () => undefined,
        placeAgain: (job: Job) => this.moved.push(job.id),
        mayGo: (_: string, job: Job) => this.mayGo(job.id),
        putAside: (_: string, job: Job, found: NoPassage) => this.putAside(job.id, found),
        done: (job: Job, dueAt: number | null) => this.done.push([job.id, dueAt]),
      },
      attempts: {
        findIdle: (job: Job) => this.passageNow(job.id),
        find: (job: Job) => this.passage(job.id),
        release: () => this.left++,
        attempt: (job: Job, mail: Prepared, number: number) => {
          this.kinds.push(mail.kind);
          this.attempts.push(`${job.id}#${number}`);
          return this.attempt(job.id, number);
        },
        fail: (job: Job, failure: Failure, number: number) => {
          this.failed.push(failure);
          this.attempts.push(`${job.id}#${number}`);
          return { kind: 'done', outcome: deferred(NOW + 60_000), followUps: [] };
        },
      },
      failed: (error: unknown) => this.failures.push(error),
      unwritten: (occurrences: readonly Occurrence[]) => this.unwritten.push(...occurrences),
    } as unknown as Engine;
    this.lanes = new Lanes<Job>({
      work: createWorker(engine),
      slots: () => this.slots,
      maxSlots: () => 10,
      hasReserve: true,
      failed: (_, error) => this.laneFailures.push(error),
    });
  }

  offer(...names: string[]): void {
    for (const id of names) {
      if (!this.states.has(id)) this.states.set(id, deliveryState());
      const group = Object.assign(new Group('dest.test', 0, ACCOUNT), { buffered: 1 });
      this.lanes.offer('dest.test', { id, class: 0, share: ACCOUNT, domain: 'dest.test', group });
    }
  }

  statusOf(id: string): string | undefined {
    return this.states.get(id)?.status;
  }

  private async record(occurrences: readonly Occurrence[]): Promise<Recorded[]> {
    await new Promise((resolve) => setImmediate(resolve));
    const error = this.storageErrors.shift();
    if (error !== undefined) throw error;
    this.units.push(occurrences.map(({ deliveryId, change }) => `${deliveryId}:${change.kind}`));
    return occurrences.map(({ deliveryId, change }) => {
      const state = this.states.get(deliveryId);
      if (state === undefined) return { applied: false, state: null };
      const decision = decide(state, change, this.clock.now());
      this.states.set(deliveryId, decision.state);
      return { applied: decision.applied, state: decision.state };
    });
  }
}

describe('mta/worker', () => {
  let bench: Bench;
  beforeEach(() => {
    bench = new Bench();
  });
  afterEach(() => bench.lanes.stop());

  it('claims before it tries, and writes the outcome with the next claim in one transaction', async () => {
    bench.offer('a', 'b', 'c');
    await settleEventLoop();
    assert.deepEqual(bench.units, [
      ['a:claimed'],
      ['a:outcome', 'b:claimed'],
      ['b:outcome', 'c:claimed'],
      ['c:outcome'],
    ]);
    assert.deepEqual(bench.attempts, ['a#1', 'b#1', 'c#1']);
    assert.deepEqual(bench.done, [
      ['a', null],
      ['b', null],
      ['c', null],
    ]);
    assert.deepEqual(bench.lanes.views(), []);
  });

  it('signs while the claim is written, and tries what is signed', async () => {
    const signing = new Map<string, () => void>();
    bench.sign = (id, mail) => new Promise((resolve) => signing.set(id, () => resolve(mail)));
    bench.offer('a', 'b');
    await settleEventLoop();
    assert.deepEqual(bench.units, [['a:claimed']]);
    assert.deepEqual(bench.attempts, []);
    signing.get('a')?.();
    await settleEventLoop();
    assert.deepEqual(bench.attempts, ['a#1']);
    assert.deepEqual(bench.units, [['a:claimed'], ['a:outcome', 'b:claimed']]);
    signing.get('b')?.();
    await settleEventLoop();
    assert.deepEqual(bench.units.at(-1), ['b:outcome']);
  });

  it('looks for no connection for a mail that cannot be sent, and writes its outcome with the next claim', async () => {
    const asked: string[] = [];
    const failure: Failure = { kind: 'unsigned', why: 'no key' };
    bench.failure = (id) => (id === 'b' ? null : failure);
    bench.passageNow = (id) => {
      asked.push(id);
      return inner;
    };
    bench.states.set('canceled', deliveryState({ status: 'canceled', dueAt: null }));
    bench.offer('a', 'canceled', 'b', 'c');
    await settleEventLoop();
    assert.deepEqual([asked, bench.failed, bench.kinds], [['b'], [failure, failure], ['ready']]);
    assert.deepEqual(bench.units, [
      ['a:claimed'],
      ['a:outcome', 'canceled:claimed'],
      ['b:claimed'],
      ['b:outcome', 'c:claimed'],
      ['c:outcome'],
    ]);
    assert.deepEqual([bench.statusOf('a'), bench.left], ['deferred', 0]);
  });

  it('makes the next mail ready while the claim is written', async () => {
    const turn = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));
    bench.prepare = async () => {
      await turn();
      await turn();
      return ready;
    };
    bench.attempt = async () => {
      await turn();
      return { kind: 'done', outcome: accepted(), followUps: [] };
    };
    bench.offer('a', 'b', 'c', 'd');
    await settleEventLoop();
    assert.deepEqual(bench.units, [
      ['a:claimed'],
      ['a:outcome', 'b:claimed'],
      ['b:outcome', 'c:claimed'],
      ['c:outcome', 'd:claimed'],
      ['d:outcome'],
    ]);
  });

  it('writes an outcome at once where the next mail is not ready', async () => {
    let release: (() => void) | undefined;
    bench.prepare = (id) =>
      id === 'a' ? Promise.resolve(ready) : new Promise((resolve) => (release = () => resolve(ready)));
    bench.offer('a', 'b');
    await settleEventLoop();
    assert.deepEqual(bench.units, [['a:claimed'], ['a:outcome']], 'b is still being composed');
    release?.();
    await settleEventLoop();
    assert.deepEqual(bench.units.slice(2), [['b:claimed'], ['b:outcome']]);
  });

  it('composes the next mail while one is on the wire, not before', async () => {
    const prepared: string[] = [];
    let connect: (() => void) | undefined;
    let answer: (() => void) | undefined;
    bench.prepare = async (id) => {
      prepared.push(id);
      return ready;
    };
    bench.passageNow = () => null;
    bench.passage = () => new Promise((resolve) => (connect = () => resolve(inner)));
    bench.attempt = () =>
      new Promise((resolve) => {
        answer = () => resolve({ kind: 'done', outcome: accepted(), followUps: [] });
      });
    bench.offer('a', 'b');
    await settleEventLoop();
    assert.deepEqual(prepared, ['a']);
    connect?.();
    await settleEventLoop();
    assert.deepEqual(prepared, ['a', 'b']);
    answer?.();
    await settleEventLoop();
    connect?.();
    await settleEventLoop();
    answer?.();
    await settleEventLoop();
    assert.equal(bench.statusOf('b'), 'delivered');
  });

  it('asks again what keeps a mail back whose connection took long, and gives the connection back', async () => {
    let connect: (() => void) | undefined;
    const asked: string[] = [];
    const hold = { by: 'hld_1', why: 'they asked', since: NOW, until: null };
    bench.keptBack = (id) => {
      asked.push(id);
      return id === 'c' ? Promise.reject(new Error('no disk')) : Promise.resolve({ kind: 'held', hold });
    };
    bench.passageNow = () => null;
    bench.passage = () => new Promise((resolve) => (connect = () => resolve(inner)));
    bench.offer('a', 'b', 'c');
    await settleEventLoop();
    connect?.();
    await settleEventLoop();
    assert.deepEqual([bench.statusOf('a'), asked], ['delivered', []], 'a moment ago it was free to go');
    bench.clock.advance(1000);
    connect?.();
    await settleEventLoop();
    assert.deepEqual([bench.states.get('b')?.heldBy, bench.left, bench.attempts], ['hld_1', 1, ['a#1']]);
    bench.clock.advance(1000);
    connect?.();
    await settleEventLoop();
    assert.deepEqual([asked, bench.statusOf('c')], [['b', 'c'], 'delivered']);
    assert.match(String(bench.failures[0]), /no disk/);
  });

  it('lets a free worker take over a mail that it composed for its next turn', async () => {
    const answers = new Map<string, () => void>();
    const composed: string[] = [];
    bench.slots = 2;
    bench.prepare = (id) => {
      composed.push(id);
      return Promise.resolve(ready);
    };
    bench.attempt = (id) =>
      new Promise((resolve) => {
        answers.set(id, () => resolve({ kind: 'done', outcome: accepted(), followUps: [] }));
      });
    bench.offer('a', 'b', 'c');
    await settleEventLoop();
    answers.get('b')?.();
    await settleEventLoop();
    assert.deepEqual(bench.attempts, ['a#1', 'b#1', 'c#1'], 'c did not wait for a');
    assert.deepEqual(composed, ['a', 'b', 'c'], 'and was not composed again');
    answers.get('a')?.();
    answers.get('c')?.();
    await settleEventLoop();
    assert.deepEqual(bench.attempts.length, 3);
    assert.equal(bench.statusOf('c'), 'delivered');
  });

  it('writes what follows an outcome with it', async () => {
    bench.attempt = () => Promise.resolve({ kind: 'done', outcome: accepted(), followUps: [complaint] });
    bench.offer('a');
    await settleEventLoop();
    assert.deepEqual(bench.units, [['a:claimed'], ['a:outcome', 'a:complained']]);
    assert.equal(bench.statusOf('a'), 'complained');
  });

  it('gives a claim back untried, and says when it falls due', async () => {
    bench.attempt = () => Promise.resolve({ kind: 'untried', dueAt: NOW + 2000 });
    bench.offer('a');
    await settleEventLoop();
    assert.deepEqual(bench.units, [['a:claimed'], ['a:released']]);
    assert.deepEqual(bench.done, [['a', NOW + 2000]]);
    assert.equal(bench.states.get('a')?.attemptCount, 0);
  });

  it('says when a deferred mail falls due', async () => {
    bench.attempt = () => Promise.resolve({ kind: 'done', outcome: deferred(NOW + 60_000), followUps: [] });
    bench.offer('a');
    await settleEventLoop();
    assert.deepEqual(bench.done, [['a', NOW + 60_000]]);
  });

  it('tries nothing that it did not get the claim for', async () => {
    bench.states.set('canceled', deliveryState({ status: 'canceled', dueAt: null }));
    bench.states.set(
      'elsewhere',
      deliveryState({ status: 'sent', claimEpoch: EPOCH, dueAt: NOW + HOUR, attemptCount: 1 }),
    );
    bench.states.set('old', deliveryState({ giveUpAt: NOW }));
    bench.offer('canceled', 'elsewhere', 'old', 'fine');
    await settleEventLoop();
    assert.deepEqual(bench.attempts, ['fine#1']);
    assert.deepEqual(bench.done, [
      ['canceled', null],
      ['elsewhere', NOW + HOUR],
      ['old', null],
      ['fine', null],
    ]);
    assert.equal(bench.statusOf('old'), 'bounced');
  });

  describe('storage that fails', () => {
    const broken = new Error('disk full');

    it('at a claim: nothing is tried, the mail is looked at again', async () => {
      bench.storageErrors = [broken];
      bench.offer('a');
      await settleEventLoop();
      assert.deepEqual([bench.attempts, bench.done, bench.failures], [[], [['a', NOW + 1000]], [broken]]);
      assert.equal(bench.statusOf('a'), 'queued');
    });

    it('at an outcome: what the world said is written as soon as it can be', async () => {
      bench.storageErrors = [undefined, broken, broken];
      bench.offer('a');
      await settleEventLoop();
      assert.equal(bench.statusOf('a'), 'sent');
      bench.clock.advance(1000);
      await settleEventLoop();
      assert.equal(bench.statusOf('a'), 'sent');
      bench.clock.advance(1000);
      await settleEventLoop();
      assert.equal(bench.statusOf('a'), 'delivered');
      assert.deepEqual(bench.attempts, ['a#1'], 'and the mail is sent once');
      assert.equal(bench.failures.length, 2);
    });

    it('at an outcome together with a claim: the outcome is written alone, the claim later', async () => {
      bench.storageErrors = [undefined, broken];
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.equal(bench.statusOf('a'), 'delivered');
      assert.equal(bench.statusOf('b'), 'queued');
      assert.deepEqual(bench.done, [
        ['a', null],
        ['b', NOW + 1000],
      ]);
      assert.deepEqual(bench.attempts, ['a#1']);
    });

    it('because it is closed: the worker ends, and the claim is for the next start to take back', async () => {
      bench.storageErrors = [undefined, new StorageClosed('closed')];
      bench.offer('a');
      await settleEventLoop();
      assert.deepEqual([bench.statusOf('a'), bench.lanes.views(), bench.clock.nextAt()], ['sent', [], null]);
      assert.deepEqual(
        bench.unwritten.map(({ deliveryId, change }) => [deliveryId, change.kind]),
        [['a', 'outcome']],
      );
    });

    it('while a mail is loaded: it waits, and nobody is dialled', async () => {
      bench.prepare = () => Promise.reject(broken);
      bench.passageNow = () => assert.fail('a connection is looked for');
      bench.offer('a');
      await settleEventLoop();
      const failure = { kind: 'unready', why: 'it could not be loaded' };
      assert.deepEqual([bench.failed, bench.failures, bench.laneFailures], [[failure], [broken], []]);
      assert.equal(bench.statusOf('a'), 'deferred');
    });

    it('while a mail is made whose connection is there: it waits', async () => {
      bench.sign = () => Promise.reject(broken);
      bench.offer('a');
      await settleEventLoop();
      assert.deepEqual([bench.kinds, bench.failures], [['unready'], [broken]]);
    });
  });

  it('an attempt that throws keeps its claim until the lease ends, and the lane goes on', async () => {
    const bug = new Error('a bug');
    const good = bench.attempt;
    bench.attempt = (id, number) => (id === 'bad' ? Promise.reject(bug) : good(id, number));
    bench.offer('bad', 'fine');
    await settleEventLoop();
    assert.deepEqual(bench.laneFailures, [bug]);
    assert.deepEqual(bench.done, [
      ['bad', NOW + HOUR],
      ['fine', null],
    ]);
    assert.deepEqual([bench.statusOf('bad'), bench.states.get('bad')?.claimEpoch], ['sent', EPOCH]);
    bench.clock.advance(HOUR);
    bench.attempt = good;
    bench.offer('bad');
    await settleEventLoop();
    assert.deepEqual([bench.statusOf('bad'), bench.attempts.at(-1)], ['delivered', 'bad#2']);
  });

  it('ends with the attempt in hand when the lanes stop, and loses nothing', async () => {
    const answers: (() => void)[] = [];
    bench.attempt = () =>
      new Promise((resolve) => {
        answers.push(() => resolve({ kind: 'done', outcome: accepted(), followUps: [] }));
      });
    bench.offer('a', 'b', 'c');
    await settleEventLoop();
    const stopped = bench.lanes.stop();
    answers[0]?.();
    await stopped;
    assert.deepEqual(bench.units, [['a:claimed'], ['a:outcome']]);
    assert.deepEqual(
      ['b', 'c'].map((id) => bench.statusOf(id)),
      ['queued', 'queued'],
    );
  });

  describe('without a connection', () => {
    const wait: NoPassage = { kind: 'wait', hosts: [], waits: [{ why: 'full', until: null }] };

    it('nothing is claimed or written: the mail goes back, and the worker ends until the lane is woken', async () => {
      bench.passageNow = () => null;
      bench.slots = 1;
      let asked = 0;
      bench.passage = async () => {
        asked++;
        bench.slots = 0;
        return wait;
      };
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual([asked, bench.units, bench.attempts, bench.done], [1, [], [], []]);
      assert.deepEqual(bench.lanes.view('dest.test'), { name: 'dest.test', waiting: 2, slots: 0 });
      bench.passage = () => Promise.resolve(inner);
      bench.slots = 1;
      bench.lanes.pump('dest.test');
      await settleEventLoop();
      assert.deepEqual(bench.attempts, ['a#1', 'b#1'], 'in their order');
    });

    it('a mail that is put aside leaves the worker to the others', async () => {
      const aside: string[] = [];
      bench.passageNow = (id) => (id === 'a' ? null : inner);
      bench.passage = () => Promise.resolve(wait);
      bench.putAside = (id) => aside.push(id) > 0;
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual([aside, bench.attempts, bench.units[0]], [['a'], ['b#1'], ['b:claimed']]);
    });

    it('a mail whose route has changed is placed again', async () => {
      bench.passageNow = (id) => (id === 'a' ? null : inner);
      bench.passage = () => Promise.resolve({ kind: 'moved' });
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual([bench.moved, bench.attempts], [['a'], ['b#1']]);
    });

    it('what may not go is taken from the lane and not composed', async () => {
      const composed: string[] = [];
      bench.prepare = (id) => {
        composed.push(id);
        return Promise.resolve(ready);
      };
      bench.mayGo = (id) => id !== 'a';
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual([composed, bench.attempts], [['b'], ['b#1']]);
    });

    it('an outcome is written before a dial is waited for', async () => {
      bench.passageNow = (id) => (id === 'a' ? inner : null);
      let connect: (() => void) | undefined;
      bench.passage = () => new Promise((resolve) => (connect = () => resolve(inner)));
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual(bench.units, [['a:claimed'], ['a:outcome']]);
      connect?.();
      await settleEventLoop();
      assert.deepEqual(bench.units.slice(2), [['b:claimed'], ['b:outcome']]);
    });

    it('a bug in finding one costs no mail: it waits as where this machine has nothing to dial with', async () => {
      const bug = new Error('a bug');
      const found: NoPassage['kind'][] = [];
      bench.passageNow = (id) => (id === 'a' ? null : inner);
      bench.passage = () => Promise.reject(bug);
      bench.putAside = (_, none) => found.push(none.kind) > 0;
      bench.offer('a', 'b');
      await settleEventLoop();
      assert.deepEqual([found, bench.failures, bench.attempts], [['exhausted'], [bug], ['b#1']]);
    });
  });

  it('gives the connection back where the claim is not had', async () => {
    bench.states.set('canceled', deliveryState({ status: 'canceled', dueAt: null }));
    bench.offer('canceled', 'fine');
    await settleEventLoop();
    assert.deepEqual([bench.left, bench.attempts], [1, ['fine#1']]);
  });
});
