/** Every page in a real browser, with something in it: nothing serious for axe, light and dark; nothing sideways at 360 px; the keyboard is enough. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { startTestApp, zonesFor, type TestApp } from '../support/app.ts';
import { PASSWORD } from '../support/browser.ts';
import { axeFindings, needsChromium, openWindow, setUp, tooWide } from '../support/chromium.ts';
import { startMailServer, type FakeMailServer } from '../support/fake-mail-server.ts';

const NAUGHTY = `<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>"'{{7*7}}`;
const LONG = `${'long-local-part-'.repeat(3)}x@${'very-long-label.'.repeat(8)}example.net`;
const FROM = 'hi@simulator.posthorn.test';

describe('browser: every page', function () {
  this.timeout(300_000);
  let server: FakeMailServer;
  let app: TestApp;
  let page: Page;
  let complaints: string[] = [];
  let close = (): Promise<void> => Promise.resolve();
  let pages: string[] = [];

  before(async function () {
    needsChromium(this);
    server = await startMailServer({ script: { rcpt: () => '450 4.2.0 busy' } });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });
    pages = await filled(app);
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
  });
  after(async () => {
    await close();
    await app.stop();
    await server.close();
  });

  it('has no serious finding in light or dark, fits 360 px, weighs less than 200 KB with all that it loads, and runs nothing that a stranger wrote', async () => {
    const findings: string[] = [];
    for (const where of pages) findings.push(...(await look(page, where)).map((one) => `${where} ${one}`));
    assert.deepEqual(findings, []);
    // What a mail would like to run and load is stopped, each time; the pages themselves complain of nothing.
    assert.ok(complaints.some((one) => one.startsWith('Blocked script execution')));
    assert.deepEqual(
      complaints.filter(
        (one) => !/^(?:Blocked script execution in|Loading the image) '[^']*\/messages\/msg_\w+\/(?:html|x)'/.test(one),
      ),
      [],
    );
  });

  it('is usable by keyboard alone: sign in, search, go through rows, open one', async () => {
    const window = await openWindow(app.url);
    try {
      const { page: other } = window;
      await other.goto('/messages');
      await other.waitForURL('**/login*');
      await other.keyboard.type('ana@example.net');
      await other.keyboard.press('Tab');
      await other.keyboard.type(PASSWORD);
      await other.keyboard.press('Enter');
      await other.waitForURL('**/messages');
      await other.keyboard.press('Tab');
      assert.equal(await other.evaluate('document.activeElement.textContent'), 'To the content');
      await other.keyboard.press('Enter');
      assert.equal(await other.evaluate('document.activeElement.id'), 'main');
      await other.keyboard.press('/');
      await other.keyboard.type('tag:welcome');
      await other.keyboard.press('Enter');
      await other.waitForURL('**/messages?*q=tag*');
      await other.locator('.rows tbody tr').first().waitFor();
      await other.locator('body').press('Escape');
      await other.evaluate('document.activeElement.blur()');
      await other.keyboard.press('j');
      const outline = await other.evaluate('getComputedStyle(document.activeElement).outlineStyle');
      assert.equal(outline, 'solid', 'one sees where the keyboard is');
      await other.keyboard.press('Enter');
      await other.waitForURL('**/messages/msg_*');
    } finally {
      await window.context.close();
    }
  });
});

/** The page and what it loaded, as it is once it is unpacked. */
const WEIGHT = `['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type)).reduce((sum, one) => sum + one.decodedBodySize, 0)`;

/** One load of the page serves all: light, dark, narrow. In the dark only colours differ. */
async function look(page: Page, where: string): Promise<string[]> {
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.goto(where, { waitUntil: 'domcontentloaded' });
  const light = await axeFindings(page);
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await axeFindings(page, ['color-contrast']);
  const bytes = await page.evaluate<number>(WEIGHT);
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await tooWide(page);
  const isHurt = (await page.evaluate('window.hurt')) !== undefined;
  return [...light.map((one) => `light ${one}`), ...dark.map((one) => `dark ${one}`), ...wide.map((one) => `too wide: ${one}`), ...(bytes < 200_000 && bytes > 20_000 ? [] : [`weighs ${String(bytes)} bytes`]), ...(isHurt ? ['ran a script'] : [])];
} // prettier-ignore

/** Mail in each state, and one of everything; names that would like to be scripts. Gives the addresses of all pages. */
async function filled(app: TestApp): Promise<string[]> {
  const simulated = (to: string, more: object = {}) =>
    app.send({ from: FROM, to: `${to}@simulator.posthorn.test`, subject: `Mail ${to}`, tags: ['welcome'], ...more });
  const { watch } = await app.operator.call('queue.watch', { lane: 'mx.dest.test' });
  const { id: message } = await simulated('delivered', { subject: NAUGHTY, html: `<p>Hi</p>${NAUGHTY}`, metadata: { order: NAUGHTY }, tags: ['welcome', 'x'.repeat(120)] }); // prettier-ignore
  for (const to of ['bounced', 'complained', 'deferred', 'opened', 'clicked']) await simulated(to);
  await app.send({ to: LONG, subject: 'w'.repeat(300) });
  await app.send();
  await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
  await app.settled();
  const post = async (where: string, body: object): Promise<string> => {
    const { status, body: made, text } = await app.request<{ id: string }>('POST', where, body);
    assert.ok(status < 300, text);
    return made.id;
  };
  const template = await post('/v1/templates', { name: NAUGHTY, subject: 'Hello {{name}}', html: `<p>{{name}}</p>${'<b>'.repeat(3)}`, publish: true }); // prettier-ignore
  const webhook = await post('/v1/webhooks', { url: 'http://127.0.0.1:1025/hook', description: NAUGHTY });
  await post('/v1/suppressions', { email: 'gone@example.net', note: NAUGHTY });
  const domain = await post('/v1/domains', { name: `${'a'.repeat(40)}.${'b'.repeat(40)}.example` });
  await post('/v1/streams', { slug: 'newsletter', name: NAUGHTY.slice(0, 60), type: 'broadcast' });
  return [
    '/', '/welcome', '/messages', `/messages/${message}`, `/messages/${message}?part=source`, '/events', '/stats?test=true', '/stats', '/reputation',
    '/templates', '/templates/new', `/templates/${template}`, `/templates/${template}/versions`, '/suppressions', '/domains', `/domains/${domain}`, '/streams',
    '/webhooks', '/webhooks/new', `/webhooks/${webhook}`, '/developer/keys', '/developer/keys/new', `/developer/keys/${app.keyId}`, '/developer/log', '/developer/actions', '/developer/api', '/developer/api/sendMessage',
    '/settings', '/settings/changelog', '/profile', '/profile/second-factor', '/queue', '/queue?domain=dest.test', '/queue/lane?name=mx.dest.test', '/queue/watch', '/queue/watch?lane=mx.dest.test&watch=99', `/queue/watch?lane=mx.dest.test&watch=${String(watch)}`, `/messages/${message}/request`, '/doctor?run', '/accounts', '/team', '/messages/nothing', '/messages?sort=created_at', '/queue?domains=domain', '/reputation?sort=-bounced', '/setup/nothing',
  ]; // prettier-ignore
}
