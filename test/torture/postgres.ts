/**
 * `npm run torture -- postgres`: ends PostgreSQL as a crash would, again and again under load, every second time between a COMMIT and its
 * answer; then promotes a synchronous standby under load. No mail that was answered with 202 may be missing, none may arrive twice
 * beyond what was in flight, the books must balance, and mail must be accepted again within five seconds of the database.
 */
import { randomInt } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startAppliance, type Appliance } from '../bench/appliance.ts';
import { until } from '../bench/peers.ts';
import { sender, type Sent } from './load.ts';
import { PostgresServer, startProxy, urlOn } from '../support/harness/postgres-server.ts';
import { startReceiver } from './receiver.ts';

const { values: options } = parseArgs({
  options: { crashes: { type: 'string', default: '20' }, failovers: { type: 'string', default: '3' } },
});
const CRASHES = Number(options.crashes);
const FAILOVERS = Number(options.failovers);
const CONNECTIONS = 10;
const SENDERS = 10;
/** Mail must be accepted again so soon after the database answers. */
const RECOVERY_MS = 5000;
/** For one mail of what waits at the end, on a machine that has others to serve. */
const SLOWEST_MS = 50;

const root = mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-pg-'));
chmodSync(root, 0o755);
const problems: string[] = [];

/** Runs the load while `disturb` does its worst, then lets everything finish and counts. */
async function underLoad(
  name: string,
  folders: readonly string[],
  disturb: (appliance: Appliance, accepted: () => number) => Promise<number>,
): Promise<void> {
  const receiver = await startReceiver();
  const appliance = await startAppliance({
    dataDir: mkdtempSync(path.join(os.tmpdir(), 'posthorn-torture-')),
    env: {
      POSTHORN_STORAGE__URL: urlOn(folders, 'posthorn'),
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(CONNECTIONS),
      POSTHORN_DELIVERY__RETRY__SCHEDULE: '1s',
    },
  });
  // Commands run beside this process, which carries what goes to the database.
  const { key } = (await appliance.command('keys', 'create', '--name', 't', '--scopes', 'send', '--json')) as {
    key: string;
  };
  await appliance.command('domains', 'add', 'torture.test', '--trust', '--json');
  const sent: Sent = { accepted: new Set(), unanswered: new Map(), hadCommitted: 0, hadNotCommitted: 0 };
  const { accepted, unanswered } = sent;
  let running = true;
  const senders = Array.from({ length: SENDERS }, () =>
    sender(appliance.url, key, sent, {
      isRunning: () => running,
      onAsked: () => undefined,
      onAnswered: () => undefined,
      size: () => 1,
    }),
  );
  const times = await disturb(appliance, () => accepted.size);
  await until(() => Promise.resolve(unanswered.size < SENDERS), 'answers', 60_000);
  running = false;
  await Promise.all(senders);
  const missing = [...accepted].filter((id) => !receiver.copies.has(id)).length;
  await until(
    () => Promise.resolve([...accepted].every((id) => receiver.copies.has(id))),
    'every accepted mail',
    90_000 + missing * SLOWEST_MS,
  ).catch((error: unknown) => problems.push(`${name}: ${String(error)}`));
  await until(
    async () => finished((await appliance.command('books', '--json')) as Books),
    'the end of the queue',
    90_000,
  ).catch((error: unknown) => problems.push(`${name}: ${String(error)}`));
  const code = await appliance.stop();
  if (code !== 0) problems.push(`${name}: the last stop ended with ${String(code)}`);
  receiver.stop();
  const lost = [...accepted].filter((id) => !receiver.copies.has(id)).length;
  const doubles = [...receiver.copies.values()].reduce((sum, copies) => sum + copies - 1, 0);
  if (lost > 0) problems.push(`${name}: ${String(lost)} accepted mails are lost`);
  if (doubles > times * CONNECTIONS)
    problems.push(`${name}: ${String(doubles)} second copies, more than connections could be open`);
  console.log(
    `${String(times)} ${name}: ${String(accepted.size)} accepted, ${String(lost)} lost, ${String(doubles)} second copies`,
  );
  rmSync(appliance.dataDir, { recursive: true, force: true });
}

