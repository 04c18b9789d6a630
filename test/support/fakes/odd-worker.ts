/** A thread for tests of threads: does what the message says. */
import { parentPort } from 'node:worker_threads';
import { announceReady } from '../../../src/base/threads.ts';

parentPort?.on('message', (message: { say?: unknown; fall?: 'throw' | 'exit' | 'ready'; bytes?: Uint8Array }) => {
  if (message.fall === 'throw') throw new Error('fallen');
  if (message.fall === 'exit') process.exit(3);
  if (message.fall === 'ready') announceReady();
  if (message.say !== undefined) parentPort?.postMessage({ said: message.say, bytes: message.bytes?.length ?? 0 });
});
