/**
 * Handles mail to our addresses, from the row that the listener wrote: reads it (in a thread), finds the delivery it is about, and
 * records the change. A row is done when its change is written; after a crash it is read again, and a change that was recorded
 * already changes nothing a second time. The node that received a mail reads it; the node that leads also reads what others have left.
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
import { unsubscribedDelivery } from '../messages/delivery/return-path.ts';
import { ownMailRows, type OwnMailRows } from '../messages/accept/own-mail.ts';
import type { RetryRule } from '../messages/delivery/retry.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import type { ReportRow } from '../storage/tables.ts';
import { aggregateSummary, type Aggregate } from './aggregate.ts';
import type { SentMail } from './arrival.ts';
import { createAggregateStore, type AggregateStoreDeps } from './aggregate-store.ts';
import { findingRecord, type Finding } from './finding.ts';
import { InTurn } from './in-turn.ts';
import { FORWARDED_AN_HOUR, forwardOf, isForOperator, type ForwardRule } from './forward.ts';
import { Allowance, mostForOne } from '../scheduling/allowance.ts';
import { strangerOf, type NewReport } from './mx.ts';
import type { MxBudgets, Stranger } from './mx-budgets.ts';
import { meaningOf } from './report-meaning.ts';
import { ERASED_ADDRESS } from '../mail/address.ts';
import { findMatch, type Match, type MatchDeps } from './report-owner.ts';
import type { ReportReader } from './report-reader.ts';
import { HOUR_MS } from '../base/time.ts';
import { WaitingLine } from '../scheduling/waiting-line.ts';

/**
 * Mails that wait to be read, in the order in which they get their turn: those with a token of ours before those that anyone can
 * send, and among each kind the networks in turn, so that no network waits behind another's flood. Each kind has its own room. Pure.
 */

export class Unread<Item extends Stranger> {
  private readonly withToken = new WaitingLine<Item>();
  private readonly loose = new WaitingLine<Item>();

  add(item: Item): void {
    this.lineOf(item).add(item.network, item);
  }

  /** Takes the next one, or null. `withTokenOnly`: mail without a token waits. */
  take({ withTokenOnly }: { withTokenOnly: boolean }): Item | null {
    return (this.withToken.next() ?? (withTokenOnly ? undefined : this.loose.next()))?.item ?? null;
  }

  /** The budget that one more mail of this sender would break, or null. */
  full(stranger: Stranger): BudgetName | null {
    const line = this.lineOf(stranger);
    const [most, each] = [budgets.unread_mails.most, budgets.unread_mails_network.most];
    const wanted = line.of(stranger.network) + 1;
    if (wanted > each) return 'unread_mails_network';
    return line.all >= most || wanted > mostForOne(each, most, line.all) ? 'unread_mails' : null;
  }

  private lineOf({ deliveryId }: Stranger): WaitingLine<Item> {
    return deliveryId === null ? this.loose : this.withToken;
  }
}

export interface ReceiveDeps extends MatchDeps, AggregateStoreDeps {
  clock: Clock;
  log: Log;
  db: { commit: Committer; prepared: Connection };
  recorder: Pick<Recorder, 'record'>;
  notifiers: { deliveries: Notifier<readonly DueHint[]> };
  reader: ReportReader;
  budgets: Pick<MxBudgets, 'noteReading' | 'giveBack' | 'noteGood'>;
  /** Carries out the wish in an unsubscribe mail, if it is about this delivery; else returns false. */
  unsubscribe(wish: string, deliveryId: string): Promise<boolean>;
  /** Settings for mail of people. */
  forward: ForwardRule & { retry: Pick<RetryRule, 'maxAge'> };
  ownAccount: { ensure(): Promise<void> };
  /** Deletes the oldest mails if too much is kept. */
  trim(): Promise<void>;
}

/** Mails that the reader has: it reads one while the next waits. Mail without a token does not wait there. */
const READING = 2;
/** Reports that are written at the same time, so that they share their commits. */
const WRITING = 32;
/** Rows that need not be loaded again, since they are still here. */
const BUFFERED_BYTES = 8 * 1024 * 1024;
/** Wait after a failure of storage. */
const FAULT_DELAY_MS = 1000;
/** Pause of all reading if no thread could be had: each try costs a tenth of a second of CPU. */
const NO_THREAD_MS = 60_000;

interface ReadReport {
  row: NewReport;
  result: Awaited<ReturnType<ReportReader['read']>>;
}

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

