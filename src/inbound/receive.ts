/**
 * What came to our addresses, from the row that the listener left to what it means: read it (in a thread), find whose it is,
 * record what happened. A row is done when what it says is written; after a crash it is read again, and a happening that was
 * recorded already changes nothing a second time.
 *
 *   next        the oldest rows nobody has read
 *   reader      what is it? (classify.ts)
 *   matched     whose is it? the token, else the message's id
 *   occurrence  what happened to the delivery
 */
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { addressKey } from '../mail/address.ts';
import type { Happening } from '../messages/delivery.ts';
import type { Recorder } from '../messages/record.ts';
import { deliveryOf, unsubscribedDelivery, type ReturnPathKey } from '../messages/return-path.ts';
import { hintsOf, type DueHint } from '../messages/due-hint.ts';
import { ownMailRows, type OwnMailRows } from '../messages/own-mail.ts';
import type { RetryRule } from '../messages/retry.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import type { DeliveryRow, ReportRow } from '../storage/tables.ts';
import { aggregateRows, aggregateSummary, domainsOf, type Aggregate } from './aggregate.ts';
import { findingRecord, type Finding } from './finding.ts';
import { FORWARDED_AN_HOUR, forwardOf, isForOperator, type ForwardRule } from './forward.ts';
import type { ReportReader } from './report-reader.ts';

export interface ReceiveDeps {
  clock: Clock;
  log: Log;
  db: { commit: Committer; fast: Connection };
  recorder: Pick<Recorder, 'record'>;
  bells: { reports: Bell; deliveries: Bell<readonly DueHint[]> };
  keys: readonly ReturnPathKey[];
  reader: ReportReader;
  /** Where mail of people goes. */
  forward: ForwardRule & { retry: Pick<RetryRule, 'maxAge'> };
  ownAccount: { ensure(): Promise<void> };
  /** Whether mail for this host is ours. */
  isOurHost(host: string): Promise<boolean>;
}

export interface Receiver {
  start(): void;
  /** Ends after the reports that are being read. */
  stop(): Promise<void>;
}

/** Reports in hand side by side: so many share their commits, and the thread that reads never waits for one of them. */
const AT_ONCE = 32;
const BATCH = 64;
/** After a failure of storage. */
const PATIENCE_MS = 1000;
const HOUR_MS = 3_600_000;

type NewReport = Pick<ReportRow, 'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'>;
type Owner = Pick<DeliveryRow, 'id' | 'account_id' | 'message_id' | 'address' | 'address_key'> & { stream: string };

