/** Webhooks over the whole program: registered by API, called on loopback sockets, with time in the test's hands. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { RETRY_WAITS_MS } from '../../src/webhooks/retry.ts';
import { copyData, newFolder, startTestApp, TestClock, type TestApp } from '../support/harness/app.ts';
import { startReceiver, verifyCall, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

const OPEN = { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } };
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

interface Hook {
  id: string;
  status: string;
  disabled_reason: string | null;
  secret: string;
  events: string[];
  last_success_at: string | null;
  last_failure_at: string | null;
  failing_since: string | null;
  rests_until: string | null;
  next_attempt_at: string | null;
}

interface Delivery {
  id: string;
  event_id: string;
  event_type: string;
  cause: string;
  attempt: number;
  at: string;
  status: string;
  status_code: number | null;
  error: string | null;
  answer: string | null;
  next_attempt_at: string | null;
  request: string | null;
}

describe('webhooks', () => {
  let app: TestApp;
  let receiver: WebhookReceiver;

  beforeEach(async () => {
    app = await startTestApp({ settings: OPEN });
    receiver = await startReceiver();
  });
  afterEach(async () => {
    // First what a call may hang at: this clock lets no time pass.
    await receiver.close();
    await app.stop();
  });

  async function register(fields: Record<string, unknown> = {}, of = app): Promise<Hook> {
    const { status, body, text } = await of.request<Hook>('POST', '/v1/webhooks', { url: receiver.url, ...fields });
    assert.equal(status, 201, text);
    return body;
  }

  async function hookNow(id: string, of = app): Promise<Hook> {
    return (await of.get<Hook>(`/v1/webhooks/${id}`)).body;
  }

  async function deliveries(id: string, query = '', of = app): Promise<Delivery[]> {
    const { status, body, text } = await of.get<{ data: Delivery[] }>(
      `/v1/webhooks/${id}/deliveries?limit=100${query}`,
    );
    assert.equal(status, 200, text);
    return body.data;
  }

  /** Waits until the log has so many lines; each look is a request, so nothing sleeps. */
  async function logged(id: string, count: number, of = app): Promise<Delivery[]> {
    for (;;) {
      const lines = await deliveries(id, '', of);
      if (lines.length >= count) return lines;
      await turn();
    }
  }

  /** A simulated mail: `sent`, then what its recipient says. */
  const mail = (to = 'delivered', fields: Record<string, unknown> = {}, of = app) =>
    of.send({ from: 'hi@simulator.posthorn.test', to: `${to}@simulator.posthorn.test`, ...fields });

  const types = (): string[] => receiver.calls.map(({ event }) => event.type);

  it('tell each event once, signed, in the bytes of GET /v1/events', async () => {
    const hook = await register();
    assert.match(hook.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual(hook.events, ['sent', 'delivered', 'opened', 'clicked', 'bounced', 'complained']);
    const { id } = await mail();
    await receiver.reached(2);
    await logged(hook.id, 2);
    const { text } = await app.get('/v1/events', { headers: { accept: 'application/x-ndjson' } });
    assert.deepEqual(receiver.calls.map(({ body }) => body).toSorted(), text.trim().split('\n').toSorted());
    for (const call of receiver.calls) {
      assert.equal(verifyCall(call, hook.secret, app.clock.now()), null);
      assert.equal(verifyCall({ ...call, body: `${call.body} ` }, hook.secret, app.clock.now()), 'signature');
      assert.equal(call.event.data.message_id, id);
      assert.equal(call.headers['webhook-id'], call.event.id);
      assert.equal(call.headers['webhook-attempt'], '1');
      assert.equal(call.headers['user-agent'], 'posthorn-webhooks/1');
      assert.equal(call.headers['content-type'], 'application/json');
      assert.equal(call.headers.host, `127.0.0.1:${String(receiver.port)}`);
      assert.equal(call.path, '/hook');
    }
    const now = await hookNow(hook.id);
    assert.equal(now.last_success_at, new Date(app.clock.now()).toISOString());
    assert.equal(now.last_failure_at, null);
  });

  it('choose by kind, stream and domain', async () => {
    const second = await startReceiver();
    const byKind = await register({ events: ['bounced', 'deferred'], streams: ['broadcast'] });
    const byDomain = await register({ url: second.url, events: ['*'], domains: ['acme.test'] });
    await mail('bounced');
    await mail('delivered', { stream: 'broadcast' });
    await mail('bounced', { stream: 'broadcast', from: 'hi@acme.test' });
    await logged(byKind.id, 1);
    await logged(byDomain.id, 2);
    assert.deepEqual(types(), ['bounced']);
    assert.equal(receiver.calls[0]?.event.data['stream'], 'broadcast');
    // Several calls are made at once, so they may come in either order.
    assert.deepEqual(second.calls.map(({ event }) => event.type).toSorted(), ['bounced', 'sent']);
    await second.close();
  });

  it('keep trying an endpoint that is down, on the schedule, and find it when it is back', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 500;
    await mail();
    let waited = 0;
    for (const [at, wait] of RETRY_WAITS_MS.slice(0, 5).entries()) {
      const [last] = await logged(hook.id, at + 1);
      assert.deepEqual([last?.attempt, last?.status, last?.status_code], [at + 1, 'failed', 500]);
      // Chance is in the middle, so there is no jitter.
      assert.equal(Date.parse(last?.next_attempt_at ?? '') - app.clock.now(), wait);
      if (at === 4) receiver.answer = 200;
      app.clock.advance(wait - 1);
      waited += wait;
      assert.equal((await logged(hook.id, at + 1)).length, at + 1);
      assert.equal(receiver.calls.length, at + 1, 'too early');
      app.clock.advance(1);
      await receiver.reached(at + 2);
    }
    assert.ok(waited > 7 * HOUR);
    const [last] = await logged(hook.id, 6);
    assert.deepEqual([last?.attempt, last?.status, last?.next_attempt_at], [6, 'delivered', null]);
    assert.equal(new Set(receiver.calls.map(({ headers }) => headers['webhook-id'])).size, 1, 'the id stays the same');
    assert.deepEqual(
      receiver.calls.map(({ headers }) => headers['webhook-attempt']),
      ['1', '2', '3', '4', '5', '6'],
    );
    for (const call of receiver.calls.slice(-1)) assert.equal(verifyCall(call, hook.secret, app.clock.now()), null);
    assert.equal(verifyCall(receiver.calls[0] ?? assert.fail(), hook.secret, app.clock.now()), 'timestamp');
    assert.deepEqual(await app.app.db.prepared.all('SELECT * FROM webhook_calls'), []);
  });

  it('wait 15 s for an answer, and call that a failure', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 'hang';
    await mail();
    await receiver.reached(1);
    app.clock.advance(15_000);
    const [line] = await logged(hook.id, 1);
    assert.deepEqual([line?.status, line?.status_code, line?.answer], ['failed', null, null]);
    assert.match(line?.error ?? '', /within 15 s/);
    assert.ok(line?.next_attempt_at !== null);
  });

  it('wait at least as long as a 503 asks', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = { status: 503, headers: { 'retry-after': '3600' }, body: 'maintenance' };
    await mail();
    const [line] = await logged(hook.id, 1);
    assert.equal(Date.parse(line?.next_attempt_at ?? '') - app.clock.now(), HOUR);
    assert.equal(line?.answer, 'maintenance');
  });

  it('wait with every event until the time that the endpoint asked for, also after a restart', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = { status: 429, headers: { 'retry-after': '7200' }, body: '' };
    await mail();
    await logged(hook.id, 1);
    const until = new Date(app.clock.now() + 2 * HOUR).toISOString();
    const failedAt = new Date(app.clock.now()).toISOString();
    const now = await hookNow(hook.id);
    assert.deepEqual([now.rests_until, now.next_attempt_at, now.failing_since], [until, until, failedAt]);
    const folder = newFolder();
    await copyData(app.folder, folder);
    const next = await startTestApp({ settings: OPEN, folder, clock: new TestClock(app.clock.now()) });
    try {
      await mail('delivered', {}, next);
      await next.settled();
      next.clock.advance(HOUR);
      await next.settled();
      assert.equal(receiver.calls.length, 1);
      receiver.answer = 200;
      next.clock.advance(HOUR);
      await logged(hook.id, 3, next);
      const after = await hookNow(hook.id, next);
      assert.deepEqual([after.rests_until, after.next_attempt_at, after.failing_since], [null, null, null]);
    } finally {
      await next.stop();
      rmSync(folder, { recursive: true });
    }
  });

  it('give an event up after ten attempts, and send it again in a replay of what failed', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 500;
    await mail();
    for (const [at, wait] of RETRY_WAITS_MS.entries()) {
      await logged(hook.id, at + 1);
      app.clock.advance(wait);
    }
    const [last] = await logged(hook.id, 10);
    assert.deepEqual([last?.attempt, last?.next_attempt_at], [10, null]);
    // Longer than any wait. Five days of failures are not over, though what the last one says of the endpoint may be looked at only now.
    app.clock.advance(1.5 * DAY);
    assert.equal(receiver.calls.length, 10);
    receiver.answer = 200;
    const since = new Date(app.clock.now() - 10 * DAY).toISOString();
    const { status, body } = await app.request('POST', `/v1/webhooks/${hook.id}/replay`, { since });
    assert.equal(status, 202);
    assert.equal(body['only'], 'failed');
    const [again] = await logged(hook.id, 11);
    assert.deepEqual([again?.cause, again?.attempt, again?.status], ['replay', 1, 'delivered']);
    const replays = await app.get<{ data: Record<string, unknown>[] }>(`/v1/webhooks/${hook.id}/replays`);
    assert.deepEqual(
      replays.body.data.map(({ status: state, queued }) => [state, queued]),
      [['done', 1]],
    );
  });

  it('end at once with 410, with a line in the audit log', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 410;
    await mail();
    await logged(hook.id, 1);
    while ((await hookNow(hook.id)).status === 'active') await turn();
    const now = await hookNow(hook.id);
    assert.equal(now.status, 'disabled');
    assert.match(now.disabled_reason ?? '', /410/);
    const audit = await app.get<{ data: { endpoint: string; actor: string }[] }>('/v1/audit?endpoint=webhook_disabled');
    assert.deepEqual(
      audit.body.data.map(({ actor }) => actor),
      [`webhook:${hook.id}`],
    );
    await mail();
    app.clock.advance(HOUR);
    assert.equal(receiver.calls.length, 1);
    assert.equal(
      (await app.request('POST', `/v1/webhooks/${hook.id}/replay`, { since: '2026-01-01T00:00:00Z' })).status,
      409,
    );
    // Brought back, it is told what it missed, the failed call included.
    receiver.answer = 200;
    await app.request('PATCH', `/v1/webhooks/${hook.id}`, { enabled: true });
    await logged(hook.id, 3);
    assert.equal((await hookNow(hook.id)).disabled_reason, null);
  });

  it('end after five days without success, with a warning after one', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 'drop';
    const said = (name: string): number => app.logged.filter(({ event }) => event === name).length;
    for (let day = 0; day < 5; day++) {
      for (let n = 0; n < 3; n++) await mail();
      await app.settled();
      const before = (await deliveries(hook.id)).length;
      app.clock.advance(DAY);
      await logged(hook.id, before + 1);
      // The warning comes after the line of its call, which may be a later one than that.
      while (day > 0 && said('webhook_failing') === 0) await turn();
      assert.ok(said('webhook_failing') <= 1);
    }
    app.clock.advance(HOUR);
    while ((await hookNow(hook.id)).status === 'active') {
      app.clock.advance(HOUR);
      await turn();
    }
    const now = await hookNow(hook.id);
    assert.equal(now.status, 'disabled');
    assert.match(now.disabled_reason ?? '', /five days/);
    while (said('webhook_disabled') === 0) await turn();
    assert.deepEqual([said('webhook_failing'), said('webhook_disabled')], [1, 1]);
  });

  it('carry both signatures for a day after the secret was replaced', async () => {
    const hook = await register({ events: ['delivered'] });
    const rotated = await app.request<{ secret: string; previous: { secret: string; expires_at: string }[] }>(
      'POST',
      `/v1/webhooks/${hook.id}/secret/rotate`,
    );
    assert.equal(rotated.status, 200, rotated.text);
    const { secret, previous } = rotated.body;
    assert.notEqual(secret, hook.secret);
    assert.deepEqual(previous, [{ secret: hook.secret, expires_at: new Date(app.clock.now() + DAY).toISOString() }]);
    await mail();
    await logged(hook.id, 1);
    const [first] = receiver.calls;
    assert.ok(first);
    assert.equal(verifyCall(first, hook.secret, app.clock.now()), null);
    assert.equal(verifyCall(first, secret, app.clock.now()), null);
    app.clock.advance(DAY);
    await mail();
    await logged(hook.id, 2);
    const second = receiver.calls[1];
    assert.ok(second);
    assert.equal(verifyCall(second, secret, app.clock.now()), null);
    assert.equal(verifyCall(second, hook.secret, app.clock.now()), 'signature');
    const shown = await app.get(`/v1/webhooks/${hook.id}/secret`);
    assert.deepEqual([shown.body['secret'], shown.body['previous']], [secret, []]);
  });

  it('go on where they were after the process was killed', async () => {
    const hook = await register({ events: ['delivered'] });
    await mail();
    await logged(hook.id, 1);
    receiver.answer = 'hang';
    await mail();
    await receiver.reached(2);
    receiver.answer = 500;
    await mail();
    await logged(hook.id, 2);
    // A copy of the folder is what a power cut would leave: one call on the wire, one that failed.
    const folder = newFolder();
    await copyData(app.folder, folder);
    receiver.answer = 200;
    const clock = new TestClock(app.clock.now() + HOUR);
    const next = await startTestApp({ settings: OPEN, folder, clock });
    try {
      const lines = await logged(hook.id, 4, next);
      const again = lines.filter(({ status }) => status === 'delivered').slice(0, 2);
      assert.deepEqual(again.map(({ attempt }) => attempt).toSorted(), [1, 2]);
      assert.equal(receiver.calls.length, 5);
      assert.equal(new Set(receiver.calls.map(({ event }) => event.id)).size, 3);
      const [row] = await next.app.db.prepared.all<{ cursor: number; last: number }>(
        'SELECT cursor, (SELECT MAX(sequence) FROM events) AS last FROM webhooks',
      );
      assert.equal(row?.cursor, row?.last);
    } finally {
      await next.stop();
      rmSync(folder, { recursive: true });
    }
  });

  it('are held while the endpoint is paused, and told afterwards', async () => {
    const hook = await register({ events: ['delivered'] });
    const paused = await app.request<Hook>('PATCH', `/v1/webhooks/${hook.id}`, { enabled: false });
    assert.equal(paused.body.status, 'paused');
    await mail();
    await mail();
    await app.settled();
    assert.equal(receiver.calls.length, 0);
    const resumed = await app.request<Hook>('PATCH', `/v1/webhooks/${hook.id}`, { enabled: true });
    assert.equal(resumed.body.status, 'active');
    await logged(hook.id, 2);
    assert.equal(receiver.calls.length, 2);
  });

  it('never hold up other endpoints, the API or mail', async () => {
    const slow = await startReceiver();
    slow.answer = 'hang';
    await register({ url: slow.url });
    const hook = await register({ events: ['delivered'] });
    for (let n = 0; n < 30; n++) await mail();
    await logged(hook.id, 30);
    assert.equal(receiver.calls.length, 30);
    // Ten at once, and no more.
    await slow.reached(10);
    assert.equal(slow.calls.length, 10);
    await slow.close();
  });

  it('come strictly in order where one call is made at a time', async () => {
    const hook = await register({ concurrency: 1 });
    let failures = 2;
    receiver.answer = ({ event }) => (event.type === 'delivered' && failures-- > 0 ? 500 : 200);
    for (let n = 0; n < 3; n++) await mail();
    await app.settled();
    for (const failed of [1, 2]) {
      while ((await deliveries(hook.id, '&status=failed')).length < failed) await turn();
      app.clock.advance(5 * 60_000);
    }
    await logged(hook.id, 8);
    const good = receiver.calls.map(({ event }) => event.sequence);
    const seen = good.filter((sequence, at) => good.indexOf(sequence) === at);
    assert.deepEqual(
      seen,
      seen.toSorted((a, b) => a - b),
    );
    assert.equal(seen.length, 6);
  });

  it('answer a test with what came of it', async () => {
    const hook = await register({ enabled: false });
    const good = await app.request<Delivery>('POST', `/v1/webhooks/${hook.id}/test`, { type: 'bounced' });
    assert.equal(good.status, 200, good.text);
    assert.deepEqual([good.body.status, good.body.status_code, good.body.cause], ['delivered', 204, 'test']);
    const [call] = receiver.calls;
    assert.ok(call);
    assert.equal(verifyCall(call, hook.secret, app.clock.now()), null);
    assert.equal(call.event.type, 'bounced');
    assert.equal(call.event.test, true);
    receiver.answer = { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: 'elsewhere' };
    const bad = await app.request<Delivery>('POST', `/v1/webhooks/${hook.id}/test`, {});
    assert.deepEqual([bad.body.status, bad.body.status_code, bad.body.answer], ['failed', 302, 'elsewhere']);
    assert.equal(receiver.calls.length, 2, 'a redirect is not followed');
    assert.equal((await deliveries(hook.id)).length, 2);
    assert.equal((await hookNow(hook.id)).last_failure_at, null);
    receiver.answer = 'hang';
    const slow = app.request('POST', `/v1/webhooks/${hook.id}/test`, {});
    await receiver.reached(3);
    assert.equal((await app.request('POST', `/v1/webhooks/${hook.id}/test`, {})).status, 409, 'one at a time');
    app.clock.advance(15_000);
    assert.equal((await slow).body['status'], 'failed');
    receiver.answer = 200;
    // The answer of the endpoint is only for those who may read the log.
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'tester', scopes: ['webhook:replay'] },
    });
    const blind = await app.request<Delivery>('POST', `/v1/webhooks/${hook.id}/test`, {}, { key });
    assert.equal(blind.body.answer, null);
  });

  it('are sent again one by one and by time', async () => {
    const hook = await register({ events: ['sent', 'delivered'] });
    await mail();
    const [line] = await logged(hook.id, 2);
    const path = `/v1/webhooks/${hook.id}`;
    const resent = await app.request('POST', `${path}/deliveries/${line?.id ?? ''}/resend`);
    assert.equal(resent.status, 202, resent.text);
    assert.equal(resent.body['event_id'], line?.event_id);
    const [again] = await logged(hook.id, 3);
    assert.deepEqual([again?.cause, again?.event_id, again?.attempt], ['resend', line?.event_id, 1]);
    const since = new Date(app.clock.now() - HOUR).toISOString();
    const until = new Date(app.clock.now() + HOUR).toISOString();
    const all = await app.request('POST', `${path}/replay`, { since, until, only: 'all', types: ['delivered'] });
    assert.equal(all.status, 202, all.text);
    const lines = await logged(hook.id, 4);
    assert.deepEqual(
      lines.map(({ cause }) => cause),
      ['replay', 'resend', 'event', 'event'],
    );
    assert.equal(lines[0]?.event_type, 'delivered');
    assert.equal((await app.request('POST', `${path}/deliveries/whd_nothing/resend`)).status, 404);
  });

  it('show the signed request as a command', async () => {
    const hook = await register({ headers: { 'X-Gateway-Token': 'very secret' }, events: ['delivered'] });
    await mail('delivered', { subject: "It's here" });
    const [line] = await logged(hook.id, 1);
    const call = receiver.calls[0] ?? assert.fail();
    assert.equal(call.headers['x-gateway-token'], 'very secret');
    const command = line?.request ?? '';
    assert.ok(command.includes(`-H 'webhook-signature: ${String(call.headers['webhook-signature'])}'`));
    assert.ok(command.includes('X-Gateway-Token: <hidden>'));
    assert.ok(!command.includes('very secret'));
    assert.ok(command.endsWith(`--data-raw '${call.body.replaceAll("'", String.raw`'\''`)}'`));
    const stored = JSON.stringify(await app.app.db.prepared.all('SELECT * FROM webhooks'));
    assert.ok(!stored.includes('very secret') && !stored.includes(hook.secret.slice(6)));
  });

  it('show and change nothing of another account', async () => {
    const hook = await register();
    await app.operator.call('accounts.add', { name: 'other', plan: 'unlimited' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'other',
      body: { name: 'other', scopes: ['webhook', 'send'] },
    });
    const theirs = await startReceiver();
    await app.request('POST', '/v1/webhooks', { url: theirs.url }, { key });
    await mail();
    await logged(hook.id, 2);
    assert.equal(theirs.calls.length, 0);
    const list = await app.get<{ data: unknown[] }>('/v1/webhooks', { key });
    assert.equal(list.body.data.length, 1);
    assert.equal((await app.get(`/v1/webhooks/${hook.id}/deliveries`, { key })).status, 404);
    await theirs.close();
  });

  it('are forgotten with the endpoint', async () => {
    const hook = await register({ events: ['delivered'] });
    receiver.answer = 500;
    await mail();
    await logged(hook.id, 1);
    assert.equal((await app.request('DELETE', `/v1/webhooks/${hook.id}`)).status, 204);
    app.clock.advance(HOUR);
    await mail();
    await app.settled();
    assert.equal(receiver.calls.length, 1);
    assert.deepEqual(await app.app.db.prepared.all('SELECT * FROM webhook_calls'), []);
    assert.equal((await app.get(`/v1/webhooks/${hook.id}`)).status, 404);
  });

  it('catch up on a long log without holding all of it', async () => {
    const hook = await register({ events: ['delivered'], enabled: false });
    const recipients = Array.from({ length: 200 }, (_, n) => ({
      to: `delivered+${String(n)}@simulator.posthorn.test`,
    }));
    await app.request('POST', '/v1/messages', {
      from: 'hi@simulator.posthorn.test',
      subject: 's',
      text: 't',
      recipients,
    });
    await app.settled();
    await app.request('PATCH', `/v1/webhooks/${hook.id}`, { enabled: true });
    await receiver.reached(200);
    assert.equal(new Set(receiver.calls.map(({ event }) => event.id)).size, 200);
  });
});
