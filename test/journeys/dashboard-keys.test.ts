/** The Developer tab: a key made by a form works, and what is done to it in the form is in force. */
import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { scopeNames } from '../../src/keys/scopes.ts';
import type { AuditRow } from '../../src/storage/tables.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { type Browser, type Fields, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

const NEW = '/developer/keys/new';
const USUAL = { name: 'shop', mode: 'live', preset: 'send', ttl: 'none', password_now: PASSWORD };

describe('dashboard: API keys', () => {
  let app: TestApp;
  let browser: Browser;
  beforeEach(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(() => app.stop());

  /** Makes a key through the form; gives the secret that the page shows. */
  const make = async (fields: Fields = {}): Promise<string> => {
    await browser.open(NEW);
    const page = await browser.submit(NEW, { ...USUAL, ...fields });
    assert.equal(page.status, 200, page.html);
    const key = /<pre id="the-key">([^<]+)<\/pre>/.exec(page.html)?.[1] ?? '';
    assert.match(key, /^ak_(?:live|test)_/);
    return key;
  };
  const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', text: 'Hi' };
  const send = (key: string) => app.request<{ error: { code: string } }>('POST', '/v1/messages', mail, { key });
  const idOf = async (name: string): Promise<string> => {
    const { html } = await browser.open('/developer/keys');
    return new RegExp(`href="/developer/keys/(key_[^"]+)" title="[^"]*">${name}<`).exec(html)?.[1] ?? '';
  };

  it('are made by the form, shown once, and open what was ticked', async () => {
    const key = await make();
    const { html } = browser.last;
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /download="posthorn.env"/);
    assert.ok(html.includes(encodeURIComponent(`POSTHORN_API_KEY=${key}`)));
    assert.match(html, /I have stored it/);
    assert.match(html, /curl -sS/);
    assert.equal((await send(key)).status, 202);
    const reading = await app.get<{ error: { code: string } }>('/v1/messages', { key });
    assert.equal(reading.body.error.code, 'insufficient_scope');
    for (const where of ['/developer/keys', `/developer/keys/${await idOf('shop')}`])
      assert.ok(!(await browser.open(where)).html.includes(key), where);
    assert.match((await browser.open('/developer/keys')).html, /member:ana@example\.net/);
  });

  it('can be given another end, or none', async () => {
    const key = await make();
    const where = `/developer/keys/${await idOf('shop')}`;
    const ends = async (fields: Fields): Promise<string | null> => {
      await browser.open(where);
      const seen = await browser.submit(where, { name: 'shop', scopes: ['send'], ...fields });
      assert.equal(seen.status, 200, seen.html);
      const { body } = await app.get<{ data: { name: string; expires_at: string | null }[] }>('/v1/keys');
      return body.data.find(({ name }) => name === 'shop')?.expires_at ?? null;
    };
    const day = new Date(app.clock.now() + 5 * 86_400_000).toISOString().slice(0, 10);
    assert.equal(await ends({ ttl: 'date', expires_on: day }), `${day}T23:59:59.000Z`);
    assert.equal(await ends({}), `${day}T23:59:59.000Z`, 'as it is');
    await browser.open(where);
    const past = await browser.submit(where, { name: 'shop', scopes: ['send'], ttl: 'date', expires_on: '2020-01-01' });
    assert.equal(past.status, 400);
    assert.match(past.html, /in the future/);
    app.clock.advance(6 * 86_400_000);
    assert.equal((await send(key)).status, 401);
  });

  it('have the scopes of a preset, or those of the boxes', async () => {
    const { body } = await app.get<{ data: { name: string; scopes: string[]; mode: string }[] }>('/v1/keys');
    assert.equal(body.data.length, 1);
    const cases: [Fields, string[]][] = [
      [{ name: 'a', preset: 'app' }, ['send', 'message:read', 'template:read', 'suppression:read']],
      [
        { name: 'b', preset: 'marketing' },
        ['send', 'campaign', 'campaign:read', 'message:read', 'template', 'suppression'],
      ],
      [{ name: 'c', preset: 'all', mode: 'test' }, scopeNames],
      [{ name: 'd', preset: 'custom', scopes: ['stats:read', 'event:read'] }, ['event:read', 'stats:read']],
      [{ name: 'e', preset: 'send', scopes: ['settings'] }, ['send']],
    ];
    for (const [fields, scopes] of cases) {
      const key = await make(fields);
      assert.equal(key.startsWith('ak_test_'), fields['mode'] === 'test');
      const list = await app.get<typeof body>('/v1/keys');
      assert.deepEqual(
        list.body.data.find(({ name }) => name === fields['name'])?.scopes,
        scopes,
        String(fields['name']),
      );
    }
    await make({ name: 'reader', preset: 'read' });
    const list = await app.get<typeof body>('/v1/keys');
    assert.ok(list.body.data[0]?.scopes.every((scope) => scope.endsWith(':read')));
  });

  it('end, and are held to addresses and domains, as the form says', async () => {
    await make({ ttl: '30', my_address: '1', allowed_ips: '203.0.113.0/24', domains: 'acme.test' });
    const list = await app.get<{ data: { expires_at: string; allowed_ips: string[]; domains: string[] }[] }>(
      '/v1/keys',
    );
    const [made] = list.body.data;
    assert.ok(made);
    assert.equal(made.expires_at, new Date(app.clock.now() + 30 * 86_400_000).toISOString());
    assert.deepEqual(made.allowed_ips, ['203.0.113.0/24', '127.0.0.1']);
    assert.deepEqual(made.domains, ['acme.test']);
    const day = new Date(app.clock.now() + 5 * 86_400_000).toISOString().slice(0, 10);
    await make({ name: 'dated', ttl: 'date', expires_on: day });
    const dated = await app.get<typeof list.body>('/v1/keys');
    assert.equal(dated.body.data[0]?.expires_at, `${day}T23:59:59.000Z`);
  });

  it('are not made of what is wrong, and the form keeps what was typed', async () => {
    const cases: [Fields, RegExp][] = [
      [{ name: ' ' }, /name/],
      [{ name: 'x'.repeat(101) }, /name/],
      [{ preset: 'custom' }, /scope/],
      [{ preset: 'custom', scopes: 'nonsense' }, /scope/],
      [{ allowed_ips: '0.0.0.0/0' }, /allowed_ips/],
      [{ allowed_ips: 'not-an-address' }, /allowed_ips/],
      [{ ttl: 'date' }, /expires_on/],
      [{ ttl: 'date', expires_on: '2001-01-01' }, /must be in the future/],
      [{ domains: 'no domain!' }, /domains/],
    ];
    for (const [fields, fault] of cases) {
      await browser.open(NEW);
      const page = await browser.submit(NEW, { ...USUAL, allowed_ips: '203.0.113.7', ...fields });
      assert.equal(page.status, 400, JSON.stringify(fields));
      assert.match(/<p class="fault"[\s\S]*?<\/p>/.exec(page.html)?.[0] ?? '', fault, JSON.stringify(fields));
      if (!('allowed_ips' in fields)) assert.match(page.html, /203\.0\.113\.7/);
      assert.deepEqual(htmlFaults(page.html), []);
    }
    assert.equal((await app.get<{ data: unknown[] }>('/v1/keys')).body.data.length, 1);
  });

  it('are revoked at once, after the warning with their last use', async () => {
    const key = await make();
    assert.equal((await send(key)).status, 202);
    const id = await idOf('shop');
    app.clock.advance(60_000);
    const page = await browser.open(`/developer/keys/${id}`);
    assert.match(page.html, /Revoke this key…/);
    assert.match(page.html, new RegExp(`href="/developer/log\\?key_id&#x3D;${id}"`));
    await browser.submit(`/developer/keys/${id}/revoke`);
    assert.match(browser.last.html, /Revoked/);
    assert.equal((await send(key)).body.error.code, 'key_revoked');
    assert.match((await browser.open(`/developer/keys/${id}`)).html, /is no longer valid/);
  });

  it('lead to the messages that they sent, which the list of messages finds by the key', async () => {
    const sent = await app.request<{ id: string }>('POST', '/v1/messages', mail, { key: await make() });
    assert.equal(sent.status, 202, sent.text);
    const others = await app.send();
    const id = await idOf('shop');
    const where = `/messages?key_id=${id}`;
    assert.ok((await browser.open(`/developer/keys/${id}`)).html.includes(`href="${where.replace('=', '&#x3D;')}"`));
    const { html } = await browser.open(where);
    assert.ok(html.includes(`<option value="${id}" selected>shop</option>`), html);
    assert.ok(html.includes(`href="/messages/${sent.body.id}"`));
    assert.ok(!html.includes(others.id));
  });

  it('are replaced: both work until the hours are over', async () => {
    const old = await make({ preset: 'app' });
    const id = await idOf('shop');
    await browser.open(`/developer/keys/${id}`);
    const page = await browser.submit(`/developer/keys/${id}/replace`, { hours: '24', password_now: PASSWORD });
    const fresh = /<pre id="the-key">([^<]+)<\/pre>/.exec(page.html)?.[1] ?? '';
    assert.equal((await send(old)).status, 202);
    assert.equal((await send(fresh)).status, 202);
    assert.equal((await app.get('/v1/messages', { key: fresh })).status, 200, 'with the same scopes');
    app.clock.advance(24 * 3_600_000 + 1);
    assert.equal((await send(old)).body.error.code, 'key_revoked');
    assert.equal((await send(fresh)).status, 202);
  });

  it('are not replaced once they have ended, since the new one would have no end', async () => {
    await make({ preset: 'app', ttl: '30' });
    const id = await idOf('shop');
    await browser.open(`/developer/keys/${id}`);
    await app.app.db.commit.transact((tx) => tx.run('UPDATE api_keys SET expires_at = 1 WHERE id = ?', [id]));
    const page = await browser.submit(`/developer/keys/${id}/replace`, { hours: '24' });
    assert.match(page.html, /This key has ended .* Create a new key/);
    assert.doesNotMatch(page.html, /the-key/);
  });

  it('are changed, in force at once', async () => {
    const key = await make();
    const id = await idOf('shop');
    await browser.open(`/developer/keys/${id}`);
    await browser.submit(`/developer/keys/${id}`, {
      name: 'shop 2',
      scopes: ['message:read'],
      allowed_ips: '',
      domains: '',
    });
    assert.match(browser.last.html, /with effect at once/);
    assert.equal((await send(key)).body.error.code, 'insufficient_scope');
    assert.equal((await app.get('/v1/messages', { key })).status, 200);
    await browser.submit(`/developer/keys/${id}`, {
      name: 'shop 2',
      scopes: ['message:read'],
      allowed_ips: '198.51.100.1',
    });
    assert.equal(
      (await app.get<{ error: { code: string } }>('/v1/messages', { key })).body.error.code,
      'ip_not_allowed',
    );
    const bad = await browser.submit(`/developer/keys/${id}`, { name: 'shop 2', allowed_ips: '' });
    assert.equal(bad.status, 400, 'without any scope');
  });

  it('leave a line for each use, refused ones too, and what people did stands apart', async () => {
    const key = await make();
    await send(key);
    await app.get('/v1/messages', { key });
    app.clock.advance(200);
    const id = await idOf('shop');
    const log = await browser.open(`/developer/log?key_id=${id}`);
    assert.match(log.html, /insufficient_scope/);
    assert.match(log.html, /\/v1\/messages/);
    assert.doesNotMatch(log.html, /member:ana/);
    const refused = await browser.open(`/developer/log?key_id=${id}&result=refused`);
    assert.equal(refused.html.match(/<tr class="refused">/g)?.length, 1);
    const actions = await browser.open('/developer/actions');
    assert.match(actions.html, /<strong>ana@example\.net<\/strong> created the API key shop/);
    assert.doesNotMatch(actions.html, /key:shop/);
    const own = await browser.open(`/developer/log/export?format=csv&key_id=${id}`);
    assert.equal(own.html.trim().split('\n').length, 3, 'its two uses, and the head');
    const csv = await browser.open('/developer/log/export?format=csv&of=unknown');
    assert.match(csv.headers.get('content-disposition') ?? '', /attachment; filename="requests-[-0-9]+\.csv"/);
    assert.match(csv.html, /^at,actor,key_id,/);
  });

  it('exports more than ten thousand actions with those of the server, and reports a refused filter', async () => {
    await app.send();
    const { db } = app.app;
    const [line] = await db.reader<AuditRow>('audit').where({ key_id: app.keyId }).limit(1);
    assert.ok(line !== undefined);
    const added = Array.from({ length: 10_001 }, () => ({
      ...line,
      id: newId('aud', line.at),
      key_id: null,
      actor: 'member:ana@example.net',
    }));
    await db.commit.insert({ audit: added });
    const all = await browser.open(`/developer/actions/export?format=ndjson`);
    const ids = new Set(
      all.html
        .trim()
        .split('\n')
        .map((one) => (JSON.parse(one) as { id: string }).id),
    );
    assert.deepEqual(
      added.filter(({ id }) => !ids.has(id)),
      [],
    );
    assert.equal((await browser.open('/developer/log/export?status=x')).status, 400);
  });
});
