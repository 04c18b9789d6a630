/** The API reference: a viewer that someone else keeps, so what is checked is that it shows the document and asks no other server. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';

describe('browser: API reference', () => {
  let app: TestApp;
  let page: Page;
  let complaints: string[];
  let close: () => Promise<void>;
  const asked = new Set<string>();
  before(async function () {
    needsChromium(this);
    app = await startTestApp();
    const window = await openWindow(app.url, { width: 1440 });
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
    page.on('request', (request) => asked.add(new URL(request.url()).origin));
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
    }),
  );

  it('shows endpoints with what they take and answer, sends none, and asks no other server', async () => {
    await page.goto('/developer/api');
    await page.locator('main').getByRole('link', { name: 'Reference', exact: true }).click();
    const send = page.locator('#operations-messages-sendMessage');
    await send.locator('.opblock-summary-control').click();
    await send.locator('.opblock-section-request-body').waitFor();
    await send.locator('.responses-table').first().waitFor();
    assert.equal(await page.getByRole('button', { name: /Try it out|Execute|Authorize/ }).count(), 0);
    assert.deepEqual(
      [...asked].filter((origin) => !origin.startsWith('data:') && origin !== 'null'),
      [new URL(app.url).origin],
    );
    assert.deepEqual(complaints, []);
  });

  for (const scheme of ['light', 'dark'] as const)
    for (const width of [1440, 390])
      it(`fits ${String(width)} px, ${scheme}`, async () => {
        await page.emulateMedia({ colorScheme: scheme });
        await page.setViewportSize({ width, height: 900 });
        await page.goto('/developer/api/reference');
        await page.locator('#operations-messages-sendMessage .opblock-summary-control').click();
        await page.locator('.responses-table').first().waitFor();
        const isDark = await page.evaluate<boolean>("document.documentElement.classList.contains('dark-mode')");
        assert.equal(isDark, scheme === 'dark');
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
        assert.ok(wide <= width, `${String(wide)} px`);
      });
});
