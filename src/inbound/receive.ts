/**
 * Handles mail to our addresses, from its stored row: reads it (classify.ts), finds its delivery and the proof (report-owner.ts), and records the
 * change. After a crash a row whose change is not written is read again; a change that was recorded already changes nothing a second time.
 */
import { budgets } from '../base/budgets.ts';
import { newId } from '../base/id.ts';
import type { DeliveryChange } from '../messages/delivery/delivery.ts';
import { bouncedBy, complainedBy, type StandIn } from '../messages/delivery/reported.ts';
import { hintsOf } from '../messages/delivery/due-hint.ts';
import type { Occurrence } from '../messages/delivery/record.ts';
import { unsubscribedDelivery } from '../messages/delivery/return-path.ts';
import { ownMailRows } from '../messages/accept/own-mail.ts';
import type { Connection } from '../storage/connection.ts';
import type { Rows } from '../storage/rows.ts';
import type { ReportRow } from '../storage/tables.ts';
import { aggregateSummary, type Aggregate } from './aggregate.ts';
import { createAggregateStore } from './aggregate-store.ts';
import { ROW_BYTES, type keptReports } from './bounded-store.ts';
import type { InboundContext } from './context.ts';
import { findingRecord, type Finding, type SentMail } from './finding.ts';
import { Inbox } from './inbox.ts';
import { FORWARDED_AN_HOUR, forwardOf, isForOperator } from './forward.ts';
import { strangerOf, type MxBudgets, type Stranger } from './mx-budgets.ts';
import { ERASED_ADDRESS } from '../mail/address.ts';
import { findMatch, type Owner } from './report-owner.ts';
import type { ReportReader } from './report-reader.ts';
import { HOUR_MS } from '../base/time.ts';

/** A mail that came to one of our addresses, before it is read. */
type NewReport = Pick<ReportRow, 'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'>;

interface ReceiveParts {
  reader: Pick<ReportReader, 'read'>;
  budgets: Pick<MxBudgets, 'noteReading' | 'giveBack' | 'noteGood'>;
  kept: ReturnType<typeof keptReports>;
}

/** Mails that the reader has at most, so that it need not wait for the next. */
const READING = 16;
/** Mails that are read or written at the same time. */
const AT_WORK = 32;
const BUFFERED_BYTES = 8 * 1024 * 1024;

/** The columns of a mail that was not read. */
const unread = {
  state: 'new',
  kind: null,
  account_id: null,
  message_id: null,
  delivery_id: null,
  detail_json: '{}',
} as const;

interface End {
  state: ReportRow['state'];
  detail: object;
  owner?: Owner | undefined;
  /** A bounce is kept whole, and of every other mail the beginning; of an aggregate report that was counted nothing. */
  keeps?: 'all' | 'nothing';
  /** More fields of its line in the log. */
  said?: object;
  /** Rows that are written with it. */
  rows?: Rows;
  /** Follows when all is written. */
  done?: () => unknown;
}

export class Receiver {
  readonly inbox: Inbox<NewReport>;
  private readonly context: InboundContext;
  private readonly parts: ReceiveParts;
  private readonly aggregates: ReturnType<typeof createAggregateStore>;

  constructor(context: InboundContext, parts: ReceiveParts) {
    this.context = context;
    this.parts = parts;
    this.aggregates = createAggregateStore(context);
    this.inbox = new Inbox(context, {
      bounds: { all: 'unread_mails', each: 'unread_mails_network' },
      mostBuffered: BUFFERED_BYTES,
      mostAtWork: AT_WORK,
      mostReading: READING,
      mailOf: ({ ip, sender, recipients }, raw, size) => {
        const now = context.clock.now();
        const recipients_json = JSON.stringify(recipients);
        return { id: newId('rep', now), received_at: now, client_ip: ip, sender, recipients_json, size, raw };
      },
      async write(row, stranger) {
        const bytes = row.raw.length + ROW_BYTES;
        await context.db.commit.insert({ reports: [{ ...unread, ...row }] }, bytes);
        parts.kept.of(stranger).add(bytes);
      },
      alsoFull: (stranger) => Promise.resolve(parts.kept.of(stranger).overfull()),
      left: async () =>
        (await unreadIn(context.db.prepared)).map(({ id, client_ip, recipients_json }) => ({
          id,
          ...strangerOf(context.keys, client_ip, JSON.parse(recipients_json) as string[]),
        })),
      load: (id) => load(context.db.prepared, id),
      read: (row, stranger) => this.read(row, stranger),
      failed(err) {
        context.log.error({ event: 'reports_failed', err }, 'mail to us could not be read or written: tried again');
      },
    });
  }