export class Receiver {
  private readonly deps: ReceiveDeps;
  private readonly unread = new Unread<Waiting>();
  private readonly aggregates: ReturnType<typeof createAggregateStore>;
  private readonly forwarded = new Allowance(budgets.forwarded_bytes);
  private readonly working = new Set<Promise<void>>();
  private readonly perDelivery = new InTurn();
  /** The ids of the rows that wait here or are worked on. */
  private readonly known = new Set<string>();
  private reading = 0;
  /** Bytes of the unread mails that are in memory. */
  private bufferedBytes = 0;
  private stopping = false;
  private resting = false;

  constructor(deps: ReceiveDeps) {
    this.deps = deps;
    this.aggregates = createAggregateStore(deps);
  }

  /**
   * Takes the mails that ended nodes, or an earlier run, have left unread. It finds those as well that a living node is about to read: they
   * are read twice then, and have their effect once.
   */
  takeLeft(): void {
    if (this.stopping) return;
    const loaded = this.loadUnread().then(() => this.work());
    this.working.add(loaded);
    void loaded.finally(() => this.working.delete(loaded));
  }

  /** Takes a mail that was written and waits to be read. */
  take(row: NewReport): void {
    this.add(row, this.bufferedBytes + row.raw.length <= BUFFERED_BYTES);
    this.work();
  }

  /** Returns the budget that one more mail of this sender would break, or null. */
  isFull(stranger: Stranger): BudgetName | null {
    return this.unread.full(stranger);
  }

  /** Resolves when the reports that are being read are done. */
  async stop(): Promise<void> {
    this.stopping = true;
    while (this.working.size > 0) await Promise.all(this.working);
    await this.deps.reader.close();
  }

  private async loadUnread(): Promise<void> {
    try {
      const rows = await this.deps.db.prepared.all<Omit<NewReport, 'raw'>>(
        'SELECT id, received_at, client_ip, sender, recipients_json, size FROM reports WHERE kind IS NULL ORDER BY id',
      );
      for (const row of rows) if (!this.known.has(row.id)) this.add({ ...row, raw: Buffer.alloc(0) }, false);
    } catch (error) {
      await this.pauseAfter(error);
      if (!this.stopping) await this.loadUnread();
    }
  }

  private add(row: NewReport, isBuffered: boolean): void {
    const stranger = strangerOf(this.deps.keys, row.client_ip, JSON.parse(row.recipients_json) as string[]);
    if (isBuffered) this.bufferedBytes += row.raw.length;
    this.known.add(row.id);
    this.unread.add({ ...stranger, id: row.id, row: isBuffered ? row : null });
  }

  private work(): void {
    while (!this.stopping && !this.resting && this.reading < READING && this.working.size < WRITING) {
      const next = this.unread.take({ withTokenOnly: this.reading > 0 });
      if (next === null) return;
      const done = this.receive(next).finally(() => {
        this.working.delete(done);
        this.work();
      });
      this.working.add(done);
    }
  }

  private async receive(next: Waiting): Promise<void> {
    if (next.row !== null) this.bufferedBytes -= next.row.raw.length;
    try {
      const read = await this.read(next);
      if (read?.result.kind === 'unreadable' && read.result.why === 'unstarted') {
        this.rest(next);
        return;
      }
      this.work();
      if (read !== null) await this.conclude(next, read);
      this.known.delete(next.id);
    } catch (error) {
      await this.tryAgain(next, error);
    }
  }

  /** Loads the row if it is not in memory, and reads the mail in a thread. Returns null if there is nothing to conclude. */
  private async read(next: Waiting): Promise<ReadReport | null> {
    this.reading += 1;
    try {
      const row = next.row ?? (await load(this.deps.db.prepared, next.id));
      if (row === null) return null;
      const about = next.deliveryId === null ? null : await sentMail(this.deps.db.prepared, next.deliveryId);
      const recipients = JSON.parse(row.recipients_json) as string[];
      return { row, result: await this.deps.reader.read(row.raw, { recipients, sender: row.sender, about }) };
    } finally {
      this.reading -= 1;
    }
  }

  private async conclude(next: Waiting, { row, result }: ReadReport): Promise<void> {
    this.deps.budgets.noteReading(next, result.ms);
    if (result.kind !== 'read' && (result.why === 'closed' || result.why === 'full')) return;
    const bytesKept =
      result.kind === 'read'
        ? await (next.deliveryId === null
            ? this.finish(row, result.finding)
            : this.perDelivery.run(next.deliveryId, () => this.finish(row, result.finding)))
        : await this.closeUnreadable(row, result.why);
    this.deps.budgets.giveBack(next, row.raw.length - bytesKept, row.received_at);
  }

