/**
 * The only place where a delivery changes. The units of a grouped commit are written together: one statement reads all their
 * deliveries, decide() says what each change means, and one statement per table writes it. Nothing can change between the read and the
 * write: SQLite has one writer, and on PostgreSQL the read locks its rows.
 */
import type { Connection } from '../../storage/connection.ts';
import type { Committer, Work } from '../../storage/commit.ts';
import { allDone, insertRows, type Rows } from '../../storage/rows.ts';
import type { Clock } from '../../base/clock.ts';
import { OWN_ACCOUNT } from '../../accounts/own-account.ts';
import { applyDecision, newRowsToWrite, type RowsToWrite } from './apply-decision.ts';
import { decide } from './decide.ts';
import type { Decision } from './decision.ts';
import type { DeliveryState, DeliveryChange } from './delivery.ts';
import type { DueHint } from './due-hint.ts';
import { removeSealedContents } from '../store/sealed-content.ts';
import { isFailure, noticeRows, type NoticeRule } from './failure-notice.ts';
import {
  loadUpdates,
  updateDeliveries,
  updateMessages,
  type LoadedDelivery,
  type PendingUpdate,
} from './pending-update.ts';

/** A change of one delivery. */
export interface Occurrence {
  deliveryId: string;
  change: DeliveryChange;
}

/** The result of one change. `applied` is false if the change is not allowed in the present status; `state` is null for an unknown delivery. */
export interface Recorded {
  applied: boolean;
  state: DeliveryState | null;
  /** Where the notice of the failure waits, if one was written. */
  notice?: DueHint;
}

/** Changes that are made in one transaction, in order, with further rows (an audit line, for example). */
interface ChangeUnit {
  occurrences: readonly Occurrence[];
  rows?: Rows | RowsAfter;
}

/** Makes rows from the results (a stored answer, for example). Runs inside the transaction, where the changed rows can be read. */
export type RowsAfter = (tx: Connection, recorded: readonly Recorded[]) => Promise<Rows>;

/** The name of this work in the grouped commit. */
export const RECORD_CHANGE = 'record change';

export function createRecorder(deps: {
  commit: Committer;
  clock: Clock;
  /** Is called when the events are durable. */
  written: (recorded: readonly Recorded[]) => void;
  /** Is called for each complaint that changed its delivery. */
  complained?: (deliveryId: string) => void;
  /** Writes failure notices to senders who submitted by SMTP; without it none are written. */
  notices?: NoticeRule;
}) {
  const work: Work<ChangeUnit, readonly Recorded[], Map<string, PendingUpdate>> = {
    name: RECORD_CHANGE,
    read: (db, units) =>
      loadUpdates(
        db,
        units.flatMap(({ occurrences }) => occurrences),
        deps.clock.now(),
      ),
    run: (tx, units, updates) => writeGroup(tx, units, updates, deps.clock.now(), deps.notices),
  };
  return {
    /** Decides and writes all occurrences in one transaction; returns one result for each. */
    async record(occurrences: readonly Occurrence[], rows?: Rows | RowsAfter): Promise<readonly Recorded[]> {
      const unit: ChangeUnit = rows === undefined ? { occurrences } : { occurrences, rows };
      const recorded = await deps.commit.submit(work, unit, 1024 * occurrences.length);
      deps.written(recorded);
      for (const [at, { deliveryId, change }] of occurrences.entries())
        if (change.kind === 'complained' && recorded[at]?.applied === true) deps.complained?.(deliveryId);
      return recorded;
    },
  };
}

export type Recorder = ReturnType<typeof createRecorder>;

async function writeGroup(
  tx: Connection,
  units: readonly ChangeUnit[],
  updates: ReadonlyMap<string, PendingUpdate>,
  now: number,
  notices: NoticeRule | undefined,
): Promise<(readonly Recorded[])[]> {
  const toWrite = newRowsToWrite();
  /** Opens and clicks that this group has already counted, by message: another recipient's hit in the same group adds to them. */
  const seen = new Map<string, Pick<DeliveryState, 'opens' | 'clicks'>>();
  const results = units.map((unit) =>
    unit.occurrences.map(({ deliveryId, change }): Recorded => {
      const one = updates.get(deliveryId);
      if (one === undefined) return { applied: false, state: null };
      const messageId = one.row.message_id;
      const state = 'hit' in change ? { ...one.state, ...seen.get(messageId) } : one.state;
      const decision = decide(state, withSuppression(change, one.row), now);
      if ('hit' in change) seen.set(messageId, { opens: decision.state.opens, clicks: decision.state.clicks });
      applyDecision(one, decision, change, now, toWrite);
      const hasNotice = notices !== undefined && addFailure(one.row, decision, toWrite);
      const notice = hasNotice ? { notice: noticeHint(one.row.notice_to ?? '', now) } : {};
      return { applied: decision.applied, state: decision.state, ...notice };
    }),
  );

  const changed = [...updates.values()].filter((one) => one.changed);
  const noticeMails =
    notices === undefined || toWrite.failures.length === 0 ? [] : await noticeRows(tx, notices, toWrite.failures, now);
  const writes = insertRows(tx, [
    ...noticeMails,
    {
      attempts: toWrite.attempts,
      events: toWrite.events,
      suppressions: toWrite.suppressions,
      counters: [...toWrite.counters.values()],
      event_counts: [...toWrite.stats.values()],
    },
    ...units.flatMap(({ rows }) => (rows === undefined || typeof rows === 'function' ? [] : [rows])),
  ]);
  await allDone([updateDeliveries(tx, changed), updateMessages(tx, changed), writes]);
  const ownEnded = changed.flatMap(({ row, state }) =>
    row.account_id === OWN_ACCOUNT && state.dueAt === null ? row.message_id : [],
  );
  if (ownEnded.length > 0) await removeSealedContents(tx, ownEnded);
  for (const [at, { rows }] of units.entries())
    if (typeof rows === 'function') await insertRows(tx, [await rows(tx, results[at] ?? [])]);
  return results;
}

/** Adds the failure if its sender gets a notice; returns whether it does. Simulated mail never does: nothing of it may leave. */
function addFailure(row: LoadedDelivery, { steps, state, events }: Decision, toWrite: RowsToWrite): boolean {
  const [event] = events;
  if (row.notice_to === null || row.test === 1 || steps.length === 0 || event === undefined || !isFailure(state.status))
    return false;
  toWrite.failures.push({ messageId: row.message_id, address: row.address, event });
  return true;
}

const noticeHint = (address: string, now: number): DueHint => ({
  domain: address.slice(address.lastIndexOf('@') + 1).toLowerCase(),
  class: 0,
  accountId: OWN_ACCOUNT,
  dueAt: now,
});

/** Adds the suppression of the recipient, if there is one, to a claim. */
function withSuppression(change: DeliveryChange, row: LoadedDelivery): DeliveryChange {
  const { suppression_id: id, suppression_reason: reason } = row;
  return change.kind !== 'claimed' || id === null || reason === null
    ? change
    : { ...change, suppressedBy: { id, reason } };
}
