/** Reads submitted mails in a confined process: those that arrive while it reads go to it together, as the next job. */
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import { finishSubmitted, type RefusedMail, type SubmittedMail } from '../mail/submitted.ts';
import type { ReadApart } from './submission-worker.ts';

export type ReadMail = { mail: RefusedMail } | AcceptableMail;

/** A mail that was read. */
export interface AcceptableMail {
  mail: SubmittedMail;
  /** The SHA-256 of its octets, hex; empty if it has no idempotency key, which alone asks for it. */
  digest: string;
}

export const isAcceptable = (read: ReadMail): read is AcceptableMail => read.mail.kind === 'mail';

interface Waiting {
  bytes: Buffer;
  resolve: (read: ReadMail) => void;
  reject: (error: unknown) => void;
}

const JOB_MS = 30_000;
/** A process that has ended costs the next mail up to 0.7 s; one that waits has 30 MB. */
const IDLE_MS = 10 * 60_000;
const MOST_WAITING = 1000;
/** Mails of one job, and their octets: one may be larger. */
const TOGETHER = 50;
const TOGETHER_BYTES = 1024 * 1024;
const HEAP_MB = 512;
const MOST_RSS_MB = 768;

export type SubmissionReader = ReturnType<typeof createSubmissionReader>;

export function createSubmissionReader(deps: { clock: Clock }) {
  const threads = createThreads<readonly Buffer[], ReadApart[]>(deps, {
    entry: new URL('./submission-worker.ts', import.meta.url),
    count: 1,
    mostWaiting: 1,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB },
  });
  const waiting: Waiting[] = [];
  let isReading = false;

  async function readAll(): Promise<void> {
    if (isReading) return;
    isReading = true;
    for (let batch = nextOf(waiting); batch.length > 0; batch = nextOf(waiting)) await readTogether(batch);
    isReading = false;
  }

  /** Reads the mails one by one if together they fail: only the one that is at fault is refused. */
  async function readTogether(batch: readonly Waiting[]): Promise<void> {
    try {
      const answers = await threads.run(batch.map(({ bytes }) => bytes));
      for (const [at, { bytes, resolve }] of batch.entries()) resolve(readOf(answers[at], bytes));
    } catch (error) {
      if (batch.length > 1) for (const one of batch) await readTogether([one]);
      else batch[0]?.reject(error);
    }
  }

  return {
    /** Throws `service_unavailable` if too much is to be read at once, or no process could be had. */
    async read(bytes: Buffer): Promise<ReadMail> {
      if (waiting.length >= MOST_WAITING) throw unavailable();
      try {
        return await new Promise<ReadMail>((resolve, reject) => {
          waiting.push({ bytes, resolve, reject });
          void readAll();
        });
      } catch (cause) {
        if (!(cause instanceof ThreadRefusal)) throw cause;
        if (cause.why === 'slow') return tooSlow;
        throw unavailable(cause);
      }
    },
    finish: finishSubmitted,
    close: (): Promise<void> => threads.close(),
  };
}

const tooSlow: ReadMail = { mail: { kind: 'refused', text: '5.6.0 the mail takes too long to read' } };

const unavailable = (cause?: unknown): Problem =>
  new Problem('service_unavailable', 'the mail cannot be read now', { retryAfter: 10, cause });

function nextOf(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  const end = waiting.findIndex((one, at) => {
    bytes += one.bytes.length;
    return at > 0 && (at >= TOGETHER || bytes > TOGETHER_BYTES);
  });
  return waiting.splice(0, end < 0 ? waiting.length : end);
}

function readOf(answer: ReadApart | undefined, bytes: Buffer): ReadMail {
  if (answer === undefined) throw new Error('the process did not answer for each mail');
  if (!('digest' in answer)) return answer;
  const { mail, bodyAt, digest } = answer;
  return { mail: bodyAt === null ? mail : { ...mail, body: bytes.subarray(bodyAt) }, digest };
}
