/**
 * A process that reads what strangers wrote, for a pool of `threads.ts`, to which it looks like a thread. Node's permission model takes files,
 * programs, threads and addons from it, Node.js 25 the network too, and `child.ts` closes the network before that. It has neither
 * the environment nor a descriptor of ours but its pipe, and its memory is watched.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { mkdirSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { READY, type Said } from '../answer-jobs.ts';
import { systemClock, type Timer } from '../clock.ts';
import { frameOf, HEAD_BYTES, sizeOf, valueIn } from './frames.ts';

const isFromSource = import.meta.url.endsWith('.ts');
const ROOT = fileURLToPath(new URL(isFromSource ? '../../..' : '../../../..', import.meta.url));
const SOURCE = path.join(ROOT, isFromSource ? '' : 'dist', 'src');
/** Node's names for the permission model, the newer one first. */
const permissionIn = (flags: ReadonlySet<string>): string | undefined =>
  ['--permission', '--experimental-permission'].find((flag) => flags.has(flag));
const PERMISSION = permissionIn(process.allowedNodeEnvironmentFlags);
/** Heap for young objects: with more, a process takes up to 40 MB more for no speed. */
const YOUNG_MB = 12;
/** How often the memory of a process is looked at while it works on something for longer than this, in ms. */
const LOOK_MS = 100;
/** Octets that are kept of what it writes as errors. */
const MOST_STDERR = 500;

/** Returns whether a Node.js with these flags takes files, programs, threads and addons from a confined process, and whether the network. */
export const confinementBy = (flags: ReadonlySet<string>): { permissions: boolean; network: boolean } => ({
  permissions: permissionIn(flags) !== undefined,
  network: flags.has('--allow-net'),
});

export interface Confinement {
  /** All of its memory, in MB. A process that has more is ended. */
  maxRssMb: number;
  /** Files of the program that it may read besides the code, from the program's folder. */
  reads?: readonly string[];
}

type Limits = Confinement & { maxHeapMb: number };

/** Emits `message` and `error`, as a thread does. */
export class ConfinedProcess extends EventEmitter {
  private readonly child: ChildProcess;
  /** A socket; undefined if there was no descriptor for it. */
  private readonly pipe: Socket | undefined;
  /** The end of what it has written as errors, for its own end before it is ready. */
  private stderr = '';
  private isReady = false;
  private readonly ended: Promise<void>;
  private look: Timer;
  /** Jobs that it has not answered, and since when it works on the first of them, on the monotonic clock. */
  private jobs = 0;
  private busySince = 0;

  constructor(entry: URL, limits: Limits) {
    super();
    this.child = spawn(process.execPath, argumentsOf(entry, limits), {
      env: { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '4194304' },
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      // A session of its own: the keys of a terminal are for the server, which ends it.
      detached: true,
    });
    const { child } = this;
    this.pipe = child.stdio[3] as Socket | undefined;
    this.ended = new Promise((resolve) => {
      const end = (error: Error): void => {
        this.emit('error', error);
        resolve();
      };
      // After all that it has said; one that did not start has no end.
      child.once('close', (code, signal) => {
        const why = this.isReady ? undefined : errorIn(this.stderr);
        end(new Error(['the process ended', signal ?? String(code), ...(why === undefined ? [] : [why])].join(': ')));
      });
      child.once('error', end);
    });
    // That of a process that has ended, which is told by its end.
    this.pipe?.on('error', () => undefined);
    const take = joinFrames((said) => {
      this.heard(said);
    });
    this.pipe?.on('data', (bytes: Buffer) => {
      try {
        take(bytes);
      } catch (error) {
        this.emit('error', error);
      }
    });
    // Read to its end, so that the process never waits for it.
    child.stderr?.on('error', () => undefined);
    child.stderr?.on('data', (bytes: Buffer) => {
      this.stderr = (this.stderr + bytes.toString('latin1')).slice(-MOST_STDERR);
    });
    // The system ends it before the server if memory runs out.
    void writeFile(`/proc/${String(child.pid)}/oom_score_adj`, '1000').catch(() => undefined);
    this.look = this.nextLook(limits.maxRssMb);
  }

  postMessage(job: unknown): void {
    const chunks = frameOf(job);
    if (this.jobs++ === 0) this.busySince = systemClock.monotonic();
    this.pipe?.cork();
    for (const chunk of chunks) this.pipe?.write(chunk);
    this.pipe?.uncork();
  }

  async terminate(): Promise<void> {
    this.look.cancel();
    this.ref();
    this.child.kill('SIGKILL');
    await this.ended;
  }

  ref(): void {
    for (const one of this.handles) one?.ref();
  }

