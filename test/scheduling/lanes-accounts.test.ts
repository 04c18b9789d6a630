/** Accounts that want all slots: lanes that hang, mail of several accounts in one lane, both classes at once. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Lane, type LaneJob, Lanes } from '../../src/scheduling/lanes.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';

const job = (id: string, share: string, order = 0): LaneJob => ({ id, class: order, share });

/** A hundred slots for lanes of one worker, whose jobs hang until the test ends them. */
class Hanging {
  readonly inHand = new Map<string, () => void>();
  readonly done: string[] = [];
  readonly limits = new Map<string, number>();
  most = 100;
  readonly lanes = new Lanes<LaneJob>({
    work: (lane) => this.work(lane),
    slots: (name) => this.limits.get(name) ?? 1,
    maxSlots: () => this.most,
    hasReserve: true,
    failed: (_, error) => {
      throw error;
    },
  });

  /** Offers one job to each of so many lanes. */
  flood(count: number, share: string, { order = 0, prefix = share } = {}): void {
    for (let n = 0; n < count; n++)
      this.lanes.offer(`${prefix}${String(n)}`, job(`${prefix}${String(n)}`, share, order));
  }

  /** Ends the first job in hand whose id begins like this. */
  async end(prefix: string): Promise<void> {
    await settleEventLoop();
    const [, end] = [...this.inHand].find(([id]) => id.startsWith(prefix)) ?? [];
    assert.ok(end, `a job ${prefix} in hand`);
    end();
    await settleEventLoop();
  }

  countInHand(prefix: string): number {
    return [...this.inHand.keys()].filter((id) => id.startsWith(prefix)).length;
  }

  private async work(lane: Lane<LaneJob>): Promise<void> {
    for (let next = lane.take(); next !== null; next = lane.take()) {
      const { id } = next;
      await new Promise<void>((resolve) => this.inHand.set(id, resolve));
      this.inHand.delete(id);
      this.done.push(id);
    }
  }
}

