/** Every page there is, asked by a member of another account: nothing of the first account is shown, and nothing of it changes. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { addressOf, fillAccount, localWebhooks } from '../support/harness/filled-account.ts';
import { pages as allPages } from '../../src/dashboard/pages.ts';

/** A text that everything of the first account has. */
const MARK = 'zebrafinch';

describe('dashboard: pages and other accounts', () => {
  let app: TestApp;
  let member: Browser;
  let ids: Record<string, string> = {};

  before(async () => {
    app = await startTestApp({ settings: localWebhooks });
    ids = await fillAccount(app, MARK);
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

  const filledIn = (path: string): string => addressOf(path, ids);

  it('has a page of each kind to ask for', () => {
    assert.ok(allPages.length > 80, String(allPages.length));
    assert.ok(allPages.some(({ who }) => who === 'admin'));
    for (const folder of ['messages', 'templates', 'domains', 'streams', 'webhooks', 'developer'])
      assert.ok(ids[folder], folder);
  });

  it('shows nothing of it', async () => {
    for (const { method, path, who } of allPages) {
      if (method !== 'GET' || who === 'anyone') continue;
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
    for (const { method, path, who } of allPages) {
      if (method !== 'POST' || who === 'anyone' || !(path.includes(':id') || who === 'admin')) continue;
      // One's own sessions: the id of another member's session is not among them, and nothing ends.
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
