/** Keys, domains, streams, settings, quotas and the audit log by API, over the whole program. */
import assert from 'node:assert/strict';
import { scopeNames } from '../../src/keys/scopes.ts';
import { SWEEP_MS } from '../../src/mta/sweeper.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type Answer, type TestApp } from '../support/harness/app.ts';

interface Refused {
  error: { code: string; message: string; field: string | null };
}
interface Key {
  id: string;
  key: string;
  mode: string;
  scopes: string[];
  domains: string[];
  allowed_ips: string[];
  expires_at: string | null;
  revoked_at: string | null;
}
interface Domain {
  id: string;
  name: string;
  status: string;
  return_path: string;
  track_clicks: boolean | null;
  records: {
    purpose: string;
    type: string;
    host: string;
    value: string;
    status: string;
    found: string | null;
    required: boolean;
  }[];
  dkim: { selector: string; algorithm: string; state: string }[];
}

const DAY = 86_400_000;

describe('journey: administration', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let admin: string;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: {
        plans: { tiny: { requestsPerMinute: 1000, mailsPerDay: 3, mailsPerMonth: 4 } },
        domains: { grace: '0s' },
      },
    });
    ({ key: admin } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'admin', scopes: [...scopeNames] },
    }));
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const call = <Body>(method: string, path: string, body?: unknown, key = admin, headers = {}): Promise<Answer<Body>> =>
    app.request<Body>(method, path, body, { key, headers });

  async function refused(
    code: string,
    field: string | null,
    ...request: Parameters<typeof call>
  ): Promise<Answer<Refused>> {
    const answer = await call<Refused>(...request);
    assert.deepEqual([answer.body.error.code, answer.body.error.field], [code, field], answer.text);
    return answer;
  }

  async function made<Body = Key>(path: string, body: unknown, key = admin): Promise<Body> {
    const answer = await call<Body>('POST', path, body, key);
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  }

  describe('keys', () => {
    it('makes a key that works, shows its secret once, and revokes it at once', async () => {
      const key = await made('/v1/keys', { name: 'shop', scopes: ['message:read'] });
      assert.equal((await call('GET', '/v1/messages', undefined, key.key)).status, 200);
      const shown = await call<Key>('GET', `/v1/keys/${key.id}`);
      assert.equal(shown.body.key, undefined);
      assert.deepEqual([shown.body.scopes, shown.body.mode], [['message:read'], 'live']);
      const list = await call<{ data: Key[] }>('GET', '/v1/keys');
      assert.ok(list.body.data.some(({ id }) => id === key.id));
      assert.ok(!list.text.includes(key.key));
      assert.equal((await call('DELETE', `/v1/keys/${key.id}`)).status, 204);
      await refused('key_revoked', null, 'GET', '/v1/messages', undefined, key.key);
    });

    it('gives the same key again under the same Idempotency-Key, and stores it nowhere in the clear', async () => {
      const body = { name: 'shop', scopes: ['send'] };
      const headers = { 'idempotency-key': 'make-one' };
      const first = await call<Key>('POST', '/v1/keys', body, admin, headers);
      const again = await call<Key>('POST', '/v1/keys', body, admin, headers);
      assert.equal(again.headers.get('idempotency-replayed'), 'true');
      assert.equal(again.text, first.text);
      const rows = JSON.stringify(await app.app.db.reader('idempotency'));
      assert.ok(!rows.includes(first.body.key));
    });

    it('never gives more than the asking key has', async () => {
      const { key: small } = await app.operator.ask<{ id: string; key: string }>('createKey', {
        body: {
          name: 'small',
          scopes: ['key', 'send'],
          ttl: DAY / 1000,
          domains: ['acme.test'],
          allowed_ips: ['127.0.0.0/8'],
        },
      });
      const ask = { name: 'more', scopes: ['send'] };
      const rows: [string, string, unknown][] = [
        ['insufficient_scope', 'scopes', { ...ask, scopes: ['send', 'template'] }],
        ['domain_not_allowed', 'domains', { ...ask, domains: ['other.test'] }],
        ['invalid_field', 'allowed_ips', { ...ask, allowed_ips: ['10.0.0.0/8'] }],
        ['invalid_field', 'allowed_ips', { ...ask, allowed_ips: ['126.0.0.0/7'] }],
        ['invalid_field', 'expires_at', { ...ask, ttl: 2 * 86_400 }],
        ['invalid_field', 'allowed_ips[0]', { ...ask, allowed_ips: ['0.0.0.0/0'] }],
        ['mutually_exclusive_fields', 'ttl', { ...ask, ttl: 60, expires_at: '2030-01-01T00:00:00Z' }],
        ['missing_field', 'replaces', { ...ask, revoke_after: 60 }],
        ['not_found', 'replaces', { ...ask, replaces: 'key_01jz5w8q3hf2m9d4x6k7c1b0na' }],
      ];
      for (const [code, field, body] of rows) await refused(code, field, 'POST', '/v1/keys', body, small);
      const child = await made('/v1/keys', ask, small);
      assert.deepEqual([child.mode, child.domains, child.allowed_ips], ['live', ['acme.test'], ['127.0.0.0/8']]);
      assert.equal(Date.parse(child.expires_at ?? ''), app.clock.now() + DAY);
      await refused('domain_not_allowed', 'domains', 'PATCH', `/v1/keys/${child.id}`, { domains: [] }, small);
      await refused('insufficient_scope', 'scopes', 'PATCH', `/v1/keys/${app.keyId}`, { name: 'mine now' }, small);
    });

    it('lets the replaced key live until its time, and ends it then', async () => {
      const old = await made('/v1/keys', { name: 'old', scopes: ['message:read'] });
      const next = await made('/v1/keys', {
        name: 'new',
        scopes: ['message:read'],
        replaces: old.id,
        revoke_after: 60,
      });
      assert.equal((await call('GET', '/v1/messages', undefined, old.key)).status, 200);
      const shown = await call<Key>('GET', `/v1/keys/${old.id}`);
      assert.equal(Date.parse(shown.body.revoked_at ?? ''), app.clock.now() + 60_000);
      app.clock.advance(60_000);
      await refused('key_revoked', null, 'GET', '/v1/messages', undefined, old.key);
      assert.equal((await call('GET', '/v1/messages', undefined, next.key)).status, 200);
    });

    it('refuses a change that would lock out the caller, and takes it for another key', async () => {
      const own = await made('/v1/keys', { name: 'own', scopes: ['key'] });
      await refused(
        'invalid_state',
        'allowed_ips',
        'PATCH',
        `/v1/keys/${own.id}`,
        { allowed_ips: ['10.0.0.1'] },
        own.key,
      );
      assert.equal((await call('PATCH', `/v1/keys/${own.id}`, { allowed_ips: ['127.0.0.1'] }, own.key)).status, 200);
      assert.equal((await call('PATCH', `/v1/keys/${own.id}`, { allowed_ips: ['10.0.0.1'] })).status, 200);
      await refused('ip_not_allowed', null, 'GET', '/v1/keys', undefined, own.key);
    });

    it('closes what a key holds open when it is revoked', async () => {
      const key = await made('/v1/keys', { name: 'watcher', scopes: ['event:read'] });
      const stream = await fetch(`${app.url}/v1/events`, {
        headers: { authorization: `Bearer ${key.key}`, accept: 'text/event-stream' },
      });
      const ended = stream.text();
      await call('DELETE', `/v1/keys/${key.id}`);
      await ended;
    });
  });

  /**
   * Resolves when the sweep under way has ended. The next one, which frees mail whose hold has ended, comes 30 s after that: it would
   * never come to a test that lets those seconds pass before.
   */
  async function sweepEnded(): Promise<void> {
    while (!app.clock.isDueIn(SWEEP_MS)) await new Promise((resolve) => setImmediate(resolve));
  }

  describe('domains', () => {
    it('is had by the account that verifies it first, whoever has claimed it before', async () => {
      await app.operator.call('accounts.add', { name: 'squatter', plan: 'unlimited' });
      const { key: squatter } = await app.operator.ask<{ id: string; key: string }>('createKey', {
        account: 'squatter',
        body: { name: 's', scopes: ['domain'] },
      });
      const claim = await made<Domain>('/v1/domains', { name: 'victim.test' }, squatter);
      const domain = await made<Domain>('/v1/domains', { name: 'victim.test' });
      publish(domain);
      assert.equal((await call<Domain>('POST', `/v1/domains/${domain.id}/verify`)).body.status, 'verified');
      const told = (await call<Domain & { taken: boolean }>('GET', `/v1/domains/${claim.id}`, undefined, squatter))
        .body;
      assert.deepEqual([told.status, told.taken], ['failed', true]);
      publish(told);
      const again = (
        await call<Domain & { taken: boolean }>('POST', `/v1/domains/${claim.id}/verify`, undefined, squatter)
      ).body;
      assert.deepEqual([again.status, again.taken], ['failed', true], 'with its records in DNS, too');
      assert.equal((await call('DELETE', `/v1/domains/${domain.id}`)).status, 204);
      publish(told);
      const free = (
        await call<Domain & { taken: boolean }>('POST', `/v1/domains/${claim.id}/verify`, undefined, squatter)
      ).body;
      assert.deepEqual([free.status, free.taken], ['verified', false], 'free again');
    });

    it('is added, checked, changed and removed', async () => {
      const domain = await made<Domain>('/v1/domains', { name: 'Shop.Test', track_clicks: true });
      assert.deepEqual([domain.name, domain.status, domain.return_path], ['shop.test', 'pending', 'rp.shop.test']);
      assert.equal(domain.track_clicks, true);
      await refused('already_exists', 'name', 'POST', '/v1/domains', { name: 'shop.test' });
      await refused('invalid_field', 'name', 'POST', '/v1/domains', { name: 'no domain' });
      await refused('invalid_field', 'return_path', 'POST', '/v1/domains', {
        name: 'news.shop.test',
        return_path: 'rp.acme.test',
      });
      publish(domain);
      const checked = await call<Domain>('POST', `/v1/domains/${domain.id}/verify`);
      assert.equal(checked.body.status, 'verified', checked.text);
      assert.ok(
        checked.body.records.filter(({ required }) => required).every(({ status, found }) => status === 'ok' && found),
      );
      await refused('invalid_field', 'return_path', 'PATCH', `/v1/domains/${domain.id}`, {
        return_path: 'elsewhere.test',
      });
      const changed = await call<Domain>('PATCH', `/v1/domains/${domain.id}`, { track_clicks: null });
      assert.equal(changed.body.track_clicks, null);
      assert.equal((await call('DELETE', `/v1/domains/${domain.id}`)).status, 204);
      assert.equal((await call('GET', `/v1/domains/${domain.id}`)).status, 404);
    });

    it('rotates DKIM keys in stages', async () => {
      const domain = await made<Domain>('/v1/domains', { name: 'shop.test' });
      publish(domain);
      await call('POST', `/v1/domains/${domain.id}/verify`);
      const rotated = await call<Domain>('POST', `/v1/domains/${domain.id}/dkim/rotate`);
      assert.deepEqual(states(rotated.body), ['active', 'active', 'pending', 'pending']);
      await refused('invalid_state', null, 'POST', `/v1/domains/${domain.id}/dkim/rotate`);
      publish(rotated.body);
      const seen = await call<Domain>('POST', `/v1/domains/${domain.id}/verify`);
      assert.deepEqual(states(seen.body), ['active', 'active', 'retiring', 'retiring']);
    });

    it('holds the mail of a domain that lost its records, and sends it when they are back', async () => {
      const domain = await made<Domain>('/v1/domains', { name: 'shop.test' });
      publish(domain);
      await call('POST', `/v1/domains/${domain.id}/verify`);
      const at = new Date(app.clock.now() + 3_600_000).toISOString();
      const { id } = await app.send({ from: 'a@shop.test', send_at: at });
      await refused('invalid_state', null, 'DELETE', `/v1/domains/${domain.id}`);
      app.resolver.zones = zonesFor('dest.test');
      const lost = await call<Domain>('POST', `/v1/domains/${domain.id}/verify`);
      assert.equal(lost.body.status, 'failed');
      app.clock.advance(3_600_000);
      await app.settled();
      assert.equal((await app.message(id)).recipients[0]?.attempt_count, 0);
      await sweepEnded();
      publish(domain);
      await call('POST', `/v1/domains/${domain.id}/verify`);
      app.clock.advance(SWEEP_MS);
      await app.follow().of(id, 'delivered');
    });
  });

  describe('streams and pauses', () => {
    it('is made, paused, resumed and removed', async () => {
      const stream = await made<{ id: string; priority: number }>('/v1/streams', {
        slug: 'news',
        name: 'News',
        type: 'broadcast',
      });
      assert.equal(stream.priority, 1);
      await refused('already_exists', 'slug', 'POST', '/v1/streams', { slug: 'news', name: 'News', type: 'broadcast' });
      await refused('invalid_field', 'slug', 'POST', '/v1/streams', { slug: 'No', name: 'News', type: 'broadcast' });
      const unfit = await call<{ error: { message: string } }>('POST', '/v1/streams', {
        slug: 'News Letter',
        name: 'News',
        type: 'broadcast',
      });
      assert.match(unfit.body.error.message, /^`slug` must be lower-case letters, digits and hyphens, /);
      await refused('invalid_field', 'priority', 'PATCH', `/v1/streams/${stream.id}`, { priority: 2 });
      const at = new Date(app.clock.now() + 60_000).toISOString();
      const { id } = await app.send({ stream: 'news', send_at: at });
      await refused('invalid_state', null, 'DELETE', `/v1/streams/${stream.id}`);
      await call('PATCH', `/v1/streams/${stream.id}`, { paused: true });
      const mail = { from: 'hi@acme.test', to: 'a@dest.test', subject: 's', text: 't', stream: 'news' };
      await refused('sending_paused', 'stream', 'POST', '/v1/messages', mail);
      app.clock.advance(60_000);
      await app.settled();
      assert.equal((await app.message(id)).recipients[0]?.attempt_count, 0);
      await sweepEnded();
      await call('PATCH', `/v1/streams/${stream.id}`, { paused: false, priority: 0 });
      app.clock.advance(SWEEP_MS);
      await app.follow().of(id, 'delivered');
      assert.equal((await call('DELETE', `/v1/streams/${stream.id}`)).status, 204);
      await refused('unknown_stream', 'stream', 'POST', '/v1/messages', mail);
      const list = await call<{ data: { id: string; slug: string }[] }>('GET', '/v1/streams');
      assert.deepEqual(
        list.body.data.map(({ slug }) => slug),
        ['transactional', 'broadcast'],
      );
      for (const { id: builtIn } of list.body.data)
        await refused('invalid_state', null, 'DELETE', `/v1/streams/${builtIn}`);
    });

    it('refuses the mail of a paused account', async () => {
      await app.operator.call('accounts.pause', { account: 'default', paused: true });
      app.clock.advance(1000);
      const mail = { from: 'hi@acme.test', to: 'a@dest.test', subject: 's', text: 't' };
      await refused('sending_paused', null, 'POST', '/v1/messages', mail);
      await app.operator.call('accounts.pause', { account: 'default', paused: false });
      app.clock.advance(1000);
      await app.send();
    });
  });

  it('keeps settings within those of the server', async () => {
    interface Settings {
      track_opens: boolean;
      retention: { content_days: number; events_days: number };
      limits: { recipients: number; html_bytes: number; single_body_bytes: number; blocked_extensions: string[] };
    }
    const first = await call<Settings>('GET', '/v1/settings');
    assert.deepEqual(
      [first.body.track_opens, first.body.retention.content_days, first.body.limits.recipients],
      [false, 30, 50],
    );
    const { html_bytes, single_body_bytes, blocked_extensions } = first.body.limits;
    assert.deepEqual([html_bytes, single_body_bytes], [5_242_880, 41_943_040]);
    assert.ok(blocked_extensions.includes('exe'));
    const changed = await call<Settings>('PATCH', '/v1/settings', {
      track_opens: true,
      retention: { content_days: 7 },
    });
    assert.deepEqual([changed.body.track_opens, changed.body.retention.content_days], [true, 7]);
    const back = await call<Settings>('PATCH', '/v1/settings', { retention: { content_days: null } });
    assert.deepEqual([back.body.track_opens, back.body.retention], [true, first.body.retention]);
    await refused('invalid_field', 'retention.events_days', 'PATCH', '/v1/settings', {
      retention: { events_days: 91 },
    });
    await refused('invalid_field', 'retention.events_days', 'PATCH', '/v1/settings', { retention: { events_days: 0 } });
    await refused('unknown_field', 'plan', 'PATCH', '/v1/settings', { plan: 'unlimited' });
  });

  it('stops at the quota of the plan, to the day and the month, and tells when it goes on', async () => {
    await app.operator.call('accounts.plan', { account: 'default', plan: 'tiny' });
    // The middle of a month, so that the next day is in it too.
    const today = new Date(app.clock.now());
    app.clock.advance(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1, 10, 9, 30) - app.clock.now());
    await app.send({ cc: ['b@dest.test', 'c@dest.test'] });
    const mail = { from: 'hi@acme.test', to: 'a@dest.test', subject: 's', text: 't' };
    const full = await refused('quota_exceeded', null, 'POST', '/v1/messages', mail);
    assert.equal(full.status, 429);
    assert.match(full.body.error.message, /Wait/);
    const many = Array.from({ length: 1000 }, (_, n) => ({ to: `r${String(n)}@dest.test` }));
    const over = await refused('quota_exceeded', null, 'POST', '/v1/messages', {
      ...{ from: mail.from, subject: mail.subject, text: mail.text },
      recipients: many,
    });
    assert.match(over.body.error.message, /waiting does not help\. Send fewer at once/);
    const left = DAY - (app.clock.now() % DAY);
    assert.equal(full.headers.get('retry-after'), String(Math.ceil(left / 1000)));
    app.clock.advance(left);
    await app.send();
    const month = await refused('quota_exceeded', null, 'POST', '/v1/messages', mail);
    const now = new Date(app.clock.now());
    const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
    assert.equal(month.headers.get('retry-after'), String(Math.ceil((end - now.getTime()) / 1000)));
    const { body } = await call<{ usage: unknown }>('GET', '/v1/settings');
    assert.deepEqual(body.usage, { mails_today: 1, mails_this_month: 4 });
  });

  it('counts no simulated mail against the quota, by whatever key', async () => {
    await app.operator.call('accounts.plan', { account: 'default', plan: 'tiny' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'sandbox', mode: 'test', scopes: ['send'] },
    });
    const mail = { from: 'hi@acme.test', to: 'a@dest.test', subject: 's', text: 't' };
    const usage = async (): Promise<unknown> => (await call<{ usage: unknown }>('GET', '/v1/settings')).body.usage;
    for (let n = 0; n < 5; n++) await app.send({}, { key });
    await app.send({ test: true });
    await app.send({ to: 'delivered@simulator.posthorn.test' });
    assert.deepEqual(await usage(), { mails_today: 0, mails_this_month: 0 });
    await app.send({ cc: ['b@dest.test', 'c@dest.test'] });
    await refused('quota_exceeded', null, 'POST', '/v1/messages', mail);
    await app.send({}, { key });
    assert.deepEqual(await usage(), { mails_today: 3, mails_this_month: 3 });
    await app.settled();
    await app.balanced();
  });

  it('lists the audit log with filters and pages', async () => {
    interface Page {
      data: { id: string; key_id: string; endpoint: string; status: number; result: string; at: string }[];
      next_cursor: string | null;
    }
    const key = await made('/v1/keys', { name: 'shop', scopes: ['message:read'] });
    await refused('insufficient_scope', null, 'POST', '/v1/streams', {}, key.key);
    await refused('insufficient_scope', null, 'GET', '/v1/keys', undefined, key.key);
    const mine = await call<Page>('GET', `/v1/audit?key_id=${key.id}&result=refused`);
    assert.deepEqual(
      mine.body.data.map(({ endpoint }) => endpoint),
      ['/v1/keys', '/v1/streams'],
    );
    const first = await call<Page>('GET', `/v1/audit?key_id=${key.id}&limit=1`);
    const second = await call<Page>('GET', `/v1/audit?key_id=${key.id}&limit=1&after=${first.body.next_cursor ?? ''}`);
    assert.deepEqual([...first.body.data, ...second.body.data], mine.body.data);
    const since = encodeURIComponent(new Date(app.clock.now() + 1).toISOString());
    assert.deepEqual((await call<Page>('GET', `/v1/audit?since=${since}`)).body.data, []);
    const made201 = await call<Page>('GET', `/v1/audit?method=post&status=201&until=${since}`);
    assert.deepEqual(
      made201.body.data.map(({ endpoint }) => endpoint),
      ['/v1/keys'],
    );
    await refused('invalid_cursor', 'after', 'GET', `/v1/audit?limit=1&after=${first.body.next_cursor ?? ''}`);
    await refused('invalid_parameter', 'colour', 'GET', '/v1/audit?colour=red');
  });

  const states = ({ dkim }: Domain): string[] => dkim.map(({ state }) => state).sort();

  /** Puts the records that the answer shows into DNS. */
  function publish({ records }: Domain): void {
    const zones = { ...zonesFor('dest.test') };
    for (const { type, host, value } of records) zones[`${host} ${type}`] = [value];
    app.resolver.zones = zones;
  }
});
