/**
 * Writes what mail hosts have answered to a node that another one had removed: it was paused between a final dot and the answer, for example.
 * Its own transactions fail, so it writes as a command does, which never delivers. A mail that was accepted is then not tried again.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { createRecorder, RECORD_CHANGE, type Occurrence } from '../messages/delivery/record.ts';
import { openDatabase, type StoreAddress } from '../storage/database.ts';

interface LateDeps {
  storage: StoreAddress;
  clock: Clock;
  log: Pick<Log, 'warn' | 'error'>;
}

/** Writes the outcomes, or logs that it could not. */
export async function writeLateOutcomes(deps: LateDeps, outcomes: readonly Occurrence[]): Promise<void> {
  if (outcomes.length === 0) return;
  try {
    const counted = await writeAs(deps, outcomes);
    deps.log.warn(
      { event: 'late_outcomes', count: outcomes.length, counted },
      'answers that came after this node was removed are written: mail that was accepted is not tried again',
    );
  } catch (err) {
    deps.log.error(
      { event: 'late_outcomes_lost', count: outcomes.length, err },
      'answers that came after this node was removed could not be written: their mail is tried once more',
    );
  }
}

/** Returns how many of them changed their delivery. */
async function writeAs({ storage, clock }: LateDeps, outcomes: readonly Occurrence[]): Promise<number> {
  const db = await openDatabase({ ...storage, workOrder: [RECORD_CHANGE] });
  try {
    const recorder = createRecorder({ commit: db.commit, clock, written: () => undefined });
    const recorded = await recorder.record(outcomes);
    return recorded.filter(({ applied }) => applied).length;
  } finally {
    await db.close();
  }
}
