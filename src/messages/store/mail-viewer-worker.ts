/** The thread that takes mails apart with mailparser, one at a time. Started by `mail-viewer.ts`. */
import { parentPort } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { announceReady, ownMemory } from '../../base/threads.ts';
import { readMailView, type MailView } from '../../mail/mail-view.ts';
import { readAttachment, readReceivedMail, type ReceivedMail } from '../../mail/received-mail.ts';

/** What is asked of a mail. */
export type MailJob = { bytes: Uint8Array } & (
  { asks: 'view' } | { asks: 'received' } | { asks: 'attachment'; index: number }
);
/** Null if it cannot be parsed, or has no such file. */
export type MailAnswer = MailView | ReceivedMail | Uint8Array | null;

function answerTo(job: MailJob): Promise<MailAnswer> {
  const bytes = Buffer.from(job.bytes.buffer, job.bytes.byteOffset, job.bytes.byteLength);
  if (job.asks === 'view') return readMailView(bytes);
  if (job.asks === 'attachment') return readAttachment(bytes, job.index);
  return readReceivedMail(bytes, systemClock.now() / 1000);
}

const answer = (found: MailAnswer): void => {
  parentPort?.postMessage(found, found instanceof Uint8Array ? ownMemory([found]) : []);
};

parentPort?.on('message', (job: MailJob) => {
  answerTo(job).then(answer, () => {
    answer(null);
  });
});
announceReady();
