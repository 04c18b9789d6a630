/**
 * `npm run bench -- bulk`: ten calls with a thousand recipients each and one shared body, at once. First all mail is held, so that only
 * acceptance is measured: recipients a second until the last 202, and the most CPU time that the main thread used between two turns
 * of its loop. Then the same mail goes to `smtp-sink`, beside as many mails that were sent one by one. Exit 1 below 25,000 recipients
 * a second, above 5 ms, or where bulk mail is delivered more slowly than single mail.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { watchDelivered } from './drive.ts';
import { post } from './latency.ts';
import { measuredRun, median } from './measured-run.ts';
import { freePort, missing, startSink, type Sink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    calls: { type: 'string', default: '10' },
    recipients: { type: 'string', default: '1000' },
    sessions: { type: 'string', default: '50' },
  },
});
const calls = Number(options.calls);
const perCall = Number(options.recipients);
const total = calls * perCall;
const sessions = Number(options.sessions);
const HTML_BYTES = 4096;
const LEAST_ACCEPTED = 25_000;
const LONGEST_HOLD_MS = 5;
/** A run that is this much slower than its peer is not told from the wobble of a machine. */
const LEAST_DELIVERED = 0.95;
const html = '<p>Good day, here is what is new.</p>\n'.repeat(HTML_BYTES / 38).slice(0, HTML_BYTES);

/** Sends all calls at once; resolves with the last 202. */
async function sendAll(appliance: Appliance, key: string, name: string): Promise<void> {
  const mails = Array.from({ length: calls }, (_, call) => ({
    from: 'hi@bench.test',
    subject: 'News',
    html,
    recipients: Array.from({ length: perCall }, (__, n) => ({ to: `${name}${String(call)}-${String(n)}@dest.test` })),
  }));
  await Promise.all(mails.map((mail) => post(appliance, key, mail)));
}

async function started(
  env: Record<string, string>,
): Promise<{ appliance: Appliance; key: string; hold: () => Promise<number> }> {
  const watchPort = await freePort();
  const appliance = await startAppliance({
    env: { ...env, LOOP_WATCH_PORT: String(watchPort) },
    nodeArgs: ['--import', path.join(import.meta.dirname, 'loop-watch.mjs')],
  });
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const hold = async (): Promise<number> => Number(await (await fetch(`http://127.0.0.1:${String(watchPort)}`)).text());
  return { appliance, key, hold };
}

async function acceptance(): Promise<{ rate: number; holdMs: number }> {
  const { appliance, key, hold } = await started({ POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': 'hold' }) });
  try {
    await sendAll(appliance, key, 'warm');
    await hold();
    const begun = performance.now();
    await sendAll(appliance, key, 'r');
    const took = performance.now() - begun;
    return { rate: (total / took) * 1000, holdMs: await hold() };
  } finally {
    await appliance.stop();
  }
}

/** Recipients a second from the first call to the last `delivered`. */
async function delivery(sink: Sink): Promise<number> {
  const { appliance, key } = await started({
    POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
    POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(sessions),
    POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(sessions),
  });
  try {
    const delivered = watchDelivered(appliance.url, key);
    await sendAll(appliance, key, 'warm');
    await delivered(total);
    const begun = performance.now();
    await sendAll(appliance, key, 'r');
    await delivered(total);
    return (total / (performance.now() - begun)) * 1000;
  } finally {
    await appliance.stop();
  }
}

async function main(): Promise<void> {
  if (missing('smtp-sink').length > 0) {
    console.error('missing: smtp-sink; install with: apt-get install postfix');
    process.exitCode = 69;
    return;
  }
  const sink = await startSink();
  const accepted: { rate: number; holdMs: number }[] = [];
  const bulk: number[] = [];
  const single: number[] = [];
  try {
    for (let run = 1; run <= Number(options.runs); run++) {
      const one = await acceptance();
      accepted.push(one);
      bulk.push(await delivery(sink));
      const each = { messages: total, warm: total, size: HTML_BYTES, connections: 50 };
      single.push((await measuredRun({ ...each, sinkPort: sink.port, sessions })).rate);
      console.log(
        `run ${String(run)}  accepted ${one.rate.toFixed(0)}/s, loop held ${one.holdMs.toFixed(1)} ms; delivered ${String(bulk.at(-1)?.toFixed(0))}/s, single ${String(single.at(-1)?.toFixed(0))}/s`,
      );
    }
  } finally {
    sink.stop();
  }
  const rate = median(accepted.map((one) => one.rate));
  const holdMs = median(accepted.map((one) => one.holdMs));
  const [ofBulk, ofSingle] = [median(bulk), median(single)];
  tell(
    `accepted ${rate.toFixed(0)} recipients/s (limit ${String(LEAST_ACCEPTED)}), main loop held ${holdMs.toFixed(1)} ms at most (limit ${String(LONGEST_HOLD_MS)})`,
    { name: 'accepted', value: rate, unit: 'recipients/s', atLeast: LEAST_ACCEPTED },
    { name: 'longest hold of the main loop, CPU', value: holdMs, unit: 'ms', atMost: LONGEST_HOLD_MS },
  );
  tell(`delivered ${ofBulk.toFixed(0)}/s in bulk, ${ofSingle.toFixed(0)}/s one by one`, {
    name: 'delivered, bulk',
    value: ofBulk,
    unit: 'messages/s',
    atLeast: ofSingle * LEAST_DELIVERED,
    peer: { name: 'sent one by one', value: ofSingle },
  });
}

await main();
