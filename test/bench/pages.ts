/**
 * `npm run bench -- pages --data <folder>`: how long the dashboard's pages take on a large data folder (`npm run seed`), asked of
 * the built program one after the other. Each is asked three times and the middle one counts. Exit 1 where one is over its limit.
 * `--storage URL` names the PostgreSQL that the folder was moved to; its CPU time is counted as well.
 * An administrator's password is replaced: use a folder that is for measuring only.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/storage/database.ts';
import { Browser, PASSWORD } from '../support/harness/browser.ts';
import { startAppliance } from './appliance.ts';
import { databaseCpu } from './database-cpu.ts';

const { values } = parseArgs({
  options: { data: { type: 'string' }, storage: { type: 'string' }, limit: { type: 'string', default: '100' } },
});
if (values.data === undefined) {
  console.error('--data names the data folder: make one with npm run seed');
  process.exit(64);
}
const dataDir = path.resolve(values.data);
const LIMIT_MS = Number(values.limit);
const TIMES = 3;

const pages: readonly string[] = [
  '/',
  '/?range=7d',
  '/?range=30d',
  '/messages',
  '/messages?range=30d&status=bounced',
  '/messages?range=30d&subject=order',
  '/messages?range=30d&tag=newsletter',
  '/messages?q=example',
  '/messages?q=gmail.com',
  '/messages?status=suppressed',
  '/messages/received',
  '/search?q=invoice',
  '/events',
  '/events?type=bounced',
  '/stats',
  '/stats?range=24h',
  '/stats?range=30d&by=stream',
  '/stats?range=30d&by=tag',
  '/stats?range=30d&by=domain',
  '/stats?range=30d&tz=Europe/Berlin',
  '/stats?range=all',
  '/reputation',
  '/templates',
  '/suppressions',
  '/suppressions?reason=complaint',
  '/domains',
  '/streams',
  '/webhooks',
  '/developer/keys',
  '/developer/log?range=30d',
  '/developer/actions',
  '/developer/api',
  '/settings',
  '/profile',
  '/queue',
  '/accounts',
  '/team',
];

/** Pages of one thing: the first link of a list. */
const linked: readonly (readonly [list: string, link: RegExp, more?: string])[] = [
  ['/messages?range=30d&status=bounced', /href="(\/messages\/msg_[^"]+)"/],
  ['/templates', /href="(\/templates\/tpl_[^"]+)"/],
  ['/domains', /href="(\/domains\/[^"]+)"/],
  ['/webhooks', /href="(\/webhooks\/whk_[^"]+)"/],
  ['/queue', /href="(\/queue\?domain=[^"]+)"/],
  ['/templates', /href="(\/templates\/tpl_[^"]+)"/, '/versions'],
];

// A folder from before a migration may take minutes to bring up to date.
const url = values.storage ?? `sqlite:${path.join(dataDir, 'posthorn.db')}`;
await (await openDatabase({ url })).close();
const ofDatabase = await databaseCpu(url);
const appliance = await startAppliance({
  dataDir,
  env: { POSTHORN_STORAGE__URL: url, POSTHORN_DELIVERY__DNS_SERVERS: '127.0.0.1:9' },
});
try {
  const browser = new Browser(appliance.url);
  const { url } = appliance.cli('admin', 'reset', '--json') as { url: string };
  const link = new URL(url).pathname;
  await browser.open(link);
  await browser.submit(link, { email: 'bench@example.net', password: PASSWORD, password_again: PASSWORD });
  const found: string[] = [];
  for (const [list, pattern, more = ''] of linked) {
    const one = pattern.exec((await browser.open(list)).html)?.[1];
    if (one !== undefined) found.push(one.replaceAll('&amp;', '&').replaceAll('&#x3D;', '=') + more);
  }
  let slow = 0;
  for (const where of [...pages, ...found]) {
    const times: number[] = [];
    let status = 0;
    const used = appliance.cpu() + ofDatabase();
    for (let n = 0; n < TIMES; n++) {
      const begun = performance.now();
      const response = await browser.ask('GET', where);
      await response.text();
      times.push(performance.now() - begun);
      ({ status } = response);
    }
    const median = times.sort((a, b) => a - b)[Math.floor(TIMES / 2)] ?? NaN;
    const isSlow = median > LIMIT_MS || status !== 200;
    if (isSlow) slow++;
    const cpu = ((appliance.cpu() + ofDatabase() - used) / TIMES).toFixed(0);
    console.log(
      `${isSlow ? 'SLOW' : 'ok  '} ${median.toFixed(0).padStart(6)} ms, ${cpu.padStart(5)} ms of CPU  ${String(status)} ${where}`,
    );
  }
  console.log(slow === 0 ? 'all within their limit' : `${String(slow)} over their limit, or no page`);
  if (slow > 0) process.exitCode = 1;
} finally {
  await appliance.stop();
}
