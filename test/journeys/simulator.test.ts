/** Test keys, `test.outcome` and the simulator's addresses: the whole path runs, and no network is touched. */
import assert from 'node:assert/strict';
import { startTestApp, type EventFollower, type SeenEvent, type TestApp } from '../support/harness/app.ts';

const kinds = (events: readonly SeenEvent[]): string => events.map(({ type }) => type).join(' ');

/** The events of each end, and the status afterwards. */
const ends = [
  ['delivered', 'sent delivered', 'delivered'],
  ['bounced', 'sent bounced', 'bounced'],
  ['complained', 'sent delivered complained', 'complained'],
  ['opened', 'sent delivered opened', 'delivered'],
  ['clicked', 'sent delivered clicked', 'delivered'],
] as const;

describe('journey: simulator', () => {
  let app: TestApp;
  let events: EventFollower;

  beforeEach(async () => {
    app = await startTestApp();
    events = app.follow();
  });

  afterEach(async () => {
    await app.stop();
    assert.deepEqual(app.resolver.asked, [], 'the simulator asked DNS');
  });

  for (const [end, told, status] of ends) {
    it(`plays ${end}@ to the end: ${told}`, async () => {
      const { id } = await app.send({ from: 'me@simulator.posthorn.test', to: `${end}+tag@simulator.posthorn.test` });
      const seen = await events.of(id, told.split(' ').at(-1) ?? '');
      assert.equal(kinds(seen), told);
      assert.ok(seen.every(({ test }) => test));
      const message = await app.message(id);
      assert.equal(message.status, status);
      assert.equal(message.test, true);
      const [suppressions] = await app.app.db.prepared.all<{ n: number }>('SELECT COUNT(*) AS n FROM suppressions');
      assert.equal(suppressions?.n, 0, 'nothing simulated is suppressed');
    });
  }

  it('plays deferred@: two deferrals, delivered within 15 s', async () => {
    const begun = app.clock.now();
    const { id } = await app.send({ to: 'deferred@simulator.posthorn.test' });
    await app.settled();
    for (let tries = 0; (await app.message(id)).status !== 'delivered'; tries++) {
      assert.ok(tries < 2, 'more than two deferrals');
      await app.nextAttempt(id);
    }
    assert.ok(app.clock.now() - begun <= 15_000);
    assert.equal(kinds(await events.of(id, 'delivered')), 'sent deferred deferred delivered');
  });

  for (const [outcome, told] of ends) {
    it(`a test key reaches any address; test.outcome ${outcome} decides`, async () => {
      const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
        body: { name: 'test', scopes: ['send', 'message:read'], mode: 'test' },
      });
      // From a domain that was never verified: test keys may.
      const { id } = await app.send({ from: 'a@nowhere.test', to: 'ana@dest.test', test: { outcome } }, { key });
      assert.equal(kinds(await events.of(id, told.split(' ').at(-1) ?? '')), told);
    });
  }

  it('a test key without an outcome is delivered, and a suppressed address is no matter', async () => {
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'test', scopes: ['send'], mode: 'test' },
    });
    const { id } = await app.send({ from: 'a@nowhere.test', to: 'bounced@dest.test' }, { key });
    assert.equal(kinds(await events.of(id, 'delivered')), 'sent delivered');
  });

  it('counts engagement beside the status, and hides the person from keys without event:engagement', async () => {
    const { id } = await app.send({ to: 'opened@simulator.posthorn.test' });
    const seen = await events.of(id, 'opened');
    const opened = seen.at(-1)?.data['opened'] as Record<string, unknown>;
    assert.deepEqual([opened['first'], opened['is_bot'], opened['ip']], [true, false, '192.0.2.1']);
    const { engagement } = await app.message(id);
    assert.deepEqual([engagement['opens'], engagement['clicks']], [1, 0]);
    assert.ok(engagement['first_opened_at']);
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'reader', scopes: ['event:read'] },
    });
    const { body } = await app.get<{ data: SeenEvent[] }>(`/v1/events?message_id=${id}&type=opened`, { key });
    const hidden = body.data[0]?.data['opened'] as Record<string, unknown>;
    assert.deepEqual([hidden['ip'], hidden['user_agent']], [null, null]);
  });

  it('a live key lists simulated mail by ?test=', async () => {
    const { id } = await app.send({ to: 'delivered@simulator.posthorn.test' });
    const ids = async (query: string): Promise<string[]> =>
      (await app.get<{ data: { id: string }[] }>(`/v1/messages?${query}`)).body.data.map((one) => one.id);
    assert.deepEqual(await ids('test=true'), [id]);
    assert.deepEqual(await ids('test=false'), []);
    await events.of(id, 'delivered');
  });
});
