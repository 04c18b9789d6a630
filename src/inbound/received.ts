/**
 * Takes mail to domains that receive, from the row that the listener wrote: reads it off the main loop, has its sender checked, finds the
 * message of ours that it answers, and writes all that in one transaction with its `received` event. A row is done when that is written:
 * after a crash it is read again, and the event exists once. Domains take turns, so that none waits behind another's flood.
 */
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import type { Log } from '../base/log.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { addressKey } from '../mail/address.ts';
import type { ReceivedMail } from '../mail/received-mail.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { ReturnPathKey } from '../messages/delivery/return-path.ts';
import { noBodies, receivedMembers, sourceOf } from '../messages/received/received-store.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import { siteOf } from '../net/ip.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import { WaitingLine } from '../scheduling/waiting-line.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { columnsOf } from '../storage/record.ts';
import { insertRows } from '../storage/rows.ts';
import { received as table, type EventRow, type ReceivedRow } from '../storage/tables.ts';
import { answeredBy, type Answered } from './answered.ts';
import type { Session } from './listener.ts';
import type { MxBudgets, Stranger } from './mx-budgets.ts';
import { verdictsOn, type VerdictDeps, type Verdicts } from './verdicts.ts';

export interface ReceivedDeps extends VerdictDeps {
  clock: Clock;
  log: Log;
  db: { commit: Committer; prepared: Connection; maintenance: Connection };
  keys: readonly ReturnPathKey[];
  recorder: Pick<Recorder, 'record'>;
  notifiers: { events: Notifier };
  mailViewer: Pick<MailViewer, 'received'>;
  budgets: Pick<MxBudgets, 'noteReading'>;
  usedUp: UsedUp;
}

/** The row of a mail that has come and was not read. */
export const newReceived = (
  { ip, helo, sender, recipients }: Pick<Session<never>, 'ip' | 'helo' | 'sender' | 'recipients'>,
  { account_id, name }: { account_id: string; name: string },
  size: number,
  now: number,
): ReceivedRow => ({
  ...unread,
  id: newId('rcv', now),
  account_id,
  domain: name,
  at: now,
  size,
  client_ip: ip,
  helo,
  envelope_json: JSON.stringify({ from: sender, to: recipients }),
});

const unread = {
  status: 'new',
  from_json: null,
  from_key: '',
  to_json: '[]',
  cc_json: '[]',
  reply_to_json: '[]',
  subject: '',
  date: null,
  message_id: null,
  in_reply_to: null,
  references_json: '[]',
  ...noBodies,
  truncated: 0,
  attachments_json: '[]',
  spf_json: null,
  dkim_json: '[]',
  dmarc_json: null,
  spam_headers_json: '{}',
  auto_submitted: null,
  answers: null,
} as const;

interface Waiting {
  row: ReceivedRow;
  stranger: Stranger;
  /** Null if it has to be loaded. */
  raw: Buffer | null;
}

/** The result of reading a mail; null if it cannot be taken apart. */
type Read = { kind: 'read'; mail: ReceivedMail | null } | { kind: 'gone' } | { kind: 'later'; cause: unknown };

/** Mails whose sources are in memory at once, in bytes; one larger mail is worked on alone. */
const MOST_BYTES = 64 * 1024 * 1024;
const MOST_AT_WORK = 8;
/** Pause of all reading after a failure of ours. */
const REST_MS = 10_000;
/** Time after which the mails that wait for an account's webhooks are counted again. */
const WAITING_FRESH_MS = 30_000;
const KEPT_FRESH_MS = 60_000;
const KEPT_SHARE = 0.2;

export class ReceivedMails {
  private readonly deps: ReceivedDeps;
  private readonly mostKept: number;
  private readonly line = new WaitingLine<Waiting>();
  private readonly known = new Set<string>();
  private readonly working = new Set<Promise<void>>();
  private readonly waits;
  private bytes = 0;
  private isReading = false;
  private resting = false;
  private stopping = false;
  /** Bytes of all sources at the last look, with those that came since. */
  private kept = 0;
  private keptAt = -Infinity;

  /** `diskBytes`: the size of the disk with the data folder. */
  constructor(deps: ReceivedDeps, diskBytes: number) {
    this.deps = deps;
    this.mostKept = Math.min(budgets.received_kept.most, diskBytes * KEPT_SHARE);
    const load = (accountId: string): Promise<Waits> => waitingFor(deps.db.prepared, accountId);
    this.waits = createLookUpCache<Waits>(deps, { max: 1000, freshMs: WAITING_FRESH_MS }, load);
  }

