/** Checks pictures, which only eyes and cameras read: how a template's preview looks on a phone and in the dark, and the QR code of the second factor. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FrameLocator, Page } from 'playwright-core';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { ifChromium, needsChromium, narrowTo, openWindow, setUp } from '../support/harness/chromium.ts';

const HTML = `<meta name="color-scheme" content="light dark"><style>
:root { color-scheme: light dark }
p { color: rgb(1, 2, 3) }
@media (prefers-color-scheme: dark) { p { color: rgb(250, 251, 252) } }
@media (max-width: 400px) { p { font-size: 31px } }
</style><p>Hello {{ name }}</p>`;

describe('browser: looks', () => {
  let app: TestApp;
  let page: Page;
  let close: () => Promise<void>;
  before(async function () {
    needsChromium(this);
    app = await startTestApp();
    const window = await openWindow(app.url, { width: 1440 });
    ({ page } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
    }),
  );

  describe('the preview of a template', () => {
    let outer: FrameLocator;
    beforeEach(async () => {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto('/templates/new');
      await page.getByLabel('Name', { exact: true }).fill('Looks');
      await page.locator('#html').fill(HTML);
      outer = page.frameLocator('iframe[name=preview]');
      await paragraph().waitFor();
    });

    const paragraph = (frame = 'HTML') =>
      outer.frameLocator(`iframe[title="${frame}"]`).locator('p', { hasText: 'Hello' });
    const look = (name: string | RegExp) => outer.getByRole('radio', { name }).check();
    const shownFrame = () => outer.locator('iframe:visible');
    const styleOf = async (property: 'color' | 'fontSize'): Promise<string> => {
      const title = (await shownFrame().getAttribute('title')) ?? '';
      // The types of a browser's page are not those of this program.
      interface Styled {
        getComputedStyle(element: unknown): Record<string, string>;
      }
      return await paragraph(title).evaluate(
        (element, name) => (globalThis as unknown as Styled).getComputedStyle(element)[name] ?? '',
        property,
      );
    };
    const widthOf = async (): Promise<number> => (await shownFrame().boundingBox())?.width ?? 0;

    it('is as a desktop shows it at first', async () => {
      assert.equal(await styleOf('color'), 'rgb(1, 2, 3)');
      assert.ok((await widthOf()) > 400);
    });

    it('shows what a dark theme makes of the mail', async () => {
      await look('Dark');
      assert.equal(await styleOf('color'), 'rgb(250, 251, 252)');
      await look('Desktop');
      assert.equal(await styleOf('color'), 'rgb(1, 2, 3)');
    });

    it('is as light as a mail program, whatever the theme of the dashboard', async () => {
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.reload();
      await page.locator('#html').fill(HTML);
      await paragraph().waitFor();
      assert.equal(await styleOf('color'), 'rgb(1, 2, 3)');
      await page.emulateMedia({ colorScheme: 'light' });
    });

    it('is 375 px wide as on a phone, and the mail knows', async () => {
      await look(/^Phone/);
      assert.ok(Math.abs((await widthOf()) - 375) <= 2, String(await widthOf()));
      assert.equal(await styleOf('fontSize'), '31px');
    });
  });

  for (const [where, width, colorScheme] of [
    ['on a desktop', 1440, 'light'],
    ['in the dark', 1440, 'dark'],
    ['on a phone', 360, 'dark'],
  ] as const)
    it(`the QR code of the second factor is read ${where}, and says what the link beside it says`, async function () {
      if (spawnSync('zbarimg', ['--version']).error !== undefined)
        this.skip('zbarimg is not installed (apt-get install zbar-tools)');
      await page.emulateMedia({ colorScheme });
      await narrowTo(page, width);
      await page.goto('/profile/second-factor');
      const link = await page.getByRole('link', { name: 'this link' }).getAttribute('href');
      const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-'));
      try {
        const file = path.join(folder, 'page.png');
        writeFileSync(file, await page.screenshot());
        const { stdout, stderr } = spawnSync('zbarimg', ['--quiet', '--raw', '--nodbus', file], { encoding: 'utf8' });
        assert.equal(stdout.trim(), link, stderr);
        const shown = (await page.locator('main pre').innerText()).replaceAll(' ', '');
        assert.equal(new URL(stdout.trim()).searchParams.get('secret'), shown);
      } finally {
        rmSync(folder, { recursive: true });
        await page.emulateMedia({ colorScheme: 'light' });
      }
    });
});
