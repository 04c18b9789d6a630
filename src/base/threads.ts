/**
 * A few worker threads of one kind for work that would hold up the main loop: started when needed, one job after the other, ended when idle, and when
 * a job takes too long. What strangers wrote is read in a process that can only read (`confined/process.ts`).
 */
import v8 from 'node:v8';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { READY } from './answer-jobs.ts';
import type { Clock, Timer } from './clock.ts';
import { ConfinedProcess, type Confinement } from './confined/process.ts';

// NODE_OPTIONS of the image and the unit limits the young objects of the main thread, which has its heap by now. If the flag stays set,
// V8 takes it for each thread in place of the thread's own limit: 28 MiB more for the thread that makes mails.
v8.setFlagsFromString('--max-semi-space-size=0');

const isFromSource = import.meta.url.endsWith('.ts');
/** The pause after a thread that could not start, in ms: each try costs a tenth of a second of CPU, and descriptors that Node keeps. */
const START_AGAIN_MS = 60_000;
/** How long a thread may load its module, in ms: a second is enough if the machine is not busy. */
const START_MS = 20_000;
/** Heap for young objects of one thread in MB: three times what `--max-semi-space-size=16` gives the main thread. */
const YOUNG_MB = 48;

export interface ThreadsOptions {
  /** The source file of the thread: a module that calls `answerJobs` at its end. */
  entry: URL;
  count: number;
  /** Jobs that a thread has besides the one it does: it need not wait for a turn of the main loop then. Another does them if it ends. None if absent. */
  ahead?: number;
  /** Jobs that may wait for one; more are refused. */
  mostWaiting: number;
  idleMs: number;
  /** The longest a job may take, in milliseconds; the time of a thread's first job begins when its module is loaded. */
  jobMs: number;
  maxHeapMb: number;
  /** Makes it a process without rights. */
  confined?: Confinement;
  /** Is called when a thread that `start` wanted could not be started or loaded; for a minute `start` starts no other one. */
  couldNotStart?: (error: unknown) => void;
  /** Heap for young objects of one thread; 48 MB if absent. */
  maxYoungMb?: number;
}

/** The refusal of a job, with its reason. It is never the fault of the input alone, except that a hostile one may take too long. */
export class ThreadRefusal extends Error {
  readonly why: 'full' | 'closed' | 'slow' | 'died';
  /** False if the thread had not begun with the job, since it could not be started or loaded. */
  readonly begun: boolean;

  constructor(why: ThreadRefusal['why'], { begun = true, ...options }: ErrorOptions & { begun?: boolean } = {}) {
    super(`no thread did the work: ${why}`, options);
    this.why = why;
    this.begun = begun;
  }

  /** True if the job took too long, or ended its thread: not if it never began. */
  get isOfJob(): boolean {
    return this.begun && (this.why === 'slow' || this.why === 'died');
  }
}

export interface Threads<Input, Output> {
  /** Rejects with a ThreadRefusal. `transfer` names memory that is handed over without a copy and is then gone here. */
  run(input: Input, transfer?: readonly ArrayBuffer[]): Promise<Output>;
  /** Starts the threads that do not run yet, for callers that do their work themselves until one is loaded. */
  start(): void;
  readonly loaded: number;
  /** Ends all threads; jobs that wait are refused. */
  close(): Promise<void>;
}

interface Job<Input, Output> {
  input: Input;
  transfer: readonly ArrayBuffer[];
  resolve: (output: Output) => void;
  reject: (refusal: ThreadRefusal) => void;
}

interface Thread<Input, Output> {
  worker: Worker | ConfinedProcess;
  /** The one it does, and those after it. */
  jobs: Job<Input, Output>[];
  timer: Timer;
  /** True when its module is loaded: it has said so, or answered once. */
  isLoaded: boolean;
}

