/** Reads reports in confined processes. The reader is linear and bounded; the time limit covers what that misses, as anyone may send mail. */
import { availableParallelism } from 'node:os';
import { systemClock, type Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { ThreadRefusal } from '../base/threads.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { MOST_BYTES } from '../mail/mime-read.ts';
import { deliveryOf, returnPathKeys, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import {
  findingRecord,
  nothingFound,
  type Finding,
  type FindingRecord,
  unknownArrival,
  type Arrival,
} from './finding.ts';
import { createMailReading } from './mail-reading.ts';
import type { ReportAnswer, ReportJob } from './report-worker.ts';
import { PROGRAM_FILES } from './words-file.ts';

/** `unreadable`: the mail took too long or too much, so its meaning is unknown. The caller keeps it for the operator. */
export type ReadResult = ({ kind: 'read'; finding: Finding } | { kind: 'unreadable'; why: ThreadRefusal['why'] }) & {
  /** Time that the process worked on it; of one that it did not survive, the longest that this may have been. */
  ms: number;
};

/** Hundreds of times longer than the largest mail takes. */
const LONGEST_JOB_MS = 5000;
const IDLE_MS = 30_000;
const HEAP_MB = 128;
/** A process that has just started has 60. */
const MOST_RSS_MB = 300;

export type ReportReader = ReturnType<typeof createReportReader>;

interface ReportReaderOptions {
  /** Those that sign return paths. A token that none of them made is left out; with null only its form is checked. */
  keys: readonly ReturnPathKey[] | null;
  rules: () => readonly BounceRule[];
  /** Processes at most. */
  count: number;
}

export function createReportReader(deps: { clock: Clock }, { keys, rules, count }: ReportReaderOptions) {
  const reading = createMailReading<ReportJob['mails'][number], ReportJob, ReportAnswer>(deps, {
    entry: new URL('./report-worker.ts', import.meta.url),
    count,
    idleMs: IDLE_MS,
    jobMs: LONGEST_JOB_MS,
    maxHeapMb: HEAP_MB,
    confined: { maxRssMb: MOST_RSS_MB, reads: PROGRAM_FILES },
    sizeOf: ({ bytes }) => bytes.length,
    jobOf: (mails) => ({ mails, rules: JSON.stringify(rules()) }),
  });
  return {
    /** Reads the first 512 KiB of a mail. Rejects with a ThreadRefusal that is not the mail's fault. */
    async read(bytes: Uint8Array, arrival: Arrival = unknownArrival): Promise<ReadResult> {
      try {
        const { finding, ms } = await reading.read({ bytes: bytes.subarray(0, MOST_BYTES), arrival });
        return { kind: 'read', finding: { ...finding, token: checkedToken(finding, keys) }, ms };
      } catch (error) {
        if (!(error instanceof ThreadRefusal && error.isOfJob)) throw error;
        return { kind: 'unreadable', why: error.why, ms: LONGEST_JOB_MS };
      }
    },
    close: (): Promise<void> => reading.close(),
  };
}

/** Returns a token that one of our keys made. Tokens of unsubscribe addresses have another form, which tracking/unsubscribe-link.ts checks. */
function checkedToken({ kind, token }: Finding, keys: readonly ReturnPathKey[] | null): string | null {
  if (keys === null || token === null || kind === 'unsubscribe') return token;
  return deliveryOf(keys, `b+${token}`) === null ? null : token;
}

const MOST_PROCESSES = 4;

export type ReportParser = ReturnType<typeof openReportParser>;

/** Makes the parser. With null for the keys, only the form of a token is checked. `rules`: the operator's bounce rules. */
export function openReportParser(keyring: Pick<Keyring, 'keyIds' | 'derive'> | null, rules: readonly BounceRule[]) {
  const reader = createReportReader(
    { clock: systemClock },
    {
      keys: keyring === null ? null : returnPathKeys(keyring),
      rules: () => rules,
      count: Math.min(availableParallelism(), MOST_PROCESSES),
    },
  );
  return {
    /** `fault` gives the reason why the mail could not be read; the record then is that of an unknown mail. */
    async parse(bytes: Uint8Array): Promise<{ record: FindingRecord; fault: string | null }> {
      const result = await reader.read(bytes);
      return result.kind === 'read'
        ? { record: findingRecord(result.finding), fault: null }
        : { record: findingRecord(nothingFound), fault: `it could not be read (${result.why})` };
    },
    close: (): Promise<void> => reader.close(),
  };
}
