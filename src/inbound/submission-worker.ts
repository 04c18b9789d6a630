/** Reads submitted mails, some at a time, in a confined process. Started by `submission-session.ts`. */
import { hash } from 'node:crypto';
import { answerJobs } from '../base/answer-jobs.ts';
import { readSubmitted, type RefusedMail, type SubmittedMail } from '../mail/submitted.ts';

export type ReadMail = { mail: RefusedMail } | AcceptableMail;

export interface AcceptableMail {
  mail: SubmittedMail;
  /** The SHA-256 of its octets, hex; empty if it has no idempotency key, which alone asks for it. */
  digest: string;
}

/** A mail that was read. A body that is sent as the octets have it is not given back: its place is enough. */
export type ReadApart = { mail: RefusedMail } | (AcceptableMail & { bodyAt: number | null });

const NOTHING = Buffer.alloc(0);

function read(bytes: Buffer): ReadApart {
  const mail = readSubmitted(bytes);
  if (mail.kind === 'refused') return { mail };
  const digest = mail.options.has('idempotency-key') ? hash('sha256', bytes, 'hex') : '';
  if (!isEndOf(mail.body, bytes)) return { mail, bodyAt: null, digest };
  return { mail: { ...mail, body: NOTHING }, bodyAt: bytes.length - mail.body.length, digest };
}

/** True if the body is the end of these very octets. Small Buffers have their memory in common, so that alone says nothing. */
const isEndOf = (body: Buffer, bytes: Buffer): boolean =>
  body.buffer === bytes.buffer &&
  body.byteOffset >= bytes.byteOffset &&
  body.byteOffset + body.length === bytes.byteOffset + bytes.length;

answerJobs((mails: readonly Buffer[]) => mails.map(read));
