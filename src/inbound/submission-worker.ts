/** Reads submitted mails, some at a time, in a confined process. Started by `submission-reader.ts`. */
import { hash } from 'node:crypto';
import { answerJobs } from '../base/answer-jobs.ts';
import { readSubmitted, type RefusedMail, type SubmittedMail } from '../mail/submitted.ts';

/** A mail that was read. A body that stands in the octets as it is sent is not given back: its place is enough. */
export interface ReadApart {
  mail: SubmittedMail | RefusedMail;
  bodyAt: number | null;
  /** SHA-256 of the octets, hex. */
  digest: string;
}

const NOTHING = Buffer.alloc(0);

function read(bytes: Buffer): ReadApart {
  const mail = readSubmitted(bytes);
  const digest = hash('sha256', bytes, 'hex');
  if (mail.kind === 'refused' || mail.body.buffer !== bytes.buffer) return { mail, bodyAt: null, digest };
  return { mail: { ...mail, body: NOTHING }, bodyAt: mail.body.byteOffset - bytes.byteOffset, digest };
}

answerJobs((mails: readonly Buffer[]) => mails.map(read));
