/**
 * `npm run torture`: kills the appliance with SIGKILL under load, again and again, and counts what arrived. No mail that was
 * answered with 202 may be missing, copies beyond one are allowed only for what was in flight at a kill, and the books must
 * balance after every start.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { randomInt } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance, type Appliance } from '../bench/appliance.ts';
import { until } from '../bench/peers.ts';
import { finished, newLoad, sender, type Books } from './load.ts';
import { startReceiver } from './receiver.ts';

const { values: options } = parseArgs({ options: { kills: { type: 'string', default: '50' } } });
const kills = Number(options.kills);
const CONNECTIONS = 10;
const SENDERS = 10;
/** For one mail of what waits after the last kill, on a machine that has others to serve. */
const SLOWEST_MS = 50;

const receiver = await startReceiver();
const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-'));
const load = newLoad();
const { accepted, unanswered } = load;
let key = '';

const start = (): Promise<Appliance> =>
  startAppliance({
    dataDir,
    env: {
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(CONNECTIONS),
      POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s',
    },
  });

const problems: string[] = [];
for (let kill = 0; kill <= kills; kill++) {
  const appliance = await start();
  if (kill === 0) {
    key = benchKey(appliance);
    appliance.cli('domains', 'add', 'torture.test', '--trust', '--json');
  }
  const books = appliance.cli('books', '--json') as Books;
  if (!books.balanced) problems.push(`after kill ${String(kill)}: ${books.faults.join('; ')}`);
  let running = true;
  const senders = Array.from({ length: SENDERS }, () => sender(appliance, { load, key, wanted: () => running }));
  if (kill < kills) {
    await new Promise((resolve) => setTimeout(resolve, randomInt(50, 1200)));
    const ended = appliance.kill();
    running = false;
    await ended;
    await Promise.all(senders);
    process.stderr.write(
      `\r${String(kill + 1)}/${String(kills)} kills, ${String(accepted.size)} accepted, ${String(receiver.copies.size)} arrived `,
    );
    continue;
  }
  await until(() => Promise.resolve(unanswered.size === 0), 'the last answers');
  running = false;
  await Promise.all(senders);
  const settled = (): boolean => [...accepted].every((id) => receiver.copies.has(id));
  const missing = [...accepted].filter((id) => !receiver.copies.has(id)).length;
  await until(() => Promise.resolve(settled()), 'every accepted mail', 60_000 + missing * SLOWEST_MS).catch(
    (error: unknown) => problems.push(String(error)),
  );
  await until(
    () => Promise.resolve(finished(appliance.cli('books', '--json') as Books)),
    'the end of the queue',
    60_000,
  ).catch((error: unknown) => problems.push(String(error)));
  const code = await appliance.stop();
  if (code !== 0) problems.push(`the last stop ended with ${String(code)}`);
}
process.stderr.write('\n');

const lost = [...accepted].filter((id) => !receiver.copies.has(id));
const doubles = [...receiver.copies.values()].reduce((sum, copies) => sum + copies - 1, 0);
if (lost.length > 0) problems.push(`${String(lost.length)} accepted mails are lost, such as ${String(lost[0])}`);
if (doubles > kills * CONNECTIONS)
  problems.push(`${String(doubles)} second copies, more than connections could be open`);
receiver.stop();
console.log(
  `${String(kills)} kills: ${String(accepted.size)} accepted, ${String(lost.length)} lost, ${String(doubles)} second copies (window: ${String(kills * CONNECTIONS)})`,
);
if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  console.error(`data folder kept: ${dataDir}`);
  process.exitCode = 1;
} else {
  rmSync(dataDir, { recursive: true, force: true });
  rmSync(`${dataDir}.log`, { force: true });
}
