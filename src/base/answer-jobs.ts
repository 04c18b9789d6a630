/** The other side of `threads.ts`, in a thread or a confined process: one job after the other, each with one answer. */
import { readSync, writeSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { giveBack } from './bytes.ts';
import { frameOf, HEAD_BYTES, sizeOf, valueIn } from './confined/frames.ts';

type Work<Input, Output> = (job: Input) => Output | Promise<Output>;

/** The first message, when the module is loaded: the time for the first job begins then. */
export const READY = 'ready';

export type Said = { kind: typeof READY } | { kind: 'answer'; answer: unknown } | { kind: 'fault'; text: string };

/**
 * Answers each job by `work`, whose error ends the thread or process. `memoryOf` names memory that a thread hands over without a copy, `bytesOf` bytes
 * of a job: what the answer does not have of them is given back with it, since V8 would not while the thread waits.
 */
export function answerJobs<Input, Output>(
  work: Work<Input, Output>,
  memoryOf: (output: Output) => readonly ArrayBuffer[] = () => [],
  bytesOf: (job: Input) => readonly Uint8Array[] = () => [],
): void {
  const port = parentPort;
  let last = Promise.resolve();
  const answer = async (job: Input): Promise<void> => {
    // The next job may be here already, and its answer may not come first.
    await last;
    const output = await work(job);
    port?.postMessage(output, memoryOf(output));
    giveBack(bytesOf(job));
  };
  port?.on('message', (job: Input) => void (last = answer(job))).postMessage(READY);
  if (port === null) void answerByPipe(work as Work<unknown, unknown>);
}

async function answerByPipe(work: Work<unknown, unknown>): Promise<void> {
  process.on('uncaughtException', fall);
  say({ kind: READY });
  for (let job = nextJob(); job !== null; job = nextJob()) {
    try {
      say({ kind: 'answer', answer: await work(job.value) });
      giveBack([job.rest]);
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
function nextJob(): { value: unknown; rest: Buffer } | null {
  const head = readBytes(HEAD_BYTES);
  const rest = head === null ? null : readBytes(sizeOf(head));
  return head === null || rest === null ? null : { value: valueIn(head, rest), rest };
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
