/**
 * `npm run bench:backlog`: 100,000 recipients wait, spread over 1,000 domains of which every second one is dead. From the
 * start of the built program to the first delivery, and the most memory it takes while it works on them. Exit 1 if either
 * is over its limit.
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
    /** How long memory is watched after the first delivery, in seconds. */
    seconds: { type: 'string', default: '15' },
    /** The most resident memory, in MiB. */
    memory: { type: 'string', default: '250' },
  },
});
const recipients = Number(options.recipients);
const domains = Number(options.domains);
const PER_CALL = 1000;
const FIRST_DELIVERY_LIMIT_MS = 5_000;
const MEMORY_LIMIT_MIB = Number(options.memory);

/** Nobody listens at 127.0.0.9. */
function zones(): Zones {
  const all: Zones = {};
  for (let n = 0; n < domains; n++) {
    all[`d${String(n)}.test MX`] = [`10 mx.d${String(n)}.test`];
    all[`mx.d${String(n)}.test A`] = [n % 2 === 0 ? '127.0.0.1' : '127.0.0.9'];
  }
  return all;
}

/** Accepts everything and delivers nothing. */
async function fill(dataDir: string): Promise<void> {
  const appliance = await startAppliance({
    dataDir,
    env: { POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': 'hold' }) },
  });
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const html = '<p>Good day, here is what is new.</p>\n'.repeat(100);
  const started = performance.now();
  for (let at = 0; at < recipients; at += PER_CALL) {
    const entries = Array.from({ length: Math.min(PER_CALL, recipients - at) }, (_, i) => ({
      to: `r${String(at + i)}@d${String((at + i) % domains)}.test`,
    }));
    const answer = await fetch(`${appliance.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'hi@bench.test', subject: 'News', html, recipients: entries }),
    });
    if (answer.status !== 202) throw new Error(`${String(answer.status)} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
  const rate = (recipients / (performance.now() - started)) * 1000;
  tell(`accepted ${String(recipients)} recipients in bulk calls at ${rate.toFixed(0)}/s`, {
    name: 'accepted in bulk calls',
    value: rate,
    unit: 'recipients/s',
  });
  const code = await appliance.stop();
  if (code !== 0) throw new Error(`the appliance ended with ${String(code)}`);
}

/** The most resident memory so far, in MiB. */
const peak = ({ pid }: Appliance): number =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))?.[1]) / 1024;

const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-backlog-'));
const receiver = await startReceiver();
const dns = await startDnsServer(zones());
try {
  await fill(dataDir);
  const started = performance.now();
  const watch = until(() => Promise.resolve(receiver.copies.size > 0), 'the first delivery', 60_000).then(
    () => performance.now() - started,
  );
  const appliance = await startAppliance({
    dataDir,
    env: { POSTHORN_DELIVERY__DNS_SERVERS: dns.address, POSTHORN_DELIVERY__REMOTE_PORT: String(receiver.port) },
  });
  const took = await watch;
  await new Promise((resolve) => setTimeout(resolve, Number(options.seconds) * 1000));
  const memory = peak(appliance);
  const arrived = receiver.copies.size;
  const code = await appliance.stop();
  tell(`start to first delivery: ${took.toFixed(0)} ms (limit ${String(FIRST_DELIVERY_LIMIT_MS)})`, {
    name: 'start to first delivery',
    value: took,
    unit: 'ms',
    atMost: FIRST_DELIVERY_LIMIT_MS,
  });
  tell(
    `most memory in ${options.seconds} s of delivering: ${memory.toFixed(0)} MiB (limit ${String(MEMORY_LIMIT_MIB)}), ${String(arrived)} arrived`,
    { name: 'most memory while delivering', value: memory, unit: 'MiB', atMost: MEMORY_LIMIT_MIB },
    { name: 'delivered meanwhile', value: arrived / Number(options.seconds), unit: 'messages/s' },
  );
  console.log(`clean stop: ${code === 0 ? 'yes' : String(code)}`);
  if (code !== 0) process.exitCode = 1;
} finally {
  receiver.stop();
  await dns.close();
  rmSync(dataDir, { recursive: true, force: true });
  rmSync(`${dataDir}.log`, { force: true });
}
