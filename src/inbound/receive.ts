/**
 * Handles mail to our addresses, from the row that the listener wrote: reads it (in a thread), finds the delivery it is about, and
 * records the change. A row is done when its change is written; after a crash it is read again, and a change that was recorded
 * already changes nothing a second time.
 *
 *   unread      the next mail: those with a token of ours first, networks in turn
 *   reader      its kind (classify.ts)
 *   matched     its delivery, and the proof (report-owner.ts)
 *   meaning     the change of the delivery (report-meaning.ts)
 */
import type { Notifier } from '../scheduling/notifier.ts';
import { budgets, type BudgetName } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import { hintsOf, type DueHint } from '../messages/delivery/due-hint.ts';
import { ownMailRows, type OwnMailRows } from '../messages/accept/own-mail.ts';
import type { RetryRule } from '../messages/delivery/retry.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import type { ReportRow } from '../storage/tables.ts';
import { aggregateSummary, type Aggregate } from './aggregate.ts';
import { createAggregateStore, type AggregateStoreDeps } from './aggregate-store.ts';
import { findingRecord, type Finding } from './finding.ts';
import { InTurn } from './in-turn.ts';
import { FORWARDED_AN_HOUR, forwardOf, isForOperator, type ForwardRule } from './forward.ts';
import { Allowance } from '../scheduling/allowance.ts';
import { strangerOf, type NewReport } from './mx.ts';
import type { MxBudgets, Stranger } from './mx-budgets.ts';
import { meaningOf } from './report-meaning.ts';
import { matched, type Match, type MatchDeps } from './report-owner.ts';
import type { ReportReader } from './report-reader.ts';
import { Unread } from './unread.ts';
import { HOUR_MS } from '../base/time.ts';

export interface ReceiveDeps extends MatchDeps, AggregateStoreDeps {
  clock: Clock;
  log: Log;
  db: { commit: Committer; prepared: Connection };
  recorder: Pick<Recorder, 'record'>;
  notifiers: { deliveries: Notifier<readonly DueHint[]> };
  reader: ReportReader;
  budgets: Pick<MxBudgets, 'noteReading' | 'giveBack'>;
  /** Settings for mail of people. */
  forward: ForwardRule & { retry: Pick<RetryRule, 'maxAge'> };
  ownAccount: { ensure(): Promise<void> };
  /** Deletes the oldest mails where too much is kept. */
  trim(): Promise<void>;
}

/** Mails that the reader has: it reads one while the next waits. Mail without a token does not wait there. */
const READING = 2;
/** Reports that are written at the same time, so that they share their commits. */
const WRITING = 32;
/** Rows that need not be loaded again, since they are still here. */
const HELD_BYTES = 8 * 1024 * 1024;
/** Wait after a failure of storage. */
const FAULT_DELAY_MS = 1000;

interface Waiting extends Stranger {
  id: string;
  row: NewReport | null;
}

interface End {
  state: ReportRow['state'];
  kind: Finding['kind'];
  match: Match | null;
  detail: object;
  /** A bounce is kept whole; of every other mail only the beginning. */
  keepsAll: boolean;
}

