/**
 * One measured run of the built appliance: warm it up, then send mails by one of its doors, and wait until the event log has all of them as
 * delivered.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { freePort } from '../support/harness/peer.ts';
import { newKey, startAppliance, type Appliance } from './appliance.ts';
import { loadBySmtp, readyLoad, watchDelivered } from './drive.ts';

export interface RunOptions {
  /** The way in; HTTP if left out. */
  door?: 'http' | 'smtp';
  /** Each mail comes over a connection of its own. */
  isFresh?: boolean;
  /** Where the receiver listens on loopback. */
  sinkPort: number;
  /** Connections to the receiver. */
  sessions: number;
  messages: number;
  /** Mails before the clock starts. */
  warm: number;
  /** The first of those, whose rate is `coldRate`. */
  cold?: number;
  /** Octets of each mail. */
  size: number;
  /** Connections of the clients. */
  connections: number;
  env?: Record<string, string>;
  nodeArgs?: readonly string[];
  /** A built working tree other than this one. */
  dir?: string;
  /** Runs on the started appliance before the first mail. */
  prepare?: (appliance: Appliance) => Promise<void>;
  /** Runs when everything has been delivered. */
  afterwards?: (appliance: Appliance) => void;
}

export interface Run {
  /** Delivered messages a second. */
  rate: number;
  /** The same of the first mails after the start; NaN if none were asked for. */
  coldRate: number;
  /** CPU time of the server for one message. */
  cpuMs: number;
  /** Its parts by kind of thread. */
  parts: ThreadTimes;
  /** Median time of an answer to a POST; NaN by SMTP. */
  answerMs: number;
  /** Resident memory at the end, and the most of the whole run. */
  rssMiB: number;
  peakMiB: number;
}

export async function measuredRun(options: RunOptions): Promise<Run> {
  const { sinkPort, messages, warm, cold = 0 } = options;
  let key = '';
  const port = await freePort();
  const appliance = await startAppliance({
    ...(options.dir === undefined ? {} : { dir: options.dir }),
    nodeArgs: options.nodeArgs ?? [],
    env: {
      ...options.env,
      POSTHORN_SMTP__SUBMISSION__PORT: String(port),
      POSTHORN_SMTP__SUBMISSION__TRUSTED_NETWORKS: '127.0.0.0/8',
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sinkPort)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(options.sessions),
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(options.sessions),
    },
    before(cli) {
      const made = newKey(cli);
      key = made.key;
      cli('domains', 'add', 'bench.test', '--trust', '--json');
      return { POSTHORN_SMTP__SUBMISSION__TRUSTED_KEY: made.id };
    },
  });
  try {
    await options.prepare?.(appliance);
    const delivered = watchDelivered(appliance.url, key);
    const send = senderOf(options, appliance.url, key, port);
    const rateOf = async (count: number, run: () => Promise<unknown>): Promise<number> => {
      const started = performance.now();
      await run();
      await delivered(count);
      return (count / (performance.now() - started)) * 1000;
    };
    const coldRate = cold === 0 ? NaN : await rateOf(cold, await send(cold, 0));
    if (warm > cold) await rateOf(warm - cold, await send(warm - cold, cold));
    const run = await send(messages, warm);
    const [cpu, before] = [appliance.cpu(), threadTimes(appliance.pid)];
    let answerMs = NaN;
    const rate = await rateOf(messages, async () => {
      answerMs = await run();
    });
    options.afterwards?.(appliance);
    const after = threadTimes(appliance.pid);
    return {
      rate,
      coldRate,
      cpuMs: (appliance.cpu() - cpu) / messages,
      parts: partsOf(before, after, messages),
      answerMs,
      rssMiB: appliance.rss(),
      peakMiB: appliance.peakRss(),
    };
  } finally {
    await appliance.stop();
  }
}

/** Returns what makes a load ready: a function that sends it and resolves with the median time of an answer. */
function senderOf(
  { door = 'http', isFresh = false, connections, size }: RunOptions,
  url: string,
  key: string,
  port: number,
): (count: number, offset: number) => Promise<() => Promise<number>> {
  return async (count, offset) => {
    if (door === 'smtp')
      return async () => {
        await loadBySmtp({ port, count, sessions: connections, size, isFresh });
        return NaN;
      };
    const run = await readyLoad({ url, key, connections, size, count, offset, isFresh });
    return async () => {
      const { p50, refused } = await run();
      if (refused > 0) throw new Error(`${String(refused)} mails were refused`);
      return p50;
    };
  };
}

/** Milliseconds on the CPU. */
export interface ThreadTimes {
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

function threadTimes(pid: number): ThreadTimes {
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

const partsOf = (before: ThreadTimes, after: ThreadTimes, messages: number): ThreadTimes => ({
  main: (after.main - before.main) / messages,
  pool: (after.pool - before.pool) / messages,
  v8: (after.v8 - before.v8) / messages,
  workers: (after.workers - before.workers) / messages,
});

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