  unref(): void {
    for (const one of this.handles) one?.unref();
  }

  private get handles() {
    return [this.child, this.pipe, this.child.stderr as Socket | null];
  }

  private heard(said: Said): void {
    if (said.kind === READY) this.isReady = true;
    if (said.kind === 'answer') {
      this.jobs--;
      this.busySince = systemClock.monotonic();
    }
    if (said.kind === 'fault') this.emit('error', new Error(said.text));
    else this.emit('message', said.kind === READY ? READY : said.answer);
  }

  private nextLook(mostMb: number): Timer {
    const look = (): void => {
      this.look = this.nextLook(mostMb);
      void this.lookAtMemory(mostMb);
    };
    return systemClock.after(LOOK_MS, look, { background: true });
  }

  private async lookAtMemory(mostMb: number): Promise<void> {
    if (this.jobs === 0 || systemClock.monotonic() - this.busySince < LOOK_MS) return;
    const status = await readFile(`/proc/${String(this.child.pid)}/status`, 'latin1').catch(() => '');
    const mb = Math.round(Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024);
    if (mb > mostMb) this.emit('error', new Error(`the process took ${String(mb)} MB`));
  }
}

/** Returns the line of an uncaught error that names it; Node.js writes its place before and its own version behind. */
const errorIn = (stderr: string): string | undefined =>
  stderr
    .split('\n')
    .findLast((line) => /error|not|cannot/i.test(line) && !/^\s*at /.test(line))
    ?.replaceAll(/[^\x20-\x7e]/g, '');

/** Returns what takes the pieces of a pipe, and calls `heard` with the value of each frame. */
function joinFrames(heard: (said: Said) => void): (bytes: Buffer) => void {
  let head = Buffer.alloc(0);
  let rest: Buffer | null = null;
  let filled = 0;
  return (bytes) => {
    for (let left = bytes; left.length > 0;) {
      if (rest === null) {
        const missing = HEAD_BYTES - head.length;
        head = Buffer.concat([head, left.subarray(0, missing)]);
        left = left.subarray(missing);
        if (head.length < HEAD_BYTES) return;
        rest = Buffer.allocUnsafe(sizeOf(head));
        filled = 0;
      }
      const copied = left.copy(rest, filled);
      filled += copied;
      left = left.subarray(copied);
      if (filled < rest.length) return;
      const said = valueIn(head, rest) as Said;
      [head, rest] = [Buffer.alloc(0), null];
      heard(said);
    }
  };
}

function argumentsOf(entry: URL, { maxHeapMb, reads = [] }: Limits): string[] {
  const files = ['package.json', ...reads].map((name) => path.join(ROOT, name));
  const packages = path.join(ROOT, 'node_modules');
  // If it is a link, Node.js reads the link, and what is behind it.
  const folders = [path.join(ROOT, 'dist/'), ...new Set([`${packages}/`, `${realpathSync(packages)}/`])];
  return [
    ...(PERMISSION === undefined ? [] : [PERMISSION, ...[...files, ...folders].map((one) => `--allow-fs-read=${one}`)]),
    '--no-warnings',
    '--disallow-code-generation-from-strings',
    `--max-old-space-size=${String(maxHeapMb)}`,
    `--max-semi-space-size=${String(YOUNG_MB / 3)}`,
    ...programOf(entry),
  ];
}

/** Returns the file to run: the built ones, or one that is made of the sources, since their loader needs threads and programs. */
function programOf(entry: URL): string[] {
  const file = fileURLToPath(entry);
  const child = path.join(SOURCE, `base/confined/child.${isFromSource ? 'ts' : 'js'}`);
  if (!isFromSource) return ['--import', child, file.replace(/\.ts$/, '.js')];
  return [bundleOf(child, file)];
}

interface Bundler {
  buildSync: (options: object) => { outputFiles: readonly { contents: Uint8Array }[] };
}

const bundles = new Map<string, string>();

function bundleOf(child: string, entry: string): string {
  const known = bundles.get(entry);
  if (known !== undefined) return known;
  const file = path.join(ROOT, 'node_modules/.cache', `${path.basename(entry, '.ts')}.mjs`);
  const { buildSync } = createRequire(createRequire(import.meta.url).resolve('tsx'))('esbuild') as Bundler;
  const { outputFiles } = buildSync({
    stdin: { contents: [child, entry].map((one) => `import ${JSON.stringify(one)};`).join('\n'), resolveDir: ROOT },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    write: false,
  });
  // Another run of tests may start the same program at this moment.
  const draft = `${file}.${String(process.pid)}`;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(draft, outputFiles[0]?.contents ?? '');
  renameSync(draft, file);
  bundles.set(entry, file);
  return file;
}
