/**
 * `npm run bench -- backlog`: 100,000 recipients wait, spread over 1,000 domains, 30 % of which are dead. From the start of the built program
 * to the first delivery, the most memory it takes while it works on them, the rate beside that of a short queue without dead domains, and
 * how long the commands take that look at the queue meanwhile. Exit 1 if one of them is beyond its limit.
 *
 *   --recipients N   waiting mail
 *   --domains N      domains that it is spread over
 *   --dead P         the share of domains whose hosts refuse connections, in percent
 *   --seconds N      how long it is watched after the first delivery
 *   --memory MIB     the most resident memory that it may take
 *   --short N        mails of the short queue
 *   --to-the-end     goes on until all mail that can be delivered has been, and tells how long that took
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { startReceiver } from '../torture/receiver.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { until } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    recipients: { type: 'string', default: '100000' },
    domains: { type: 'string', default: '1000' },
    dead: { type: 'string', default: '30' },
    seconds: { type: 'string', default: '15' },
    memory: { type: 'string', default: '250' },
    short: { type: 'string', default: '10000' },
    'to-the-end': { type: 'boolean', default: false },
  },
});
const recipients = Number(options.recipients);
const domains = Number(options.domains);
const seconds = Number(options.seconds);
const PER_CALL = 1000;
const FIRST_DELIVERY_LIMIT_MS = 5_000;
const MEMORY_LIMIT_MIB = Number(options.memory);
/** The rate beside dead domains must be at least this part of the rate of a short queue. */
const LEAST_RATIO = 0.8;
const HOUR_MS = 3_600_000;

const isDead = (domain: number): boolean => domain % 100 < Number(options.dead);

/** No server listens at 127.0.0.9. Names that do not exist are listed too: the DNS server searches all keys for a name that is not. */
function zones(): Zones {
  const all: Zones = {};
  for (let n = 0; n < domains; n++) {
    all[`d${String(n)}.test MX`] = [`10 mx.d${String(n)}.test`];
    all[`mx.d${String(n)}.test AAAA`] = [];
    all[`_mta-sts.d${String(n)}.test TXT`] = [];
    all[`mx.d${String(n)}.test A`] = [isDead(n) ? '127.0.0.9' : '127.0.0.1'];
  }
  return all;
}

/** Accepts mail for so many recipients in turn over these domains, and delivers nothing. Returns how many were accepted in a second. */
async function fill(dataDir: string, count: number, over: readonly number[]): Promise<number> {
  const appliance = await startAppliance({
    dataDir,
    env: { POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': 'hold' }) },
  });
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const html = '<p>Good day, here is what is new.</p>\n'.repeat(100);
  const started = performance.now();
  for (let at = 0; at < count; at += PER_CALL) {
    const entries = Array.from({ length: Math.min(PER_CALL, count - at) }, (_, i) => ({
      to: `r${String(at + i)}@d${String(over[(at + i) % over.length])}.test`,
    }));
    const answer = await fetch(`${appliance.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'hi@bench.test', subject: 'News', html, recipients: entries }),
    });
    if (answer.status !== 202) throw new Error(`${String(answer.status)} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
  const rate = (count / (performance.now() - started)) * 1000;
  const code = await appliance.stop();
  if (code !== 0) throw new Error(`the appliance ended with ${String(code)}`);
  return rate;
}

/** The most resident memory so far, in MiB. */
const peak = ({ pid }: Appliance): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))?.[1]) / 1024;

/** The two ends of the work on a queue: the receiver of all mail that can be delivered, and the program since its start. */
interface Delivering {
  arrived(): number;
  appliance: Appliance;
  /** From the start of the program to the first delivery, in ms. */
  firstMs: number;
  /** Deliveries in a second since the first one. */
  rate(): number;
}

