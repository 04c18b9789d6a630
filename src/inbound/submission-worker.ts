/** The thread that reads large submitted mails, one at a time. Started by `submission-reader.ts`. */
import { parentPort } from 'node:worker_threads';
import { announceReady, ownMemory } from '../base/threads.ts';
import { isAcceptable, readWhole, type ReadMail } from './submission-reader.ts';

parentPort?.on('message', ({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>) => {
  const read = readWhole(Buffer.from(buffer, byteOffset, byteLength));
  parentPort?.postMessage(read, memoryOf(read, buffer));
});
announceReady();

/** Returns the memory of the body, to hand it back without a copy: nearly always it is a part of what came. */
function memoryOf(read: ReadMail, given: ArrayBuffer): ArrayBuffer[] {
  if (!isAcceptable(read)) return [];
  return read.mail.body.buffer === given ? [given] : ownMemory([read.mail.body]);
}
