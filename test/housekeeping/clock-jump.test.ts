/** A clock that is set years ahead by mistake must not cost what ends at a time of the calendar. */
import assert from 'node:assert/strict';
import { DAY_MS, HOUR_MS } from '../../src/base/time.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('housekeeping: a clock that jumps ahead', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp();
  });
  after(() => app.stop());

  /** Lets time pass in steps in which the rules that are due run one after the other. */
  async function pass(steps: number, ms: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      app.clock.advance(ms);
      for (let turn = 0; turn < 3; turn++) await app.app.db.commit.transact((tx) => tx.run('SELECT 1'));
    }
  }

  it('removes no suppression and no sign-in for a day, in which the clock can be set right', async () => {
    const expires_at = new Date(app.clock.now() + 100 * DAY_MS).toISOString();
    const added = await app.request('POST', '/v1/suppressions', { email: 'ana@dest.test', expires_at });
    assert.equal(added.status, 201, added.text);
    const row = { id: 'x', email_key: 'a@b.test', ip: '::1', user_agent: null, result: 'in', source: '::1' } as const;
    await app.app.db.commit.insert({ sign_ins: [{ ...row, at: app.clock.now() }] });
    const left = async (): Promise<number[]> => [
      (await app.app.db.prepared.all('SELECT id FROM suppressions')).length,
      (await app.app.db.prepared.all("SELECT id FROM sign_ins WHERE id = 'x'")).length,
    ];
    app.clock.jump(730 * DAY_MS);
    while (!app.logged.some(({ event }) => event === 'retention_waits')) await pass(1, 1000);
    await pass(120, 1000);
    assert.deepEqual(await left(), [1, 1]);
    // The jump was not a mistake.
    while (app.clock.monotonic() < DAY_MS + HOUR_MS * 2) await pass(1, 300_000);
    while ((await left()).some((count) => count !== 0)) await pass(1, 300_000);
  });

  it('has no idempotency key or retired DKIM key end for a day: a repeated request sends no second mail', async () => {
    const once = { headers: { 'Idempotency-Key': 'once' } };
    const first = await app.send({}, once);
    const retired = "UPDATE dkim_keys SET state = 'retiring', retired_at = ? RETURNING id";
    const { length } = await app.app.db.commit.transact((tx) => tx.all(retired, [app.clock.now()]));
    assert.ok(length > 0);
    const left = async (): Promise<number[]> => [
      (await app.app.db.prepared.all('SELECT key FROM idempotency')).length,
      (await app.app.db.prepared.all("SELECT id FROM dkim_keys WHERE state = 'retiring'")).length,
    ];
    const before = await left();
    assert.ok(before.every((count) => count > 0));
    const warnings = (): number => app.logged.filter(({ event }) => event === 'retention_waits').length;
    const known = warnings();
    app.clock.jump(20 * DAY_MS);
    assert.deepEqual(await app.send({}, once), first);
    assert.equal(warnings(), known + 1);
    await pass(200, 60_000);
    assert.deepEqual(await left(), before);
  });
});
