/** Starts the built appliance as a process of its own, on a fresh data folder, and talks to it by its command and its API. */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { cpuOfTree, memoryOfTree } from './process-cpu.ts';
import { freePort, until } from './peers.ts';

const here = path.resolve(import.meta.dirname, '../..');
/** For a start on a machine that has others to serve, in milliseconds. */
const START_MS = 120_000;
/** Bytes: a command that lists 20,000 lanes writes some 20 MB. */
const MOST_OUTPUT = 64 * 1024 * 1024;

export interface Appliance {
  url: string;
  dataDir: string;
  pid: number;
  env: NodeJS.ProcessEnv;
  /** Runs a command; gives its `--json` output. */
  cli(...args: string[]): unknown;
  /** The same without holding up this process, whose DNS and mail hosts the command may need. */
  command(...args: string[]): Promise<unknown>;
  /** Resident memory in MiB, with that of the processes under it. */
  rss(): number;
  /** The most that each of them has had, in MiB. */
  peakRss(): number;
  /** CPU time used so far in ms, with that of the processes under it. */
  cpu(): number;
  /** Resolves when it ends, by itself or by a signal. */
  exited: Promise<number | string>;
  stop(): Promise<number | string>;
  kill(): Promise<number | string>;
}

export interface ApplianceOptions {
  env?: Record<string, string>;
  /** An existing data folder, which is then kept. */
  dataDir?: string;
  nodeArgs?: readonly string[];
  /** A program, with its arguments, that runs it in its own process: a tracer. */
  under?: readonly string[];
  /** The port of the API; a free one where left out. */
  port?: number;
  /** A built working tree other than this one. */
  dir?: string;
  /** Runs commands on the data folder before the server starts; returns more of its environment. */
  before?: (cli: Appliance['cli']) => Record<string, string>;
  /** It is ready within this time, in ms, or killed; 30 s where left out. */
  patienceMs?: number;
}

/** As the image and the unit set it; what the benchmark's own environment has goes before it. */
const SHIPPED = {
  NODE_OPTIONS: '--max-semi-space-size=16',
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '4194304',
  MALLOC_TRIM_THRESHOLD_: '16777216',
};
/** The exit code of a server that cannot listen (docs/operating.md). */
const CANNOT_LISTEN = 69;
const TRIES = 3;

class Ended extends Error {
  readonly how: number | string;

  constructor(how: number | string, log: string) {
    super(`the appliance ended with ${String(how)}: see ${log}`);
    this.how = how;
  }
}

export async function startAppliance(options: ApplianceOptions = {}): Promise<Appliance> {
  for (let tried = 1; ; tried++)
    try {
      return await startOnce(options);
    } catch (error) {
      // Another program may have taken the port that was free a moment ago.
      const isAgain = error instanceof Ended && error.how === CANNOT_LISTEN && options.port === undefined;
      if (!isAgain || tried === TRIES) throw error;
    }
}

async function startOnce(options: ApplianceOptions): Promise<Appliance> {
  const { env = {}, dataDir, nodeArgs = [], under = [], dir: root = here } = options;
  const bin = path.join(root, 'src/bin/posthorn.cjs');
  const data = dataDir ?? mkdtempSync(path.join(os.tmpdir(), 'posthorn-bench-'));
  const port = options.port ?? (await freePort());
  const all = {
    ...SHIPPED,
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('POSTHORN_'))),
    POSTHORN_DATA_DIR: data,
    POSTHORN_HTTP__PORT: String(port),
    POSTHORN_SMTP__HOSTNAME: 'mail.bench.test',
    POSTHORN_DELIVERY__ALLOW_PRIVATE: 'true',
    POSTHORN_DELIVERY__DNS_SERVERS: '127.0.0.1:9',
    POSTHORN_LOG__FORMAT: 'json',
    ...env,
  };
  const cli: Appliance['cli'] = (...args) => {
    const result = spawnSync(process.execPath, [bin, ...args], { cwd: root, env: all, encoding: 'utf8' });
    if (result.status !== 0) throw new Error(`posthorn ${args.join(' ')}: ${result.stderr}`);
    return JSON.parse(result.stdout) as unknown;
  };
  Object.assign(all, options.before?.(cli));
  const log = openSync(`${data}.log`, 'a');
  const command = [...under, process.execPath, ...nodeArgs, bin, 'serve'];
  const child = spawn(command[0] ?? process.execPath, command.slice(1), {
    cwd: root,
    env: all,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  let ended: number | string | null = null;
  const exited = new Promise<number | string>((resolve) => {
    child.on('exit', (code, signal) => {
      ended = signal ?? code ?? 0;
      resolve(ended);
    });
  });
  const url = `http://127.0.0.1:${String(port)}`;
  const ready = async (): Promise<boolean> => {
    if (ended !== null) throw new Ended(ended, `${data}.log`);
    return fetch(`${url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    );
  };
  await until(ready, 'the appliance', START_MS);
  const pid = child.pid ?? 0;
  const end = async (signal: NodeJS.Signals): Promise<number | string> => {
    child.kill(signal);
    const result = await exited;
    if (dataDir === undefined) {
      rmSync(data, { recursive: true, force: true });
      rmSync(`${data}.log`, { force: true });
    }
    return result;
  };
  return {
    url,
    dataDir: data,
    pid,
    env: all,
    exited,
    cli,
    async command(...args) {
      const { stdout } = await promisify(execFile)(process.execPath, [bin, ...args], {
        cwd: root,
        env: all,
        maxBuffer: MOST_OUTPUT,
      });
      return JSON.parse(stdout) as unknown;
    },
    rss: () => memoryOfTree(pid, 'VmRSS'),
    peakRss: () => memoryOfTree(pid, 'VmHWM'),
    cpu: () => cpuOfTree(pid),
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
}

/** Makes a key that may do all that benchmarks need, and returns it. */
export const benchKey = (appliance: Appliance, account = 'default'): string => newKey(appliance.cli, account).key;

export function newKey(cli: Appliance['cli'], account = 'default'): { id: string; key: string } {
  return cli(
    'keys',
    'create',
    '--name',
    'bench',
    '--scopes',
    'send,campaign,message:read,event:read',
    '--account',
    account,
    '--json',
  ) as { id: string; key: string };
}
