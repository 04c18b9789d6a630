/**
 * `npm run bench -- overload`: clients at three times what can be delivered, for a minute, and beside them transactional mail to a lane
 * with room. Exit 1 if that mail's p95 from acceptance to MAIL FROM is a second or more, if anything but 202 and a 503 with
 * Retry-After is answered, or if a mail that was taken does not arrive.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { load } from './drive.ts';
import { post } from './latency.ts';
import { startSink, until } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    times: { type: 'string', default: '3' },
    /** Mails by which the capacity is measured. */
    mails: { type: 'string', default: '10000' },
    connections: { type: 'string', default: '2000' },
    /** Probes a second. */
    probes: { type: 'string', default: '10' },
  },
});
const LIMIT_MS = 1000;

interface Told {
  taken: number;
  refused: number;
  unsent: number;
  wrong: number;
  withoutRetryAfter: number;
}

function flood({ url }: Appliance, key: string, rate: number): Promise<Told> {
  const args = [url, key, String(Math.round(rate)), options.seconds, options.connections];
  const child = spawn(process.execPath, ['--import', 'tsx', new URL('flood.ts', import.meta.url).pathname, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('exit', (code) => {
      if (code === 0) resolve(JSON.parse(text) as Told);
      else reject(new Error(`the clients ended with ${String(code)}`));
    });
  });
}

/** When MAIL FROM was heard on the probes' lane, where they go one by one. */
const heard: number[] = [];
const server = await startMailServer({ script: { mail: () => (heard.push(performance.now()), '250 2.1.0 ok') } });
const sink = await startSink();
const dns = await startDnsServer({ 'probe.test MX': ['10 mx.probe.test'], 'mx.probe.test A': ['127.0.0.1'] });
const appliance = await startAppliance({
  env: {
    POSTHORN_DELIVERY__DNS_SERVERS: dns.address,
    POSTHORN_DELIVERY__REMOTE_PORT: String(server.port),
    POSTHORN_DELIVERY__ROUTES: JSON.stringify({
      'sink.test': `127.0.0.1:${String(sink.port)}`,
      'dest.test': `127.0.0.1:${String(sink.port)}`,
    }),
    POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: '50',
  },
});
try {
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const mails = Number(options.mails);
  const arrived = (count: number): Promise<void> =>
    until(() => Promise.resolve(sink.count() >= count), `${String(count)} mails at the sink`, 600_000);
  const begun = performance.now();
  await load({ url: appliance.url, key, count: mails, offset: 0, connections: 50, size: 4096 });
  await arrived(mails);
  const capacity = (mails / (performance.now() - begun)) * 1000;
  console.log(`capacity: ${capacity.toFixed(0)} mails a second`);

  const clients = flood(appliance, key, capacity * Number(options.times));
  const state = { isOver: false };
  const finished = clients.finally(() => (state.isOver = true));
  const waits: number[] = [];
  let refusedProbes = 0;
  while (!state.isOver) {
    const next = performance.now() + 1000 / Number(options.probes);
    const before = heard.length;
    try {
      await post(appliance, key, { from: 'hi@bench.test', to: 'p@probe.test', subject: 'Probe', text: 'x' });
      const accepted = performance.now();
      await until(() => Promise.resolve(heard.length > before), 'a probe', 60_000);
      waits.push(Math.max(0, (heard[before] ?? 0) - accepted));
    } catch (error) {
      // A refusal is answered at once: the client comes again.
      if (!String(error).includes('503')) throw error;
      refusedProbes++;
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - performance.now())));
  }
  const told = await finished;
  const p95 = waits.toSorted((a, b) => a - b)[Math.floor(0.95 * (waits.length - 1))] ?? NaN;
  console.log(
    `${options.times} times that for ${options.seconds} s: taken ${String(told.taken)}, refused with 503 ${String(told.refused)}, no connection free for ${String(told.unsent)}, anything else ${String(told.wrong)}`,
  );
  tell(
    `transactional mail beside it: ${String(waits.length)} mails (${String(refusedProbes)} refused), p95 from acceptance to MAIL FROM ${p95.toFixed(0)} ms (limit ${String(LIMIT_MS)})`,
    { name: 'capacity', value: capacity, unit: 'messages/s' },
    { name: 'transactional mail: p95 to MAIL FROM', value: p95, unit: 'ms', atMost: LIMIT_MS },
    {
      name: 'answers but 202 and 503 with Retry-After',
      value: told.wrong + told.withoutRetryAfter,
      unit: 'answers',
      atMost: 0,
    },
    { name: 'refused with 503', value: told.refused, unit: 'requests' },
  );
  const drained = performance.now();
  await arrived(mails + told.taken);
  console.log(
    `all that was taken has arrived, ${((performance.now() - drained) / 1000).toFixed(1)} s after the clients ended; ${appliance.rss().toFixed(0)} MiB`,
  );
} finally {
  await appliance.kill();
  await dns.close();
  await server.close();
  sink.stop();
}