  /** Puts a mail back that no thread could read, and reads none for a minute. */
  private rest(next: Waiting): void {
    this.unread.add({ ...next, row: null });
    if (this.resting) return;
    this.resting = true;
    const text = 'no thread could be started that reads mail to us: tried again in a minute';
    this.deps.log.error({ event: 'reports_failed' }, text);
    const end = (): void => {
      this.resting = false;
      this.work();
    };
    this.deps.clock.after(NO_THREAD_MS, end, { background: true });
  }

  private async tryAgain(next: Waiting, error: unknown): Promise<void> {
    await this.pauseAfter(error);
    if (!this.stopping) this.unread.add({ ...next, row: null });
  }

  /** Logs a failure of storage and waits, before the work is tried again. */
  private async pauseAfter(error: unknown): Promise<void> {
    this.deps.log.error({ event: 'reports_failed', err: error }, 'reports could not be worked on: tried again');
    await this.deps.clock.sleep(FAULT_DELAY_MS);
  }

  private async closeUnreadable(row: NewReport, why: string): Promise<number> {
    this.deps.log.warn(
      { event: 'report_unreadable', report_id: row.id, reason: why },
      'a mail to us could not be read',
    );
    return this.close(row, { state: 'unreadable', kind: 'other', match: null, detail: {}, keepsAll: false });
  }

  /** Resolves with the number of bytes that are kept. */
  private async finish(row: NewReport, finding: Finding): Promise<number> {
    if (finding.aggregate !== undefined) return this.count(row, finding, finding.aggregate);
    const { deps } = this;
    const match = await findMatch(deps, finding);
    if (match?.proof === 'feedback_loop') deps.budgets.noteGood(strangerOf(deps.keys, row.client_ip, []));
    if (isForOperator(row, finding, match !== null)) return this.forward(row, finding);
    const isObeyed = await this.obey(finding);
    const meaning = await meaningOf(deps.db.prepared, row, finding, match);
    const { change, state } = isObeyed ? ({ change: null, state: 'done' } as const) : meaning;
    if (match?.proof != null && change !== null) await deps.recorder.record([{ deliveryId: match.owner.id, change }]);
    this.note(row, finding, {
      state,
      message_id: match?.owner.message_id ?? null,
      request_id: match?.owner.request_id ?? null,
      recipient_id: match?.owner.id ?? null,
      delivery_id: match?.owner.id ?? null,
      proof: match?.proof ?? null,
      recorded: isObeyed ? 'unsubscribed' : state === 'done' ? (change?.kind ?? null) : null,
    });
    const detail = {
      ...findingRecord(finding),
      well_formed: finding.isWellFormed,
      proof: match?.proof ?? null,
      feedback_loop: match?.loop ?? null,
    };
    return this.close(row, {
      state,
      kind: finding.kind,
      match,
      detail,
      keepsAll: finding.kind === 'bounce' && state !== 'unmatched',
    });
  }

  /** Unsubscribes whom the mail itself names, also if its delivery is deleted or erased here. Returns false if it does not name them. */
  private async obey({ kind, token, wish }: Finding): Promise<boolean> {
    if (kind !== 'unsubscribe' || token === null || wish === null) return false;
    const deliveryId = unsubscribedDelivery(this.deps.keys, `unsub+${token}`);
    return deliveryId !== null && this.deps.unsubscribe(wish, deliveryId);
  }

  private note(row: NewReport, { kind }: Finding, fields: object): void {
    this.deps.log.info({ event: 'report', report_id: row.id, kind, ...fields }, 'a mail to one of our addresses');
  }

  /** Writes the forwarded mail in one transaction with its row, so that it is sent once. */
  private async forward(row: NewReport, finding: Finding): Promise<number> {
    const { clock, db, forward, ownAccount, notifiers } = this.deps;
    const now = clock.now();
    const attached = this.attachedOf(row, now);
    const mail = forwardOf(forward, { ...row, raw: attached }, now);
    const giveBack = (): void => {
      if (attached === row.raw) this.forwarded.giveBack('', attached.length, now, clock.now());
    };
    const rowsOf = async (tx: Connection): Promise<OwnMailRows | null> => {
      const rows = mail === null || (await isFloodOf(tx, now)) ? null : ownMailRows(mail, now, forward.retry);
      const isFirst = await write(tx, row.id, {
        state: rows === null ? 'kept' : 'forwarded',
        kind: finding.kind,
        match: null,
        detail: findingRecord(finding),
        keepsAll: false,
      });
      if (rows === null || !isFirst) return null;
      await insertRows(tx, [rows]);
      return rows;
    };
    const ready = mail === null ? Promise.resolve() : ownAccount.ensure();
    const sent = await ready
      .then(() => db.commit.transact(rowsOf))
      .catch((error: unknown) => {
        giveBack();
        throw error;
      });
    this.note(row, finding, { state: sent === null ? 'kept' : 'forwarded' });
    if (sent !== null) notifiers.deliveries.notify(hintsOf(sent));
    else giveBack();
    await this.deps.trim();
    return beginningOf(row);
  }