  /** Reads a mail. Resolves with the act that records what it means. */
  private async read(row: NewReport, stranger: Stranger): Promise<() => Promise<void>> {
    const { context } = this;
    const { reader, budgets: ofNetworks } = this.parts;
    const { deliveryId } = stranger;
    const about = deliveryId === null ? null : await sentMail(context.db.prepared, deliveryId);
    const recipients = JSON.parse(row.recipients_json) as string[];
    const result = await reader.read(row.raw, { recipients, sender: row.sender, about });
    ofNetworks.noteReading(stranger, result.ms);
    const finish = async (): Promise<number> => {
      if (result.kind === 'read') return this.finish(row, result.finding);
      const fields = { event: 'report_unreadable', report_id: row.id, reason: result.why };
      context.log.warn(fields, 'a mail to us could not be read');
      return this.close(row, null, [], async () => ({ state: 'unreadable', detail: {} }));
    };
    return async () => {
      ofNetworks.giveBack(stranger, row.raw.length - (await finish()), row.received_at);
    };
  }

  /** Resolves with the number of bytes that are kept. */
  private async finish(row: NewReport, finding: Finding): Promise<number> {
    if (finding.aggregate !== undefined) return this.count(row, finding, finding.aggregate);
    const { context } = this;
    const match = await findMatch(context, finding);
    if (match?.proof === 'feedback_loop') this.parts.budgets.noteGood(strangerOf(context.keys, row.client_ip, []));
    if (isForOperator(row, finding, match !== null)) return this.forward(row, finding);
    const isObeyed = await this.obey(finding);
    const { owner, proof = null, loop = null } = match ?? {};
    const isOfNobody = owner === undefined || isObeyed;
    const change = isOfNobody ? null : changeOf(row.sender, finding, owner);
    const isProven = owner !== undefined && proof !== null;
    const state = isObeyed ? 'done' : stateOf(finding, owner !== undefined, change === null || isProven);
    const changes = isProven && change !== null ? [{ deliveryId: owner.id, change }] : [];
    return this.close(row, finding, changes, async () => ({
      state,
      owner,
      detail: { ...findingRecord(finding), well_formed: finding.isWellFormed, proof, feedback_loop: loop },
      ...(finding.kind === 'bounce' && state !== 'unmatched' ? { keeps: 'all' } : {}),
      said: {
        message_id: owner?.message_id ?? null,
        request_id: owner?.request_id ?? null,
        recipient_id: owner?.id ?? null,
        delivery_id: owner?.id ?? null,
        proof,
        recorded: isObeyed ? 'unsubscribed' : state === 'done' ? (change?.kind ?? null) : null,
      },
    }));
  }

  /** Unsubscribes whom the mail itself names, also if its delivery is deleted or erased here. Returns false if it does not name them. */
  private async obey({ kind, token, wish }: Finding): Promise<boolean> {
    if (kind !== 'unsubscribe' || token === null || wish === null) return false;
    const deliveryId = unsubscribedDelivery(this.context.keys, `unsub+${token}`);
    return deliveryId !== null && this.context.unsubscribe(wish, deliveryId);
  }

  /** Writes the forwarded mail in one transaction with its row, so that it is sent once. */
  private async forward(row: NewReport, finding: Finding): Promise<number> {
    const { clock, forward, ownAccount, notifiers } = this.context;
    const now = clock.now();
    const mail = forwardOf(forward, { ...row, raw: row.raw.subarray(0, budgets.forwarded_mail.most) }, now);
    if (mail !== null) await ownAccount.ensure();
    const rows = mail === null ? null : ownMailRows(mail, now, forward.retry);
    const detail = findingRecord(finding);
    return this.close(row, finding, [], async (tx) => {
      if (rows === null || (await isFloodOf(tx, now))) return { state: 'kept', detail };
      return { state: 'forwarded', detail, rows, done: () => notifiers.deliveries.notify(hintsOf(rows)) };
    });
  }

  /** Counts an aggregate report, and deletes it then; one about a domain that is not ours is kept as mail without an owner. */
  private async count(row: NewReport, finding: Finding, aggregate: Aggregate): Promise<number> {
    const { report_id: aggregate_id, ...summary } = aggregateSummary(aggregate);
    const countIn = await this.aggregates.open(row.id, aggregate);
    return this.close(row, finding, [], async (tx) => {
      const { isOurs, already_counted, refused, ...counted } = await countIn(tx);
      const isDone = isOurs && refused === null;
      const record = { ...summary, report_id: aggregate_id, already_counted, refused };
      return {
        ...counted,
        state: isDone ? 'done' : 'unmatched',
        ...(isDone ? { keeps: 'nothing' } : {}),
        detail: { ...findingRecord(finding), aggregate: record },
        said: { ...summary, aggregate_id, already_counted, refused },
      };
    });
  }

