/** Acts of administrators and developers in the dashboard on the queue and on webhooks, and their effects. */
import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { HOUR_MS as HOUR } from '../../src/base/time.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { type Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

describe('dashboard: the queue', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let browser: Browser;
  let answer: string;

  beforeEach(async () => {
    answer = '450 4.2.0 busy';
    server = await startMailServer({ script: { rcpt: () => answer } });
    app = await startTestApp({
      mailPort: server.port,
      zones: { ...zonesFor('dest.test'), 'also.test MX': ['10 mx.dest.test'] },
    });
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const waiting = async (): Promise<string> => {
    const { id } = await app.send();
    await app.follow().of(id, 'deferred');
    return id;
  };

  it('shows lanes, destinations and what is in them, down to the message', async () => {
    const id = await waiting();
    const queue = await browser.open('/queue');
    assert.match(queue.html, /href="\/queue\?domain=dest\.test"/);
    assert.match(queue.html, /href="\/queue\/lane\?name&#x3D;mx\.dest\.test"/);
    assert.match(queue.html, /id="live" hx-get/);
    assert.deepEqual(htmlFaults(queue.html), []);
    const domain = await browser.open('/queue?domain=dest.test');
    assert.match(domain.html, new RegExp(`title="ana@dest\\.test"[^>]*><a href="/messages/${id}">ana@dest\\.test`));
    assert.match(domain.html, /450 4\.2\.0 busy/);
    assert.deepEqual(htmlFaults(domain.html), []);
    const lane = await browser.open('/queue/lane?name=mx.dest.test');
    assert.equal(lane.status, 200, lane.html);
    assert.match(lane.html, /href="\/queue\?domain=dest\.test"/);
    assert.match(lane.html, new RegExp(`/messages/${id}`));
    assert.deepEqual(htmlFaults(lane.html), []);
    assert.equal((await browser.open('/queue/lane?name=nothing')).status, 404);
  });

  it('shows what is said on the wire as it is said, of a lane and of a message', async () => {
    const id = await waiting();
    await browser.open('/queue/lane?name=mx.dest.test');
    const begun = await browser.submit('/queue/watch', { lane: 'mx.dest.test' });
    assert.match(begun.at, /^\/queue\/watch\?lane=mx\.dest\.test&watch=\d+$/);
    assert.match(begun.html, /Nothing has been said yet/);
    assert.deepEqual(htmlFaults(begun.html), []);
    await browser.open(`/messages/${id}`);
    const watch = (await browser.submit('/queue/watch', { message_id: id })).at;
    answer = '451 4.7.1 <script>later</script>';
    await browser.submit('/queue/flush', { message_id: id, back: watch });
    await app.settled();
    assert.equal(browser.last.at, watch);
    for (const where of [begun.at, watch]) {
      const { html } = await browser.open(where);
      assert.match(html, /RCPT TO:&lt;ana@dest\.test&gt;/, where);
      assert.match(html, /class=" k-amber">.*451 4\.7\.1 &lt;script&gt;later/, where);
      assert.deepEqual(htmlFaults(html), []);
      const more = /hx-get="([^"]+)"/.exec(html)?.[1]?.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&') ?? '';
      assert.doesNotMatch((await browser.open(more)).html, /RCPT/, 'only what came since');
    }
    app.clock.advance(61_000);
    const over = await browser.ask('GET', watch, { headers: { 'x-poll': '1', 'hx-request': 'true' } });
    assert.equal(over.headers.get('hx-redirect'), watch, 'a page that polls again is led to what says so');
    assert.match((await browser.open(watch)).html, /This watch has ended/);
    for (const wrong of ['watch=x', 'watch=1&position=-1', 'watch=0'])
      assert.equal((await browser.open(`/queue/watch?lane=x&${wrong}`)).status, 400, wrong);
    await browser.open('/queue/watch');
    assert.equal((await browser.submit('/queue/watch', {})).status, 400);
  });

  it('pauses a destination and lets it go', async () => {
    const id = await waiting();
    await browser.open('/queue?domain=dest.test');
    await browser.submit('/queue/hold', {
      scope: 'domain',
      target: 'dest.test',
      new: '1',
      back: '/queue?domain=dest.test',
      note: '<b>they asked</b>',
    });
    assert.equal(browser.last.at, '/queue?domain=dest.test');
    assert.match(browser.last.html, /&lt;b&gt;they asked/);
    const { data: holds } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      holds.map(({ scope, target, catches_new }) => [scope, target, catches_new]),
      [['domain', 'dest.test', true]],
    );
    answer = '250 2.1.5 ok';
    await browser.submit('/queue/flush', { domain: 'dest.test', back: '/queue' });
    // A mark that is written after the release would keep the mail back until the next sweep.
    await app.held(id);
    assert.equal((await app.message(id)).status, 'deferred');
    await browser.submit('/queue/release', { id: holds[0]?.id ?? '', back: 'https://evil.test/queue' });
    assert.equal(browser.last.at, '/queue', 'back leads nowhere else');
    await browser.submit('/queue/flush', { domain: 'dest.test' });
    await app.follow().of(id, 'delivered');
  });

  it('tells how long mail has waited, however soon its next try is', async () => {
    await waiting();
    await app.settled();
    // The age alone: the clock would have it tried again and again.
    await app.app.db.commit.transact((tx) =>
      tx.run('UPDATE deliveries SET id = ?, queued_at = ?', [
        newId('dlv', app.clock.now() - 60 * HOUR),
        app.clock.now() - 60 * HOUR,
      ]),
    );
    assert.match((await browser.open('/')).html, /<dt>Waiting<\/dt><dd><a href="\/queue">1</);
    assert.match((await browser.open('/queue')).html, /data-l="oldest"><time[^>]*>2 d 12 h ago/);
    const { html } = await browser.open('/queue/lane?name=mx.dest.test');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /<dt>Oldest<\/dt><dd><time[^>]*>2 d 12 h ago/);
  });

  it('tries all destinations of a lane now', async () => {
    const first = await waiting();
    const { id: second } = await app.send({ to: 'bo@also.test' });
    await app.follow().of(second, 'deferred');
    await app.settled();
    answer = '250 2.1.5 ok';
    const where = '/queue/lane?name=mx.dest.test';
    assert.match((await browser.open(where)).html, /name="lane" value="mx\.dest\.test"><button[^>]*>Try now</s);
    const after = await browser.submit('/queue/flush', { lane: 'mx.dest.test', back: where });
    assert.match(after.html, /2 deliveries are tried now\./);
    for (const id of [first, second]) await app.follow().of(id, 'delivered');
  });

  it('cancels all that waits for a lane, after a question', async () => {
    const id = await waiting();
    await app.settled();
    const where = '/queue/lane?name=mx.dest.test';
    const page = await browser.open(where);
    assert.match(page.html, /Cancel all….*Everything that waits for the destinations of this lane is canceled/s);
    assert.deepEqual(htmlFaults(page.html), []);
    const fields = { scope: 'lane', target: 'mx.dest.test', lane: 'mx.dest.test', back: where };
    assert.match((await browser.submit('/queue/cancel', fields)).html, /1 delivery is canceled\./);
    assert.equal(browser.last.at, '/queue');
    assert.equal((await app.message(id)).status, 'canceled');
  });

  it('limits a lane with a reason, and ends that', async () => {
    await waiting();
    const where = '/queue/lane?name=mx.dest.test';
    await browser.open(where);
    await browser.submit('/queue/limit', {
      lane: 'mx.dest.test',
      connections: '2',
      per_hour: '1500',
      hours: '4',
      note: 'gently',
      back: where,
    });
    assert.equal(browser.last.at, where);
    assert.match(browser.last.html, /2 connections, 1,500 mails an hour.*gently/s);
    const { data } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      data.map((row) => [row.kind, row.connections, row.per_minute, row.per_hour, row.per_day]),
      [['limit', 2, null, 1500, null]],
    );
    for (const [fields, fault] of [
      [{ connections: '', per_minute: '' }, /how many connections/],
      [{ connections: '0' }, /connections/],
      [{ connections: 'many' }, /connections/],
      [{ connections: '2', hours: '-1' }, /hours/],
      [{ connections: '2', hours: '9999999' }, /hours/],
    ] as const) {
      const page = await browser.submit('/queue/limit', { lane: 'mx.dest.test', back: where, ...fields });
      assert.equal(page.status, 400, JSON.stringify(fields));
      assert.match(page.html, fault);
      assert.deepEqual(htmlFaults(page.html), []);
    }
    await browser.submit('/queue/limit', { lane: 'mx.dest.test', end: '1', back: where });
    assert.deepEqual((await app.operator.call('queue.holds', {})).data, []);
  });

  it('tells of mail that is due when the rate of its lane allows the next try', async () => {
    await app.operator.call('queue.limit', { lane: 'mx.dest.test', per_minute: 1 });
    const [first, second] = [await app.send(), await app.send()];
    await app.follow().of(first.id, 'deferred');
    app.clock.advance(20_000);
    while ((await app.why(second.id)).reason !== 'rate_limited') await new Promise((resolve) => setImmediate(resolve));
    const { until } = await app.why(second.id);
    for (const place of ['/queue?domain=dest.test', '/queue/lane?name=mx.dest.test']) {
      const { html } = await browser.open(place);
      const row = html.split('<tr>').find((one) => one.includes(`/messages/${second.id}"`)) ?? '';
      assert.match(row, new RegExp(`data-l="next try"><time datetime="${until ?? ''}"`), place);
      assert.doesNotMatch(row, /overdue/, place);
    }
  });

  it('cancels what waits, and says what cannot be', async () => {
    const id = await waiting();
    await browser.open('/queue');
    await browser.submit('/queue/cancel', { scope: 'message', target: id });
    assert.match(browser.last.html, /1 delivery is canceled\./);
    assert.equal((await app.message(id)).status, 'canceled');
    const none = await browser.submit('/queue/hold', { scope: 'account', target: 'nobody' });
    assert.equal(none.status, 404);
    assert.match(none.html, /That did not work/);
    assert.equal((await browser.submit('/queue/hold', { scope: 'domain', target: ' ' })).status, 400);
    const lane = { scope: 'lane', target: 'mx.mistyped.test' };
    assert.match((await browser.submit('/queue/hold', lane)).html, /There is no lane of this name now/);
    assert.match((await browser.submit('/queue/hold', lane)).html, /It was held already/);
    const { id: account } = await app.operator.call('accounts.add', { name: 'beta' });
    await browser.open('/queue');
    const fields = { scope: 'stream', target: 'transactional', account, hours: '1,5', new: '1' };
    const again = await browser.submit('/queue/hold', fields);
    assert.equal(again.status, 400);
    assert.match(again.html, new RegExp(`<option value="${account}" selected>`), 'the account that was chosen');
    assert.match(again.html, /name="new" value="1" checked/);
    const actions = await browser.open('/developer/actions');
    assert.match(actions.html, /canceled waiting mail of the message/);
  });
});

