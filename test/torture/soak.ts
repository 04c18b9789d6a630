/**
 * `npm run torture -- soak`: the built appliance under an even load for an hour, at half the rate that it reaches here (measured first), and
 * what grows meanwhile: memory (least squares over the least of each minute, after a warm-up), descriptors, the write-ahead log, the
 * file; how late the event loop is; errors in the log; mail that does not arrive. Prints a line a minute. Exit 1 where a limit is broken.
 *
 *   --hours N | --minutes N   how long; an hour if absent
 *   --rate R                  mails a second instead of half the top rate
 *   --seed N                  sizes of the mails
 *   --data FOLDER             a new folder for the data; what stays in the temporary folder is deleted
 *   --report FILE             writes figures and samples as JSON
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance, type Appliance } from '../bench/appliance.ts';
import { load } from '../bench/drive.ts';
import { lagAt, loopLag } from '../bench/loop-lag.ts';
import { freePort, missing, startSink, until, type Sink } from '../bench/peers.ts';
import { durationOf, numberOf, referenceOf, withUnit } from '../bench/report/words.ts';
import { tell } from '../bench/report/result.ts';
import { SHORTEST_FOR_SLOPE_MS, soakFigures, type SoakSample } from './soak-figures.ts';

const { values: options } = parseArgs({
  options: {
    hours: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    rate: { type: 'string' },
    seed: { type: 'string', default: '1' },
    data: { type: 'string' },
    report: { type: 'string' },
  },
});
const MINUTE_MS = 60_000;
const durationMs = Number(options.minutes ?? Number(options.hours) * 60) * MINUTE_MS;
const warmUpMs = Math.min(15 * MINUTE_MS, durationMs / 4);
const SAMPLE_MS = Math.min(1000, durationMs / 20);
const TOKEN = 'soak-for-an-hour';
/** Mails by which the top rate is measured, after as many that warm the program. */
const MEASURED = 5000;
/** A message with its events; nothing is deleted within an hour. */
const BYTES_A_MESSAGE = 10_000;
const ROOM = 1.2;
const UNAVAILABLE = 69;

interface Told {
  taken: number;
  refused: number;
  unsent: number;
  wrong: number;
}