  /** Returns the budget that one more mail to this domain would break, or null. */
  async full(accountId: string, domain: string): Promise<BudgetName | null> {
    if (this.line.all >= budgets.received_unread.most) return 'received_unread';
    if (this.line.of(domain) >= budgets.received_unread_domain.most) return 'received_unread_domain';
    if (await this.isStoreFull()) return 'received_kept';
    const { mails, bytes } = await this.waits.get(accountId);
    if (mails >= budgets.received_waiting.most) return 'received_waiting';
    return bytes >= budgets.received_waiting_bytes.most ? 'received_waiting_bytes' : null;
  }

  /** Looks at all rows at the start, and once a minute while there seems to be too much. */
  private async isStoreFull(): Promise<boolean> {
    const now = this.deps.clock.monotonic();
    if (this.keptAt === -Infinity || (this.kept > this.mostKept && now - this.keptAt > KEPT_FRESH_MS)) {
      this.keptAt = now;
      const [row] = await this.deps.db.maintenance.all<{ bytes: number | null }>(
        'SELECT SUM(size) AS bytes FROM received',
      );
      this.kept = row?.bytes ?? 0;
    }
    return this.kept > this.mostKept;
  }

  /** Takes a mail that was written. */
  take(row: ReceivedRow, stranger: Stranger, raw: Buffer): void {
    this.kept += row.size;
    const isBuffered = this.bytes + raw.length <= MOST_BYTES;
    if (isBuffered) this.bytes += raw.length;
    this.add({ row, stranger, raw: isBuffered ? raw : null });
    this.work();
  }

  /** Takes the mails that ended nodes, or an earlier run, have left. One that another node is about to read has its effect once. */
  takeLeft(): void {
    if (this.stopping) return;
    const loaded = this.loadLeft().then(() => this.work());
    this.working.add(loaded);
    void loaded.finally(() => this.working.delete(loaded));
  }

  /** Resolves when the mails at work are done. */
  async stop(): Promise<void> {
    this.stopping = true;
    while (this.working.size > 0) await Promise.all(this.working);
  }

  private add(waiting: Waiting): void {
    this.known.add(waiting.row.id);
    this.line.add(waiting.row.domain, waiting);
  }

  private async loadLeft(): Promise<void> {
    try {
      const rows = await this.deps.db.prepared.all<ReceivedRow>(
        "SELECT * FROM received WHERE status = 'new' ORDER BY id",
      );
      for (const row of rows)
        if (!this.known.has(row.id)) this.add({ row, raw: null, stranger: strangerAt(row.client_ip, row.domain) });
    } catch (error) {
      this.rest(error);
    }
  }

  /** One mail is read at a time; its sender is checked and it is written while the next is read. */
  private work(): void {
    while (!this.stopping && !this.resting && !this.isReading && this.working.size < MOST_AT_WORK) {
      const next = this.line.next()?.item;
      if (next === undefined) return;
      this.isReading = true;
      const done = this.receive(next).finally(() => {
        this.working.delete(done);
        this.work();
      });
      this.working.add(done);
    }
  }

  private async receive(next: Waiting): Promise<void> {
    try {
      const read = await this.read(next).finally(() => {
        this.isReading = false;
        if (next.raw !== null) this.bytes -= next.raw.length;
        next.raw = null;
      });
      this.work();
      if (read.kind === 'later') {
        this.rest(read.cause);
        this.line.add(next.row.domain, next);
        return;
      }
      if (read.kind === 'read') await this.conclude(next.row, read.mail);
      this.known.delete(next.row.id);
    } catch (error) {
      this.rest(error);
      this.line.add(next.row.domain, next);
    }
  }

  private async read({ row, raw, stranger }: Waiting): Promise<Read> {
    const { db, mailViewer, clock, log } = this.deps;
    const source = raw ?? (await sourceOf(db.prepared, row.id));
    if (source === null) return { kind: 'gone' };
    const from = clock.monotonic();
    const result = await mailViewer.received(source);
    this.deps.budgets.noteReading(stranger, clock.monotonic() - from);
    if (result.kind !== 'unreadable') return result;
    log.warn({ event: 'received_unreadable', received_id: row.id }, 'a received mail could not be taken apart');
    return { kind: 'read', mail: null };
  }

  /** Pauses all reading; what waits stays in its line and in the database. */
  private rest(error: unknown): void {
    if (this.resting || this.stopping) return;
    this.resting = true;
    this.deps.log.error({ event: 'received_failed', err: error }, 'received mail could not be read: tried again');
    const end = (): void => {
      this.resting = false;
      this.work();
    };
    this.deps.clock.after(REST_MS, end, { background: true });
  }

