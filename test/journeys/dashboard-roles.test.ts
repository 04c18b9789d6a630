/** Every operation of the dashboard by every role: what a role may not do is refused, in the page and in the call, and not offered. */
import assert from 'node:assert/strict';
import { roleNames, roles, type Role } from '../../src/keys/roles.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { addressOf, fillAccount, localWebhooks } from '../support/harness/filled-account.ts';
import { pages as allPages } from '../../src/dashboard/pages.ts';

/** The lowest role that each page is for; each role has all that those below it have. Pages that only an administrator has say so themselves. */
const LOWEST: Readonly<Record<string, Role>> = {
  'GET /welcome': 'developer',
  'POST /welcome/send': 'developer',
  'GET /messages/:id/html': 'support',
  'GET /messages/:id/source': 'support',
  'GET /messages/:id/reports/:report_id': 'support',
  'GET /messages/:id/reports/:report_id/read': 'support',
  'GET /messages/:id/reports/:report_id/html': 'support',
  'GET /messages/received/:id/source': 'support',
  'POST /messages/received/:id/erase': 'developer',
  'POST /messages/:id/share': 'support',
  'POST /messages/chosen': 'support',
  'POST /messages/:id/cancel': 'developer',
  'POST /messages/:id/lift': 'support',
  'POST /messages/:id/resend': 'support',
  'POST /messages/:id/erase': 'developer',
  'GET /templates/new': 'developer',
  'POST /templates/new': 'developer',
  'POST /templates/:id': 'developer',
  'POST /templates/:id/publish': 'developer',
  'POST /templates/:id/send': 'developer',
  'POST /templates/:id/remove': 'developer',
  'POST /templates/:id/restore': 'developer',
  'POST /suppressions': 'developer',
  'POST /suppressions/import': 'developer',
  'POST /suppressions/remove': 'support',
  'POST /domains': 'developer',
  'POST /domains/:id': 'developer',
  'POST /domains/:id/verify': 'developer',
  'POST /domains/:id/rotate': 'developer',
  'POST /domains/:id/remove': 'developer',
  'POST /streams': 'developer',
  'POST /streams/:id': 'developer',
  'POST /streams/:id/pause': 'developer',
  'POST /streams/:id/resume': 'developer',
  'POST /streams/:id/remove': 'developer',
  'GET /webhooks/new': 'developer',
  'POST /webhooks/new': 'developer',
  'POST /webhooks/:id': 'developer',
  'POST /webhooks/:id/enable': 'developer',
  'POST /webhooks/:id/pause': 'developer',
  'POST /webhooks/:id/test': 'developer',
  'POST /webhooks/:id/rotate': 'developer',
  'POST /webhooks/:id/secret': 'developer',
  'POST /webhooks/:id/replay': 'developer',
  'POST /webhooks/:id/deliveries/:delivery_id/resend': 'developer',
  'POST /webhooks/:id/remove': 'developer',
  'GET /developer/keys/new': 'developer',
  'POST /developer/keys/new': 'developer',
  'POST /developer/keys/:id': 'developer',
  'POST /developer/keys/:id/revoke': 'developer',
  'POST /developer/keys/:id/replace': 'developer',
  'GET /settings': 'developer',
  'POST /settings': 'developer',
};

const RANK: readonly Role[] = ['read_only', 'support', 'developer', 'administrator'];
const isAtLeast = (role: Role, lowest: Role): boolean => RANK.indexOf(role) >= RANK.indexOf(lowest);

/** Pages of one's own login, and those that are the same for everyone. */
const ownLogin = /^\/(?:profile|logout|account|theme|session|login|setup)/;

/** Forms that change nothing. */
const computing = /^\/templates\/(?:preview|check|(?:new|:id)\/fill)$/;

