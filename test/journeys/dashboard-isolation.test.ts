/** Every page there is, asked by a member of another account: nothing of the first account is shown, and nothing of it changes. */
import assert from 'node:assert/strict';
import type { DashboardDeps } from '../../src/dashboard/deps.ts';
import { pagesOf } from '../../src/dashboard/pages.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';

/** Stands in everything that the first account has. */
const MARK = 'zebrafinch';

describe('dashboard: pages and other accounts', () => {
  let app: TestApp;
  let member: Browser;
  let ids: Record<string, string> = {};
  const pages = pagesOf({
    routes: [],
    config: {},
    version: '',
    history: { moments: () => [] },
  } as unknown as DashboardDeps);

  before(async () => {
    app = await startTestApp({ settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } } });
    ids = await filled(app);
    const admin = await signedIn(app.url, app.operator);
    await app.operator.call('accounts.add', { name: 'Other' });
    const team = await admin.open('/team');
    const other = /name="accounts" value="([^"]+)"(?: checked)?><span>Other/.exec(team.html)?.[1] ?? '';
    const added = await admin.submit('/team', {
      email: 'bo@example.net',
      role: 'developer',
      accounts: other,
      password_now: PASSWORD,
    });
    member = new Browser(app.url);
    const link = new URL(/<pre>([^<]+)<\/pre>/.exec(added.html)?.[1] ?? '').pathname;
    await member.open(link);
    await member.submit(link, { password: PASSWORD, password_again: PASSWORD });
    assert.equal(member.last.at, '/');
  });
  after(() => app.stop());

  /** The page's address with what the first account has in the place of its parameters. */
  const filledIn = (path: string): string =>
    path.replaceAll(
      /:([a-z_]+)/g,
      (_, name: string) => (name === 'id' ? ids[path.split('/')[1] ?? ''] : ids[name]) ?? 'none',
    );

  it('has a page of each kind to ask for', () => {
    assert.ok(pages.length > 80, String(pages.length));
    assert.ok(pages.some(({ who }) => who === 'admin'));
    for (const folder of ['messages', 'templates', 'domains', 'streams', 'webhooks', 'developer'])
      assert.ok(ids[folder], folder);
  });

  it('shows nothing of it', async () => {
    for (const { method, path, who } of pages) {
      if (method !== 'GET' || who === 'anyone' || path === '/events/tail') continue;
      const where = filledIn(path);
      const { status, html } = await member.open(where);
      assert.ok(!html.includes(MARK), `${where} shows it`);
      if (who === 'admin') assert.equal(status, 403, where);
      else if (path.includes(':id')) assert.equal(status, 404, where);
    }
  });

  it('changes nothing of it', async () => {
    const state = async (): Promise<string> => {
      const lists = [
        '/v1/messages',
        '/v1/templates',
        '/v1/domains?status=any',
        '/v1/streams',
        '/v1/webhooks',
        '/v1/keys',
        '/v1/suppressions',
      ];
      return (await Promise.all(lists.map(async (where) => (await app.get(where)).text))).join('\n');
    };
    const before = await state();
    await member.open('/profile');
    const token = member.token();
    for (const { method, path, who } of pages) {
      if (method !== 'POST' || who === 'anyone' || !(path.includes(':id') || who === 'admin')) continue;
      // One's own sessions: an id of somebody else's is none of them, and nothing ends.
      if (path.startsWith('/profile/')) continue;
      const where = filledIn(path);
      const fields = {
        _token: token,
        name: 'taken',
        email: 'x@example.net',
        to: 'x@example.net',
        since: '2026-01-01T00:00',
      };
      const response = await member.ask('POST', where, { fields });
      await response.arrayBuffer();
      assert.equal(response.status, who === 'admin' ? 403 : 404, where);
    }
    const withoutUse = (text: string): string => text.replaceAll(/"last_used_at":"[^"]*"/g, '');
    assert.equal(withoutUse(await state()), withoutUse(before));
  });
});

/** One of everything, and the ids by the first part of the pages' addresses. */
async function filled(app: TestApp): Promise<Record<string, string>> {
  const post = async (where: string, body: object): Promise<string> => {
    const { status, body: made, text } = await app.request<{ id: string }>('POST', where, body);
    assert.ok(status < 300, text);
    return made.id;
  };
  const { id: messages } = await app.send({
    subject: MARK,
    tags: [MARK],
    send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
  });
  return {
    messages,
    templates: await post('/v1/templates', { name: MARK, alias: MARK, subject: MARK, html: MARK, publish: true }),
    domains: await post('/v1/domains', { name: `${MARK}.example` }),
    streams: await post('/v1/streams', { slug: MARK, name: MARK, type: 'broadcast' }),
    webhooks: await post('/v1/webhooks', { url: 'http://127.0.0.1:1025/x', description: MARK }),
    suppressions: await post('/v1/suppressions', { email: `${MARK}@example.net`, note: MARK }),
    developer: await post('/v1/keys', { name: MARK, scopes: ['send'] }),
    delivery_id: 'whd_01m7xk7tjq3n8r5c1b0nam9d4x',
  };
}
