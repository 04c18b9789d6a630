/** Takes mails apart for people, in a confined process: they may be hostile. */
import type { Clock } from '../../base/clock.ts';
import { createThreads, ThreadRefusal } from '../../base/threads.ts';
import type { MailView } from '../../mail/mail-view.ts';

/** Twice what `limits.messageBytes` allows by default; a mail of 25 MB takes 0.6 s. */
const MOST_BYTES = 50 * 1024 * 1024;
const JOB_MS = 5000;
const IDLE_MS = 30_000;
const MOST_WAITING = 20;
const HEAP_MB = 256;
/** With the mail, and its parts decoded. */
const MOST_RSS_MB = 512;

export function createMailViewer(deps: { clock: Clock }) {
  const threads = createThreads<Uint8Array, MailView | null>(deps, {
    entry: new URL('./mail-viewer-worker.ts', import.meta.url),
    count: 1,
    mostWaiting: MOST_WAITING,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB },
  });
  return {
    /** Resolves with null if the mail takes too long, is too large or cannot be parsed: then only its source can be shown. */
    async view(bytes: Uint8Array): Promise<MailView | null> {
      if (bytes.byteLength > MOST_BYTES) return null;
      try {
        return await threads.run(bytes);
      } catch (error) {
        if (error instanceof ThreadRefusal) return null;
        throw error;
      }
    },
    close: (): Promise<void> => threads.close(),
  };
}

export type MailViewer = ReturnType<typeof createMailViewer>;