describe('scheduling/lanes: turns by class and account', () => {
  let bench: Hanging;
  beforeEach(() => {
    bench = new Hanging();
  });

  it('let a lane use the slots that the share of the lanes that hang may not have', async () => {
    bench.flood(100, 'hangs', { order: 1 });
    bench.limits.set('busy', 20);
    for (let n = 0; n < 50; n++) bench.lanes.offer('busy', job(`b${String(n)}`, 'b'));
    await settleEventLoop();
    assert.deepEqual([bench.countInHand('hangs'), bench.lanes.view('busy').slots], [90, 8]);
    for (let n = 0; n < 40; n++) await bench.end('b');
    assert.equal(bench.lanes.view('busy').slots, 8, 'and none of its workers ends for lanes that may not have more');
  });

  it('let the workers of others end where that gives a lane its first', async () => {
    bench.limits.set('busy', 100);
    for (let n = 0; n < 300; n++) bench.lanes.offer('busy', job(`b${String(n)}`, 'b'));
    bench.flood(200, 'hangs', { order: 1 });
    for (let n = 0; n < 150; n++) await bench.end('b');
    assert.deepEqual([bench.countInHand('hangs'), bench.lanes.view('busy').slots], [90, 8]);
  });

  it('let a third share and a fourth begin at once where two have all that they may have', async () => {
    bench.flood(200, 'first');
    bench.flood(200, 'second');
    bench.flood(20, 'third');
    bench.flood(20, 'fourth', { order: 1 });
    await settleEventLoop();
    assert.deepEqual(
      ['first', 'second', 'third', 'fourth'].map((share) => bench.countInHand(share)),
      [95, 3, 1, 1],
    );
    for (let n = 0; n < 20; n++) await bench.end('third');
    assert.equal(bench.done.length, 20, 'it goes on with its one slot');
  });

  it('are not those of lanes that take no slot, which neither wait for one nor keep another from one', async () => {
    const lanes = new Lanes<LaneJob>({
      work: (lane) => new Promise(() => void lane.take()),
      slots: (name) => (name === 'inner' ? 5 : 1),
      maxSlots: () => 10,
      takesSlot: (name) => name !== 'inner',
      hasReserve: false,
      failed: () => undefined,
    });
    for (let n = 0; n < 4; n++) lanes.offer('inner', job(`i${String(n)}`, 'a'));
    for (let n = 0; n < 20; n++) lanes.offer(`hangs${String(n)}`, job(`h${String(n)}`, 'a'));
    for (let n = 4; n < 20; n++) lanes.offer('inner', job(`i${String(n)}`, 'a', n % 2));
    assert.deepEqual(
      [lanes.view('inner').slots, lanes.workers(), lanes.starving(), lanes.waitsForSlot('inner')],
      [5, 10, 10, false],
    );
  });

  it('bring the mail of a share to a lane in which a job of another waits', async () => {
    bench.flood(5000, 'hangs');
    bench.lanes.offer('hangs4999', job('single', 'b'));
    await settleEventLoop();
    assert.ok(bench.inHand.has('single'));
    await bench.end('single');
    assert.equal(bench.countInHand('hangs4999'), 0, 'the other job waits for the turn of its share');
    assert.equal(bench.lanes.view('hangs4999').waiting, 1);
  });

  it('do not send a lane to the end of a line by a job of another share', async () => {
    bench.flood(5000, 'evil');
    bench.flood(10, 'victim', { order: 1 });
    bench.lanes.offer('victim7', job('shove', 'evil'));
    for (let n = 0; n < 10; n++) await bench.end('victim');
    assert.ok(bench.done.includes('victim7'));
  });

  it('count a worker for the share of the job that it has in hand', async () => {
    for (let n = 0; n < 95; n++) {
      bench.lanes.offer(`l${String(n)}`, job(`victim${String(n)}`, 'victim'));
      bench.lanes.offer(`l${String(n)}`, job(`evil-${String(n)}`, 'evil', 1));
    }
    for (let n = 0; n < 95; n++) await bench.end('victim');
    bench.flood(10, 'evil', { order: 1, prefix: 'evil+' });
    bench.lanes.offer('fresh', job('reset', 'victim'));
    await settleEventLoop();
    assert.deepEqual([bench.countInHand('evil'), bench.inHand.has('reset')], [90, true]);
  });

  it('let a share have another slot when one of its workers goes on with the job of another share', async () => {
    bench.lanes.offer('mixed', job('evil-mixed', 'evil', 1));
    bench.lanes.offer('mixed', job('victim', 'victim'));
    bench.flood(100, 'evil', { order: 1 });
    await settleEventLoop();
    assert.equal(bench.countInHand('evil'), 90);
    await bench.end('evil-mixed');
    assert.deepEqual([bench.countInHand('evil'), bench.countInHand('victim')], [90, 1]);
  });

  it('are those of the shares: a lane begins with the job of the one whose turn it was', async () => {
    bench.most = 10;
    bench.flood(10, 'hangs');
    bench.lanes.offer('first', job('c', 'c'));
    bench.lanes.offer('mixed', job('c-mixed', 'c'));
    bench.lanes.offer('mixed', job('b', 'b', 1));
    for (let n = 0; n < 2; n++) await bench.end('hangs');
    assert.deepEqual(
      ['c', 'b', 'c-mixed'].map((id) => bench.inHand.has(id)),
      [true, true, false],
    );
  });

  it('give each lane its first worker before another gets its second, however many slots are free at once', async () => {
    bench.most = 2;
    bench.flood(2, 'hangs');
    bench.limits.set('wide', 20);
    for (let n = 0; n < 20; n++) bench.lanes.offer('wide', job(`wide${String(n)}`, 'b'));
    bench.flood(3, 'narrow', { order: 1 });
    bench.most = 6;
    await bench.end('hangs');
    assert.deepEqual([bench.countInHand('wide'), bench.countInHand('narrow')], [2, 3]);
  });

  it('let a lane go on with class 1 where a job of class 0 waits that may have no slot', async () => {
    let [worker, aheadCount]: [Lane<LaneJob> | null, number] = [null, 0];
    const lanes = new Lanes<LaneJob>({
      work: async (lane) => {
        if (lane.name !== 'popular') return new Promise(() => void lane.take());
        worker = lane;
        for (let next = lane.take(); next !== null; next = lane.take()) {
          const ahead = lane.ahead(() => false);
          if (ahead?.id.startsWith('b') === true) aheadCount++;
          await new Promise((resolve) => setImmediate(resolve));
        }
      },
      slots: () => 1,
      maxSlots: () => 100,
      hasReserve: true,
      failed: (_, error) => {
        throw error;
      },
    });
    for (let n = 0; n < 96; n++) lanes.offer(`hangs${String(n)}`, job(`e${String(n)}`, 'evil'));
    for (let n = 0; n < 100; n++) lanes.offer('popular', job(`b${String(n)}`, 'b', 1));
    lanes.offer('popular', job('shove', 'evil'));
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(worker);
    assert.deepEqual([aheadCount, lanes.view('popular')], [98, { name: 'popular', waiting: 1, slots: 0 }]);
  });

  it('tell when one more lane has no slot, also after a pump, and why a lane has no further worker', () => {
    const limits: Record<string, number> = { hangs: 1, paced: 0, popular: 3 };
    let told = 0;
    let most = 2;
    const lanes = new Lanes<LaneJob>({
      work: (lane) => new Promise(() => void lane.take()),
      slots: (name) => limits[name] ?? 1,
      maxSlots: () => most,
      hasReserve: false,
      failed: () => undefined,
      starves: () => told++,
    });
    lanes.offer('paced', job('p', 'a'));
    lanes.offer('hangs', job('h', 'a'));
    for (const id of ['1', '2', '3']) lanes.offer('popular', job(id, 'a'));
    assert.deepEqual([told, lanes.view('popular').slots], [0, 1]);
    assert.deepEqual(
      ['hangs', 'paced', 'popular', 'unknown'].map((name) => lanes.waitsForSlot(name)),
      [false, false, true, false],
    );
    limits['paced'] = 1;
    lanes.pump('paced');
    assert.deepEqual([told, lanes.waitsForSlot('paced')], [1, true]);
    limits['popular'] = 1;
    assert.equal(lanes.waitsForSlot('popular'), false, 'its own limit keeps it');
    most = 5;
    assert.equal(lanes.waitsForSlot('paced'), false, 'it gets one at the next look');
  });

  it('ask a few of the accounts of a lane and of the line, however many there are', () => {
    let asked = 0;
    const lanes = new Lanes<LaneJob>({
      work: (lane) => new Promise(() => void lane.take()),
      slots: () => 1,
      maxSlots: () => {
        asked++;
        return 1000;
      },
      hasReserve: true,
      failed: () => undefined,
    });
    for (let n = 0; n < 3000; n++) lanes.offer(`hangs${String(n)}`, job(`h${String(n)}`, `a${String(n)}`, 1));
    assert.deepEqual([lanes.workers(), lanes.starving()], [950, 2050]);
    assert.deepEqual([lanes.waitsForSlot('hangs0'), lanes.waitsForSlot('hangs2999')], [false, true]);
    for (let n = 0; n < 3000; n++) lanes.offer('popular', job(`p${String(n)}`, `a${String(n)}`, 1));
    assert.deepEqual([lanes.workers(), lanes.starving()], [950, 2051]);
    asked = 0;
    lanes.offer('popular', job('reset', 'b'));
    assert.equal(lanes.workers(), 951);
    assert.ok(asked < 400, `${String(asked)} questions`);
  });

  it('let a lane with a worker that hangs have another when slots become free elsewhere', async () => {
    for (const name of ['large', 'small']) bench.limits.set(name, 100);
    for (let n = 0; n < 89; n++) bench.lanes.offer('large', job(`large${String(n)}`, 'a', 1));
    for (let n = 0; n < 30; n++) bench.lanes.offer('small', job(`small${String(n)}`, 'a', 1));
    await settleEventLoop();
    assert.deepEqual([bench.countInHand('large'), bench.countInHand('small')], [89, 1]);
    for (let n = 0; n < 30; n++) await bench.end('large');
    assert.deepEqual([bench.countInHand('large'), bench.countInHand('small')], [59, 30]);
  });

  it('do not let an account have all slots by means of both classes', async () => {
    bench.flood(200, 'evil', { order: 1, prefix: 'bulk' });
    bench.flood(200, 'evil', { prefix: 'fast' });
    await settleEventLoop();
    assert.deepEqual([bench.countInHand('bulk'), bench.countInHand('fast')], [90, 5]);
    bench.lanes.offer('other', job('other', 'b'));
    await settleEventLoop();
    assert.ok(bench.inHand.has('other'));
  });

  it('do not let broadcasts of several accounts have all slots', async () => {
    for (const share of ['x', 'y', 'z']) bench.flood(200, share, { order: 1 });
    bench.lanes.offer('other', job('reset', 'b'));
    await settleEventLoop();
    assert.ok(bench.inHand.has('reset'));
  });

  it('are kept where jobs are removed', async () => {
    bench.flood(200, 'hangs');
    bench.lanes.offer('mixed', job('gone', 'hangs'));
    bench.lanes.offer('mixed', job('stays', 'hangs', 1));
    const starving = bench.lanes.starving();
    assert.equal(bench.lanes.removeWaiting(({ id }) => id === 'gone').length, 1);
    assert.equal(bench.lanes.starving(), starving);
    assert.equal(bench.lanes.removeWaiting(({ id }) => id === 'stays').length, 1);
    assert.equal(bench.lanes.starving(), starving - 1);
    for (let n = 0; n < 200; n++) await bench.end('hangs');
    assert.deepEqual([bench.lanes.workers(), bench.lanes.views()], [0, []]);
  });

  it('give each account its slots, whatever is offered, removed, ended and paused', async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ do: fc.constant('offer' as const), lane: fc.nat(11), of: fc.nat(9) }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('limit' as const), lane: fc.nat(11), slots: fc.nat(4) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('withdraw' as const), lane: fc.nat(11), most: fc.nat(5) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), of: fc.nat(9) }) },
      { weight: 8, arbitrary: fc.record({ do: fc.constant('end' as const), at: fc.nat(40), how: fc.nat(7) }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 2, 5, 10, 20, 40),
        fc.array(step, { maxLength: 120, size: 'max' }),
        async (most, steps) => {
          const world = new Mixed(most);
          for (const one of steps) {
            if (one.do === 'offer') world.offer(one.lane, one.of);
            else if (one.do === 'limit') world.limit(one.lane, one.slots);
            else if (one.do === 'withdraw') world.remove(world.lanes.withdraw(String(one.lane), one.most, () => true));
            else if (one.do === 'remove')
              world.remove(
                world.lanes.removeWaiting(({ share, class: order }) => `${String(order)}${share}` === nameOf(one.of)),
              );
            else await world.end(one.at, one.how);
            world.check();
          }
          await world.finish();
        },
      ),
      { numRuns: 150 },
    );
  });
});

