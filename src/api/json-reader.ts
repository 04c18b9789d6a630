/**
 * Reads JSON bodies: small ones where they are, large ones in threads that are started when needed and leave when idle,
 * so that a 50 MiB body holds up nobody else's request.
 */
import type { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { startThread } from '../base/thread.ts';
import { hashJson, readJson } from './json.ts';
import type { JsonObject, JsonResult } from './json.ts';

/** Bodies above this many bytes go to a thread: handing one over costs more than parsing a smaller one here. */
export const INLINE_BYTES = 256 * 1024;

const THREADS = 2;
/** Bodies waiting for a thread; more answer 503, since each holds up to 50 MiB. */
const MOST_WAITING = 16;
const IDLE_MS = 30_000;
/** The largest honest body takes under 2 s; a thread that takes longer is ended. */
const JOB_MS = 20_000;

export interface JsonBody {
  value: JsonObject;
  /** SHA-256 of the canonical form in hex; made in the thread for large bodies, on demand for small ones. */
  hash(): string;
}

export interface JsonReader {
  /** Throws `invalid_json`, `payload_too_large` (too many values) or `service_unavailable` (too many large bodies at once). */
  read(bytes: Buffer): JsonBody | Promise<JsonBody>;
  /** Ends the threads; what is still waiting in them is refused. */
  close(): Promise<void>;
}

type ThreadResult = (Extract<JsonResult, { kind: 'ok' }> & { hash: string }) | Exclude<JsonResult, { kind: 'ok' }>;

interface Job {
  bytes: Buffer;
  resolve: (result: ThreadResult) => void;
  reject: (error: Error) => void;
}

interface Thread {
  worker: Worker;
  job: Job | null;
  timer: Timer;
}

export function createJsonReader(deps: { clock: Clock }): JsonReader {
  const threads = new Threads(deps.clock);
  return {
    read(bytes) {
      if (bytes.length > INLINE_BYTES) return threads.run(bytes).then(bodyOf);
      return bodyOf(readJson(bytes));
    },
    close: () => threads.close(),
  };
}

function bodyOf(result: JsonResult | ThreadResult): JsonBody {
  if (result.kind === 'bad') throw new Problem('invalid_json', result.why);
  if (result.kind === 'too_many_values') throw new Problem('payload_too_large', 'The body holds too many values.');
  const { value } = result;
  let hash = 'hash' in result ? result.hash : null;
  return { value, hash: () => (hash ??= hashJson(value)) };
}

class Threads {
  private readonly clock: Clock;
  private readonly threads = new Set<Thread>();
  private readonly waiting: Job[] = [];
  private closed = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  run(bytes: Buffer): Promise<ThreadResult> {
    if (this.closed || this.waiting.length >= MOST_WAITING) {
      return Promise.reject(new Problem('service_unavailable', 'Too many large bodies at once.', { retryAfter: 1 }));
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ bytes, resolve, reject });
      this.assign();
    });
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const job of this.waiting.splice(0)) job.reject(stopping());
    await Promise.all([...this.threads].map((thread) => this.end(thread, stopping())));
  }

  private assign(): void {
    const idle =
      [...this.threads].find((thread) => thread.job === null) ?? (this.threads.size < THREADS ? this.start() : null);
    if (idle === null) return;
    const job = this.waiting.shift();
    if (job === undefined) return;
    idle.timer.cancel();
    idle.job = job;
    idle.timer = this.after(JOB_MS, idle, new Problem('timeout', 'The body took too long to parse.'));
    idle.worker.ref();
    idle.worker.postMessage(job.bytes, transferable(job.bytes));
  }

  private start(): Thread {
    const worker = startThread(new URL('./json-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: 512 },
    });
    const thread: Thread = { worker, job: null, timer: { cancel: () => undefined } };
    worker.on('message', (result: ThreadResult) => {
      this.finish(thread, result);
    });
    worker.on(
      'error',
      (error) => void this.end(thread, new Error('the thread that parses bodies failed', { cause: error })),
    );
    this.threads.add(thread);
    return thread;
  }

  private finish(thread: Thread, result: ThreadResult): void {
    const { job } = thread;
    thread.job = null;
    thread.timer.cancel();
    thread.timer = this.after(IDLE_MS, thread, stopping());
    // An idle thread must not keep the process alive.
    thread.worker.unref();
    job?.resolve(result);
    this.assign();
  }

  private after(ms: number, thread: Thread, why: Error): Timer {
    return this.clock.after(ms, () => void this.end(thread, why), { background: true });
  }

  private async end(thread: Thread, why: Error): Promise<void> {
    thread.timer.cancel();
    if (!this.threads.delete(thread)) return;
    thread.job?.reject(why);
    thread.job = null;
    await thread.worker.terminate();
    if (this.waiting.length > 0) this.assign();
  }
}

const stopping = (): Problem => new Problem('service_unavailable', 'The service is stopping.');

/** A buffer that owns its memory is handed over without a copy; one cut from the shared pool cannot be. */
function transferable(bytes: Buffer): ArrayBuffer[] {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength ? [buffer] : [];
}
