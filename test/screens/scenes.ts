/**
 * The scenes for pictures: every page of the dashboard, with much in it, with nothing in it, with a fault in a form, before
 * the sign-in, and as a member who may see little. A scene brings the window to its page.
 */
import type { Page } from 'playwright-core';
import { PASSWORD } from '../support/harness/browser.ts';

export interface Scene {
  name: string;
  /** The viewer: an administrator on the seeded account, on an account in which nothing is yet, a member, or a person who has not signed in. */
  who: 'admin' | 'fresh' | 'member' | 'guest';
  show(page: Page): Promise<unknown>;
}

const at = (name: string, where: string, who: Scene['who'] = 'admin'): Scene => ({
  name,
  who,
  show: (page) => open(page, where),
});

/** A page that is one click away from a list. */
const via = (name: string, list: string, selector: string, more = ''): Scene => ({
  name,
  who: 'admin',
  show: async (page) => {
    await page.goto(list);
    return open(page, ((await page.locator(selector).first().getAttribute('href')) ?? list) + more);
  },
});

const acted = (
  name: string,
  where: string,
  act: (page: Page) => Promise<unknown>,
  who: Scene['who'] = 'admin',
): Scene => ({
  name,
  who,
  show: async (page) => {
    await open(page, where);
    await act(page);
    return settled(page);
  },
});

// A live tail keeps its connection, so that the network is never idle there.
const settled = (page: Page): Promise<unknown> =>
  page.waitForLoadState('networkidle', { timeout: 2_000 }).catch(() => undefined);

async function open(page: Page, where: string): Promise<void> {
  await page.goto(where);
  await settled(page);
}

/** Fills fields by their names and sends their form, without the checks of the browser itself. */
async function fill(
  page: Page,
  fields: Readonly<Record<string, string>>,
  button = 'button.main, button',
): Promise<void> {
  const [first = ''] = Object.keys(fields);
  const form = page
    .locator('main form')
    .filter({ has: page.locator(`[name="${first}"]:not([type=hidden])`), visible: true })
    .last();
  for (const [name, value] of Object.entries(fields))
    await form.locator(`[name="${name}"]:not([type=hidden])`).first().fill(value, { force: true });
  await page.evaluate('for (const form of document.forms) form.noValidate = true');
  // The click may come back before the browser has begun to leave the page. A question that opens first leaves it later.
  const left = page.waitForEvent('framenavigated', { timeout: 5_000 }).catch(() => undefined);
  await form.locator(button).first().click();
  await left;
}

const click = (selector: string) => (page: Page) => page.locator(selector).first().click();
const code = (selector: string) => `main ${selector}`;

const withMuch: Scene[] = [
  at('overview', '/?range=7d'),
  at('overview-day', '/'),
  at('welcome', '/welcome'),
  at('messages', '/messages'),
  at('messages-bounced', '/messages?status=bounced&range=30d'),
  at('messages-none', '/messages?q=nobody%40nowhere.example'),
  via('message', '/messages?status=bounced&range=30d&q=Invoice', 'a[href^="/messages/msg_"]'),
  via('message-delivered', '/messages?status=delivered&range=30d', 'a[href^="/messages/msg_"]'),
  via('message-source', '/messages?status=delivered&range=30d', 'a[href^="/messages/msg_"]', '?part=source'),
  via('message-headers', '/messages?status=delivered&range=30d', 'a[href^="/messages/msg_"]', '?part=headers'),
  via('message-text', '/messages?status=delivered&range=30d', 'a[href^="/messages/msg_"]', '?part=text'),
  via('message-deferred', '/messages?status=deferred&range=all', 'a[href^="/messages/msg_"]'),
  at('events', '/events'),
  at('events-bounced', '/events?type=bounced&range=30d'),
  at('stats', '/stats?range=30d'),
  at('stats-none', '/stats?range=30d&tag=nothing'),
  at('reputation', '/reputation'),
  at('reputation-provider', '/reputation?provider=google'),
  at('templates', '/templates'),
  via('template', '/templates', 'tr:has-text("receipt") a[href^="/templates/tpl_"]'),
  at('template-new', '/templates/new'),
  via('template-versions', '/templates', 'a[href^="/templates/tpl_"]', '/versions'),
  at('suppressions', '/suppressions'),
  at('suppressions-none', '/suppressions?q=nobody%40nowhere.example'),
  at('domains', '/domains'),
  via('domain', '/domains', 'td a[href^="/domains/"]'),
  at('streams', '/streams'),
  at('webhooks', '/webhooks'),
  via('webhook', '/webhooks', 'td a[href^="/webhooks/"]'),
  at('webhook-new', '/webhooks/new'),
  at('keys', '/developer/keys'),
  at('key-new', '/developer/keys/new'),
  at('key-new-custom', '/developer/keys/new?preset=custom'),
  via('key', '/developer/keys', 'td a[href^="/developer/keys/"]'),
  at('log', '/developer/log?range=30d'),
  via('request', '/developer/log?range=30d', 'td a[href^="/developer/log/"]'),
  at('request-none', '/developer/log?range=30d&result=refused'),
  at('actions', '/developer/actions'),
  at('search', '/search?q=acme'),
  at('search-none', '/search?q=qqqqqq'),
  at('api', '/developer/api'),
  at('reference', '/developer/api/reference'),
  at('settings', '/settings'),
  at('changelog', '/settings/changelog'),
  at('sources', '/settings/sources'),
  at('nodes', '/settings/nodes'),
  at('profile', '/profile'),
  at('second-factor', '/profile/second-factor'),
  at('queue', '/queue'),
  via('queue-domain', '/queue', 'a[href^="/queue?domain="]'),
  at('watch', '/queue/watch?lane=mx.example'),
  at('doctor', '/doctor?run'),
  at('accounts', '/accounts'),
  at('team', '/team'),
  via('team-member', '/team', 'td a[href^="/team/"]'),
  at('nowhere', '/nowhere'),
  at('not-found', '/messages/nothing'),
  at('message-not-found', '/messages/msg_00000000000000000000000000'),
];

