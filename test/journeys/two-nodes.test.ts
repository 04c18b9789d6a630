/** Two nodes on one PostgreSQL accept at the same time: what the world gets from them is what it would get from one. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createTransport } from 'nodemailer';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { hasWorkingOthers, startTestApp, zonesFor, type TestApp, type TestAppOptions } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

describe('journey: two nodes', () => {
  let server: FakeMailServer;
  /** The first one leads. */
  let one: TestApp;
  let two: TestApp;
  let running: TestApp[];

  before(function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
  });
  beforeEach(async () => {
    server = await startMailServer();
    running = [];
  });
  afterEach(async () => {
    for (const app of running.splice(0).reverse()) await app.stop();
    await server.close();
  });

  async function start(options: TestAppOptions = {}): Promise<void> {
    const named = (name: string): TestAppOptions => ({
      mailPort: server.port,
      ...options,
      settings: { ...options.settings, node: { name } },
    });
    one = await startTestApp({ ...named('one'), zones: zonesFor('dest.test') });
    running.push(one);
    two = await startTestApp({ ...named('two'), clock: one.clock, resolver: one.resolver, beside: one });
    running.push(two);
    await until(() => hasWorkingOthers(one));
  }

  /** Messages to a node need no time of the test's clock; each look lets the loop turn. */
  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Lets each node look at what the others have changed. */
  async function look(): Promise<void> {
    one.clock.advance(2000);
    await Promise.all(running.map(({ app }) => app.db.commit.transact(() => Promise.resolve())));
  }

  const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hello', text: 'Hello.' };
  const arrived = (): number => server.sessions.flatMap(({ mails }) => mails).length;
  const countOf = async (table: string): Promise<number> =>
    (await one.app.db.prepared.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`))[0]?.n ?? 0;

  it('have different settings from the reload of one until that of the other', async () => {
    await start();
    const found = async (): Promise<string> => {
      one.clock.advance(2000);
      const { data } = await one.operator.call('doctor', { checks: ['nodes'] });
      return data.map(({ why }) => why).join();
    };
    const reload = ({ app, config }: TestApp): unknown =>
      app.reload({
        ...config,
        plans: { ...config.plans, own: { requestsPerMinute: 5, mailsPerDay: null, mailsPerMonth: null } },
      });
    assert.doesNotMatch(await found(), /different settings/);
    reload(one);
    await until(async () => (await found()).includes('different settings: plans'));
    reload(two);
    await until(async () => !(await found()).includes('different settings'));
  });

  it('give one message and two equal answers for one idempotency key, singly and in bulk', async () => {
    await start();
    const bulk = { ...mail, to: undefined, recipients: [{ to: 'a@dest.test' }, { to: 'b@dest.test' }] };
    for (const body of [mail, bulk]) {
      const before = await countOf('messages');
      const rounds = Array.from({ length: 20 }, async () => {
        const headers = { 'idempotency-key': randomUUID() };
        const both = await Promise.all(
          [one, two].map((node) => node.request('POST', '/v1/messages', body, { headers })),
        );
        assert.deepEqual(
          both.map(({ status }) => status),
          [202, 202],
        );
        assert.equal(both[0]?.text, both[1]?.text);
        return both.filter((answer) => answer.headers.get('idempotency-replayed') === 'true').length;
      });
      assert.deepEqual(new Set(await Promise.all(rounds)), new Set([1]));
      assert.equal((await countOf('messages')) - before, 20 * (body === mail ? 1 : 2));
    }
    await one.settled();
    assert.equal(arrived(), 60);
    await one.balanced();
  });

  it('store once what comes by SMTP to both under one idempotency key', async () => {
    await start();
    const sent = Array.from({ length: 5 }, async (_, n) => {
      const twice = {
        ...mail,
        messageId: `<${String(n)}@acme.test>`,
        date: new Date(0),
        headers: { 'X-Posthorn-Idempotency-Key': `k${String(n)}` },
      };
      const both = await Promise.all(
        [one, two].map(({ app }) =>
          createTransport({
            host: '127.0.0.1',
            port: app.ports.submissions ?? 0,
            secure: true,
            tls: { rejectUnauthorized: false },
            auth: { user: 'apikey', pass: one.key },
            greetingTimeout: 300_000,
          }).sendMail(twice),
        ),
      );
      const ids = new Set(both.map(({ response }) => /msg_\w+/.exec(response)?.[0]));
      assert.equal(ids.size, 1, [...ids].join());
    });
    await Promise.all(sent);
    assert.equal(await countOf('messages'), 5);
  });

  it('refuse a key at both from the moment at which its end is answered, also in open streams', async () => {
    await start();
    const made = await one.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'short', scopes: ['event:read'] },
    });
    const ask = (node: TestApp): Promise<number> =>
      node.get('/v1/events', { key: made.key }).then(({ status }) => status);
    assert.deepEqual(await Promise.all([one, two].map(ask)), [200, 200]);
    const stream = await fetch(`${two.url}/v1/events`, {
      headers: { authorization: `Bearer ${made.key}`, accept: 'text/event-stream' },
    });
    assert.equal(stream.status, 200);
    const isAnswered = one.clock.armed(1000);
    const revoked = one.operator.ask('revokeKey', { params: { id: made.id } });
    await isAnswered;
    one.clock.advance(1000);
    await revoked;
    assert.deepEqual(await Promise.all([one, two].map(ask)), [401, 401]);
    // The stream ends; before, it would stay open for ever.
    await stream.text();
  });

  it('see each other’s domains, streams and suppressions at once', async () => {
    await start();
    const refusal = await two.request('POST', '/v1/messages', { ...mail, from: 'hi@shop.test' });
    assert.equal(refusal.status, 403, refusal.text);
    await one.operator.ask('createDomain', { body: { name: 'shop.test', trusted: true } });
    const unknown = await two.request('POST', '/v1/messages', { ...mail, stream: 'news' });
    assert.equal(unknown.status, 400, unknown.text);
    await one.request('POST', '/v1/streams', { slug: 'news', name: 'News', type: 'transactional' });
    await until(
      async () => (await two.request('POST', '/v1/messages', { ...mail, from: 'hi@shop.test' })).status === 202,
    );
    await until(async () => (await two.request('POST', '/v1/messages', { ...mail, stream: 'news' })).status === 202);
    await one.request('POST', '/v1/suppressions', { email: 'bo@dest.test' });
    const suppressed = await two.request('POST', '/v1/messages', { ...mail, to: 'bo@dest.test' });
    assert.deepEqual([suppressed.status, suppressed.body['status']], [202, 'suppressed']);
  });

  it('deliver at the one that leads what the other has accepted, and tell its event stream', async () => {
    await start();
    const following = two.follow();
    const { id } = await two.send();
    const events = await following.of(id, 'delivered');
    assert.deepEqual(
      events.map(({ type }) => type),
      ['sent', 'delivered'],
    );
    assert.equal(arrived(), 1);
    await one.balanced();
  });

  it('keep a quota together', async () => {
    await start({ settings: { plans: { unlimited: { requestsPerMinute: 1_000_000, mailsPerDay: 120 } } } });
    const take = (node: TestApp): Promise<number> =>
      node.request('POST', '/v1/messages', mail).then(({ status }) => status);
    const statuses: number[] = [];
    for (let n = 0; n < 70; n += 1) {
      statuses.push(...(await Promise.all([take(one), take(two)])));
      one.clock.advance(100);
    }
    const accepted = statuses.filter((status) => status === 202).length;
    assert.ok(accepted >= 118 && accepted <= 122, `${String(accepted)} were accepted`);
    assert.ok(
      statuses.slice(-10).every((status) => status === 429),
      statuses.slice(-10).join(),
    );
  });

  it('keep the rate of an account together', async () => {
    await start({ settings: { plans: { unlimited: { requestsPerMinute: 100 } } } });
    // The windows of all accounts end with the minute, and this clock begins with one.
    assert.equal(one.clock.now() % 60_000, 0);
    const ask = async (node: TestApp): Promise<number> => (await node.get('/v1/streams')).status;
    for (let n = 0; n < 60; n += 1) assert.equal(await ask(one), 200);
    const told = new Promise<void>((resolve) => {
      two.app.db.nodes?.listen((message) => {
        if (message?.about === 'rates') resolve();
      });
    });
    one.clock.advance(2000);
    // Every question counts, so none is asked before the other node knows of the first ones.
    await told;
    let left = 0;
    while ((await ask(two)) === 200) left += 1;
    assert.ok(left <= 40, `${String(left)} more`);
  });

  it('hold at the one that leads what the other one holds', async () => {
    await start();
    await two.operator.call('queue.hold', { domain: 'dest.test', new: true });
    await until(async () => (await one.operator.call('queue.holds', {})).data.length === 1);
    const { id } = await two.send();
    await one.held(id);
    assert.equal(arrived(), 0);
    const [hold] = (await one.operator.call('queue.holds', {})).data;
    await two.operator.call('queue.release', { id: hold?.id ?? '' });
    await two.follow().of(id, 'delivered');
  });

  it('read a bounce that comes to the other one, and what it left unread when it ended', async () => {
    await start();
    const { id } = await two.send();
    await two.follow().of(id, 'delivered');
    const returnPath = server.sessions.flatMap(({ mails }) => mails).at(-1)?.from ?? '';
    const replies = await sendByHand(two.app.ports.mx ?? 0, '', returnPath, dsn('ana@dest.test'));
    assert.match(replies.at(-1) ?? '', /^250 /);
    await one.follow().of(id, 'bounced');
    await until(async () => (await countOf('reports WHERE kind IS NULL')) === 0);
    await look();
    // As a node leaves it that dies between its 250 and its reading.
    await one.app.db.commit.transact((tx) => tx.run('UPDATE reports SET kind = NULL'));
    await running.pop()?.stop();
    await until(async () => {
      await look();
      return one.app.db.nodes?.hasOthers === false;
    });
    // A thread loads in real time: while it does, its limit on the test's clock must not pass.
    await until(async () => (await countOf('reports WHERE kind IS NULL')) === 0);
    const { body } = await one.get<{ data: unknown[] }>(`/v1/events?message_id=${id}&type=bounced`);
    assert.equal(body.data.length, 1, 'a second reading changes nothing');
  });

  it('count the uses of a key together', async () => {
    await start();
    await Promise.all([one, two].flatMap((node) => [1, 2, 3].map(() => node.get('/v1/streams'))));
    await look();
    await until(async () => {
      const { body } = await one.get<{ requests_24h?: number }>(`/v1/keys/${one.keyId}`);
      return (body.requests_24h ?? 0) >= 6;
    });
  });

  it('serve one session: a form of one is taken by the other', async () => {
    await start();
    const browser = await signedIn(one.url, one.operator);
    await browser.open('/streams');
    const before = await countOf('streams');
    const fields = { _form: browser.field('_form'), slug: 'offers', name: 'Offers', type: 'broadcast' };
    await browser.at(two.url).submit('/streams', fields);
    assert.equal(await countOf('streams'), before + 1);
  });
});