export function createReceiver(deps: ReceiveDeps) {
  const { clock, log, db, keys } = deps;
  const unread = new Unread<Waiting>();
  const aggregates = createAggregateStore(deps);
  const forwarded = new Allowance(budgets.forwarded_bytes);
  const working = new Set<Promise<void>>();
  const perDelivery = new InTurn();
  let reading = 0;
  let held = 0;
  let stopping = false;

  function wait(row: NewReport, isHeld: boolean): void {
    const stranger = strangerOf(keys, row.client_ip, JSON.parse(row.recipients_json) as string[]);
    if (isHeld) held += row.raw.length;
    unread.add({ ...stranger, id: row.id, row: isHeld ? row : null });
  }

  function work(): void {
    while (!stopping && reading < READING && working.size < WRITING) {
      const next = unread.take({ withTokenOnly: reading > 0 });
      if (next === null) return;
      const done = receive(next).finally(() => {
        working.delete(done);
        work();
      });
      working.add(done);
    }
  }

  async function receive(next: Waiting): Promise<void> {
    reading += 1;
    let isReading = true;
    const read = (): void => {
      if (isReading) reading -= 1;
      isReading = false;
    };
    if (next.row !== null) held -= next.row.raw.length;
    try {
      const row = next.row ?? (await load(db.prepared, next.id));
      const result = row === null ? null : await deps.reader.read(row.raw, JSON.parse(row.recipients_json) as string[]);
      read();
      work();
      if (row === null || result === null) return;
      deps.budgets.noteReading(next, result.ms);
      if (result.kind !== 'read' && (result.why === 'closed' || result.why === 'full')) return;
      const kept =
        result.kind === 'read'
          ? await (next.deliveryId === null
              ? finish(row, result.finding)
              : perDelivery.run(next.deliveryId, () => finish(row, result.finding)))
          : await closeUnreadable(row, result.why);
      deps.budgets.giveBack(next, row.raw.length - kept, row.received_at);
    } catch (error) {
      log.error({ event: 'reports_failed', err: error }, 'reports could not be worked on: tried again');
      await clock.sleep(FAULT_DELAY_MS);
      if (!stopping) unread.add({ ...next, row: null });
    } finally {
      read();
    }
  }

  async function closeUnreadable(row: NewReport, why: string): Promise<number> {
    log.warn({ event: 'report_unreadable', report_id: row.id, reason: why }, 'a mail to us could not be read');
    return close(row, { state: 'unreadable', kind: 'other', match: null, detail: {}, keepsAll: false });
  }

  /** Resolves with the number of bytes that are kept. */
  async function finish(row: NewReport, finding: Finding): Promise<number> {
    if (finding.aggregate !== undefined) return keep(row, finding, finding.aggregate);
    if (isForOperator(row, finding)) return forward(row, finding);
    const match = await matched(deps, finding);
    const { change, state } = await meaningOf(deps.db.prepared, row, finding, match);
    if (match?.proof != null && change !== null) await deps.recorder.record([{ deliveryId: match.owner.id, change }]);
    log.info(
      {
        event: 'report',
        report_id: row.id,
        kind: finding.kind,
        state,
        message_id: match?.owner.message_id ?? null,
        request_id: match?.owner.request_id ?? null,
        delivery_id: match?.owner.id ?? null,
        proof: match?.proof ?? null,
        recorded: state === 'done' ? (change?.kind ?? null) : null,
      },
      'a mail to one of our addresses',
    );
    const detail = { ...findingRecord(finding), proof: match?.proof ?? null, feedback_loop: match?.loop ?? null };
    return close(row, {
      state,
      kind: finding.kind,
      match,
      detail,
      keepsAll: finding.kind === 'bounce' && state !== 'unmatched',
    });
  }

  /** Writes the forwarded mail in one transaction with its row, so that it is sent once. */
  async function forward(row: NewReport, finding: Finding): Promise<number> {
    const now = clock.now();
    const mail = forwardOf(deps.forward, { ...row, raw: attachedOf(row, now) }, now);
    if (mail !== null) await deps.ownAccount.ensure();
    const sent = await db.commit.transact(async (tx): Promise<OwnMailRows | null> => {
      const rows = mail === null || (await isFloodOf(tx, now)) ? null : ownMailRows(mail, now, deps.forward.retry);
      await write(tx, row.id, {
        state: rows === null ? 'kept' : 'forwarded',
        kind: finding.kind,
        match: null,
        detail: findingRecord(finding),
        keepsAll: false,
      });
      if (rows !== null) await insertRows(tx, [rows]);
      return rows;
    });
    log.info(
      { event: 'report', report_id: row.id, kind: finding.kind, state: sent === null ? 'kept' : 'forwarded' },
      'a mail to one of our addresses',
    );
    if (sent !== null) deps.notifiers.deliveries.notify(hintsOf(sent));
    await deps.trim();
    return beginningOf(row);
  }

  /** Keeps the mail whole while the day's budget lasts; then only its beginning. */
  function attachedOf({ raw }: NewReport, now: number): Buffer {
    const isWhole = forwarded.has('', raw.length, now);
    if (isWhole) forwarded.spend('', raw.length, now);
    else deps.usedUp('forwarded_bytes');
    return isWhole ? raw : raw.subarray(0, budgets.kept_of_mail.most);
  }

  /** Counts an aggregate report, and deletes it then; one about a domain that is not ours is kept as mail without an owner. */
  async function keep(row: NewReport, finding: Finding, aggregate: Aggregate): Promise<number> {
    const summary = aggregateSummary(aggregate);
    let bytes = beginningOf(row);
    const kept = await aggregates.keep(row.id, aggregate, async (tx, { isOurs, alreadyCounted, refused }) => {
      const detail = { ...findingRecord(finding), aggregate: { ...summary, already_counted: alreadyCounted, refused } };
      const state = isOurs && refused === null ? 'done' : 'unmatched';
      await write(tx, row.id, { state, kind: finding.kind, match: null, detail, keepsAll: false });
      if (state === 'done') await tx.run('UPDATE reports SET raw = ? WHERE id = ?', [Buffer.alloc(0), row.id]);
      bytes = state === 'done' ? 0 : beginningOf(row);
    });
    log.info(
      {
        event: 'report',
        report_id: row.id,
        kind: finding.kind,
        ...summary,
        already_counted: kept.alreadyCounted,
        refused: kept.refused,
        rows: kept.rows,
      },
      'a mail to one of our addresses',
    );
    await deps.trim();
    return bytes;
  }

  async function close(row: NewReport, end: End): Promise<number> {
    await db.commit.transact((tx) => write(tx, row.id, end));
    await deps.trim();
    return end.keepsAll ? row.raw.length : beginningOf(row);
  }

  return {
    start(): void {
      const loaded = loadUnread().then(work);
      working.add(loaded);
      void loaded.finally(() => working.delete(loaded));
    },
    /** Takes a mail that was written and waits to be read. */
    take(row: NewReport): void {
      wait(row, held + row.raw.length <= HELD_BYTES);
      work();
    },
    /** Returns the budget that one more mail of this network would break, or null. */
    isFull: (network: string): BudgetName | null => unread.full(network),
    /** Resolves when the reports that are being read are done. */
    async stop(): Promise<void> {
      stopping = true;
      while (working.size > 0) await Promise.all(working);
      await deps.reader.close();
    },
  };

  /** Reads the mails that an earlier run left unread. */
  async function loadUnread(): Promise<void> {
    try {
      const rows = await db.prepared.all<Omit<NewReport, 'raw'>>(
        'SELECT id, received_at, client_ip, sender, recipients_json, size FROM reports WHERE kind IS NULL ORDER BY id',
      );
      for (const row of rows) wait({ ...row, raw: Buffer.alloc(0) }, false);
    } catch (error) {
      log.error({ event: 'reports_failed', err: error }, 'reports could not be worked on: tried again');
      await clock.sleep(FAULT_DELAY_MS);
      if (!stopping) await loadUnread();
    }
  }
}

