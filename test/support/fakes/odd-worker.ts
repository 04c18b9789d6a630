/** A thread or process for tests of both: does what the message says. */
import { parentPort } from 'node:worker_threads';
import { answerJobs, READY } from '../../../src/base/answer-jobs.ts';

interface Message {
  say?: unknown;
  fall?: 'throw' | 'exit' | 'ready';
  bytes?: Uint8Array;
  /** Turns of the event loop until the answer. */
  turns?: number;
}

answerJobs(async ({ say, fall, bytes, turns = 0 }: Message) => {
  if (fall === 'throw') throw new Error('fallen');
  if (fall === 'exit') process.exit(3);
  if (fall === 'ready') parentPort?.postMessage(READY);
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  return say === undefined ? new Promise(() => undefined) : { said: say, bytes: bytes?.length ?? 0 };
});
