import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Lane, type LaneJob, Lanes } from '../../src/scheduling/lanes.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';

interface Job extends LaneJob {
  readonly to: string;
}

const job = (id: string, share = 'a', order = 0): Job => ({ id, class: order, share, to: id });
const many = (count: number, prefix: string, share = 'a', order = 0): Job[] =>
  Array.from({ length: count }, (_, at) => job(`${prefix}${at}`, share, order));

/** Lanes whose jobs end when the test says so. */
class Bench {
  readonly done: string[] = [];
  /** Jobs in a worker's hand, with what ends them. */
  readonly inHand = new Map<string, () => void>();
  readonly empties: string[] = [];
  readonly failures: unknown[] = [];
  limits = new Map<string, number>();
  most = 1000;
  readonly lanes: Lanes<Job>;

  constructor() {
    this.lanes = new Lanes<Job>({
      work: (lane) => this.work(lane),
      slots: (name) => this.limits.get(name) ?? 1,
      maxSlots: () => this.most,
      hasReserve: true,
      failed: (_, error) => this.failures.push(error),
      empty: (name) => this.empties.push(name),
    });
  }

  offer(name: string, jobs: readonly Job[]): void {
    for (const one of jobs) this.lanes.offer(name, one);
  }

  /** Ends the jobs in hand, one after the other, until none is left or so many are done. */
  async finish(most = Infinity): Promise<string[]> {
    const from = this.done.length;
    for (let count = 0; count < most; count++) {
      await settleEventLoop();
      const [next] = this.inHand;
      if (next === undefined) break;
      next[1]();
    }
    await settleEventLoop();
    return this.done.slice(from);
  }

  slotsOf(name: string): number {
    return this.lanes.views().find((view) => view.name === name)?.slots ?? 0;
  }

  private async work(lane: Lane<Job>): Promise<void> {
    for (let next = lane.take(); next !== null; next = lane.take()) {
      const { id } = next;
      await new Promise<void>((resolve) => this.inHand.set(id, resolve));
      this.inHand.delete(id);
      this.done.push(id);
    }
  }
}

