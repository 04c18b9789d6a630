/**
 * `npm run screens -- queue --to <folder>`: pictures of a queue at work: lanes with their reasons, one lane, and what is said on
 * the wire. Mail goes to a host of this machine that takes some of it.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { startTestApp, zonesFor } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';

const { values } = parseArgs({ options: { to: { type: 'string' } } });
if (values.to === undefined) {
  console.error('--to names the folder where the pictures go');
  process.exit(64);
}
const to = path.resolve(values.to);
mkdirSync(to, { recursive: true });

const domains = ['gmail.test', 'outlook.test', 'harbour.test', 'greylist.test', 'closed.test'] as const;
const GREYLISTED = '451 4.7.1 Greylisted, please come back in 5 minutes';
const BUSY = '421 4.7.0 Too many connections from your address, try again later';
const server = await startMailServer({
  script: {
    rcpt: (line) => (line.includes('@greylist.') ? GREYLISTED : line.includes('@closed.') ? BUSY : '250 2.1.5 Ok'),
    data: (_, { lines }) =>
      lines.some((line) => line.includes('@greylist.') || line.includes('@closed.'))
        ? '554 5.5.1 No valid recipients'
        : '354 Go ahead',
  },
});
const app = await startTestApp({ mailPort: server.port, zones: zonesFor(...domains) });
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu'],
});
/** How long the mail may take to be tried, on a machine that does other things too. */
const TRIED_WITHIN_MS = 120_000;

/**
 * Waits until all mail is tried. Of closed.test that is one mail: it may be told to come later before the others are tried, which then
 * wait with its lane while the clock of the test stands still.
 */
async function allTried(): Promise<void> {
  const end = Date.now() + TRIED_WITHIN_MS;
  while (Date.now() < end) {
    const { data } = await app.operator.call('queue.list', {});
    const untried = data.filter(({ status }) => status !== 'deferred');
    const isClosedTried = data.some(({ domain, status }) => domain === 'closed.test' && status === 'deferred');
    if (isClosedTried && untried.every(({ domain }) => domain === 'closed.test')) return;
    await setTimeout(100);
  }
  throw new Error(`the mail was not tried within ${String(TRIED_WITHIN_MS / 1000)} s`);
}

try {
  const page = await (await browser.newContext({ baseURL: app.url, viewport: { width: 1280, height: 860 } })).newPage();
  page.setDefaultTimeout(TRIED_WITHIN_MS);
  await page.goto(new URL((await app.operator.call('admin.reset', {})).url).pathname);
  await page.getByLabel('E-mail address').fill('ana@acme.test');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat the password').fill(PASSWORD);
  await page.locator('form button.main').click();
  await page.waitForURL('**/welcome');
  for (const [place, domain] of domains.entries())
    for (let n = 0; n < 12 - 2 * place; n++)
      await app.send({ to: `customer-${String(n)}@${domain}`, subject: `Order ${String(1000 + n)}` });
  await allTried();
  await app.operator.call('queue.limit', {
    lane: 'mx.harbour.test',
    per_minute: 60,
    note: 'their postmaster asked us to',
  });
  await app.operator.call('queue.hold', { domain: 'closed.test', new: true, note: 'until their mail host is back' });
  const shoot = async (name: string, address: string): Promise<void> => {
    await page.goto(address);
    await page.screenshot({ path: path.join(to, `${name}.png`), animations: 'disabled' });
  };
  await shoot('queue-live', '/queue');
  await shoot('lane', '/queue/lane?name=mx.greylist.test');
  await page.getByRole('button', { name: 'Watch the wire' }).click();
  await page.locator('#wire').waitFor();
  await app.operator.call('queue.flush', { domain: 'greylist.test' });
  await page.locator('#wire .k-amber').first().waitFor();
  await page.screenshot({ path: path.join(to, 'wire.png'), animations: 'disabled' });
} finally {
  await browser.close();
  await app.stop();
  await server.close();
}