/** Even load by a process of its own; resolves with what was answered. */
function flood({ url }: Appliance, key: string, rate: number): Promise<Told> {
  const program = path.join(import.meta.dirname, '../bench/flood.ts');
  const args = [url, key, String(rate), String(durationMs / 1000), '200', options.seed];
  const child = spawn(process.execPath, ['--import', 'tsx', program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('close', (code) => {
      if (code === 0) resolve(JSON.parse(text) as Told);
      else reject(new Error(`the clients ended with ${String(code)}`));
    });
  });
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/** Counts the lines of level `error` that the program has written. The log has warnings and errors only, so it stays short. */
const errorsIn = (logFile: string): number =>
  (readFileSync(logFile, 'utf8').match(/^\{"level":"(?:error|fatal)"/gm) ?? []).length;

async function topRate({ url }: Appliance, key: string, sink: Sink): Promise<number> {
  const run = async (count: number, offset: number): Promise<number> => {
    const [before, begun] = [sink.count(), performance.now()];
    await load({ url, key, count, offset, connections: 50, size: 4096 });
    await until(() => sink.count() - before >= count, `${String(count)} mails at the sink`, 600_000);
    return (count / (performance.now() - begun)) * 1000;
  };
  await run(MEASURED, 0);
  return run(MEASURED, MEASURED);
}

async function watch(
  appliance: Appliance,
  heapPort: number,
  sink: Sink,
  load: Promise<Told>,
): Promise<{ samples: SoakSample[]; loopP99Ms: number; told: Told }> {
  const samples: SoakSample[] = [];
  const database = path.join(appliance.dataDir, 'posthorn.db');
  const begun = performance.now();
  const state = { isOver: false };
  const finished = load.finally(() => (state.isOver = true));
  // A failure is reported when it is awaited below.
  finished.catch(() => undefined);
  let lagBefore = await loopLag(appliance, TOKEN);
  let lagOfMinute = lagBefore;
  let isWarm = false;
  let [minute, arrived] = [0, sink.count()];
  while (!state.isOver) {
    const at = performance.now() - begun;
    const heap = Number(await (await fetch(`http://127.0.0.1:${String(heapPort)}`)).text());
    const sample: SoakSample = {
      at,
      rss: appliance.rss() * 2 ** 20,
      heap,
      descriptors: readdirSync(`/proc/${String(appliance.pid)}/fd`).length,
      wal: sizeOf(`${database}-wal`),
      file: sizeOf(database),
    };
    samples.push(sample);
    if (!isWarm && at >= warmUpMs) {
      isWarm = true;
      lagBefore = await loopLag(appliance, TOKEN);
    }
    if (at >= (minute + 1) * MINUTE_MS) {
      minute++;
      const lag = await loopLag(appliance, TOKEN);
      const rate = (sink.count() - arrived) / 60;
      const mb = (bytes: number): string => `${numberOf(bytes / 1e6)} MB`;
      console.log(
        `${String(minute)}/${String(Math.round(durationMs / MINUTE_MS))} min: ${rate.toFixed(0)}/s, memory ${mb(sample.rss)}, heap ${mb(heap)}, ${String(sample.descriptors)} descriptors, WAL ${mb(sample.wal)}, file ${mb(sample.file)}, loop p99 ${String(lagAt(lagOfMinute, lag, 0.99))} ms, ${String(errorsIn(`${appliance.dataDir}.log`))} errors`,
      );
      [lagOfMinute, arrived] = [lag, sink.count()];
    }
    await pause(SAMPLE_MS);
  }
  const loopP99Ms = lagAt(lagBefore, await loopLag(appliance, TOKEN), 0.99);
  return { samples, loopP99Ms, told: await finished };
}

/** Returns whether the disk has room for the data of the run. */
function hasRoom(folder: string, rate: number): boolean {
  const needed = (rate * durationMs * BYTES_A_MESSAGE) / 1000;
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize > needed * ROOM) return true;
  console.error(
    `${folder} has ${numberOf((bavail * bsize) / 1e6)} MB of room, and the run needs about ${numberOf((needed * ROOM) / 1e6)}: give another with --data, or less time or rate`,
  );
  process.exitCode = UNAVAILABLE;
  return false;
}

async function run(dataDir: string, sink: Sink): Promise<void> {
  const heapPort = await freePort();
  const retention = ['CONTENT', 'MESSAGES', 'EVENTS', 'AUDIT', 'REPORTS', 'REQUEST_DETAILS'];
  const appliance = await startAppliance({
    dataDir,
    env: {
      ...Object.fromEntries(retention.map((name) => [`POSTHORN_RETENTION__${name}`, '1h'])),
      POSTHORN_LOG__LEVEL: 'warn',
      POSTHORN_METRICS__TOKEN: TOKEN,
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
      HEAP_WATCH_PORT: String(heapPort),
    },
    nodeArgs: ['--import', path.join(import.meta.dirname, 'heap-watch.mjs')],
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    const top = options.rate === undefined ? await topRate(appliance, key, sink) : null;
    const rate = Number(options.rate ?? (top ?? 0) / 2);
    if (!hasRoom(dataDir, rate)) return;
    console.log(
      `${top === null ? '' : `top rate ${top.toFixed(0)}/s; `}${rate.toFixed(0)} mails a second for ${durationOf(durationMs)}, warm after ${durationOf(warmUpMs)}`,
    );
    const before = sink.count();
    const { samples, loopP99Ms, told } = await watch(appliance, heapPort, sink, flood(appliance, key, rate));
    const arrived = (): number => sink.count() - before;
    await until(() => arrived() >= told.taken, 'the last mails', 120_000).catch(() => undefined);
    const results = soakFigures({
      samples,
      warmUpMs,
      durationMs,
      loopP99Ms,
      errorsInLog: errorsIn(`${dataDir}.log`),
      missing: told.taken - arrived(),
      wrongAnswers: told.wrong,
      refused: told.refused,
    });
    console.log(`${numberOf(told.taken)} mails taken`);
    if (durationMs < SHORTEST_FOR_SLOPE_MS)
      console.log(`shorter than ${durationOf(SHORTEST_FOR_SLOPE_MS)}: slopes are shown and not held`);
    for (const result of results) {
      const reference = referenceOf(result);
      const mark = result.held === false ? 'BROKEN' : '';
      tell(
        `${mark.padEnd(7)}${result.name}: ${withUnit(result.value, result.unit)}${reference === '' ? '' : ` (${reference})`}`,
        result,
      );
    }
    if (options.report !== undefined)
      writeFileSync(
        options.report,
        `${JSON.stringify({ rate, top, durationMs, warmUpMs, results, samples }, null, 2)}\n`,
      );
  } finally {
    await appliance.stop();
  }
}

async function main(): Promise<void> {
  if (missing('smtp-sink').length > 0) {
    console.error('missing: smtp-sink; install with: apt-get install postfix');
    process.exitCode = UNAVAILABLE;
    return;
  }
  if (options.data !== undefined) mkdirSync(options.data, { recursive: true });
  const dataDir =
    options.data === undefined ? mkdtempSync(path.join(os.tmpdir(), 'posthorn-soak-')) : path.resolve(options.data);
  const sink = await startSink();
  try {
    await run(dataDir, sink);
  } finally {
    sink.stop();
    if (options.data === undefined) {
      rmSync(dataDir, { recursive: true, force: true });
      rmSync(`${dataDir}.log`, { force: true });
    }
  }
}

await main();
