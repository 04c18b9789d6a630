/** Reads mails as the listener does, without a listener: for `posthorn inbound parse`. */
import { availableParallelism } from 'node:os';
import { systemClock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { returnPathKeys } from '../messages/delivery/return-path.ts';
import { findingRecord, nothingFound, type FindingRecord } from './finding.ts';
import { createReportReader } from './report-reader.ts';

const MOST_THREADS = 4;

export type ReportParser = ReturnType<typeof openReportParser>;

/**
 * Makes the parser. With null instead of the keys of an installation, only the form of a token is checked. `rules`: the operator's
 * bounce rules.
 */
export function openReportParser(keyring: Pick<Keyring, 'keyIds' | 'derive'> | null, rules: readonly BounceRule[]) {
  const reader = createReportReader(
    { clock: systemClock },
    {
      keys: keyring === null ? null : returnPathKeys(keyring),
      rules: () => rules,
      count: Math.min(availableParallelism(), MOST_THREADS),
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