describe('dashboard: roles', () => {
  let app: TestApp;
  let ids: Record<string, string> = {};
  const browsers = new Map<Role, Browser>();

  before(async () => {
    app = await startTestApp({ settings: localWebhooks });
    ids = await fillAccount(app, 'news');
    await app.request('POST', '/v1/suppressions', { email: 'gone@example.net' });
    browsers.set('administrator', await signedIn(app.url, app.operator));
    for (const role of roleNames.filter((name) => name !== 'administrator'))
      browsers.set(role, await joined(app, role));
  });
  after(() => app.stop());

  const browserOf = (role: Role): Browser => browsers.get(role) ?? assert.fail(role);
  const filledIn = (path: string): string => addressOf(path, ids);
  const lowestOf = ({ method, path, who }: (typeof allPages)[number]): Role =>
    who === 'admin' ? 'administrator' : (LOWEST[`${method} ${path}`] ?? 'read_only');
  const asked = allPages.filter(({ who, path }) => who !== 'anyone' && !ownLogin.test(path));

  it('each role has more than the next one', () => {
    for (const [n, { scopes }] of roles.entries())
      for (const scope of roles[n + 1]?.scopes ?? []) assert.ok(scopes.includes(scope), scope);
  });

  it('names only pages that exist, and every form that changes something', () => {
    const names = new Set(allPages.map(({ method, path }) => `${method} ${path}`));
    for (const name of Object.keys(LOWEST)) assert.ok(names.has(name), name);
    for (const { method, path, who } of asked)
      if (method === 'POST' && who === 'member' && !computing.test(path))
        assert.ok(LOWEST[`POST ${path}`], `${path}: who may do that?`);
  });

  for (const role of [...RANK].reverse()) {
    it(`${role}: opens every page that it has, and 403 names who has the others`, async () => {
      const browser = browserOf(role);
      for (const page of asked) {
        if (page.method !== 'GET') continue;
        const where = filledIn(page.path);
        const { status, html } = await browser.open(where);
        if (isAtLeast(role, lowestOf(page))) assert.notEqual(status, 403, `${role} may not see ${where}: ${html}`);
        else {
          assert.equal(status, 403, `${role} sees ${where}`);
          assert.match(html, /Your role does not allow this\. Only [a-z, ]+ may do it/);
        }
      }
    });

    it(`${role}: is offered only forms that it may send`, async () => {
      const browser = browserOf(role);
      const forms = allPages.filter(({ method }) => method === 'POST');
      let seen = 0;
      for (const page of asked) {
        if (page.method !== 'GET' || !isAtLeast(role, lowestOf(page))) continue;
        const where = filledIn(page.path);
        const { html } = await browser.open(where);
        for (const [, own = '', action = where] of html.matchAll(/<form method="post"( action="([^"]+)")?/g)) {
          const to = own === '' ? where : action;
          const target = forms.find(({ path }) => new RegExp(`^${path.replaceAll(/:[a-z_]+/g, '[^/]+')}$`).test(to));
          assert.ok(target, `${where} has a form to ${to}`);
          if (ownLogin.test(target.path) || computing.test(target.path)) continue;
          seen++;
          assert.ok(isAtLeast(role, lowestOf(target)), `${role} is offered ${to} by ${where}`);
        }
      }
      assert.equal(seen > 0, role !== 'read_only', String(seen));
    });

    it(`${role}: finds only places in the search that it may open`, async () => {
      const found = new Set<string>();
      for (const word of [
        'new',
        'add',
        'settings',
        'first',
        'queue',
        'team',
        'doctor',
        'accounts',
        'pause',
        'log',
        'nodes',
      ]) {
        const { html } = await browserOf(role).open(`/search?q=${word}`);
        for (const [, href = ''] of html.matchAll(/<a href="(\/[^"?#]*)[^"]*" data-kind="(?:page|act)"/g))
          found.add(href);
      }
      const gets = allPages.filter(({ method, who }) => method === 'GET' && who !== 'anyone');
      for (const href of found) {
        const page = gets.find(({ path }) => path === href);
        if (page !== undefined) assert.ok(isAtLeast(role, lowestOf(page)), `${role} is led to ${href}`);
      }
      for (const href of [
        '/developer/keys/new',
        '/templates/new',
        '/webhooks/new',
        '/domains',
        '/settings',
        '/welcome',
      ])
        assert.equal(found.has(href), isAtLeast(role, 'developer'), href);
      for (const href of ['/queue', '/team', '/doctor', '/accounts', '/settings/sources', '/settings/nodes'])
        assert.equal(found.has(href), role === 'administrator', href);
      assert.ok(found.has('/developer/log'));
    });

    it(`${role}: is refused every form that is not for it`, async () => {
      const browser = browserOf(role);
      const token = (await browser.open('/profile'), browser.token());
      const before = await stateOf(app);
      for (const page of asked) {
        if (page.method !== 'POST' || isAtLeast(role, lowestOf(page))) continue;
        const response = await browser.ask('POST', filledIn(page.path), {
          fields: {
            _token: token,
            name: 'taken',
            email: 'x@example.net',
            to: 'x@example.net',
            emails: 'x@example.net',
          },
        });
        const html = await response.text();
        assert.equal(response.status, 403, `${role} ${page.path}: ${html}`);
        assert.match(html, /Your role does not allow this/, page.path);
      }
      assert.equal(await stateOf(app), before);
    });
  }

  it('support sends a message again and lifts a suppression, and may write none', async () => {
    const browser = browserOf('support');
    await browser.open(`/messages/${ids['messages'] ?? ''}`);
    const again = await browser.submit(`/messages/${ids['messages'] ?? ''}/resend`);
    assert.match(again.html, /Sent again/);
    await browser.open('/suppressions');
    const lifted = await browser.submit('/suppressions/remove', { email: 'gone@example.net', scope: 'account' });
    assert.equal(lifted.status, 200, lifted.html);
    assert.equal((await app.get('/v1/suppressions/gone%40example.net')).status, 404);
    const actions = await browserOf('administrator').open('/developer/actions');
    assert.match(actions.html, /support@example\.net/);
  });

  it('a new role holds at once, and the command line gives it too', async () => {
    const browser = browserOf('read_only');
    assert.equal((await browser.open('/developer/keys/new')).status, 403);
    const { role } = await app.operator.call('team.change', { member: 'read_only@example.net', role: 'developer' });
    assert.equal(role, 'developer');
    assert.equal((await browser.open('/developer/keys/new')).status, 200);
    await app.operator.call('team.change', { member: 'read_only@example.net', role: 'read_only' });
    assert.equal((await browser.open('/developer/keys/new')).status, 403);
    await assert.rejects(app.operator.call('team.change', { member: 'ana@example.net', role: 'support' }), {
      code: 'invalid_state',
    });
  });
});

async function joined(app: TestApp, role: Role): Promise<Browser> {
  const made = await app.operator.call('team.add', { email: `${role}@example.net`, role, accounts: ['default'] });
  const browser = new Browser(app.url);
  const link = new URL(made.url ?? '').pathname;
  await browser.open(link);
  await browser.submit(link, { password: PASSWORD, password_again: PASSWORD });
  assert.equal(browser.last.at, '/');
  return browser;
}

/** Everything of the account that a form could change. */
async function stateOf(app: TestApp): Promise<string> {
  const lists = [
    'messages',
    'templates',
    'domains?status=any',
    'streams',
    'webhooks',
    'keys',
    'suppressions',
    'settings',
  ];
  const texts = await Promise.all(lists.map(async (name) => (await app.get(`/v1/${name}`)).text));
  return texts.join('\n').replaceAll(/"(?:last_used_at|requests_24h|last_used_endpoint)":[^,]*/g, '');
}
