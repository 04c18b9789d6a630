/**
 * `posthorn bench`: measures this machine and its disk. A separate server, in a separate folder, accepts mail as fast as it can and
 * discards it: nothing is sent, and the data of the running server are not touched.
 */
import { closeSync, existsSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { CreatedKey } from '../client/types.ts';
import type { Config } from '../config/schema.ts';
import { reachOperator, type Operator } from '../operator/operator.ts';
import { post, type PostTarget } from './bench-client.ts';
import type { Context } from './cli.ts';
import { wholeOption } from './options.ts';
import { showProgress, type Progress } from './progress.ts';
import type { StartApp } from './serve.ts';

interface BenchOptions {
  seconds: number;
  connections: number;
  dir?: string;
  json?: true;
}

export interface BenchRecord {
  object: 'bench';
  /** The measured folder: another disk has other figures. */
  folder: string;
  seconds: number;
  connections: number;
  /** The time of a synced write of 4 KiB, in milliseconds. */
  sync_ms: { p50: number; p99: number };
  accepted: number;
  accepted_per_second: number;
  /** From the request to its 202, which means that the mail is on disk. */
  accept_ms: { p50: number; p99: number };
  refused: number;
  finished: number;
  /** Mails a second through the whole engine, without the network. */
  finished_per_second: number;
}

const SYNCS = 100;
const SYNC_BYTES = 4096;
/** The longest wait for the rest. */
const DRAIN_MS = 120_000;
const LOOK_MS = 250;

export function addBench(program: CommandUnknownOpts, context: Context, startApp: StartApp | undefined): void {
  program
    .command('bench')
    .description('measure what this machine can do: how fast mail is taken and worked off, without sending any')
    .option('--seconds <n>', 'how long mail is sent', wholeOption(1, 600), 10)
    .option('--connections <n>', 'clients at once', wholeOption(1, 200), 16)
    .option('--dir <folder>', 'where to measure (default: the data folder)')
    .option('--json', 'as one JSON object')
    .action(async ({ json, ...options }) => {
      if (startApp === undefined) throw new Error('this program was built without a server');
      const record = await bench(context, startApp, options);
      context.print(json, record, () => lines(record));
    });
}

async function bench(context: Context, startApp: StartApp, options: Omit<BenchOptions, 'json'>): Promise<BenchRecord> {
  const { config } = context.load();
  const parent = options.dir ?? (existsSync(config.dataDir) ? config.dataDir : tmpdir());
  const folder = mkdtempSync(path.join(parent, 'bench-'));
  const progress = showProgress(context, 'measuring');
  const stopListening = removeOnSignal(folder);
  try {
    return await measure(startApp, benchConfig(config, folder), options, progress);
  } finally {
    stopListening();
    progress.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes the folder where a signal such as Ctrl-C ends the command: nothing else ever would. Returns the function that ends this. */
function removeOnSignal(folder: string): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const end = (): void => {
    for (const signal of signals) process.off(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    end();
    // The server that still runs may make files meanwhile.
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.on(signal, onSignal);
  return end;
}

/** Returns the installation's settings, but on loopback, free ports, in a separate folder, and with all mail discarded. */
function benchConfig(config: Config, folder: string): Config {
  const here = { host: '127.0.0.1', port: 0 };
  return {
    ...config,
    dataDir: folder,
    http: { ...config.http, ...here, tls: false, publicUrl: 'http://127.0.0.1' },
    dashboard: { ...config.dashboard, port: 0 },
    metrics: { ...config.metrics, port: null, token: null },
    tls: null,
    smtp: {
      ...config.smtp,
      mx: { ...here, isPortChosen: true },
      submission: { ...config.smtp.submission, ...here, tlsPort: 0, isPortChosen: true, isTlsPortChosen: true },
    },
    storage: { ...config.storage, url: `sqlite:${path.join(folder, 'posthorn.db')}` },
    delivery: { ...config.delivery, routes: { '*': { kind: 'discard' } } },
  };
}

async function measure(
  startApp: StartApp,
  config: Config,
  { seconds, connections }: Pick<BenchOptions, 'seconds' | 'connections'>,
  progress: Progress,
): Promise<BenchRecord> {
  const syncs = measureSyncs(config.dataDir);
  const server = await startApp(config, { log: silent });
  const operator = reachOperator(config);
  try {
    const { key } = await operator.ask<CreatedKey>('createKey', { body: { name: 'bench', scopes: ['send'] } });
    await operator.ask('createDomain', { body: { name: 'bench.example', trusted: true } });
    const target = { url: server.url, key, connections };
    const sent = await send(target, seconds, progress);
    const accepted = sent.waits.length;
    const begun = systemClock.monotonic();
    const finished = await drained(operator, accepted, progress);
    const ms = seconds * 1000 + (systemClock.monotonic() - begun);
    return {
      object: 'bench',
      folder: path.dirname(config.dataDir),
      seconds,
      connections,
      sync_ms: percentiles(syncs),
      accepted,
      accepted_per_second: Math.round(accepted / seconds),
      accept_ms: percentiles(sent.waits),
      refused: sent.refused,
      finished,
      finished_per_second: Math.round((finished / ms) * 1000),
    };
  } finally {
    await operator.close();
    await server.stop();
  }
}

/** Measures what a commit waits for: a small write that the disk has confirmed. */
function measureSyncs(folder: string): number[] {
  const file = openSync(path.join(folder, 'sync'), 'w');
  const block = Buffer.alloc(SYNC_BYTES, 'x');
  try {
    return Array.from({ length: SYNCS }, () => {
      const begun = systemClock.monotonic();
      writeSync(file, block);
      fdatasyncSync(file);
      return systemClock.monotonic() - begun;
    });
  } finally {
    closeSync(file);
  }
}

async function send(
  target: PostTarget,
  seconds: number,
  progress: Progress,
): Promise<{ waits: number[]; refused: number }> {
  const waits: number[] = [];
  let refused = 0;
  const begun = systemClock.monotonic();
  const passed = (): number => systemClock.monotonic() - begun;
  await post(target, {
    next: () => (passed() < seconds * 1000 ? mail(waits.length) : null),
    answered(status, ms) {
      if (status === 202) waits.push(ms);
      else refused++;
      progress.at(Math.min(passed(), seconds * 1000), seconds * 1000);
    },
  });
  return { waits, refused };
}

const TEXT = 'A line of text such as stands in the mail of a shop, of some sixty characters.\n'.repeat(20);

const mail = (n: number): string =>
  JSON.stringify({
    from: 'Bench <bench@bench.example>',
    to: `person${String(n)}@domain${String(n % 100)}.example`,
    subject: `Your order ${String(n)}`,
    text: TEXT,
  });

/** Returns the finished recipients, once all are finished or the wait is over. */
async function drained(operator: Operator, accepted: number, progress: Progress): Promise<number> {
  const until = systemClock.monotonic() + DRAIN_MS;
  for (;;) {
    const { lines: books } = await operator.call('books', {});
    const finished = books.find(({ status }) => status === 'delivered')?.found ?? 0;
    progress.at(finished, accepted);
    if (finished >= accepted || systemClock.monotonic() > until) return finished;
    await systemClock.sleep(LOOK_MS);
  }
}

function percentiles(values: number[]): { p50: number; p99: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0) * 100) / 100;
  return { p50: at(0.5), p99: at(0.99) };
}

function lines(record: BenchRecord): string[] {
  const { sync_ms: sync, accept_ms: accept } = record;
  return [
    `disk of ${record.folder}: a synced write takes ${String(sync.p50)} ms (99 %: ${String(sync.p99)} ms)`,
    `accepted:  ${String(record.accepted_per_second)} mails a second over ${String(record.connections)} connections, each in ${String(accept.p50)} ms (99 %: ${String(accept.p99)} ms)`,
    `worked off: ${String(record.finished_per_second)} mails a second, ${String(record.finished)} of ${String(record.accepted)}`,
    ...(record.refused === 0 ? [] : [`refused:   ${String(record.refused)}`]),
    'Client and server shared this process, and no network was in between: mail hosts decide how fast mail really goes.',
  ];
}

const noop = (): void => undefined;
const silent: Log = { debug: noop, info: noop, warn: noop, error: noop, child: () => silent };
