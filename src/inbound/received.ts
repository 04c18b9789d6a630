/** Takes mail to domains that receive: reads it off the main loop, has its sender checked, and writes all with its one `received` event. */
import { budgets, type BudgetName } from '../base/budgets.ts';
import { newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { addressKey } from '../mail/address.ts';
import { isSignedBy, type Signature } from '../mail/dkim/verify.ts';
import { checkDmarc, checkSpf, type Look, type SpfQuestion } from '../mail/authentication.ts';
import type { ReceivedMail } from '../mail/received-mail.ts';
import { deliveryOfCopy } from '../messages/delivery/return-path.ts';
import { noBodies, receivedMembers, sourceOf } from '../messages/received/received-store.ts';
import type { Connection } from '../storage/connection.ts';
import { columnsOf } from '../storage/record.ts';
import { insertRows } from '../storage/rows.ts';
import { received as table, type EventRow, type ReceivedRow } from '../storage/tables.ts';
import type { InboundContext, ReceivingDomain } from './context.ts';
import { Inbox } from './inbox.ts';
import type { Session } from './listener.ts';
import { siteOf } from '../net/ip.ts';
import type { MxBudgets, Stranger } from './mx-budgets.ts';
import { messageNamed } from './report-owner.ts';

/** The row of a mail that has come and was not read. */
export const newReceived = (
  { ip, helo, sender, recipients }: Pick<Session<never>, 'ip' | 'helo' | 'sender' | 'recipients'>,
  { account_id, name: domain }: ReceivingDomain,
  size: number,
  at: number,
): ReceivedRow => ({
  ...{ id: newId('rcv', at), account_id, domain, at, size, client_ip: ip, helo },
  envelope_json: JSON.stringify({ from: sender, to: recipients }),
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
});

interface NewMail {
  id: string;
  row: ReceivedRow;
  raw: Buffer;
}

const strangerIn = (row: Pick<ReceivedRow, 'account_id' | 'domain' | 'client_ip'>): Stranger => ({
  network: siteOf(row.client_ip),
  deliveryId: null,
  receiving: { account_id: row.account_id, name: row.domain },
});

const BUFFERED_BYTES = 64 * 1024 * 1024;
const AT_WORK = 8;
/** Time after which the mails that wait for an account's webhooks are counted again. */
const WAITING_FRESH_MS = 30_000;
const KEPT_FRESH_MS = 60_000;
const KEPT_SHARE = 0.2;

export class ReceivedMails {
  readonly inbox: Inbox<NewMail>;
  private readonly context: InboundContext;
  private readonly ofNetworks: Pick<MxBudgets, 'noteReading'>;
  private readonly mostKept: number;
  private readonly waits;
  /** Bytes of all sources at the last look, with those that came since. */
  private kept = 0;
  private keptAt = -Infinity;

  /** `diskBytes`: the size of the disk with the data folder. */
  constructor(context: InboundContext, ofNetworks: Pick<MxBudgets, 'noteReading'>, diskBytes: number) {
    this.context = context;
    this.ofNetworks = ofNetworks;
    this.mostKept = Math.min(budgets.received_kept.most, diskBytes * KEPT_SHARE);
    this.waits = createLookUpCache(context, { max: 1000, freshMs: WAITING_FRESH_MS }, (accountId: string) =>
      waitingFor(context.db.prepared, accountId),
    );
    this.inbox = new Inbox(context, {
      bounds: { all: 'received_unread', each: 'received_unread_domain' },
      mostBuffered: BUFFERED_BYTES,
      mostAtWork: AT_WORK,
      mostReading: 1,
      mailOf(session, raw, size, { receiving = { account_id: '', name: '' } }) {
        const row = newReceived(session, receiving, size, context.clock.now());
        return { id: row.id, row, raw };
      },
      write: async ({ id, row, raw }) => {
        const rows = { received: [row], received_sources: [{ received_id: id, raw }] };
        await context.db.commit.insert(rows, row.size);
        this.kept += row.size;
      },
      alsoFull: (stranger) => this.full(stranger),
      left: async () => (await unreadIn(context.db.prepared)).map((row) => ({ id: row.id, ...strangerIn(row) })),
      load: (id) => load(context.db.prepared, id),
      read: ({ row, raw }) => this.read(row, raw),
      failed(err) {
        context.log.error({ event: 'received_failed', err }, 'received mail could not be read: tried again');
      },
    });
  }

  private async full({ receiving }: Stranger): Promise<BudgetName | null> {
    if (await this.isStoreFull()) return 'received_kept';
    const { mails, bytes } = await this.waits.get(receiving?.account_id ?? '');
    if (mails >= budgets.received_waiting.most) return 'received_waiting';
    return (bytes ?? 0) >= budgets.received_waiting_bytes.most ? 'received_waiting_bytes' : null;
  }

  /** Looks at all rows at the start, and once a minute while there seems to be too much. */
  private async isStoreFull(): Promise<boolean> {
    const now = this.context.clock.monotonic();
    if (this.keptAt === -Infinity || (this.kept > this.mostKept && now - this.keptAt > KEPT_FRESH_MS)) {
      this.keptAt = now;
      const [row] = await this.context.db.maintenance.all<{ bytes: number | null }>(
        'SELECT SUM(size) AS bytes FROM received',
      );
      this.kept = row?.bytes ?? 0;
    }
    return this.kept > this.mostKept;
  }

  /** Reads a mail. Resolves with the act that has its sender checked, and writes it. */
  private async read(row: ReceivedRow, raw: Buffer): Promise<() => Promise<void>> {
    const { mailViewer, clock, log } = this.context;
    const from = clock.monotonic();
    const mail = await mailViewer.received(raw);
    this.ofNetworks.noteReading(strangerIn(row), clock.monotonic() - from);
    if (mail === null)
      log.warn({ event: 'received_unreadable', received_id: row.id }, 'a received mail could not be taken apart');
    return () => this.conclude(row, mail);
  }

  private async conclude(row: ReceivedRow, mail: ReceivedMail | null): Promise<void> {
    const { context } = this;
    const { db, log } = context;
    const envelope = JSON.parse(row.envelope_json) as { from: string; to: string[] };
    const author = mail?.from?.email ?? null;
    const verdicts = await verdictsOn(
      context,
      { ip: row.client_ip, sender: envelope.from, helo: row.helo },
      {
        signatures: mail?.signatures ?? [],
        from: author === null ? null : author.slice(author.lastIndexOf('@') + 1).toLowerCase(),
      },
    );
    const answered = mail === null ? null : await answeredBy(context, row.account_id, mail);
    const columns = columnsAfter(mail, verdicts, answered, addressKey(author ?? envelope.from));
    const isFirst = await db.commit.transact((tx) => write(tx, { ...row, ...columns }, columns, context.clock.now()));
    if (!isFirst) return;
    context.notifiers.events.notify();
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
  private async noteReader(answered: Answered): Promise<void> {
    if (answered?.unseenDelivery == null) return;
    const hit = { at: this.context.clock.now(), ip: null, userAgent: null, bot: null };
    const change = { kind: 'opened', hit, client: null, os: null, device: null } as const;
    await this.context.recorder.record([{ deliveryId: answered.unseenDelivery, change }]);
  }
}

const unreadIn = (db: Connection): Promise<Pick<ReceivedRow, 'id' | 'account_id' | 'client_ip' | 'domain'>[]> =>
  db.all("SELECT id, account_id, client_ip, domain FROM received WHERE status = 'new' ORDER BY id");

async function load(db: Connection, id: string): Promise<NewMail | null> {
  const [row] = await db.all<ReceivedRow>("SELECT * FROM received WHERE id = ? AND status = 'new'", [id]);
  const raw = row === undefined ? null : await sourceOf(db, id);
  return row === undefined || raw === null ? null : { id, row, raw };
}

type Columns = Partial<ReceivedRow> & { status: ReceivedRow['status'] };

/** Returns the columns that reading a mail fills; those of one that cannot be read keep what the listener wrote. */
function columnsAfter(
  mail: ReceivedMail | null,
  { spf, dkim, dmarc }: Verdicts,
  answered: Answered,
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

/** Counts the mails of an account that an endpoint has not got, or gets again, up to the limit. */
async function waitingFor(db: Connection, accountId: string): Promise<{ mails: number; bytes: number | null }> {
  const [row] = await db.all<{ mails: number; bytes: number | null }>(
    `SELECT COUNT(*) AS mails, SUM(size) AS bytes FROM (
       SELECT r.size FROM events e JOIN received r ON r.id = e.delivery_id
       WHERE e.account_id = ? AND e.test = 0 AND e.type = 'received' AND e.sequence > (
         SELECT MIN(cursor) FROM webhooks WHERE account_id = ? AND status <> 'disabled' AND events_json LIKE '%"received"%')
       UNION ALL
       SELECT r.size FROM webhooks w JOIN webhook_calls c ON c.webhook_id = w.id JOIN events e ON e.sequence = c.sequence
       JOIN received r ON r.id = e.delivery_id WHERE w.account_id = ?
       LIMIT ?) AS found`,
    [accountId, accountId, accountId, budgets.received_waiting.most],
  );
  return row ?? { mails: 0, bytes: 0 };
}

type Answered = Awaited<ReturnType<typeof answeredBy>>;

/** Finds the message that a mail answers: by In-Reply-To and References, then by a copy's mark; in this account, since ids can be forged. */
async function answeredBy({ db, keys }: InboundContext, accountId: string, mail: ReceivedMail) {
  const { in_reply_to: first, references, copy, from } = mail;
  const named = new Set([...(first === null ? [] : [first]), ...[...references].reverse()]);
  const idOf = async (sql: string, values: string[]): Promise<string | null> =>
    (await db.prepared.all<{ id: string }>(`${sql} AND account_id = ? LIMIT 1`, [...values, accountId]))[0]?.id ?? null;
  let messageId: string | null = null;
  for (const id of named) {
    const { condition, value } = messageNamed(id);
    messageId ??= await idOf(`SELECT m.id FROM messages m WHERE ${condition}`, [value]);
  }
  const delivery = copy === null ? null : deliveryOfCopy(keys, copy);
  if (delivery !== null) messageId ??= await idOf('SELECT message_id AS id FROM deliveries WHERE id = ?', [delivery]);
  if (messageId === null) return null;
  const [unseen] = await db.prepared.all<{ id: string }>(
    `SELECT d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
     WHERE d.message_id = ? AND d.address_key = ? AND m.opens = 0 AND m.bot_opens > 0 LIMIT 1`,
    [messageId, from === null ? '' : addressKey(from.email)],
  );
  /** The delivery to the author if it was opened by machines alone; null without one. */
  const unseenDelivery = unseen?.id ?? null;
  return { messageId, unseenDelivery };
}

type Verdicts = Awaited<ReturnType<typeof verdictsOn>>;

/** The limit of all look-ups about one mail; what has not come by then is trouble. */
const LONGEST_MS = 20_000;

/** Checks the sender of a mail by SPF, DKIM and DMARC. Nothing is refused because of it: the application decides. `signatures` and `from` (the domain of the author) are as the mail has them. */
async function verdictsOn(
  { clock, resolver }: Pick<InboundContext, 'clock' | 'resolver'>,
  question: SpfQuestion,
  { signatures, from }: { signatures: readonly Signature[]; from: string | null },
) {
  let timeUp: () => void = () => undefined;
  const over = new Promise<{ kind: 'trouble' }>((resolve) => {
    timeUp = () => resolve({ kind: 'trouble' });
  });
  const timer = clock.after(LONGEST_MS, timeUp, { background: true });
  const look: Look = async (type, name) => {
    const answer = await Promise.race([resolver[type](name), over]);
    if (answer.kind === 'trouble') return null;
    const records = answer.kind === 'found' ? answer.records : [];
    return records.map((record) => (typeof record === 'string' ? record : record.exchange));
  };
  try {
    const [spf, dkim] = await Promise.all([
      checkSpf(look, question),
      Promise.all(signatures.map((one) => checkDkim(look, one))),
    ]);
    const passed = {
      spf: spf.result === 'pass' ? [spf.domain] : [],
      dkim: dkim.flatMap(({ result, domain }) => (result === 'pass' ? [domain] : [])),
    };
    // Null for a mail without one author.
    return { spf, dkim, dmarc: from === null ? null : await checkDmarc(look, from, passed) };
  } finally {
    timer.cancel();
  }
}

async function checkDkim(look: Look, { domain, selector, claim }: Signature) {
  const keys = claim === null ? [] : await look('txt', `${selector}._domainkey.${domain}`);
  const isGood = claim !== null && keys?.some((key) => isSignedBy(claim, key)) === true;
  return { result: keys === null ? 'temperror' : isGood ? 'pass' : 'fail', domain, selector } as const;
}