interface Books {
  balanced: boolean;
  lines: { status: string; found: number }[];
  faults: string[];
}

/** Returns whether no mail waits any more. Throws if the books do not balance. */
function finished({ balanced, faults, lines }: Books): boolean {
  if (!balanced) throw new Error(faults.join('; '));
  return lines.every(
    ({ status, found }) => found === 0 || !['queued', 'sent', 'deferred', 'scheduled'].includes(status),
  );
}

/** Waits until mail is accepted again, and notes where that takes too long. */
async function recovered(what: string, accepted: () => number): Promise<number> {
  const before = accepted();
  const from = performance.now();
  await until(() => Promise.resolve(accepted() > before + SENDERS), `mail after ${what}`, 60_000);
  const ms = performance.now() - from;
  if (ms > RECOVERY_MS) problems.push(`${what}: mail was accepted again after ${String(Math.round(ms))} ms only`);
  return ms;
}

async function crashes(): Promise<void> {
  const server = new PostgresServer(path.join(root, 'crashed'));
  server.initialize();
  await server.start();
  await server.query('CREATE DATABASE posthorn');
  const proxy = await startProxy(path.join(root, 'proxy'), server);
  let slowest = 0;
  await underLoad('crashes', [proxy.folder], async (_appliance, accepted) => {
    for (let crash = 0; crash < CRASHES; crash++) {
      await sleep(randomInt(200, 1500));
      // Every second time the server performs a COMMIT whose answer never leaves it.
      if (crash % 2 === 1) await new Promise<void>((resolve) => proxy.withholdCommit(resolve));
      await server.stopAtOnce();
      await sleep(randomInt(0, 500));
      await server.start();
      slowest = Math.max(slowest, await recovered(`crash ${String(crash + 1)}`, accepted));
      process.stderr.write(`\r${String(crash + 1)}/${String(CRASHES)} crashes, ${String(accepted())} accepted `);
    }
    process.stderr.write('\n');
    return CRASHES;
  });
  console.log(`slowest recovery: ${String(Math.round(slowest))} ms`);
  await proxy.close();
  await server.stopAtOnce();
}

async function failovers(): Promise<void> {
  const settings = ['synchronous_standby_names=*', 'synchronous_commit=on'];
  // Each standby is a copy from before the server waits for one, so it waits for none when it is promoted.
  let primary = new PostgresServer(path.join(root, 'node0'));
  primary.initialize();
  await primary.start();
  await primary.query('CREATE DATABASE posthorn');
  const folders = Array.from({ length: FAILOVERS + 1 }, (_, at) => path.join(root, `node${String(at)}`));
  let slowest = 0;
  await underLoad('failovers', folders, async (_appliance, accepted) => {
    for (let at = 1; at <= FAILOVERS; at++) {
      const standby = new PostgresServer(folders[at] ?? '');
      standby.copyOf(primary);
      await standby.start();
      for (const setting of settings) {
        const [name = '', value = ''] = setting.split('=');
        await primary.query(`ALTER SYSTEM SET ${name} = '${value}'`);
      }
      await primary.query('SELECT pg_reload_conf()');
      await until(
        async () =>
          (
            await primary.query<{ n: string }>(
              "SELECT count(*) AS n FROM pg_stat_replication WHERE sync_state = 'sync'",
            )
          )[0]?.n === '1',
        'a synchronous standby',
        60_000,
      );
      await sleep(randomInt(500, 2000));
      await primary.stopAtOnce();
      await standby.query('SELECT pg_promote()');
      primary = standby;
      slowest = Math.max(slowest, await recovered(`failover ${String(at)}`, accepted));
      process.stderr.write(`\r${String(at)}/${String(FAILOVERS)} failovers, ${String(accepted())} accepted `);
    }
    process.stderr.write('\n');
    return FAILOVERS;
  });
  console.log(`slowest recovery: ${String(Math.round(slowest))} ms`);
  await primary.stopAtOnce();
}

if (CRASHES > 0) await crashes();
if (FAILOVERS > 0) await failovers();
if (problems.length > 0) {
  for (const problem of problems) console.error(problem);
  console.error(`folder kept: ${root}`);
  process.exitCode = 1;
} else rmSync(root, { recursive: true, force: true });
