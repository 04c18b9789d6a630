/**
 * `npm run bench -- cpu`: CPU time of the server for one mail from POST to its `delivered` event, by kind of thread. Time on the
 * CPU moves far less with what else the machine does than a rate; what is left of it is told by the time of one signature.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance } from './appliance.ts';
import { load, readyLoad, watchDelivered } from './drive.ts';
import { missing, startSink } from './peers.ts';
import { rsaSignatureMs } from './report/machine.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '1' },
    messages: { type: 'string', default: '6000' },
    warm: { type: 'string', default: '3000' },
    html: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '50' },
    connections: { type: 'string', default: '50' },
    profile: { type: 'string' },
    perf: { type: 'string' },
    node: { type: 'string', multiple: true, default: [] },
  },
});
const messages = Number(options.messages);
const warm = Number(options.warm);

/** Milliseconds on the CPU. */
interface Times {
  main: number;
  /** libuv's threads: SQLite and the signatures. */
  pool: number;
  /** Compiling and collecting garbage. */
  v8: number;
  /** Worker threads of ours. */
  workers: number;
}

/** Threads are made in this order: the main one, the platform's (one for delayed tasks, four that work, one for signals), libuv's eight, ours. */
const V8_THREADS = 6;
const POOL_THREADS = 8;

function timesOf(pid: number): Times {
  const folder = `/proc/${String(pid)}/task`;
  const threads = readdirSync(folder)
    .map(Number)
    .sort((a, b) => a - b)
    .map((thread) => Number(readFileSync(`${folder}/${String(thread)}/schedstat`, 'utf8').split(' ')[0]) / 1e6);
  const sum = (from: number, to?: number): number => threads.slice(from, to).reduce((all, one) => all + one, 0);
  const poolFrom = 1 + V8_THREADS;
  const poolTo = poolFrom + POOL_THREADS;
  return { main: threads[0] ?? 0, v8: sum(1, poolFrom), pool: sum(poolFrom, poolTo), workers: sum(poolTo) };
}

/** Linux's profiler sees the threads of SQLite and of V8 too; `--node=--perf-basic-prof` gives it the names of compiled functions. */
const startPerf = (pid: number, file: string): ChildProcess =>
  spawn('perf', ['record', '-F', '499', '-p', String(pid), '-o', file], { stdio: 'ignore' });

async function run(): Promise<void> {
  const sink = await startSink();
  const appliance = await startAppliance({
    env: {
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: options.sessions,
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: options.sessions,
    },
    nodeArgs: [
      ...options.node,
      ...(options.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${options.profile}`]),
    ],
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    const { url } = appliance;
    const common = { url, key, connections: Number(options.connections), html: Number(options.html) };
    const delivered = watchDelivered(url, key);
    await load({ ...common, count: warm, offset: 0 });
    await delivered(warm);
    const run = await readyLoad({ ...common, count: messages, offset: warm });
    const before = timesOf(appliance.pid);
    const signature = rsaSignatureMs();
    const perf = options.perf === undefined ? null : startPerf(appliance.pid, options.perf);
    const started = performance.now();
    const answers = await run();
    await delivered(messages);
    const rate = (messages / (performance.now() - started)) * 1000;
    const after = timesOf(appliance.pid);
    perf?.kill('SIGINT');
    const each = (kind: keyof Times): number => (after[kind] - before[kind]) / messages;
    const kinds = ['main', 'pool', 'v8', 'workers'] as const;
    const all = kinds.reduce((sum, kind) => sum + each(kind), 0);
    const signatureNow = (signature + rsaSignatureMs()) / 2;
    console.log(
      [
        `ms CPU a message: ${all.toFixed(2)} = ${kinds.map((kind) => `${kind} ${each(kind).toFixed(2)}`).join(' + ')}`,
        `signature ${signatureNow.toFixed(2)}, the rest is ${((all - signatureNow) / signatureNow).toFixed(2)} of them`,
        `${rate.toFixed(0)}/s, refused ${String(answers.refused)}, POST p50 ${answers.p50.toFixed(1)} ms, ${appliance.rss().toFixed(0)} MiB`,
      ].join('; '),
    );
  } finally {
    await appliance.stop();
    sink.stop();
  }
}

const absent = missing('smtp-sink');
if (absent.length > 0) {
  console.error('missing: smtp-sink; install with: apt-get install postfix');
  process.exitCode = 69;
} else for (let n = 0; n < Number(options.runs); n++) await run();
