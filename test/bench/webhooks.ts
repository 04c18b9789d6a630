/**
 * `npm run bench -- webhooks`: simulated mail at a steady rate, each mail two events, with ten endpoints that share the events
 * between them: two hang, one answers 500, seven are well. First the same mail with no endpoint, for comparison. In the middle the
 * program is killed and started again. Exit 1 where a healthy endpoint misses an event, lags a second at the 95th
 * percentile before the kill, or where mail is slower by a tenth.
 *
 * `--all` tells every endpoint of every event instead of a tenth of them each.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { startAppliance, type Appliance } from './appliance.ts';
import { until } from './peers.ts';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '10' },
    all: { type: 'boolean', default: false },
  },
});
const rate = Number(values.rate);
const seconds = Number(values.seconds);
const ENDPOINTS = 10;
const HEALTHY = 7;
const LAG_LIMIT_MS = 1000;
const MOST_SLOWER = 0.1;
const SIMULATED = 'simulator.posthorn.test';
const AT_ONCE = 20;

const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-bench-webhooks-'));
const env = { POSTHORN_WEBHOOKS__ALLOW_HTTP: 'true', POSTHORN_WEBHOOKS__ALLOW_CIDRS: '["127.0.0.0/8"]' };
const start = (): Promise<Appliance> => startAppliance({ dataDir, env });

async function ask<Body>(
  appliance: Appliance,
  key: string,
  method: string,
  where: string,
  body?: unknown,
): Promise<Body> {
  const answer = await fetch(appliance.url + where, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${where}: ${await answer.text()}`);
  return (await answer.json()) as Body;
}

/** Sends at the rate, in bulk; gives how many were accepted, how long it took until all were delivered, and the server's CPU time meanwhile, in ms. */
async function sendFor(
  appliance: Appliance,
  key: string,
  tag: string,
): Promise<{ sent: number; ms: number; cpu: number }> {
  const begun = performance.now();
  const cpu = appliance.cpu();
  const total = rate * seconds;
  let sent = 0;
  const running: Promise<unknown>[] = [];
  while (sent < total) {
    const due = Math.min(total, Math.ceil(((performance.now() - begun) / 1000) * rate));
    while (sent < due) {
      const recipients = Array.from({ length: AT_ONCE }, () => ({ to: `delivered+${String(sent++)}@${SIMULATED}` }));
      const stream = `s${String((sent / AT_ONCE) % ENDPOINTS)}`;
      const call = ask(appliance, key, 'POST', '/v1/messages', {
        from: `hi@${SIMULATED}`,
        subject: 's',
        text: 't',
        tags: [tag],
        stream,
        recipients,
      });
      // That it failed is seen below, when all have been sent; the one that is killed in the middle fails on purpose.
      call.catch(() => undefined);
      running.push(call);
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await Promise.all(running);
  await until(async () => (await delivered(appliance, key)) >= sent + deliveredBefore, 'the mails');
  deliveredBefore += sent;
  return { sent, ms: performance.now() - begun, cpu: (appliance.cpu() - cpu) / sent };
}

let deliveredBefore = 0;

interface Stats {
  data: { key: string; counts: { sent: number; delivered: number } }[];
}

async function delivered(appliance: Appliance, key: string): Promise<number> {
  const { data } = await ask<Stats>(appliance, key, 'GET', '/v1/stats?bucket=total&test=true');
  return data.reduce((sum, { counts }) => sum + counts.delivered, 0);
}

interface Seen {
  receiver: WebhookReceiver;
  ids: Set<string>;
  lags: number[];
}

async function listen(index: number): Promise<Seen> {
  const receiver = await startReceiver();
  const seen: Seen = { receiver, ids: new Set(), lags: [] };
  receiver.answer = (call) => {
    // The list of calls is for tests; here it would only grow.
    receiver.calls.length = 0;
    if (index >= HEALTHY + 1) return 'hang';
    if (index === HEALTHY) return 500;
    if (!seen.ids.has(call.event.id)) seen.lags.push(Date.now() - Date.parse(call.event.timestamp));
    seen.ids.add(call.event.id);
    return 204;
  };
  return seen;
}

const at = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? NaN;

let appliance = await start();
const endpoints = await Promise.all(Array.from({ length: ENDPOINTS }, (_, index) => listen(index)));
try {
  const { key } = appliance.cli(
    'keys',
    'create',
    '--name',
    'bench',
    '--scopes',
    'send,campaign,webhook,stream,stats:read',
    '--json',
  ) as { key: string };
  for (let n = 0; n < ENDPOINTS; n++)
    await ask(appliance, key, 'POST', '/v1/streams', {
      slug: `s${String(n)}`,
      name: `Stream ${String(n)}`,
      type: 'transactional',
    });
  await sendFor(appliance, key, 'warm');
  const alone = await sendFor(appliance, key, 'alone');
  for (const [index, { receiver }] of endpoints.entries())
    await ask(appliance, key, 'POST', '/v1/webhooks', {
      url: receiver.url,
      concurrency: 4,
      ...(values.all ? {} : { streams: [`s${String(index)}`] }),
    });
  const beside = await sendFor(appliance, key, 'beside');
  const events = (share: number): number => share * 2 * (values.all ? 1 : 1 / ENDPOINTS);
  const healthy = endpoints.slice(0, HEALTHY);
  await until(() => healthy.every(({ ids }) => ids.size >= events(beside.sent)), 'the healthy endpoints');
  const lags = healthy.map((one) => at(one.lags, 0.95));
  console.log(`p95 lag of the healthy endpoints: ${lags.map((lag) => lag.toFixed(0)).join(', ')} ms`);
  const slower = beside.ms / alone.ms - 1;
  console.log(
    `${String(alone.sent)} mails: ${(alone.ms / 1000).toFixed(2)} s without endpoints, ${(beside.ms / 1000).toFixed(2)} s with them (${(slower * 100).toFixed(1)} % longer); ${alone.cpu.toFixed(2)} and ${beside.cpu.toFixed(2)} ms of CPU a mail`,
  );

  const killed = sendFor(appliance, key, 'killed').catch(() => null);
  await new Promise((resolve) => setTimeout(resolve, (seconds * 1000) / 2));
  await appliance.kill();
  await killed;
  appliance = await start();
  // Calls that were on their way are tried again by the schedule.
  await until(async () => (await waiting(appliance)) === 0, 'the mails after the kill', 300_000);
  const all = await eventsByStream(appliance, key);
  const missing = (): number[] =>
    healthy.map(({ ids }, index) => (values.all ? all.total : (all.streams.get(`s${String(index)}`) ?? 0)) - ids.size);
  await until(() => missing().every((n) => n <= 0), 'the events after the kill').catch(() => undefined);
  console.log(`after kill -9: missing at the healthy endpoints ${missing().join(', ')}`);
  if (Math.max(...lags) > LAG_LIMIT_MS || slower > MOST_SLOWER || missing().some((n) => n > 0)) process.exitCode = 1;
} finally {
  for (const { receiver } of endpoints) await receiver.close();
  await appliance.kill();
  rmSync(dataDir, { recursive: true, force: true });
}

async function waiting(running: Appliance): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 200));
  const books = running.cli('books', '--json') as { lines: { status: string; found: number }[] };
  return books.lines
    .filter(({ status }) => ['queued', 'sent', 'deferred', 'scheduled'].includes(status))
    .reduce((sum, { found }) => sum + found, 0);
}

/** Events since the endpoints were made, as the numbers have them: those of `warm` and `alone` came before. */
async function eventsByStream(
  running: Appliance,
  key: string,
): Promise<{ total: number; streams: Map<string, number> }> {
  const { data } = await ask<Stats>(running, key, 'GET', '/v1/stats?bucket=total&test=true&by=stream');
  const before = (2 * rate * seconds * 2) / ENDPOINTS;
  const streams = new Map(data.map(({ key: stream, counts }) => [stream, counts.sent + counts.delivered - before]));
  return { total: [...streams.values()].reduce((sum, n) => sum + n, 0), streams };
}