describe('dashboard: webhooks', () => {
  let app: TestApp;
  let browser: Browser;
  let receiver: WebhookReceiver;

  beforeEach(async () => {
    app = await startTestApp({ settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } } });
    receiver = await startReceiver();
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(async () => {
    await receiver.close();
    await app.stop();
  });

  const registered = async (): Promise<string> => {
    await browser.open('/webhooks/new');
    const made = await browser.submit('/webhooks/new', {
      url: receiver.url,
      description: 'Orders',
      events: ['delivered', 'bounced'],
      concurrency: '5',
      headers: 'X-Token: one',
      password_now: PASSWORD,
    });
    assert.equal(made.status, 200, made.html);
    assert.match(made.html, /whsec_/);
    assert.deepEqual(htmlFaults(made.html), []);
    return /href="\/webhooks\/(whk_[^"]+)"/.exec(made.html)?.[1] ?? '';
  };

  /** Resolves when the endpoint's first call is on record: that is written after the endpoint has answered. */
  const callWritten = async (id: string): Promise<void> => {
    for (;;) {
      const { body } = await app.get<{ data: unknown[] }>(`/v1/webhooks/${id}/deliveries`);
      if (body.data.length > 0) return;
    }
  };

  it('are registered, told, tested and shown with what was said', async () => {
    const id = await registered();
    await app.send({ from: 'hi@simulator.posthorn.test', to: 'delivered@simulator.posthorn.test' });
    await receiver.reached(1);
    await callWritten(id);
    assert.equal(receiver.calls[0]?.headers['x-token'], 'one');
    receiver.answer = { status: 503, body: '<script>alert(1)</script>' };
    await browser.open(`/webhooks/${id}`);
    const tested = await browser.submit(`/webhooks/${id}/test`, { type: 'bounced' });
    assert.match(tested.html, /answered 503/);
    assert.match(tested.html, /&lt;script&gt;alert/);
    assert.deepEqual(htmlFaults(tested.html), []);
    const list = await browser.open('/webhooks');
    assert.match(list.html, /Orders/);
    assert.match(list.html, /of the last 2/);
    assert.deepEqual(htmlFaults(list.html), []);
    const failed = await browser.open(`/webhooks/${id}?status=failed`);
    assert.match(failed.html, /curl/);
    assert.doesNotMatch(failed.html, /whsec_/);
  });

  it('are changed, paused, replayed and removed; secrets are shown and replaced', async () => {
    const id = await registered();
    await browser.open(`/webhooks/${id}`);
    const before = /whsec_[^<"&]+/.exec(
      (await browser.submit(`/webhooks/${id}/secret`, { password_now: PASSWORD })).html,
    )?.[0];
    const after = await browser.submit(`/webhooks/${id}/rotate`, { password_now: PASSWORD });
    assert.ok(before);
    assert.ok(!after.html.includes(before), 'a new one');
    assert.match(after.html, /signs as well until/);
    await browser.submit(`/webhooks/${id}`, {
      url: receiver.url,
      description: 'Renamed',
      events: 'bounced',
      concurrency: '1',
    });
    const { body } = await app.get<{ description: string; events: string[]; header_names: string[] }>(
      `/v1/webhooks/${id}`,
    );
    assert.deepEqual(
      [body.description, body.events, body.header_names],
      ['Renamed', ['bounced'], ['X-Token']],
      'headers stay where none are given',
    );
    await browser.submit(`/webhooks/${id}`, {
      url: receiver.url,
      events: 'bounced',
      concurrency: '1',
      clear_headers: '1',
    });
    assert.deepEqual((await app.get<typeof body>(`/v1/webhooks/${id}`)).body.header_names, []);
    await browser.submit(`/webhooks/${id}/pause`);
    assert.match(browser.last.html, /paused/);
    assert.equal(
      (await browser.submit(`/webhooks/${id}/replay`, { since: '2026-01-30T00:00' })).status,
      409,
      'not while paused',
    );
    await browser.submit(`/webhooks/${id}/enable`);
    await browser.submit(`/webhooks/${id}/replay`, { since: '2026-01-30T00:00', only: 'all' });
    assert.match(browser.last.html, /The replay has begun/);
    assert.match(browser.last.html, /name="types" value="bounced"/);
    assert.doesNotMatch(browser.last.html, /name="types" value="sent"/, 'what it does not receive is not sent again');
    await browser.submit(`/webhooks/${id}/replay`, { since: '2026-01-30T00:00', types: ['bounced'] });
    assert.match(browser.last.html, /The replay has begun/);
    const { body: replays } = await app.get<{ data: { types: string[] }[] }>(`/v1/webhooks/${id}/replays`);
    assert.deepEqual(
      replays.data.map(({ types }) => types),
      [['bounced'], []],
    );
    assert.deepEqual(htmlFaults(browser.last.html), []);
    await browser.submit(`/webhooks/${id}/remove`);
    assert.equal((await browser.open(`/webhooks/${id}`)).status, 404);
  });

  it('are not made of what is wrong, and the form keeps what was typed', async () => {
    for (const [fields, fault] of [
      [{ url: 'ftp://x.test/' }, /url/],
      [{ url: '' }, /url/],
      [{ url: 'https://10.0.0.1/' }, /url/],
      [{ url: receiver.url, events: [] as string[] }, /events/],
      [{ url: receiver.url, concurrency: '99' }, /concurrency/],
      [{ url: receiver.url, headers: 'no colon here' }, /headers/],
      [{ url: receiver.url, headers: 'Authorization: x\nHost: y' }, /header/],
      [{ url: receiver.url, streams: 'nothing' }, /streams/],
      [{ url: receiver.url, domains: 'no_domain!' }, /domains/],
    ] as const) {
      await browser.open('/webhooks/new');
      const page = await browser.submit('/webhooks/new', {
        description: 'kept <i>',
        events: 'sent',
        password_now: PASSWORD,
        ...fields,
      });
      assert.equal(page.status, 400, JSON.stringify(fields) + page.html);
      assert.match(/<p class="fault"[\s\S]*?<\/p>/.exec(page.html)?.[0] ?? '', fault, JSON.stringify(fields));
      assert.match(page.html, /kept &lt;i&gt;/);
      assert.deepEqual(htmlFaults(page.html), []);
    }
  });
});