const withFaults: Scene[] = [
  acted('key-new-fault', '/developer/keys/new', (page) =>
    fill(page, { name: 'shop, production', allowed_ips: '203.0.113.300/24', password_now: PASSWORD }),
  ),
  acted('domains-fault', '/domains', (page) => fill(page, { name: 'not a domain' })),
  acted('suppressions-fault', '/suppressions', (page) => fill(page, { email: 'ana at example' })),
  acted('import-fault', '/suppressions', (page) => fill(page, { emails: 'ana@example.net\nnobody' })),
  acted('webhook-new-fault', '/webhooks/new', (page) =>
    fill(page, { url: 'http://10.0.0.1/hook', password_now: PASSWORD }),
  ),
  acted('template-fault', '/templates/new', (page) =>
    fill(
      page,
      { name: 'Receipt', alias: 'receipt', subject: 'Hello {{ name', html: '<p>{{#if paid}}</p>' },
      'button.main',
    ),
  ),
  acted('streams-fault', '/streams', (page) => fill(page, { slug: 'No Good', name: 'x' })),
  acted('settings-fault', '/settings', (page) => fill(page, { content_days: '99999' })),
  acted('password-fault', '/profile', (page) =>
    fill(
      page,
      { password_now: 'wrong', password: 'one two three four five', password_again: 'one two three' },
      'button',
    ),
  ),
  acted('second-factor-fault', '/profile/second-factor', (page) =>
    fill(page, { code: '000000', password_now: PASSWORD }),
  ),
  acted('team-fault', '/team', (page) => fill(page, { email: 'nobody', password_now: PASSWORD })),
  acted('accounts-fault', '/accounts', (page) => fill(page, { name: ' ' })),
  acted('queue-fault', '/queue', async (page) => {
    await click('main summary:has-text("Hold or pause")')(page);
    await fill(page, { target: 'x', hours: 'many' });
  }),
  acted('foreign-form', '/streams', async (page) => {
    await page.evaluate('for (const field of document.getElementsByName("_token")) field.value = "x"');
    await fill(page, { slug: 'news', name: 'News' });
  }),
];

const withActs: Scene[] = [
  acted('key-made', '/developer/keys/new', (page) => fill(page, { name: 'shop, production', password_now: PASSWORD })),
  acted('key-revoke', '/developer/keys', async (page) => {
    await click('td a[href^="/developer/keys/"]')(page);
    await click(code('summary:has-text("Revoke")'))(page);
  }),
  acted('webhook-secret', '/webhooks/new', (page) =>
    fill(page, { url: 'https://hooks.acme.test/new', password_now: PASSWORD }, 'button.main'),
  ),
  acted('team-link', '/team', (page) =>
    fill(page, { email: `bo.${String(Math.random()).slice(2, 8)}@acme.test`, password_now: PASSWORD }),
  ),
  acted('suppression-remove', '/suppressions?reason=complaint', click(code('td summary'))),
  acted('stream-pause', '/streams', click(code('td summary'))),
  acted('account-pause', '/accounts', click(code('td summary'))),
  acted('message-erase', '/messages?status=delivered&range=30d', async (page) => {
    await click('a[href^="/messages/msg_"]')(page);
    await click('#more > summary')(page);
    await click(code('summary:has-text("Erase")'))(page);
  }),
];

const withNothing: Scene[] = (
  [
    ['overview', '/'],
    ['welcome', '/welcome'],
    ['messages', '/messages'],
    ['events', '/events'],
    ['stats', '/stats'],
    ['reputation', '/reputation'],
    ['templates', '/templates'],
    ['suppressions', '/suppressions'],
    ['domains', '/domains'],
    ['webhooks', '/webhooks'],
    ['keys', '/developer/keys'],
    ['log', '/developer/log'],
    ['actions', '/developer/actions'],
  ] as const
).map(([name, where]) => at(`fresh-${name}`, where, 'fresh'));

const ofOthers: Scene[] = [
  at('member-overview', '/', 'member'),
  at('member-queue', '/queue', 'member'),
  at('member-settings', '/settings', 'member'),
  at('login', '/login', 'guest'),
  at('login-next', '/messages?q=tag%3Awelcome', 'guest'),
  acted('login-fault', '/login', (page) => fill(page, { email: 'ana@acme.test', password: 'wrong' }), 'guest'),
  at('setup-over', '/setup/nothing', 'guest'),
  at('guest-nowhere', '/nowhere', 'guest'),
];

export const scenes: readonly Scene[] = [...withMuch, ...withFaults, ...withActs, ...withNothing, ...ofOthers];