  /** Writes what a mail was, with the changes that it makes. Resolves with the number of its bytes that are kept. `finding`: null if unread. */
  private async close(
    row: NewReport,
    finding: Finding | null,
    changes: readonly Occurrence[],
    decide: (tx: Connection) => Promise<End>,
  ): Promise<number> {
    const kind = finding?.kind ?? 'other';
    let end = null as End | null;
    await this.context.recorder.record(changes, async (tx) => {
      end = await decide(tx);
      // A report names the person, and the mail that it belongs to does not any more.
      if (end.owner?.address_key === ERASED_ADDRESS) await tx.run('DELETE FROM reports WHERE id = ?', [row.id]);
      // Another node may have done so meanwhile.
      else if (!(await write(tx, row.id, kind, end))) end = null;
      return end?.rows ?? {};
    });
    if (end === null) return 0;
    const { said, state, owner, keeps, done } = end;
    await done?.();
    if (finding !== null)
      this.context.log.info(
        { event: 'report', report_id: row.id, kind, state, ...said },
        'a mail to one of our addresses',
      );
    await this.parts.kept.trim();
    if (keeps === 'nothing' || owner?.address_key === ERASED_ADDRESS) return 0;
    return keeps === 'all' ? row.raw.length : Math.min(row.raw.length, budgets.kept_of_mail.most);
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

const unreadIn = (db: Connection): Promise<Pick<NewReport, 'id' | 'client_ip' | 'recipients_json'>[]> =>
  db.all('SELECT id, client_ip, recipients_json FROM reports WHERE kind IS NULL ORDER BY id');

async function load(db: Connection, id: string): Promise<NewReport | null> {
  const [row] = await db.all<NewReport>(
    'SELECT id, received_at, client_ip, sender, recipients_json, size, raw FROM reports WHERE id = ? AND kind IS NULL',
    [id],
  );
  return row ?? null;
}

const KEPT = {
  all: 'raw',
  beginning: `substr(raw, 1, ${String(budgets.kept_of_mail.most)})`,
  nothing: 'substr(raw, 1, 0)',
};

/** Returns false if it was written before. */
async function write(tx: Connection, id: string, kind: Finding['kind'], end: End): Promise<boolean> {
  const { state, owner, detail, keeps = 'beginning' } = end;
  const written = await tx.all(
    `UPDATE reports SET state = ?, kind = ?, account_id = ?, message_id = ?, delivery_id = ?, detail_json = ?, raw = ${KEPT[keeps]}
     WHERE id = ? AND kind IS NULL RETURNING id`,
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

/** Returns the state of a report. An aggregate report that could be read does not come here: it is counted. */
function stateOf({ kind }: Finding, hasOwner: boolean, isSettled: boolean): ReportRow['state'] {
  if (kind === 'report') return 'unreadable';
  if (hasOwner) return isSettled ? 'done' : 'unverified';
  return kind === 'other' || kind === 'auto_reply' ? 'done' : 'unmatched';
}

/** Returns the change that a report of this delivery would be, were it true; null if it changes nothing. */
function changeOf(sender: string, finding: Finding, owner: Owner): DeliveryChange | null {
  const { kind, recipients, isWellFormed, feedback } = finding;
  if (kind === 'bounce' && countsAsReport(sender, finding))
    return bouncedBy(recipients, owner.address_key, standInOf(isWellFormed, sender));
  if (kind === 'complaint')
    return complainedBy({ type: null, source: 'arf', userAgent: null, arrivalDate: null, ...feedback });
  return kind === 'unsubscribe' ? { kind: 'unsubscribed', method: 'mailto' } : null;
}

/** Returns whether the mail counts. Everyone who gets the mail knows its token: a report must also look like one, in its sender or in its form. */
const countsAsReport = (sender: string, { isWellFormed }: Finding): boolean =>
  isWellFormed ||
  sender === '' ||
  /^(?:postmaster|mailer-daemon|mail-daemon|maildaemon|double-bounce|bounce[sd]?|noreply-mailer)@/i.test(sender);

const standInOf = (isWellFormed: boolean, sender: string): StandIn =>
  isWellFormed ? 'report' : sender === '' ? 'notice' : 'letter';