export function createThreads<Input, Output>(
  { clock }: { clock: Clock },
  options: ThreadsOptions,
): Threads<Input, Output> {
  const threads = new Set<Thread<Input, Output>>();
  const waiting: Job<Input, Output>[] = [];
  let closed = false;
  /** When `start` may start threads again after a failure, on the monotonic clock. */
  let mayStartAt = 0;

  function assign(): void {
    const most = threads.size < options.count ? 0 : (options.ahead ?? 0);
    const [free] = [...threads].filter(({ jobs }) => jobs.length <= most).sort((a, b) => a.jobs.length - b.jobs.length);
    if (waiting.length === 0 || (free === undefined && threads.size >= options.count)) return;
    const job = waiting.shift();
    if (job === undefined) return;
    let thread: Thread<Input, Output>;
    try {
      thread = free ?? start();
    } catch (cause) {
      // No thread is left that would take the others.
      const lost = threads.size === 0 ? waiting.splice(0) : [];
      for (const one of [job, ...lost]) one.reject(new ThreadRefusal('died', { cause, begun: false }));
      return;
    }
    thread.jobs.push(job);
    if (thread.jobs.length === 1) {
      thread.timer.cancel();
      thread.timer = after(options.jobMs + (thread.isLoaded ? 0 : START_MS), thread, 'slow');
      thread.worker.ref();
    }
    try {
      thread.worker.postMessage(job.input, job.transfer);
    } catch (cause) {
      void end(thread, new ThreadRefusal('died', { cause }));
    }
  }

  function start(): Thread<Input, Output> {
    const { maxHeapMb, maxYoungMb = YOUNG_MB, confined } = options;
    const worker =
      confined === undefined
        ? startThread(options.entry, {
            resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: maxYoungMb },
          })
        : new ConfinedProcess(options.entry, { ...confined, maxHeapMb });
    const thread: Thread<Input, Output> = { worker, jobs: [], timer: { cancel: () => undefined }, isLoaded: false };
    worker.on('message', (output: Output | typeof READY) => {
      if (output === READY) loaded(thread);
      else finish(thread, output);
    });
    worker.on('error', (cause) => void end(thread, new ThreadRefusal('died', { cause, begun: thread.isLoaded })));
    worker.on('exit', () => void end(thread, new ThreadRefusal('died', { begun: thread.isLoaded })));
    threads.add(thread);
    return thread;
  }

  function loaded(thread: Thread<Input, Output>): void {
    thread.isLoaded = true;
    if (thread.jobs.length === 0) return;
    thread.timer.cancel();
    thread.timer = after(options.jobMs, thread, 'slow');
  }

  function finish(thread: Thread<Input, Output>, output: Output): void {
    const job = thread.jobs.shift();
    thread.isLoaded = true;
    thread.timer.cancel();
    if (thread.jobs.length > 0) thread.timer = after(options.jobMs, thread, 'slow');
    else {
      thread.timer = after(options.idleMs, thread, 'closed');
      // An idle thread must not keep the process alive.
      thread.worker.unref();
    }
    job?.resolve(output);
    if (waiting.length > 0) assign();
  }

  function after(ms: number, thread: Thread<Input, Output>, why: ThreadRefusal['why']): Timer {
    return clock.after(ms, () => void end(thread, new ThreadRefusal(why, { begun: thread.isLoaded })), {
      background: true,
    });
  }

  async function end(thread: Thread<Input, Output>, refusal: ThreadRefusal): Promise<void> {
    thread.timer.cancel();
    if (!threads.delete(thread)) return;
    if (refusal.why === 'died' && !thread.isLoaded && thread.jobs.length === 0) startFailed(refusal.cause ?? refusal);
    const [job, ...others] = thread.jobs.splice(0);
    job?.reject(refusal);
    for (const one of others.reverse())
      if (closed || !thread.isLoaded || one.transfer.length > 0)
        one.reject(new ThreadRefusal(refusal.why, { begun: false }));
      else waiting.unshift(one);
    await thread.worker.terminate();
    if (waiting.length > 0) assign();
  }

  function startFailed(error: unknown): void {
    mayStartAt = clock.monotonic() + START_AGAIN_MS;
    options.couldNotStart?.(error);
  }

  return {
    run(input, transfer = []) {
      if (closed) return Promise.reject(new ThreadRefusal('closed'));
      if (waiting.length >= options.mostWaiting) return Promise.reject(new ThreadRefusal('full'));
      return new Promise((resolve, reject) => {
        waiting.push({ input, transfer, resolve, reject });
        assign();
      });
    },
    start() {
      if (clock.monotonic() < mayStartAt) return;
      try {
        while (!closed && threads.size < options.count) {
          const thread = start();
          thread.worker.unref();
          thread.timer = after(options.idleMs, thread, 'closed');
        }
      } catch (error) {
        // The system has no room for another thread (EAGAIN).
        startFailed(error);
      }
    },
    get loaded() {
      return [...threads].filter(({ isLoaded }) => isLoaded).length;
    },
    async close() {
      closed = true;
      for (const job of waiting.splice(0)) job.reject(new ThreadRefusal('closed'));
      await Promise.all([...threads].map((thread) => end(thread, new ThreadRefusal('closed'))));
    },
  };
}

/** Starts a thread from a source file or the built file of its name. On Node 20 threads do not inherit the loader that lets tests run sources. */
function startThread(entry: URL, options: Omit<WorkerOptions, 'eval'>): Worker {
  if (!isFromSource) return new Worker(new URL(entry.href.replace(/\.ts$/, '.js')), options);
  const load = `import('tsx/esm/api').then(({ register }) => { register(); return import(${JSON.stringify(entry.href)}); });`;
  return new Worker(load, { ...options, eval: true });
}
