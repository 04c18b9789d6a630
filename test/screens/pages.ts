/**
 * `npm run screens -- pages --data <folder> --to <folder>`: pictures of the dashboard's pages, light, dark and on a phone, for a
 * person to look at. The data folder is one of `npm run seed`; nothing is sent, since no name resolves. `--only a,b` takes
 * those scenes alone, `--modes light-1280,dark-320` those looks: a theme and a width.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chromium, type BrowserContext, type Page } from 'playwright-core';
import { startApp } from '../../src/app.ts';
import { createLog } from '../../src/base/log.ts';
import { reachOperator } from '../../src/operator/door/operator.ts';
import { configFor } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { scenes, type Scene } from './scenes.ts';

const { values } = parseArgs({
  options: { data: { type: 'string' }, to: { type: 'string' }, only: { type: 'string' }, modes: { type: 'string' } },
});
if (values.data === undefined || values.to === undefined) {
  console.error('--data names a folder of `npm run seed`, --to where the pictures go');
  process.exit(64);
}
const to = path.resolve(values.to);
mkdirSync(to, { recursive: true });

/** Of a long page its begin is looked at. */
const TALLEST = 1900;
const modes = (values.modes ?? 'light-1280,dark-1280,light-360').split(',').map((name) => {
  const [scheme, width = ''] = name.split('-');
  if ((scheme === 'light' || scheme === 'dark') && Number(width) >= 320)
    return { name, scheme, width: Number(width) } as const;
  console.error(`--modes takes light-1280 or dark-320, not ${name}`);
  process.exit(64);
});

const config = configFor(path.resolve(values.data), 25);
const app = await startApp(config, {
  resolver: new FakeResolver(),
  log: createLog({ level: 'error', format: 'json' }),
});
const operator = reachOperator(config);
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});

async function openContext(): Promise<BrowserContext> {
  const context = await browser.newContext({ baseURL: app.url, viewport: { width: 1280, height: 860 } });
  context.setDefaultTimeout(60_000);
  return context;
}

async function setPassword(page: Page, link: string, email?: string): Promise<void> {
  await page.goto(new URL(link).pathname);
  const address = page.getByLabel('E-mail address');
  if (email !== undefined && (await address.isVisible())) await address.fill(email);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat the password').fill(PASSWORD);
  await page.locator('form button.main').click();
  await page.waitForURL(/\/(?:welcome)?$/);
}

async function signIn(page: Page): Promise<void> {
  await page.goto('/login');
  await page.getByLabel('E-mail address').fill('ana@acme.test');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.locator('form button.main').click();
}

/** An account in which nothing has happened, looked at by an administrator. */
async function lookAtFresh(page: Page): Promise<void> {
  const { data } = await operator.call('accounts.list', {});
  const name = 'fresh-ltd';
  const fresh = data.find((one) => one.name === name) ?? (await operator.call('accounts.add', { name }));
  await page.goto('/accounts');
  const moved = page.waitForEvent('framenavigated');
  await page.locator(`main form[action="/account"] button[value="${fresh.id}"]`).click();
  await moved;
}

/** A member of the seeded account, made by the administrator. */
async function signInMember(admin: Page, page: Page): Promise<void> {
  await admin.goto('/team');
  const email = `member.${String(Date.now())}@acme.test`;
  await admin.locator('main form[action="/team"] [name=email]').fill(email);
  await admin.getByLabel('Your current password').fill(PASSWORD);
  await admin.getByRole('button', { name: 'Create a link to hand over' }).click();
  await setPassword(page, await admin.locator('main pre').innerText());
}

async function openAs(who: Scene['who'], admin: Page): Promise<Page> {
  const page = await (await openContext()).newPage();
  if (who === 'member') await signInMember(admin, page);
  if (who === 'fresh') {
    await signIn(page);
    await lookAtFresh(page);
  }
  return page;
}

async function picture(page: Page, scene: Scene): Promise<void> {
  // Theme and width are matters of the styles alone: the page need not be opened again.
  let isShown = false;
  for (const { name, scheme, width } of modes) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: width < 500 ? 740 : 860 });
    if (!isShown) await scene.show(page);
    isShown = true;
    const height = await page.evaluate<number>('document.documentElement.scrollHeight');
    // Parts outside of the window are not all drawn: frames stay white.
    await page.setViewportSize({ width, height: Math.min(height, TALLEST) });
    await page.screenshot({ path: path.join(to, `${scene.name}-${name}.png`), animations: 'disabled' });
  }
  console.log(scene.name, new URL(page.url()).pathname);
}

try {
  const admin = await (await openContext()).newPage();
  await setPassword(admin, (await operator.call('admin.reset', {})).url, 'ana@acme.test');
  const windows = new Map([['admin', admin]]);
  const wanted = values.only?.split(',');
  for (const scene of scenes) {
    if (wanted !== undefined && !wanted.includes(scene.name)) continue;
    try {
      const page = windows.get(scene.who) ?? (await openAs(scene.who, admin));
      windows.set(scene.who, page);
      await picture(page, scene);
    } catch (error) {
      console.error(scene.name, error instanceof Error ? error.message.split('\n')[0] : error);
    }
  }
} finally {
  await browser.close();
  await operator.close();
  await app.stop();
}