const nameOf = (of: number): string => `${String(of % 2)}s${String(Math.floor(of / 2))}`;

/** Twelve lanes of five accounts with both classes; work that gives back and fails. */
class Mixed {
  readonly lanes: Lanes<LaneJob>;
  private readonly most: number;
  private readonly limits = new Array<number>(12).fill(1);
  private readonly hands: { job: LaneJob; end: (how: number) => void }[] = [];
  private readonly ended: string[] = [];
  private readonly removed: string[] = [];
  private offered = 0;

  constructor(most: number) {
    this.most = most;
    this.lanes = new Lanes<LaneJob>({
      work: (lane) => this.work(lane),
      slots: (name) => this.limits[Number(name)] ?? 0,
      maxSlots: () => most,
      hasReserve: true,
      failed: () => undefined,
    });
  }

  offer(lane: number, of: number): void {
    const [order, share] = [of % 2, `s${String(Math.floor(of / 2))}`];
    this.lanes.offer(String(lane), job(String(this.offered++), share, order));
  }

  limit(lane: number, slots: number): void {
    this.limits[lane] = slots;
    this.lanes.pump(String(lane));
  }

  remove(jobs: readonly LaneJob[]): void {
    this.removed.push(...jobs.map(({ id }) => id));
  }

  async end(at: number, how: number): Promise<void> {
    const [hand] = this.hands.splice(at % Math.max(1, this.hands.length), 1);
    hand?.end(how);
    await settleEventLoop();
  }

