/** Takes mails apart, in a confined process: they may be hostile. */
import type { Clock } from '../../base/clock.ts';
import { createThreads, ThreadRefusal } from '../../base/threads.ts';
import type { MailView, ReceivedMail } from '../../mail/received-mail.ts';
import type { MailAnswer, MailJob } from './mail-viewer-worker.ts';

/** Twice what `limits.messageBytes` allows by default; a mail of 25 MB takes 0.6 s. */
const MOST_BYTES = 50 * 1024 * 1024;
const JOB_MS = 5000;
const IDLE_MS = 30_000;
const MOST_WAITING = 20;
const HEAP_MB = 256;
/** With the mail, and its parts decoded. */
const MOST_RSS_MB = 512;

export function createMailViewer(deps: { clock: Clock }) {
  const threads = createThreads<MailJob, MailAnswer>(deps, {
    entry: new URL('./mail-viewer-worker.ts', import.meta.url),
    count: 1,
    mostWaiting: MOST_WAITING,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB },
  });
  /** The answer is of the kind that the job asks for; the type of the jobs cannot say so. */
  const run = async <Answer extends MailAnswer>(job: MailJob): Promise<Answer> => (await threads.run(job)) as Answer;
  async function orNull<Answer>(answer: Promise<Answer>): Promise<Answer | null> {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof ThreadRefusal) return null;
      throw error;
    }
  }
  return {
    /** Resolves with null if the mail takes too long, is too large or cannot be parsed: then only its source can be shown. */
    async view(bytes: Uint8Array): Promise<MailView | null> {
      return bytes.byteLength > MOST_BYTES ? null : orNull(run<MailView | null>({ asks: 'view', bytes }));
    },
    /** Reads a mail that came to a domain that receives; null if that is impossible. Rejects with a ThreadRefusal that is not the mail's fault. */
    async received(bytes: Uint8Array): Promise<ReceivedMail | null> {
      try {
        return await run<ReceivedMail | null>({ asks: 'received', bytes });
      } catch (error) {
        if (error instanceof ThreadRefusal && error.isOfJob) return null;
        throw error;
      }
    },
    /** Returns the octets of a file of a received mail; null if it has no such file or cannot be parsed. */
    attachment: (bytes: Uint8Array, index: number): Promise<Uint8Array | null> =>
      orNull(run<Uint8Array | null>({ asks: 'attachment', bytes, index })),
    close: (): Promise<void> => threads.close(),
  };
}

export type MailViewer = ReturnType<typeof createMailViewer>;