describe('scheduling/lanes', () => {
  let bench: Bench;
  beforeEach(() => {
    bench = new Bench();
  });

  describe('inside a lane', () => {
    it('works in the order of offers', async () => {
      bench.offer('x', many(5, 'j'));
      assert.deepEqual(await bench.finish(), ['j0', 'j1', 'j2', 'j3', 'j4']);
      assert.deepEqual(bench.empties, ['x']);
      assert.deepEqual(bench.lanes.views(), []);
    });

    it('has as many workers as it may, and no more than jobs', async () => {
      bench.limits.set('x', 3);
      bench.offer('x', many(2, 'j'));
      assert.equal(bench.slotsOf('x'), 2);
      bench.offer('x', many(5, 'k'));
      assert.equal(bench.slotsOf('x'), 3);
      assert.equal((await bench.finish()).length, 7);
    });

    it('gives shares their turns: one job of a small one waits for one of the large one, not for all', async () => {
      bench.offer('x', [...many(50, 'big-', 'big'), job('small', 'small')]);
      const order = await bench.finish();
      assert.ok(order.indexOf('small') <= 2, `place ${order.indexOf('small')}`);
    });

    it('gives each of many shares the same', async () => {
      for (const share of ['a', 'b', 'c', 'd']) bench.offer('x', many(30, `${share}-`, share));
      const first = await bench.finish(80);
      for (const share of ['a', 'b', 'c', 'd']) {
        const count = first.filter((id) => id.startsWith(share)).length;
        assert.ok(Math.abs(count - 20) <= 1, `${share}: ${count} of 80`);
      }
    });

    it('puts class 0 before class 1, which keeps every fifth turn', async () => {
      bench.offer('x', [...many(100, 'bulk-', 'a', 1), ...many(100, 'fast-', 'a', 0)]);
      const first = (await bench.finish(51)).slice(1);
      assert.equal(first.filter((id) => id.startsWith('bulk')).length, 10);
    });

    it('leaves no turn unused where one class has nothing', async () => {
      bench.offer('x', many(10, 'bulk-', 'a', 1));
      assert.equal((await bench.finish()).length, 10);
    });
  });

  describe('limits', () => {
    it('hold whatever is offered', async () => {
      bench.limits.set('x', 2);
      bench.offer('x', many(20, 'j'));
      for (let round = 0; round < 5; round++) {
        await settleEventLoop();
        assert.equal(bench.inHand.size, 2);
        await bench.finish(1);
      }
      await bench.finish();
    });

    it('that fell send workers home after the job in their hand', async () => {
      bench.limits.set('x', 4);
      bench.offer('x', many(20, 'j'));
      assert.equal(bench.slotsOf('x'), 4);
      bench.limits.set('x', 1);
      await bench.finish(4);
      assert.equal(bench.slotsOf('x'), 1);
      assert.equal((await bench.finish()).length, 16);
    });

    it('that grew are used at the next look', async () => {
      bench.offer('x', many(20, 'j'));
      bench.limits.set('x', 5);
      bench.lanes.pump('x');
      assert.equal(bench.slotsOf('x'), 5);
      await bench.finish();
    });

    it('of 0 park the lane until it is looked at again', async () => {
      bench.limits.set('x', 0);
      bench.offer('x', many(3, 'j'));
      await settleEventLoop();
      assert.deepEqual([bench.inHand.size, bench.slotsOf('x')], [0, 0]);
      bench.limits.set('x', 1);
      bench.lanes.pump('x');
      assert.equal((await bench.finish()).length, 3);
    });

    it('park a lane that is at work as well', async () => {
      bench.offer('x', many(3, 'j'));
      await settleEventLoop();
      bench.limits.set('x', 0);
      assert.deepEqual(await bench.finish(), ['j0']);
      assert.deepEqual(bench.lanes.views(), [{ name: 'x', waiting: 2, slots: 0 }]);
      bench.limits.set('x', 1);
      bench.lanes.pump('x');
      bench.lanes.pump('no such lane');
      assert.deepEqual(await bench.finish(), ['j1', 'j2']);
    });
  });

  describe('between lanes', () => {
    it('a lane that hangs holds up no other', async () => {
      bench.offer('hangs', [job('stuck')]);
      await settleEventLoop();
      bench.offer('x', many(10, 'j'));
      for (let count = 0; count < 10; count++) {
        await settleEventLoop();
        bench.inHand.get(`j${count}`)?.();
      }
      await settleEventLoop();
      assert.equal(bench.done.length, 10);
      await bench.finish();
    });

    it('one without any worker is served before one with several', async () => {
      bench.most = 4;
      bench.limits.set('big', 10);
      bench.offer('big', many(100, 'b'));
      assert.equal(bench.slotsOf('big'), 4);
      bench.offer('small', [job('s')]);
      assert.equal(bench.slotsOf('small'), 0);
      await bench.finish(1);
      assert.equal(bench.slotsOf('small'), 1, 'the first worker that ends makes room');
      await bench.finish();
      assert.equal(bench.done.length, 101);
    });

    it('one without any worker waits only for a turn of others that have but one', async () => {
      bench.most = 2;
      for (const name of ['x', 'y']) bench.offer(name, many(1000, name));
      bench.offer('late', [job('late')]);
      const order = await bench.finish(60);
      assert.ok(order.includes('late'), 'served while others still have plenty');
    });

    it('of a class and share of which thousands starve, one of another begins first', async () => {
      const bench = new Bench();
      bench.most = 10;
      for (let n = 0; n < 5_000; n++) bench.offer(`hangs${n}`, [job(`a${n}`)]);
      bench.offer('other', [job('b', 'b')]);
      bench.offer('single', [job('s', 'a', 1)]);
      const begun: string[] = [];
      for (let count = 0; count < 4; count++) {
        await bench.finish(1);
        begun.push([...bench.inHand.keys()].at(-1) ?? '');
      }
      assert.deepEqual(begun, ['b', 's', 'a10', 'a11']);
    });

    it('a class and share does not have the last slots', async () => {
      const bench = new Bench();
      bench.most = 100;
      for (let n = 0; n < 200; n++) bench.offer(`hangs${n}`, [job(`a${n}`)]);
      await settleEventLoop();
      assert.deepEqual([bench.inHand.size, bench.lanes.starving()], [95, 105]);
      bench.offer('other', [job('b', 'b')]);
      await settleEventLoop();
      assert.ok(bench.inHand.has('b'));
    });

    it('many lanes on few slots share them', async () => {
      bench.most = 3;
      const names = Array.from({ length: 12 }, (_, at) => `lane${at}.`);
      for (const name of names) bench.offer(name, many(100, name));
      const first = await bench.finish(600);
      for (const name of names) {
        const count = first.filter((id) => id.startsWith(name)).length;
        assert.ok(count >= 20, `${name} had ${count} of 600`);
      }
      await bench.finish();
      assert.equal(bench.done.length, 1200);
    });

    it('never has more workers than allowed', async () => {
      bench.most = 5;
      for (const name of ['x', 'y', 'z']) {
        bench.limits.set(name, 4);
        bench.offer(name, many(20, name));
      }
      for (let round = 0; round < 60; round++) {
        await settleEventLoop();
        assert.ok(bench.inHand.size <= 5);
        await bench.finish(1);
      }
      assert.equal(bench.done.length, 60);
    });
  });

  describe('a worker', () => {
    /** Lanes whose workers are held by hand. */
    function byHand(limit: number) {
      const workers: { lane: Lane<Job>; end: () => void; fail: (error: Error) => void }[] = [];
      const failures: unknown[] = [];
      const lanes = new Lanes<Job>({
        work: (lane) => new Promise((end, fail) => workers.push({ lane, end, fail })),
        slots: () => limit,
        maxSlots: () => 100,
        hasReserve: true,
        failed: (_, error) => failures.push(error),
      });
      return { lanes, workers, failures };
    }

    it('makes the job ready that goes next, which any worker may take', async () => {
      const { lanes, workers } = byHand(2);
      for (const id of ['1', '2', '3', '4', '5']) lanes.offer('x', job(id));
      const [first, second] = workers;
      first!.lane.take();
      second!.lane.take();
      const begun: string[] = [];
      const begin = (lane: Lane<Job>): void => {
        const next = lane.ahead(({ id }) => begun.includes(id));
        if (next !== null) begun.push(next.id);
      };
      for (const { lane } of workers) begin(lane);
      assert.deepEqual(begun, ['3', '4']);
      begin(first!.lane);
      assert.deepEqual(begun, ['3', '4'], 'one for each worker');
      assert.equal(lanes.view('x').waiting, 3);
      assert.deepEqual([second!.lane.take()?.id, first!.lane.take()?.id, first!.lane.take()?.id], ['3', '4', '5']);
      for (const { end } of workers) end();
      await settleEventLoop();
      assert.deepEqual(lanes.views(), []);
    });

    it('makes ready in the order of the turns: shares, and class 0 before class 1 except in the fifth', async () => {
      const { lanes, workers } = byHand(1);
      for (const one of [job('1', 'a', 1), job('2', 'a', 1), job('3', 'b', 1), job('4', 'b', 1)]) lanes.offer('x', one);
      const { lane, end } = workers[0]!;
      const ahead = (): string | undefined => lane.ahead(() => false)?.id;
      assert.deepEqual([lane.take()?.id, ahead(), lane.take()?.id, ahead()], ['1', '3', '3', '2']);
      for (const id of ['urgent', 'more', 'last']) lanes.offer('x', job(id));
      assert.deepEqual(
        [ahead(), lane.take()?.id, lane.take()?.id, ahead(), lane.take()?.id],
        ['urgent', 'urgent', 'more', '2', '2'],
      );
      for (let left = 0; left < 2; left++) lane.take();
      end();
      await settleEventLoop();
    });

    it('can put a job back to the front', async () => {
      const { lanes, workers } = byHand(1);
      for (const id of ['1', '2']) lanes.offer('x', job(id));
      const { lane, end } = workers[0]!;
      const taken = lane.take()!;
      lane.giveBack(taken);
      assert.deepEqual([lane.take(), lane.take()?.id], [taken, '2']);
      end();
      await settleEventLoop();
    });

    it('that ends with an exception is reported and replaced', async () => {
      const { lanes, workers, failures } = byHand(1);
      for (const id of ['1', '2']) lanes.offer('x', job(id));
      const { lane, fail } = workers[0]!;
      lane.take();
      fail(new Error('a bug'));
      await settleEventLoop();
      assert.deepEqual(failures.map(String), ['Error: a bug']);
      assert.equal(workers.length, 2);
      assert.equal(workers[1]!.lane.take()?.id, '2');
      workers[1]!.end();
      await settleEventLoop();
    });
  });

  describe('stopping', () => {
    it('waits for the jobs in hand and hands out no other', async () => {
      bench.limits.set('x', 3);
      bench.offer('x', many(10, 'j'));
      await settleEventLoop();
      let isStopped = false;
      const stopped = bench.lanes.stop().then(() => (isStopped = true));
      await settleEventLoop();
      assert.equal(isStopped, false);
      bench.offer('x', [job('late')]);
      assert.deepEqual((await bench.finish()).sort(), ['j0', 'j1', 'j2']);
      await stopped;
    });

    it('is done at once where nothing is under way', async () => {
      await bench.lanes.stop();
      bench.offer('x', [job('late')]);
      await settleEventLoop();
      assert.equal(bench.inHand.size, 0);
    });
  });

  it('does each job once, however limits, lanes and workers change', async () => {
    const action = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          do: fc.constant('offer' as const),
          lane: fc.nat({ max: 4 }),
          share: fc.nat({ max: 2 }),
          order: fc.nat({ max: 1 }),
          count: fc.integer({ min: 1, max: 8 }),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant('limit' as const),
          lane: fc.nat({ max: 4 }),
          slots: fc.nat({ max: 4 }),
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('most' as const), slots: fc.integer({ min: 1, max: 6 }) }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(action, { maxLength: 40 }),
        fc.infiniteStream(fc.nat({ max: 9 })),
        async (actions, dice) => {
          const limits = [1, 2, 3, 1, 2];
          const names = limits.map((_, at) => `lane${at}`);
          let most = 3;
          let next = 0;
          const done: string[] = [];
          const roll = (): number => dice.next().value as number;
          const work = async (lane: Lane<Job>): Promise<void> => {
            for (let current = lane.take(); current !== null; current = lane.take()) {
              for (let turns = roll(); turns > 0; turns--) await Promise.resolve();
              if (roll() === 0) lane.giveBack(current);
              else done.push(current.id);
            }
          };
          const lanes = new Lanes<Job>({
            work,
            slots: (name) => limits[names.indexOf(name)]!,
            maxSlots: () => most,
            hasReserve: true,
            failed: (_, error) => {
              throw error;
            },
          });
          for (const one of actions) {
            if (one.do === 'offer') {
              for (let count = 0; count < one.count; count++)
                lanes.offer(names[one.lane]!, job(String(next++), `s${one.share}`, one.order));
            } else if (one.do === 'limit') {
              limits[one.lane] = one.slots;
              lanes.pump(names[one.lane]!);
            } else if (one.do === 'most') most = one.slots;
            else await new Promise((resolve) => setImmediate(resolve));
          }
          limits.fill(2);
          most = 6;
          for (let round = 0; round < 3; round++) {
            for (const name of names) lanes.pump(name);
            await settleEventLoop();
          }
          assert.deepEqual(
            done.map(Number).sort((a, b) => a - b),
            Array.from({ length: next }, (_, id) => id),
          );
          await lanes.stop();
        },
      ),
      { numRuns: 200 },
    );
  });

  it('removes waiting jobs that are not wanted, and forgets a lane that has nothing else', async () => {
    const bench = new Bench();
    bench.most = 1;
    bench.offer('here', [job('h1'), job('h2'), job('gone-1', 'b'), job('h3', 'a', 1), job('gone-2', 'a', 1)]);
    bench.offer('there', [job('gone-3'), job('gone-4')]);
    assert.equal(bench.lanes.starving(), 1);
    const removed = bench.lanes.removeWaiting(({ id }) => id.startsWith('gone'));
    assert.deepEqual(removed.map(({ id }) => id).sort(), ['gone-1', 'gone-2', 'gone-3', 'gone-4']);
    assert.equal(bench.lanes.starving(), 0);
    assert.deepEqual(bench.empties, ['there']);
    assert.deepEqual(bench.lanes.views(), [{ name: 'here', waiting: 2, slots: 1 }]);
    assert.deepEqual(await bench.finish(), ['h1', 'h2', 'h3']);
  });

  it('gives the waiting jobs of one lane out of its hands, but for the first few of each share', async () => {
    const bench = new Bench();
    bench.most = 1;
    bench.offer('here', [job('h1'), ...many(4, 'a'), ...many(5, 'b', 'b', 1), job('c')]);
    bench.offer('there', [job('t1')]);
    const withdrawn = (name: string, most: number): string[] =>
      bench.lanes.withdraw(name, most, () => true).map(({ id }) => id);
    assert.deepEqual([withdrawn('here', 12), withdrawn('nowhere', 0)], [[], []]);
    assert.deepEqual(withdrawn('here', 6).length, 4);
    assert.equal(bench.lanes.view('here').waiting, 6);
    assert.deepEqual([withdrawn('here', 0).length, withdrawn('there', 0)], [6, ['t1']]);
    assert.deepEqual(bench.empties, ['there']);
    bench.offer('there', [job('t2')]);
    assert.deepEqual(await bench.finish(), ['h1', 't2']);
  });
});
