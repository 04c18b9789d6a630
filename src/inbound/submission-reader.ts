/** Reads submitted mails in a confined process. */
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { ThreadRefusal } from '../base/threads.ts';
import { finishSubmitted, type RefusedMail, type SubmittedMail } from '../mail/submitted.ts';
import { createMailReading } from './mail-reading.ts';
import type { ReadApart } from './submission-worker.ts';

export type ReadMail = { mail: RefusedMail } | AcceptableMail;

/** A mail that was read. */
export interface AcceptableMail {
  mail: SubmittedMail;
  /** The SHA-256 of its octets, hex; empty if it has no idempotency key, which alone asks for it. */
  digest: string;
}

export const isAcceptable = (read: ReadMail): read is AcceptableMail => read.mail.kind === 'mail';

const JOB_MS = 30_000;
/** A process that has ended costs the next mail up to 0.7 s; one that waits has 30 MB. */
const IDLE_MS = 10 * 60_000;
const HEAP_MB = 512;
const MOST_RSS_MB = 768;

export type SubmissionReader = ReturnType<typeof createSubmissionReader>;

export function createSubmissionReader(deps: { clock: Clock }) {
  const reading = createMailReading<Buffer, readonly Buffer[], ReadApart>(deps, {
    entry: new URL('./submission-worker.ts', import.meta.url),
    count: 1,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB },
    sizeOf: ({ length }) => length,
    jobOf: (mails) => mails,
  });
  return {
    /** Throws `service_unavailable` if too much is to be read at once, or no process could be had. */
    async read(bytes: Buffer): Promise<ReadMail> {
      try {
        const read = await reading.read(bytes);
        if (!('digest' in read)) return read;
        const { mail, bodyAt, digest } = read;
        return { mail: bodyAt === null ? mail : { ...mail, body: bytes.subarray(bodyAt) }, digest };
      } catch (cause) {
        if (!(cause instanceof ThreadRefusal)) throw cause;
        if (cause.why === 'slow') return tooSlow;
        throw new Problem('service_unavailable', 'the mail cannot be read now', { retryAfter: 10, cause });
      }
    },
    finish: finishSubmitted,
    close: (): Promise<void> => reading.close(),
  };
}

const tooSlow: ReadMail = { mail: { kind: 'refused', text: '5.6.0 the mail takes too long to read' } };
