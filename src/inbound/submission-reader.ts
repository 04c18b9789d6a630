/** Reads submitted mails: small ones on the main thread, large ones in a thread, since 20 MB would hold up the main loop. */
import { hash } from 'node:crypto';
import { asBuffer } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import { finishSubmitted, readSubmitted, type RefusedMail, type SubmittedMail } from '../mail/submitted.ts';

export type ReadMail = { mail: RefusedMail } | AcceptableMail;

/** A mail that was read. */
export interface AcceptableMail {
  mail: SubmittedMail;
  /** The SHA-256 of its octets, hex; empty if it has no idempotency key, which alone asks for it. */
  digest: string;
}

export function readWhole(bytes: Buffer): ReadMail {
  const mail = readSubmitted(bytes);
  if (mail.kind === 'refused') return { mail };
  return { mail, digest: mail.options.has('idempotency-key') ? hash('sha256', bytes, 'hex') : '' };
}

export const isAcceptable = (read: ReadMail): read is AcceptableMail => read.mail.kind === 'mail';

/** A mail of this size takes half a millisecond. */
const HERE_BYTES = 160 * 1024;
const JOB_MS = 30_000;
const IDLE_MS = 60_000;

export type SubmissionReader = ReturnType<typeof createSubmissionReader>;

export function createSubmissionReader(deps: { clock: Clock }) {
  const threads = createThreads<Uint8Array, ReadMail>(deps, {
    entry: new URL('./submission-worker.ts', import.meta.url),
    count: 1,
    mostWaiting: 100,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
  });
  return {
    /** The mail has its memory to itself, which is gone afterwards. Throws `service_unavailable` if too much is to be read at once. */
    async read(bytes: Buffer): Promise<ReadMail> {
      if (bytes.length <= HERE_BYTES) return readWhole(bytes);
      try {
        const read = await threads.run(bytes, bytes.buffer instanceof ArrayBuffer ? [bytes.buffer] : []);
        return isAcceptable(read) ? { ...read, mail: { ...read.mail, body: asBuffer(read.mail.body) } } : read;
      } catch (cause) {
        if (!(cause instanceof ThreadRefusal)) throw cause;
        if (cause.why === 'slow') return { mail: { kind: 'refused', text: '5.6.0 the mail takes too long to read' } };
        throw new Problem('service_unavailable', 'too many large mails at once', { retryAfter: 10, cause });
      }
    },
    finish: finishSubmitted,
    close: (): Promise<void> => threads.close(),
  };
}
