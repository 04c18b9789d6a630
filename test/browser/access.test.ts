/** Every page in a real browser, with something in it: nothing for axe, light and dark, wide and on a phone; nothing sideways at 320 px; the keyboard is enough. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { TestApp } from '../support/harness/app.ts';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import { PASSWORD, secretIn } from '../support/harness/browser.ts';
import {
  axeFindings,
  findingsHere,
  narrowTo,
  ifChromium,
  needsChromium,
  openWindow,
  setUp,
} from '../support/harness/chromium.ts';
import { startFilledApp } from '../support/harness/filled.ts';
import type { FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { pages as declared } from '../../src/dashboard/pages.ts';

describe('browser: every page', function () {
  this.timeout(600_000);
  let server: FakeMailServer;
  let app: TestApp;
  let page: Page;
  let complaints: string[] = [];
  let close = (): Promise<void> => Promise.resolve();
  let pages: string[] = [];

  before(async function () {
    needsChromium(this);
    ({ server, app, pages } = await startFilledApp());
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
    await page.goto('/team');
    const colleague = await page.locator('main a[href^="/team/"]').first().getAttribute('href');
    assert.ok(colleague !== null);
    pages.push(colleague, '/messages/received');
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
      await server.close();
    }),
  );

  it('walks every page that is declared', () => {
    const walked = [...pages, ...ELSEWHERE].map((where) => where.replace(/\?.*/, ''));
    const missed = declared
      .filter(({ method }) => method === 'GET')
      .map(({ path }) => path)
      .filter((path) => !walked.some((where) => new RegExp(`^${path.replaceAll(/:[a-z_]+/g, '[^/]+')}$`).test(where)));
    assert.deepEqual(missed, []);
  });

  it('has no finding of any impact, light or dark, at 1440 and 390 px, fits 1024 and 320 px, weighs less than 200 KB with all that it loads, and runs nothing that a stranger wrote', async () => {
    const findings: string[] = [];
    for (const where of pages) findings.push(...(await look(page, where)).map((one) => `${where} ${one}`));
    assert.deepEqual(findings, []);
    // Scripts and resources of a mail are stopped, each time; the pages themselves complain of nothing.
    assert.ok(complaints.some((one) => one.startsWith('Blocked script execution')));
    assert.deepEqual(
      complaints.filter(
        (one) => !/^(?:Blocked script execution in|Loading the image) '[^']*\/messages\/msg_\w+\/(?:html|x)'/.test(one),
      ),
      [],
    );
  });

  it('has no such finding before and beside the sign-in: set-up, password, second factor, a key that is shown once, a link for somebody else', async () => {
    const findings: string[] = [];
    const note = async (name: string, other: Page): Promise<void> => {
      findings.push(...(await findingsHere(other)).map((one) => `${name} ${one}`));
    };
    findings.push(...(await menuFindings(page)));
    await openPalette(page);
    await note('palette', page);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto('/developer/keys/new');
    await page.getByLabel('Name').fill('shown once');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.locator('#the-key').waitFor();
    await note('key made', page);
    await page.goto('/webhooks/new');
    await page.getByLabel('URL').fill('http://127.0.0.1:1026/hook');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create webhook' }).click();
    await page.getByText(/whsec_/).waitFor();
    await note('webhook secret', page);
    await page.goto('/team');
    await page.getByLabel('E-mail address').fill('bo@example.net');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create a link to hand over' }).click();
    const link = new URL(await page.locator('main pre').innerText()).pathname;
    await note('set-up link', page);
    await page.goto('/streams');
    await page.getByLabel('Slug').fill('newsletter');
    await page.getByLabel('Name').last().fill('There already');
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.locator('.fault').waitFor();
    await note('fault', page);
    const window = await openWindow(app.url);
    try {
      const { page: guest } = window;
      await guest.goto(link);
      await note('set-up', guest);
      await guest.goto('/login?next=%2Fmessages');
      await note('sign-in', guest);
      await guest.getByLabel('E-mail address').fill('bo@example.net');
      await guest.getByLabel('Password').fill('wrong password');
      await guest.getByRole('button', { name: 'Sign in' }).click();
      await guest.locator('.fault').waitFor();
      await note('sign-in refused', guest);
      await guest.goto('/nothing-here');
      await note('nowhere', guest);
      await withSecondFactor(page, app);
      await note('recovery codes', page);
      app.clock.advance(60_000);
      await guest.goto('/login');
      await guest.getByLabel('E-mail address').fill('ana@example.net');
      await guest.getByLabel('Password').fill(PASSWORD);
      await guest.getByRole('button', { name: 'Sign in' }).click();
      await guest.waitForURL('**/login/code*');
      await guest.getByText('Use a recovery code').click();
      await note('second factor', guest);
      await page.goto('/profile');
      await note('profile with it', page);
      await page.locator('summary', { hasText: 'Switch it off' }).click();
      await page.getByLabel('Current password').first().fill(PASSWORD);
      await page.getByRole('button', { name: 'Switch off' }).click();
      await page.getByText('The second factor is off').waitFor();
    } finally {
      await window.context.close();
    }
    assert.deepEqual(findings, []);
  });

  it('is usable by keyboard alone: sign in, search, go through rows, open one', async () => {
    const window = await openWindow(app.url);
    try {
      const { page: other } = window;
      await other.goto('/messages');
      await other.waitForURL('**/login*');
      // The browser gives the field its focus with a frame that comes after the load.
      await other.locator('[name=email]:focus').waitFor();
      await other.keyboard.type('ana@example.net');
      await other.keyboard.press('Tab');
      await other.keyboard.type(PASSWORD);
      await other.keyboard.press('Enter');
      await other.waitForURL('**/messages');
      await other.keyboard.press('Tab');
      assert.equal(await other.evaluate('document.activeElement.textContent'), 'To the content');
      await other.keyboard.press('Enter');
      await other.locator('#main:focus').waitFor();
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

/** Pages that are declared and show nothing of their own: redirects, files, frames and streams. The second test opens the rest. */
const ELSEWHERE = [
  ...['/developer', '/session', '/login', '/login/code'],
  ...['/developer/api/openapi.json', '/developer/api/reference', '/messages/id/html', '/messages/id/source'],
  ...['/messages/id/reports/id', '/messages/id/reports/id/html', '/domains/id/zone', '/exports/id'],
  ...['/developer/log/export', '/developer/actions/export', '/messages/news', '/templates/id/versions/1'],
  // test/journeys/dashboard-received.test.ts and dashboard-message.test.ts look at these.
  ...['', '/html', '/source', '/files/1'].map((part) => `/messages/received/id${part}`),
  '/shared/token',
];

/** Returns the findings of the menu where it is behind a button, open. */
async function menuFindings(page: Page): Promise<string[]> {
  const findings: string[] = [];
  await page.goto('/');
  await narrowTo(page, 390);
  await page.locator('.menu-button').click();
  await page.locator('#menu').waitFor();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    findings.push(...(await axeFindings(page)).map((one) => `menu ${colorScheme} ${one}`));
  }
  await page.emulateMedia({ colorScheme: 'light' });
  return findings;
}

async function openPalette(page: Page): Promise<void> {
  await page.goto('/messages');
  await page.locator('body').press('Control+k');
  await page.locator('#palette[open]').waitFor();
  await page.keyboard.type('tem');
  await page.locator('#palette a, #palette [role=option]').first().waitFor();
}

/** The page and what it loaded, as it is once it is unpacked. */
const WEIGHT = `['navigation', 'resource'].flatMap((type) => performance.getEntriesByType(type)).reduce((sum, one) => sum + one.decodedBodySize, 0)`;

async function withSecondFactor(page: Page, app: TestApp): Promise<void> {
  await page.goto('/profile/second-factor');
  const code = codeAt(secretIn(await page.content()), stepOf(app.clock.now()));
  await page.getByLabel('Code').fill(code);
  await page.getByLabel('Current password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Switch it on' }).click();
  await page.getByText('The second factor is on').waitFor();
}

/** One load of the page serves all widths and themes. */
async function look(page: Page, where: string): Promise<string[]> {
  await page.goto(where, { waitUntil: 'domcontentloaded' });
  const bytes = await page.evaluate<number>(WEIGHT);
  const findings = await findingsHere(page);
  const isHurt = (await page.evaluate('window.hurt')) !== undefined;
  return [
    ...findings,
    ...(bytes < 200_000 && bytes > 20_000 ? [] : [`weighs ${String(bytes)} bytes`]),
    ...(isHurt ? ['ran a script'] : []),
  ];
}
