/** A click says that it works, and that no answer came, instead of seeming to do nothing. */
import assert from 'node:assert/strict';
import type { BrowserContext, Page } from 'playwright-core';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';

describe('browser: a server that does not answer', () => {
  let app: TestApp;
  let page: Page;
  let context: BrowserContext | null = null;

  before(async function () {
    needsChromium(this);
    app = await startTestApp();
    const window = await openWindow(app.url);
    ({ page, context } = window);
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
  });
  after(
    ifChromium(async () => {
      await context?.close();
      await app.stop();
    }),
  );

  const chip = (name: string) => page.locator('.chips').getByRole('link', { name, exact: true });

  it('is said, with the time of the page, until an answer comes', async () => {
    await page.goto('/');
    await context?.setOffline(true);
    await chip('7 days').click();
    const said = page.locator('#unreachable');
    await said.waitFor();
    assert.match(
      await said.innerText(),
      /^You are offline\. This page is of \d\d:\d\d:\d\d\. Try again in a moment\.$/,
    );
    await page.locator('#menu').getByRole('link', { name: 'Stats' }).click();
    await said.waitFor();
    assert.equal(new URL(page.url()).pathname, '/', 'the page stays');
    await context?.setOffline(false);
    await chip('7 days').click();
    await page.waitForURL('**/?range=7d');
    await said.waitFor({ state: 'hidden' });
  });

  it('is said by a page that is live, where a proxy answers instead', async () => {
    await page.goto('/');
    const polls = (url: URL): boolean => url.pathname === '/';
    await page.route(polls, (route) => route.fulfill({ status: 502, body: 'Bad Gateway' }));
    const said = page.locator('#unreachable');
    await said.waitFor();
    assert.match(await said.innerText(), /^The server does not answer\. This page is of /);
    await page.unroute(polls);
    await said.waitFor({ state: 'hidden' });
  });

  it('shows that a request runs', async () => {
    await page.goto('/');
    let release = (): void => undefined;
    const held = new Promise<void>((done) => (release = done));
    await page.route('**/?range=7d', async (route) => {
      await held;
      await route.continue();
    });
    await chip('7 days').click();
    await page.locator('main[aria-busy=true]').waitFor();
    release();
    await page.locator('main:not([aria-busy])').waitFor();
    await page.waitForURL('**/?range=7d');
  });
});