  /** Keeps the mail whole while the day's budget lasts; then only its beginning. What does not go on is given back. */
  private attachedOf({ raw }: NewReport, now: number): Buffer {
    const isWhole = this.forwarded.has('', raw.length, now);
    if (isWhole) this.forwarded.spend('', raw.length, now);
    else this.deps.usedUp('forwarded_bytes');
    return isWhole ? raw : raw.subarray(0, budgets.kept_of_mail.most);
  }

  /** Counts an aggregate report, and deletes it then; one about a domain that is not ours is kept as mail without an owner. */
  private async count(row: NewReport, finding: Finding, aggregate: Aggregate): Promise<number> {
    const summary = aggregateSummary(aggregate);
    let bytes = beginningOf(row);
    const counted = await this.aggregates.keep(row.id, aggregate, async (tx, { isOurs, alreadyCounted, refused }) => {
      const detail = { ...findingRecord(finding), aggregate: { ...summary, already_counted: alreadyCounted, refused } };
      const state = isOurs && refused === null ? 'done' : 'unmatched';
      await write(tx, row.id, { state, kind: finding.kind, match: null, detail, keepsAll: false });
      if (state === 'done') await tx.run('UPDATE reports SET raw = ? WHERE id = ?', [Buffer.alloc(0), row.id]);
      bytes = state === 'done' ? 0 : beginningOf(row);
    });
    const { alreadyCounted, refused, rows } = counted;
    const { report_id: theirs, ...said } = summary;
    this.note(row, finding, { ...said, aggregate_id: theirs, already_counted: alreadyCounted, refused, rows });
    await this.deps.trim();
    return bytes;
  }

  private async close(row: NewReport, end: End): Promise<number> {
    const isOfErased = end.match?.owner.address_key === ERASED_ADDRESS;
    await this.deps.db.commit.transact(async (tx) => {
      // A report names the person, and the mail that it belongs to does not any more.
      if (isOfErased) await tx.run('DELETE FROM reports WHERE id = ?', [row.id]);
      else await write(tx, row.id, end);
    });
    if (isOfErased) return 0;
    await this.deps.trim();
    return end.keepsAll ? row.raw.length : beginningOf(row);
  }
}

/** Returns the mail of ours that the token of a recipient address names. */
async function sentMail(db: Connection, deliveryId: string): Promise<SentMail | null> {
  const [row] = await db.all<SentMail>(
    'SELECT d.address, m.subject FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.id = ?',
    [deliveryId],
  );
  return row ?? null;
}

const beginningOf = ({ raw }: NewReport): number => Math.min(raw.length, budgets.kept_of_mail.most);

async function load(db: Connection, id: string): Promise<NewReport | null> {
  const [row] = await db.all<NewReport>(
    'SELECT id, received_at, client_ip, sender, recipients_json, size, raw FROM reports WHERE id = ? AND kind IS NULL',
    [id],
  );
  return row ?? null;
}

/** Writes what a mail was. Returns false if another node has done so meanwhile. */
async function write(tx: Connection, id: string, { state, kind, match, detail, keepsAll }: End): Promise<boolean> {
  const owner = match?.owner;
  const written = await tx.all(
    `UPDATE reports SET state = ?, kind = ?, account_id = ?, message_id = ?, delivery_id = ?, detail_json = ?${keepsAll ? '' : `, raw = substr(raw, 1, ${String(budgets.kept_of_mail.most)})`} WHERE id = ? AND kind IS NULL RETURNING id`,
    [state, kind, owner?.account_id ?? null, owner?.message_id ?? null, owner?.id ?? null, JSON.stringify(detail), id],
  );
  return written.length > 0;
}

async function isFloodOf(tx: Connection, now: number): Promise<boolean> {
  const [row] = await tx.all<{ n: number }>(
    "SELECT COUNT(*) AS n FROM reports WHERE state = 'forwarded' AND received_at > ?",
    [now - HOUR_MS],
  );
  return (row?.n ?? 0) >= FORWARDED_AN_HOUR;
}
