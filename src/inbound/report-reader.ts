/**
 * Reads reports in a confined process, each within a time limit. The reader itself is linear and bounded; the limits cover what
 * that misses, since anyone may send us mail.
 */
import type { Clock } from '../base/clock.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { MOST_BYTES } from '../mail/mime-read.ts';
import { deliveryOf, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import { unknownArrival, type Arrival } from './arrival.ts';
import type { Finding } from './finding.ts';
import type { ReportAnswer, ReportJob } from './report-worker.ts';
import { PROGRAM_FILES } from './words-file.ts';

/**
 * `unreadable`: the mail took too long or too much, so its meaning is unknown. The caller keeps it for the operator. With `unstarted` no
 * process could be had, so nothing is known of the mail.
 */
export type ReadResult = (
  { kind: 'read'; finding: Finding } | { kind: 'unreadable'; why: ThreadRefusal['why'] | 'unstarted' }
) & {
  /** Time that the process worked on it; of one that it did not survive, the longest that this may have been. */
  ms: number;
};

/** Hundreds of times longer than the largest mail takes. */
const LONGEST_JOB_MS = 5000;
const IDLE_MS = 30_000;
const MOST_WAITING = 1000;
const HEAP_MB = 128;
/** A process that has just started has 60. */
const MOST_RSS_MB = 300;

export type ReportReader = ReturnType<typeof createReportReader>;

export interface ReportReaderOptions {
  /** Those that sign return paths. A token that none of them made is left out; with null only its form is checked. */
  keys: readonly ReturnPathKey[] | null;
  rules: () => readonly BounceRule[];
  /** Processes at most. */
  count: number;
}

export function createReportReader({ clock }: { clock: Clock }, { keys, rules, count }: ReportReaderOptions) {
  const threads = createThreads<ReportJob, ReportAnswer>(
    { clock },
    {
      entry: new URL('./report-worker.ts', import.meta.url),
      count,
      mostWaiting: MOST_WAITING,
      idleMs: IDLE_MS,
      jobMs: LONGEST_JOB_MS,
      maxHeapMb: HEAP_MB,
      confined: { maxRssMb: MOST_RSS_MB, reads: PROGRAM_FILES },
    },
  );
  let written: { rules: readonly BounceRule[]; json: string } | null = null;
  /** Writes the rules once for all mails until they change. */
  function rulesInForce(): string {
    const now = rules();
    if (written?.rules !== now) written = { rules: now, json: JSON.stringify(now) };
    return written.json;
  }
  return {
    /** Reads the first 512 KiB of a mail. */
    async read(bytes: Uint8Array, arrival: Arrival = unknownArrival): Promise<ReadResult> {
      try {
        const job = { bytes: bytes.subarray(0, MOST_BYTES), arrival, rules: rulesInForce() };
        const { finding, ms } = await threads.run(job);
        return { kind: 'read', finding: { ...finding, token: checkedToken(finding, keys) }, ms };
      } catch (error) {
        if (!(error instanceof ThreadRefusal)) throw error;
        if (!error.begun) return { kind: 'unreadable', why: 'unstarted', ms: 0 };
        return { kind: 'unreadable', why: error.why, ms: wasAtWork(error) ? LONGEST_JOB_MS : 0 };
      }
    },
    close: (): Promise<void> => threads.close(),
  };
}

const wasAtWork = ({ why }: ThreadRefusal): boolean => why === 'slow' || why === 'died';

/** Returns a token that one of our keys made. Tokens of unsubscribe addresses have another form, which tracking/unsubscribe-link.ts checks. */
function checkedToken({ kind, token }: Finding, keys: readonly ReturnPathKey[] | null): string | null {
  if (keys === null || token === null || kind === 'unsubscribe') return token;
  return deliveryOf(keys, `b+${token}`) === null ? null : token;
}