  check(): void {
    const count = (wanted: (one: LaneJob) => boolean): number =>
      this.hands.filter(({ job: one }) => wanted(one)).length;
    assert.ok(this.lanes.workers() <= this.most);
    const [twentieth, tenth] = [Math.floor(this.most / 20), Math.floor(this.most / 10)];
    for (const share of ['s0', 's1', 's2', 's3', 's4']) {
      assert.ok(count((one) => one.share === share) <= this.most - twentieth);
      assert.ok(count((one) => one.share === share && one.class === 1) <= this.most - tenth);
    }
    assert.ok(count((one) => one.class === 1) <= this.most - twentieth);
    const views = this.lanes.views();
    const idle = views.filter(
      ({ name, slots, waiting }) => slots === 0 && waiting > 0 && this.limits[Number(name)] !== 0,
    );
    assert.equal(this.lanes.starving(), idle.length, 'a lane that may have a worker has one or starves');
    assert.equal(
      views.reduce((sum, { slots }) => sum + slots, 0),
      this.lanes.workers(),
    );
  }

  /** Ends all jobs; each was done or removed once. */
  async finish(): Promise<void> {
    this.limits.fill(2);
    for (const [lane] of this.limits.entries()) this.lanes.pump(String(lane));
    while (this.hands.length > 0) {
      await this.end(0, DONE);
      this.check();
    }
    assert.deepEqual([this.lanes.workers(), this.lanes.starving(), this.lanes.views()], [0, 0, []]);
    assert.deepEqual(
      [...this.ended, ...this.removed].map(Number).sort((a, b) => a - b),
      Array.from({ length: this.offered }, (_, id) => id),
    );
  }

  private async work(lane: Lane<LaneJob>): Promise<void> {
    let next = lane.take();
    while (next !== null) {
      const one = next;
      const how = await new Promise<number>((end) => this.hands.push({ job: one, end }));
      if (how <= 1) {
        lane.giveBack(one);
        if (how === 0) throw new Error('a bug');
        return;
      }
      this.ended.push(one.id);
      next = lane.take();
    }
  }
}

/** How a job ends: done. */
const DONE = 7;
