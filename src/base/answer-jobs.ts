/** The other side of `threads.ts`, in a thread or a confined process: one job after the other, each with one answer. */
import { readSync, writeSync } from 'node:fs';
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';
import { parentPort, type MessagePort } from 'node:worker_threads';
import { frameOf, HEAD_BYTES, sizeOf, valueIn } from './confined/frames.ts';

type Work<Input, Output> = (job: Input) => Output | Promise<Output>;

/** The first message, when the module is loaded: the time for the first job begins then. */
export const READY = 'ready';

export type Said = { kind: typeof READY } | { kind: 'answer'; answer: unknown } | { kind: 'fault'; text: string };

/** Answers each job by `work`, whose error ends the thread or process. `memoryOf` names memory that a thread hands over without a copy. */
export function answerJobs<Input, Output>(
  work: Work<Input, Output>,
  memoryOf: (output: Output) => readonly ArrayBuffer[] = () => [],
): void {
  if (parentPort === null) void answerByPipe(work as Work<unknown, unknown>);
  else answerByPort(parentPort, work, memoryOf);
}

/**
 * After large answers with so many bytes the thread gives back the memory of the jobs: while it waits, V8 would not. Each time costs 20 to 50 ms of
 * CPU, so what smaller answers leave is V8's to find.
 */
const LARGE_BYTES = 1024 * 1024;
const COLLECTED_BYTES = 8 * 1024 * 1024;

function garbageCollector(): () => void {
  v8.setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

function answerByPort<Input, Output>(
  port: MessagePort,
  work: Work<Input, Output>,
  memoryOf: (output: Output) => readonly ArrayBuffer[],
): void {
  const collect = garbageCollector();
  let bytes = 0;
  const answer = async (job: Input): Promise<void> => {
    const output = await work(job);
    const memory = memoryOf(output);
    const size = memory.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (size > LARGE_BYTES) bytes += size;
    port.postMessage(output, memory);
    if (bytes < COLLECTED_BYTES) return;
    bytes = 0;
    collect();
  };
  port.on('message', (job: Input) => void answer(job));
  port.postMessage(READY);
}

async function answerByPipe(work: Work<unknown, unknown>): Promise<void> {
  process.on('uncaughtException', fall);
  say({ kind: READY });
  for (let job = nextJob(); job !== null; job = nextJob()) {
    try {
      say({ kind: 'answer', answer: await work(job.value) });
    } catch (error) {
      fall(error);
    }
  }
  process.exit(0);
}

function fall(error: unknown): never {
  say({ kind: 'fault', text: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.exit(1);
}

/** The descriptor of the pipe, both ways. Packages may look at the three before it, and then those do not wait for the other side. */
const PIPE = 3;

/** Returns null when the server has closed the pipe, or is gone. */
function nextJob(): { value: unknown } | null {
  const head = readBytes(HEAD_BYTES);
  const rest = head === null ? null : readBytes(sizeOf(head));
  return head === null || rest === null ? null : { value: valueIn(head, rest) };
}

function readBytes(size: number): Buffer | null {
  const bytes = Buffer.allocUnsafe(size);
  let filled = 0;
  while (filled < size) {
    const more = readSync(PIPE, bytes, filled, size - filled, null);
    if (more === 0) return null;
    filled += more;
  }
  return bytes;
}

function say(said: Said): void {
  for (const chunk of frameOf(said)) {
    let written = 0;
    while (written < chunk.byteLength) written += writeSync(PIPE, chunk, written);
  }
}