const beginningOf = ({ raw }: NewReport): number => Math.min(raw.length, budgets.kept_of_mail.most);

async function load(db: Connection, id: string): Promise<NewReport | null> {
  const [row] = await db.all<NewReport>(
    'SELECT id, received_at, client_ip, sender, recipients_json, size, raw FROM reports WHERE id = ? AND kind IS NULL',
    [id],
  );
  return row ?? null;
}

async function write(tx: Connection, id: string, { state, kind, match, detail, keepsAll }: End): Promise<void> {
  const owner = match?.owner;
  await tx.run(
    `UPDATE reports SET state = ?, kind = ?, account_id = ?, message_id = ?, delivery_id = ?, detail_json = ?${keepsAll ? '' : `, raw = substr(raw, 1, ${String(budgets.kept_of_mail.most)})`} WHERE id = ?`,
    [state, kind, owner?.account_id ?? null, owner?.message_id ?? null, owner?.id ?? null, JSON.stringify(detail), id],
  );
}

async function isFloodOf(tx: Connection, now: number): Promise<boolean> {
  const [row] = await tx.all<{ n: number }>(
    "SELECT COUNT(*) AS n FROM reports WHERE state = 'forwarded' AND received_at > ?",
    [now - HOUR_MS],
  );
  return (row?.n ?? 0) >= FORWARDED_AN_HOUR;
}