/** Fills a queue, starts the program on it, and ends it when the work is done. */
async function deliver(
  count: number,
  over: readonly number[],
  work: (delivering: Delivering, filled: number) => Promise<void>,
): Promise<void> {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-backlog-'));
  const receiver = await startReceiver();
  const dns = await startDnsServer(zones());
  try {
    const filled = await fill(dataDir, count, over);
    const started = performance.now();
    const watch = until(() => Promise.resolve(receiver.copies.size > 0), 'the first delivery', 60_000).then(
      () => performance.now() - started,
    );
    const env = {
      POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
      POSTHORN_DELIVERY__REMOTE_PORT: String(receiver.port),
    };
    const appliance = await startAppliance({ dataDir, env });
    const arrived = (): number => receiver.copies.size;
    const firstMs = await watch;
    const rate = (): number => (arrived() / (performance.now() - started - firstMs)) * 1000;
    await work({ arrived, appliance, firstMs, rate }, filled);
    const code = await appliance.stop();
    console.log(`clean stop: ${code === 0 ? 'yes' : String(code)}`);
    if (code !== 0) process.exitCode = 1;
  } finally {
    receiver.stop();
    await dns.close();
    rmSync(dataDir, { recursive: true, force: true });
    rmSync(`${dataDir}.log`, { force: true });
  }
}

/** How long a command takes while mail is delivered, in ms. */
async function timeOf(appliance: Appliance, ...command: string[]): Promise<number> {
  const started = performance.now();
  await appliance.command(...command, '--json');
  return performance.now() - started;
}

const all = Array.from({ length: domains }, (_, n) => n);
let shortRate = 0;
await deliver(
  Number(options.short),
  all.filter((n) => !isDead(n)),
  async ({ arrived, rate }) => {
    await until(() => Promise.resolve(arrived() >= Number(options.short)), 'the short queue', HOUR_MS);
    shortRate = rate();
  },
);
await deliver(recipients, all, async ({ arrived, appliance, firstMs, rate: rateSoFar }, filled) => {
  const started = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const rate = rateSoFar();
  const memory = peak(appliance);
  const queueMs = await timeOf(appliance, 'queue', 'lanes');
  const booksMs = await timeOf(appliance, 'books');
  tell(`accepted ${String(recipients)} recipients in bulk calls at ${filled.toFixed(0)}/s`, {
    name: 'accepted in bulk calls',
    value: filled,
    unit: 'recipients/s',
  });
  tell(`start to first delivery: ${firstMs.toFixed(0)} ms (limit ${String(FIRST_DELIVERY_LIMIT_MS)})`, {
    name: 'start to first delivery',
    value: firstMs,
    unit: 'ms',
    atMost: FIRST_DELIVERY_LIMIT_MS,
  });
  tell(
    `most memory in ${options.seconds} s of delivering: ${memory.toFixed(0)} MiB (limit ${String(MEMORY_LIMIT_MIB)})`,
    {
      name: 'most memory while delivering',
      value: memory,
      unit: 'MiB',
      atMost: MEMORY_LIMIT_MIB,
    },
  );
  tell(
    `delivered meanwhile: ${rate.toFixed(0)}/s, ${(rate / shortRate).toFixed(2)} of a short queue's ${shortRate.toFixed(0)}/s (limit ${String(LEAST_RATIO)})`,
    { name: 'delivered meanwhile', value: rate, unit: 'messages/s' },
    { name: 'rate beside that of a short queue', value: rate / shortRate, unit: 'x', atLeast: LEAST_RATIO },
  );
  tell(
    `\`posthorn queue lanes\` answers after ${queueMs.toFixed(0)} ms, \`posthorn books\` after ${booksMs.toFixed(0)} ms, each with its start`,
    { name: 'posthorn queue lanes meanwhile', value: queueMs, unit: 'ms' },
    { name: 'posthorn books meanwhile', value: booksMs, unit: 'ms' },
  );
  if (!options['to-the-end']) return;
  const deliverable = Array.from({ length: recipients }, (_, at) => at % domains).filter((n) => !isDead(n)).length;
  await until(() => Promise.resolve(arrived() >= deliverable), 'the end of the queue', HOUR_MS);
  const minutes = (performance.now() - started) / 60_000;
  tell(`all ${String(deliverable)} that can be delivered arrived after ${minutes.toFixed(1)} min`, {
    name: 'until all had arrived',
    value: minutes,
    unit: 'min',
  });
});
