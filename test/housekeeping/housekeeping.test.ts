import assert from 'node:assert/strict';
import { createHousekeeping, type Rule, type Transactor } from '../../src/housekeeping/housekeeping.ts';
import type { Connection } from '../../src/storage/connection.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const MINUTE = 60_000;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Runs the work without a database. */
const commit: Transactor = { transact: (run) => run({} as Connection) };

/** A rule whose steps delete what the list says, one number a step; when it is used up, nothing. */
function ruleOf(name: string, everyMs: number, steps: (number | Error)[], seen: string[]): Rule {
  return {
    name,
    everyMs,
    step() {
      seen.push(name);
      const next = steps.shift() ?? 0;
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
  };
}

describe('housekeeping/housekeeping', () => {
  const start = (rules: readonly Rule[], more: { leads?: () => boolean } = {}) => {
    const clock = new FakeClock();
    const logged: object[] = [];
    const log = {
      info: (fields: object) => void logged.push(fields),
      error: (fields: object) => void logged.push(fields),
    };
    const housekeeping = createHousekeeping({ clock, log, commit, ...more }, rules);
    housekeeping.start();
    const pass = async (ms: number): Promise<void> => {
      clock.advance(ms);
      await settled();
      // The work that the first rule has given way to.
      clock.advance(0);
      await settled();
    };
    return { clock, logged, housekeeping, pass };
  };

  it('runs each rule soon after the start and then at its own pace', async () => {
    const seen: string[] = [];
    const { pass, housekeeping } = start([ruleOf('a', 10 * MINUTE, [], seen), ruleOf('b', 30 * MINUTE, [], seen)]);
    await pass(MINUTE - 1);
    assert.deepEqual(seen, []);
    await pass(1);
    assert.deepEqual(seen, ['a', 'b']);
    for (let i = 0; i < 60; i++) await pass(MINUTE);
    assert.equal(seen.filter((name) => name === 'b').length, 3);
    assert.equal(seen.filter((name) => name === 'a').length, 7);
    await housekeeping.stop();
  });

  it('takes step after step with pauses, one rule at a time, and tells once what went', async () => {
    const seen: string[] = [];
    const { pass, logged, housekeeping } = start([
      ruleOf('a', MINUTE, [100, 100, 7], seen),
      ruleOf('b', MINUTE, [], seen),
    ]);
    await pass(MINUTE);
    assert.deepEqual(seen, ['a']);
    for (let i = 0; i < 3; i++) await pass(1);
    assert.deepEqual(seen, ['a', 'a', 'a', 'b']);
    assert.deepEqual(logged, [{ event: 'housekeeping', rule: 'a', deleted: 207 }]);
    await housekeeping.stop();
  });

  it('lets others that are due go first after ten seconds of one rule, which goes on behind them', async () => {
    const seen: string[] = [];
    const endless = Array.from({ length: 1000 }, () => 100);
    const { pass, logged, housekeeping } = start([ruleOf('a', MINUTE, endless, seen), ruleOf('b', MINUTE, [], seen)]);
    await pass(MINUTE);
    for (let ms = 0; ms < 10_000; ms += 50) await pass(50);
    assert.equal(seen.indexOf('b'), 201, 'a step at each look at the clock, for ten seconds');
    assert.deepEqual(logged, [{ event: 'housekeeping', rule: 'a', deleted: 20_100 }]);
    for (let ms = 0; ms < 10_000; ms += 50) await pass(50);
    assert.ok(seen.slice(202).every((name) => name === 'a') && seen.length > 300, 'goes on');
    await housekeeping.stop();
  });

  it('logs a rule that fails, goes on with the others and tries it again', async () => {
    const seen: string[] = [];
    const { pass, logged, housekeeping } = start([
      ruleOf('a', MINUTE, [new Error('disk full')], seen),
      ruleOf('b', MINUTE, [], seen),
    ]);
    await pass(MINUTE);
    await pass(MINUTE);
    assert.deepEqual(seen, ['a', 'b', 'a', 'b']);
    assert.equal((logged[0] as { event: string }).event, 'housekeeping_failed');
    await housekeeping.stop();
  });

  it('runs at the node that leads, within a minute of leading, but rules about files of each node at all', async () => {
    const seen: string[] = [];
    let isOurs = false;
    const rules = [
      ruleOf('a', 60 * MINUTE, [], seen),
      { ...ruleOf('b', 10 * MINUTE, [], seen), onEveryNode: true as const },
    ];
    const { pass, housekeeping } = start(rules, { leads: () => isOurs });
    for (let i = 0; i < 12; i++) await pass(MINUTE);
    assert.deepEqual(seen, ['b', 'b']);
    isOurs = true;
    await pass(MINUTE);
    assert.deepEqual(seen, ['b', 'b', 'a']);
    await housekeeping.stop();
  });

  it('logs a rule once while it fails, and again when it fails after it has succeeded', async () => {
    const away = new Error('the database is away');
    const { pass, logged, housekeeping } = start([ruleOf('a', MINUTE, [away, away, 0, away], [])]);
    for (let n = 1; n <= 4; n++) {
      await pass(MINUTE);
      assert.equal(logged.length, n < 4 ? 1 : 2, `after run ${String(n)}`);
    }
    await housekeeping.stop();
  });

  describe('steps that are sized by their time', () => {
    /** The time for which the writer was held: no timer waits for it. */
    let held = 0;
    const holding = (clock: FakeClock): void => {
      const passed = clock.monotonic.bind(clock);
      clock.monotonic = () => passed() + held;
    };

    /** A rule that costs `cost` ms a row and has `due` rows. */
    const sized = (cost: number, due: number, sizes: number[]): Rule => ({
      name: 'sized',
      everyMs: MINUTE,
      step: (rows, writer) =>
        writer.transact(() => {
          sizes.push(rows);
          const taken = Math.min(rows, due);
          due -= taken;
          held += taken * cost;
          return Promise.resolve(taken);
        }),
    });

    it('wait until the writer is idle, but not for ever', async () => {
      const sizes: number[] = [];
      const clock = new FakeClock();
      let busy = true;
      const nothing = (): void => undefined;
      const log = { info: nothing, error: nothing };
      const housekeeping = createHousekeeping({ clock, log, commit, isBusy: () => busy }, [sized(1, 1000, sizes)]);
      holding(clock);
      housekeeping.start();
      const pass = async (ms: number): Promise<void> => {
        for (let i = 0; i < ms; i += 5) {
          clock.advance(5);
          await settled();
        }
      };
      await pass(MINUTE + 100);
      assert.deepEqual(sizes, [], 'the writer was busy');
      await pass(200);
      assert.equal(sizes.length, 1, 'one step after 250 ms all the same');
      busy = false;
      await pass(50);
      assert.ok((sizes.length as number) >= 5, String(sizes.length));
      await housekeeping.stop();
      assert.equal(clock.nextAt(), null);
    });
  });

  it('stops after the step under way and leaves no timer', async () => {
    let end: (deleted: number) => void = () => undefined;
    const slow: Rule = {
      name: 'slow',
      everyMs: MINUTE,
      step: () => new Promise((resolve) => (end = resolve)),
    };
    const { pass, clock, housekeeping } = start([slow]);
    await pass(MINUTE);
    let stopped = false;
    const stopping = housekeeping.stop().then(() => (stopped = true));
    await settled();
    assert.equal(stopped, false);
    end(5);
    await stopping;
    assert.equal(clock.nextAt(), null);
  });
});
