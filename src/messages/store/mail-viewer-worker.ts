/** Takes mails apart with mailparser, one at a time, in a confined process. Started by `mail-viewer.ts`. */
import { answerJobs } from '../../base/answer-jobs.ts';
import { systemClock } from '../../base/clock.ts';
import {
  readMailView,
  type MailView,
  readAttachment,
  readReceivedMail,
  type ReceivedMail,
} from '../../mail/received-mail.ts';

export type MailJob = { bytes: Uint8Array } & (
  { asks: 'view' } | { asks: 'received' } | { asks: 'attachment'; index: number }
);
/** Null if it cannot be parsed, or has no such file. */
export type MailAnswer = MailView | ReceivedMail | Uint8Array | null;

function read(job: MailJob): Promise<MailAnswer> {
  const bytes = Buffer.from(job.bytes.buffer, job.bytes.byteOffset, job.bytes.byteLength);
  if (job.asks === 'view') return readMailView(bytes);
  if (job.asks === 'attachment') return readAttachment(bytes, job.index);
  return readReceivedMail(bytes, systemClock.now() / 1000);
}

answerJobs((job: MailJob): Promise<MailAnswer> => read(job).catch(() => null));
