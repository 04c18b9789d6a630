/**
 * `npm run screens -- --data <folder> --to <folder>`: pictures of the dashboard's pages, light, dark and on a phone, for a
 * person to look at. The data folder is one of `npm run seed`; nothing is sent, since no name resolves.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chromium, type Page } from 'playwright-core';
import { startApp } from '../../src/app.ts';
import { createLog } from '../../src/base/log.ts';
import { reachOperator } from '../../src/operator/operator.ts';
import { configFor } from '../support/app.ts';
import { PASSWORD } from '../support/browser.ts';
import { FakeResolver } from '../support/fake-resolver.ts';

const { values } = parseArgs({
  options: { data: { type: 'string' }, to: { type: 'string' }, only: { type: 'string' } },
});
if (values.data === undefined || values.to === undefined) {
  console.error('--data names a folder of `npm run seed`, --to where the pictures go');
  process.exit(64);
}
const to = path.resolve(values.to);
mkdirSync(to, { recursive: true });

const pages: readonly (readonly [name: string, where: string | ((page: Page) => Promise<string>)])[] = [
  ['overview', '/?range=30d'],
  ['welcome', '/welcome'],
  ['messages', '/messages'],
  ['message', (page) => linkOn(page, '/messages?status=bounced&range=30d&q=Invoice', 'a[href^="/messages/msg_"]')],
  ['events', '/events'],
  ['stats', '/stats?range=30d'],
  ['reputation', '/reputation'],
  ['templates', '/templates'],
  ['template', (page) => linkOn(page, '/templates', 'a[href^="/templates/tpl_"]')],
  ['suppressions', '/suppressions'],
  ['domains', '/domains'],
  ['domain', (page) => linkOn(page, '/domains', 'td a[href^="/domains/"]')],
  ['streams', '/streams'],
  ['webhooks', '/webhooks'],
  ['webhook', (page) => linkOn(page, '/webhooks', 'td a[href^="/webhooks/"]')],
  ['webhook-new', '/webhooks/new'],
  ['keys', '/developer/keys'],
  ['key-new', '/developer/keys/new'],
  ['log', '/developer/log?range=30d'],
  ['actions', '/developer/actions'],
  ['api', '/developer/api'],
  ['operation', '/developer/api/sendMessage'],
  ['settings', '/settings'],
  ['profile', '/profile'],
  ['queue', '/queue'],
  ['queue-domain', (page) => linkOn(page, '/queue', 'a[href^="/queue?domain="]')],
  ['doctor', '/doctor?run'],
  ['watch', '/queue/watch?lane=mx.example'],
  ['changelog', '/settings/changelog'],
  ['accounts', '/accounts'],
  ['team', '/team'],
  ['not-found', '/nothing'],
];

async function linkOn(page: Page, where: string, selector: string): Promise<string> {
  await page.goto(where);
  return (await page.locator(selector).first().getAttribute('href')) ?? where;
}

const config = configFor(path.resolve(values.data), 25);
const app = await startApp(config, {
  resolver: new FakeResolver(),
  log: createLog({ level: 'error', format: 'json' }),
});
const operator = reachOperator(config);
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
}); // prettier-ignore
try {
  const context = await browser.newContext({ baseURL: app.url, viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  await page.goto(new URL((await operator.call('admin.reset', {})).url).pathname);
  if (await page.getByLabel('E-mail address').isVisible())
    await page.getByLabel('E-mail address').fill('ana@acme.test');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('The same again').fill(PASSWORD);
  await page.locator('form button.main').click();
  await page.waitForURL(/\/(?:welcome)?$/);
  const wanted = values.only?.split(',');
  for (const [name, where] of pages) {
    if (wanted !== undefined && !wanted.includes(name)) continue;
    const address = typeof where === 'string' ? where : await where(page);
    for (const [kind, scheme, width] of [
      ['light', 'light', 1280],
      ['dark', 'dark', 1280],
      ['phone', 'light', 360],
    ] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: width === 360 ? 740 : 860 });
      // Previews and charts come after the page.
      await page.goto(address, { waitUntil: name === 'events' ? 'load' : 'networkidle' });
      await page.screenshot({ path: path.join(to, `${name}-${kind}.png`), animations: 'disabled' });
    }
    console.log(name, address);
  }
} finally {
  await browser.close();
  await operator.close();
  await app.stop();
}
