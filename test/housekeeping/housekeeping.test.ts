import assert from 'node:assert/strict';
import { createHousekeeping, type Rule } from '../../src/housekeeping/housekeeping.ts';
import { expiredIdempotency } from '../../src/housekeeping/idempotency.ts';
import { retiredKeys } from '../../src/housekeeping/retired-keys.ts';
import { createIdempotencyStore, PURGE_STEP } from '../../src/storage/idempotency-store.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { openTempDatabase } from '../support/temp-database.ts';

const MINUTE = 60_000;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A rule whose steps delete what the list says, one number a step; when it is used up, nothing. */
function ruleOf(name: string, everyMs: number, steps: (number | Error)[], seen: string[]): Rule {
  return {
    name,
    everyMs,
    stepRows: 100,
    step() {
      seen.push(name);
      const next = steps.shift() ?? 0;
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
  };
}

describe('housekeeping/housekeeping', () => {
  const start = (rules: readonly Rule[]) => {
    const clock = new FakeClock();
    const logged: object[] = [];
    const log = {
      info: (fields: object) => void logged.push(fields),
      error: (fields: object) => void logged.push(fields),
    };
    const housekeeping = createHousekeeping({ clock, log }, rules);
    housekeeping.start();
    const pass = async (ms: number): Promise<void> => {
      clock.advance(ms);
      await settled();
      // What the first rule has given way to.
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
    for (let i = 0; i < 3; i++) await pass(50);
    assert.deepEqual(seen, ['a', 'a', 'a', 'b']);
    assert.deepEqual(logged, [{ event: 'housekeeping', rule: 'a', deleted: 207 }]);
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

  it('stops after the step under way and leaves no timer', async () => {
    let end: (deleted: number) => void = () => undefined;
    const slow: Rule = {
      name: 'slow',
      everyMs: MINUTE,
      stepRows: 1,
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

describe('housekeeping rules', () => {
  it('delete what has expired and nothing else', async () => {
    const temp = await openTempDatabase();
    const clock = new FakeClock();
    const store = createIdempotencyStore({ db: temp.db, clock });
    const row = (key: string, expiresAt: number) => ({
      key,
      body_hash: 'h',
      status: 202,
      headers_json: '{}',
      body: '{}',
      created_at: 0,
      expires_at: expiresAt,
    });
    for (let i = 0; i < PURGE_STEP + 1; i++) void store.insert(row(`old ${String(i)}`, clock.now()));
    await store.insert(row('young', clock.now() + 1));
    const rule = expiredIdempotency({ store, clock });
    assert.deepEqual([await rule.step(), await rule.step(), await rule.step()], [PURGE_STEP, 1, 0]);
    assert.notEqual(await store.find('young'), null);
    assert.equal(await retiredKeys({ db: temp.db, clock }).step(), 0);
    await temp.close();
  });
});
