/** The thread that reads large submitted mails, one at a time. Started by `submission-reader.ts`. */
import { parentPort } from 'node:worker_threads';
import { announceReady, ownMemory } from '../base/threads.ts';
import { readWhole } from './submission-reader.ts';

parentPort?.on('message', ({ buffer, byteOffset, byteLength }: Uint8Array) => {
  const read = readWhole(Buffer.from(buffer, byteOffset, byteLength));
  parentPort?.postMessage(read, read.mail.kind === 'mail' ? ownMemory([read.mail.body]) : []);
});
announceReady();