  private async conclude(row: ReceivedRow, mail: ReceivedMail | null): Promise<void> {
    const { deps } = this;
    const { db, log } = deps;
    const envelope = JSON.parse(row.envelope_json) as { from: string; to: string[] };
    const author = mail?.from?.email ?? null;
    const verdicts = await verdictsOn(
      deps,
      { ip: row.client_ip, sender: envelope.from, helo: row.helo },
      {
        signatures: mail?.signatures ?? [],
        from: author === null ? null : author.slice(author.lastIndexOf('@') + 1).toLowerCase(),
      },
    );
    const answered = mail === null ? null : await answeredBy(deps, row.account_id, mail);
    const columns = columnsAfter(mail, verdicts, answered, addressKey(author ?? envelope.from));
    const isFirst = await db.commit.transact((tx) => write(tx, { ...row, ...columns }, columns, deps.clock.now()));
    if (!isFirst) return;
    deps.notifiers.events.notify();
    const { id, account_id, domain, size } = row;
    const answers = answered?.messageId ?? null;
    const fields = {
      received_id: id,
      account_id,
      domain,
      size,
      spf: verdicts.spf.result,
      dmarc: verdicts.dmarc?.result,
    };
    log.info({ event: 'received', ...fields, status: columns.status, answers }, 'a mail to a domain that receives');
    await this.noteReader(answered);
  }

  /** An author of an answer has read the mail, even if only a machine has fetched its pixel. */
  private async noteReader(answered: Answered | null): Promise<void> {
    if (answered?.unseenDelivery == null) return;
    const hit = { at: this.deps.clock.now(), ip: null, userAgent: null, bot: null };
    const change = { kind: 'opened', hit, client: null, os: null, device: null } as const;
    await this.deps.recorder.record([{ deliveryId: answered.unseenDelivery, change }]);
  }
}

const strangerAt = (ip: string, domain: string): Stranger => ({ network: siteOf(ip), deliveryId: null, domain });

type Columns = Partial<ReceivedRow> & { status: ReceivedRow['status'] };

/** Returns the columns that reading a mail fills; those of one that cannot be read keep what the listener wrote. */
function columnsAfter(
  mail: ReceivedMail | null,
  { spf, dkim, dmarc }: Verdicts,
  answered: Answered | null,
  fromKey: string,
): Columns {
  if (mail === null) return { ...columnsOf(table, { spf }), status: 'unreadable', from_key: fromKey };
  const { signatures: _signatures, copy: _copy, date, ...members } = mail;
  const answers = answered?.messageId ?? null;
  return {
    ...columnsOf(table, { ...members, date: rfc3339(date), spf, dkim, dmarc, answers }),
    status: 'read',
    from_key: fromKey,
  };
}

/** Writes what was read with its event. Returns false if that was done already, or the mail is deleted. */
async function write(tx: Connection, row: ReceivedRow, columns: Columns, now: number): Promise<boolean> {
  const names = Object.keys(columns) as (keyof Columns)[];
  const written = await tx.all(
    `UPDATE received SET ${names.map((name) => `${name} = ?`).join(', ')} WHERE id = ? AND status = 'new' RETURNING id`,
    [...names.map((name) => columns[name] ?? null), row.id],
  );
  if (written.length === 0) return false;
  const event: EventRow = {
    id: newId('evt', now),
    account_id: row.account_id,
    type: 'received',
    at: row.at,
    test: 0,
    message_id: row.answers ?? row.id,
    delivery_id: row.id,
    status: 'delivered',
    machine: 0,
    detail_json: JSON.stringify(receivedMembers({ ...row, ...noBodies })),
  };
  await insertRows(tx, [{ events: [event] }]);
  return true;
}

interface Waits {
  mails: number;
  bytes: number;
}

/** Counts the mails of an account that an endpoint has not got, up to the limit. */
async function waitingFor(db: Connection, accountId: string): Promise<Waits> {
  const most = budgets.received_waiting.most;
  const count = async (sql: string, values: readonly (string | number)[]): Promise<Waits> => {
    const [row] = await db.all<{ mails: number; bytes: number | null }>(
      `SELECT COUNT(*) AS mails, SUM(size) AS bytes FROM (${sql} LIMIT ?) AS found`,
      [...values, most],
    );
    return { mails: row?.mails ?? 0, bytes: row?.bytes ?? 0 };
  };
  const [fresh, again] = await Promise.all([
    count(
      `SELECT r.size FROM events e JOIN received r ON r.id = e.delivery_id
       WHERE e.account_id = ? AND e.test = 0 AND e.type = 'received' AND e.sequence > (
         SELECT MIN(cursor) FROM webhooks WHERE account_id = ? AND status <> 'disabled' AND events_json LIKE '%"received"%')`,
      [accountId, accountId],
    ),
    count(
      `SELECT r.size FROM webhooks w JOIN webhook_calls c ON c.webhook_id = w.id JOIN events e ON e.sequence = c.sequence
       JOIN received r ON r.id = e.delivery_id WHERE w.account_id = ?`,
      [accountId],
    ),
  ]);
  return { mails: fresh.mails + again.mails, bytes: fresh.bytes + again.bytes };
}