export function createReceiver(deps: ReceiveDeps): Receiver {
  const { clock, log, db } = deps;
  let unlisten: (() => void) | null = null;
  let running: Promise<void> | null = null;
  let isRung = false;
  let stopping = false;

  function look(): void {
    isRung = true;
    running ??= work().finally(() => {
      running = null;
      if (isRung && !stopping) look();
    });
  }

  async function work(): Promise<void> {
    while (isRung && !stopping) {
      isRung = false;
      try {
        let rows: NewReport[];
        do {
          rows = await next(db.fast);
          await inTurns(rows, receive);
        } while (rows.length === BATCH && !keepsOn());
      } catch (error) {
        log.error({ event: 'reports_failed', err: error }, 'reports could not be worked on: tried again');
        await clock.sleep(PATIENCE_MS);
        isRung = true;
      }
    }
  }

  const keepsOn = (): boolean => stopping;

  async function inTurns(rows: readonly NewReport[], each: (row: NewReport) => Promise<void>): Promise<void> {
    const rest = [...rows];
    const worker = async (): Promise<void> => {
      for (let row = rest.shift(); row !== undefined && !stopping; row = rest.shift()) await each(row);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  async function receive(row: NewReport): Promise<void> {
    const envelope = JSON.parse(row.recipients_json) as string[];
    const result = await deps.reader.read(row.raw, envelope);
    if (result.kind === 'unreadable') {
      if (result.why === 'closed' || result.why === 'full') return;
      log.warn({ event: 'report_unreadable', report_id: row.id, reason: result.why }, 'a mail to us could not be read');
      await close(row.id, { state: 'unreadable', kind: 'other', owner: null, detail: {} });
      return;
    }
    const { finding } = result;
    if (finding.aggregate !== undefined) {
      await keep(row, finding, finding.aggregate);
      return;
    }
    if (isForOperator(row, finding)) {
      await forward(row, finding);
      return;
    }
    const owner = await matched(deps, finding);
    const happening = owner === null ? null : await happeningOf(deps, row, finding, owner);
    if (owner !== null && happening !== null) await deps.recorder.record([{ deliveryId: owner.id, happening }]);
    const state = owner === null && needsOwner(finding) ? 'unmatched' : 'done';
    log.info(
      { event: 'report', report_id: row.id, kind: finding.kind, state, message_id: owner?.message_id ?? null, delivery_id: owner?.id ?? null, recorded: happening?.kind ?? null },
      'a mail to one of our addresses',
    ); // prettier-ignore
    await close(row.id, { state, kind: finding.kind, owner, detail: findingRecord(finding) });
  }

  /** In one transaction with its row, so that it goes once. */
  async function forward(row: NewReport, finding: Finding): Promise<void> {
    const now = clock.now();
    const mail = forwardOf(deps.forward, row, now);
    if (mail !== null) await deps.ownAccount.ensure();
    const sent = await db.commit.transact(async (tx): Promise<OwnMailRows | null> => {
      const rows = mail === null || (await isFloodOf(tx, now)) ? null : ownMailRows(mail, now, deps.forward.retry);
      const state = rows === null ? 'kept' : 'forwarded';
      await tx.run('UPDATE reports SET state = ?, kind = ?, detail_json = ? WHERE id = ?', [state, finding.kind, JSON.stringify(findingRecord(finding)), row.id]); // prettier-ignore
      if (rows !== null) await insertRows(tx, [rows]);
      return rows;
    });
    log.info({ event: 'report', report_id: row.id, kind: finding.kind, state: sent === null ? 'kept' : 'forwarded' }, 'a mail to one of our addresses'); // prettier-ignore
    if (sent !== null) deps.bells.deliveries.ring(hintsOf(sent));
  }

  /**
   * A report about a domain that is not ours is kept as a mail, as one that belongs to nobody. One that came before adds nothing,
   * also where both are read at once: the first to be written counts.
   */
  async function keep(row: NewReport, finding: Finding, aggregate: Aggregate): Promise<void> {
    const own = await ownDomains(deps, domainsOf(aggregate));
    const state = own.length === 0 ? 'unmatched' : 'done';
    const { isKnown, counted } = await db.commit.transact(async (tx) => {
      const fresh = await uncounted(tx, row.id, aggregate, own);
      const rows = aggregateRows(row.id, aggregate, new Set(fresh));
      const known = own.length > 0 && fresh.length === 0;
      const summary = { ...aggregateSummary(aggregate), already_counted: known };
      const detail = JSON.stringify({ ...findingRecord(finding), aggregate: summary });
      await insertRows(tx, [rows]);
      await tx.run('UPDATE reports SET state = ?, kind = ?, detail_json = ? WHERE id = ?', [state, finding.kind, detail, row.id]); // prettier-ignore
      return { isKnown: known, counted: (rows.dmarc_rows?.length ?? 0) + (rows.tls_report_rows?.length ?? 0) };
    });
    log.info({ event: 'report', report_id: row.id, kind: finding.kind, state, ...aggregateSummary(aggregate), already_counted: isKnown, rows: counted }, 'a mail to one of our addresses'); // prettier-ignore
  }

  function close(
    id: string,
    end: { state: ReportRow['state']; kind: Finding['kind']; owner: Owner | null; detail: object },
  ): Promise<unknown> {
    const { state, kind, owner, detail } = end;
    return db.commit.transact(async (tx) => {
      await tx.run('UPDATE reports SET state = ?, kind = ?, account_id = ?, message_id = ?, delivery_id = ?, detail_json = ? WHERE id = ?', [
        state, kind, owner?.account_id ?? null, owner?.message_id ?? null, owner?.id ?? null, JSON.stringify(detail), id,
      ]);
    }); // prettier-ignore
  }

  return {
    start() {
      unlisten = deps.bells.reports.listen(look);
      look();
    },
    async stop() {
      stopping = true;
      unlisten?.();
      await running;
      await deps.reader.close();
    },
  };
}

const next = (db: Connection): Promise<NewReport[]> =>
  db.all<NewReport>('SELECT id, received_at, client_ip, sender, recipients_json, size, raw FROM reports WHERE kind IS NULL ORDER BY id LIMIT ?', [BATCH]); // prettier-ignore

async function isFloodOf(tx: Connection, now: number): Promise<boolean> {
  const [row] = await tx.all<{ n: number }>("SELECT COUNT(*) AS n FROM reports WHERE state = 'forwarded' AND received_at > ?", [now - HOUR_MS]); // prettier-ignore
  return (row?.n ?? 0) >= FORWARDED_AN_HOUR;
}

/** Domains that send from here, those above them (where a DMARC policy may stand), and hosts that take mail for us. */
async function ownDomains(
  { db, isOurHost }: Pick<ReceiveDeps, 'db' | 'isOurHost'>,
  about: readonly string[],
): Promise<string[]> {
  const own: string[] = [];
  for (const domain of about.slice(0, MOST_DOMAINS)) {
    if (!/^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+$/.test(domain)) continue;
    const found = await db.fast.all("SELECT 1 FROM domains WHERE name = ? OR substr(name, -length(?)) = ? LIMIT 1", [domain, `.${domain}`, `.${domain}`]); // prettier-ignore
    if (found.length > 0 || (await isOurHost(domain))) own.push(domain);
  }
  return own;
}

const MOST_DOMAINS = 50;

/** Those of the domains that this report has not been counted for yet; from now on it has. Reporters send again what they are not sure of. */
async function uncounted(
  tx: Connection,
  reportId: string,
  aggregate: Aggregate,
  domains: readonly string[],
): Promise<string[]> {
  const { kind, report } = aggregate;
  const fresh: string[] = [];
  for (const domain of domains) {
    const row = await tx.all(
      'INSERT INTO aggregate_reports (kind, org, report_key, domain, from_at, report_id) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING domain',
      [kind, report.organization, report.id, domain, report.from, reportId],
    );
    if (row.length > 0) fresh.push(domain);
  }
  return fresh;
}

const needsOwner = ({ kind }: Finding): boolean =>
  kind === 'bounce' || kind === 'delay' || kind === 'complaint' || kind === 'unsubscribe';

const OWNER = `SELECT d.id, d.account_id, d.message_id, d.address, d.address_key, m.stream FROM deliveries d JOIN messages m ON m.id = d.message_id`;

/** The delivery that the mail is about: by a token that only we can have made; a complaint also by the message it brings back. */
async function matched({ db, keys }: Pick<ReceiveDeps, 'db' | 'keys'>, finding: Finding): Promise<Owner | null> {
  const { kind, token } = finding;
  const deliveryId =
    token === null ? null : kind === 'unsubscribe' ? unsubscribedDelivery(keys, `unsub+${token}`) : deliveryOf(keys, `b+${token}`); // prettier-ignore
  if (deliveryId !== null) {
    const [owner] = await db.fast.all<Owner>(`${OWNER} WHERE d.id = ?`, [deliveryId]);
    return owner ?? null;
  }
  return kind === 'complaint' ? byMessage(db.fast, finding) : null;
}

/** RFC 5965: many reports leave out the recipient, and all bring the message. Of several recipients it must say which. */
async function byMessage(db: Connection, { messageId, recipients }: Finding): Promise<Owner | null> {
  if (messageId === null) return null;
  const [own] = /^<?msg_[0-7][0-9a-hjkmnp-tv-z]{25}(?=@|$)/.exec(messageId) ?? [];
  const owners = await db.all<Owner>(
    own === undefined
      ? `${OWNER} WHERE m.rfc_message_id = ? AND substr(m.rfc_message_id, 1, 5) <> '<msg_' LIMIT 100`
      : `${OWNER} WHERE m.id = ? LIMIT 100`,
    [own === undefined ? messageId : own.replace('<', '')],
  );
  const named = new Set(recipients.map(({ address }) => addressKey(address)));
  const matching = owners.filter(({ address_key }) => named.has(address_key));
  const [only, ...others] = matching.length > 0 ? matching : owners;
  return only === undefined || others.length > 0 ? null : only;
}

/** What it means for the delivery; null where it means nothing. */
async function happeningOf(
  { db }: Pick<ReceiveDeps, 'db'>,
  { sender }: NewReport,
  finding: Finding,
  owner: Owner,
): Promise<Happening | null> {
  switch (finding.kind) {
    case 'bounce':
      return countsAsReport(sender, finding) ? bounced(finding, owner) : null;
    case 'complaint':
      return complained(finding);
    case 'unsubscribe':
      return (await isUnsubscribed(db.fast, owner)) ? null : { kind: 'unsubscribed', method: 'mailto' };
    case 'delay':
    case 'auto_reply':
    case 'report':
    case 'other':
      return null;
  }
}

/** A token may leak to whoever gets the mail: a report must also look like one, in its sender or in its form. */
function countsAsReport(sender: string, { isWellFormed }: Finding): boolean {
  return isWellFormed || sender === '' || /^(?:postmaster|mailer-daemon|mail-daemon|maildaemon|double-bounce|bounce[sd]?|noreply-mailer)@/i.test(sender); // prettier-ignore
}

function bounced({ recipients }: Finding, owner: Owner): Happening {
  const failed = recipients.filter(({ action }) => action === 'failed');
  const keys = (address: string | null): boolean => address !== null && addressKey(address) === owner.address_key;
  const own = failed.find(({ address, original }) => keys(address) || keys(original)) ?? failed[0];
  return {
    kind: 'bounced',
    verdict: own?.verdict ?? { class: 'undetermined', reason: 'other' },
    smtpCode: own?.code ?? null,
    enhancedCode: own?.status ?? null,
    smtpReply: own?.diagnostic ?? null,
  };
}

const feedbackTypes: ReadonlySet<string> = new Set(['abuse', 'fraud', 'not-spam', 'virus']);

function complained({ feedback }: Finding): Happening | null {
  if (feedback?.isAgainstUs === false) return null;
  const at = feedback?.arrivalDate == null ? NaN : Date.parse(feedback.arrivalDate);
  const type = feedback?.type ?? 'abuse';
  return {
    kind: 'complained',
    feedbackType: feedbackTypes.has(type) ? type : 'other',
    source: 'arf',
    arrivalDate: Number.isNaN(at) ? null : at,
    userAgent: feedback?.userAgent ?? null,
  };
}

async function isUnsubscribed(db: Connection, { account_id, address_key, stream }: Owner): Promise<boolean> {
  const [row] = await db.all("SELECT 1 FROM suppressions WHERE account_id = ? AND address_key = ? AND scope = ? AND reason = 'unsubscribe'", [account_id, address_key, `stream:${stream}`]); // prettier-ignore
  return row !== undefined;
}
