/**
 * Sends the TLS reports of RFC 8460: once a day to each recipient domain that asks for them, by mail from the operator's address or
 * by HTTPS. A step of housekeeping plans the reports of finished days at random times, or sends one that is due.
 *
 *   plan      days that are over and have sessions: a row each, due within four hours
 *   send      who wants it? the row is marked before anything leaves, so a crash costs a report and never makes two
 */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Clock } from '../../base/clock.ts';
import { newId } from '../../base/id.ts';
import type { Log } from '../../base/log.ts';
import { Problem } from '../../base/problem.ts';
import type { Resolver } from '../../net/resolver.ts';
import type { SafeFetch } from '../../net/safe-fetch.ts';
import { parseMailbox, type Mailbox } from '../../mail/address.ts';
import { readTlsReportRecord, tlsReportMail, writeTlsReport, type TlsReport } from '../../mail/tls-report.ts';
import { acceptSingle, type AcceptDeps } from '../../messages/accept/accept.ts';
import type { Database } from '../../storage/database.ts';
import type { TlsPolicyRow, TlsReportRow, TlsSessionRow } from '../../storage/tables.ts';

export interface TlsReportsDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  resolver: Pick<Resolver, 'txt'>;
  accept: AcceptDeps;
  fetch: Pick<SafeFetch, 'send'>;
  /** The account in which this domain is verified, or null. */
  accountOf(domain: string): Promise<string | null>;
  random: () => number;
}

export interface TlsReportsOptions {
  /** `smtp.operatorAddress`: the reports' From and contact. */
  from: string;
  /** Who reports: `smtp.hostname`. */
  submitter: string;
}

const DAY_MS = 86_400_000;
/** RFC 8460 section 4.1: reports of everybody would otherwise come in the same second. */
const SPREAD_MS = 4 * 3_600_000;
/** A report that is later tells nobody anything. */
const OLDEST_DAYS = 3;
const RETRY_MS = 3_600_000;
const MOST_TRIES = 24;
const KEPT_DAYS = 35;
const PLANNED_AT_ONCE = 200;
const MOST_KINDS = 1000;

const zipped = promisify(gzip);

/** A rule of housekeeping. */
export function createTlsReports(deps: TlsReportsDeps, options: TlsReportsOptions) {
  const { db, clock, log } = deps;

  async function step(): Promise<number> {
    const removed = await removeOld(db, dayOf(clock.now() - KEPT_DAYS * DAY_MS));
    const planned = await plan();
    const [due] = await db.prepared.all<TlsReportRow>(
      "SELECT * FROM tls_reports WHERE state = 'planned' AND due_at <= ? ORDER BY due_at LIMIT 1",
      [clock.now()],
    );
    if (due === undefined) return removed + planned;
    await send(due);
    return 1;
  }

  async function plan(): Promise<number> {
    const now = clock.now();
    const found = await db.prepared.all<Pick<TlsReportRow, 'day' | 'domain'>>(
      `SELECT DISTINCT s.day, s.domain FROM tls_sessions s WHERE s.day >= ? AND s.day < ?
       AND NOT EXISTS (SELECT 1 FROM tls_reports r WHERE r.day = s.day AND r.domain = s.domain) LIMIT ?`,
      [dayOf(now - OLDEST_DAYS * DAY_MS), dayOf(now), PLANNED_AT_ONCE],
    );
    const due = (): number => now + Math.floor(deps.random() * SPREAD_MS);
    const rows = found.map((one): TlsReportRow => ({
      ...one,
      state: 'planned',
      due_at: due(),
      tries: 0,
      detail: null,
      served_json: null,
    }));
    if (rows.length > 0) await db.commit.insert({ tls_reports: rows });
    return rows.length;
  }

  async function send(row: TlsReportRow): Promise<void> {
    const answer = await deps.resolver.txt(`_smtp._tls.${row.domain}`);
    if (answer.kind === 'trouble') {
      await later(row, answer.text);
      return;
    }
    const wanted = answer.kind === 'found' ? readTlsReportRecord(answer.records) : null;
    if (wanted === null) {
      await close(row, 'unwanted', null);
      return;
    }
    const served = new Set(row.served_json === null ? [] : (JSON.parse(row.served_json) as string[]));
    await close(row, 'sending', wanted.join(', '));
    const report = await reportOf(db, row, options);
    const body = await zipped(writeTlsReport(report));
    const faults: string[] = [];
    for (const uri of wanted.filter((one) => !served.has(one))) {
      const fault = /^https:/i.test(uri) ? await post(uri, body) : await mail(uri, row, report, body);
      if (fault === null) {
        served.add(uri);
        log.info({ event: 'tls_report_sent', domain: row.domain, day: row.day, to: uri }, 'a TLS report was sent');
      } else faults.push(`${uri}: ${fault}`);
    }
    if (faults.length === 0) await close(row, 'sent', wanted.join(', '));
    else await later({ ...row, served_json: JSON.stringify([...served]) }, faults.join('; '), served.size > 0);
  }

  async function post(url: string, bytes: Buffer): Promise<string | null> {
    const answer = await deps.fetch.send({
      method: 'POST',
      url,
      headers: { 'Content-Type': 'application/tlsrpt+gzip' },
      bytes,
    });
    if (answer.kind === 'failed') return answer.text;
    return answer.status >= 200 && answer.status < 300 ? null : `the answer was ${String(answer.status)}`;
  }

  /** As a mail of ours like any other: signed, retried, and in the account that the operator's domain belongs to. */
  async function mail(uri: string, row: TlsReportRow, report: TlsReport, body: Buffer): Promise<string | null> {
    const [from, to] = [mailboxOf(options.from), mailboxOf(uri.slice('mailto:'.length))];
    if (from === null || to === null) return 'this is no address';
    const accountId = await deps.accountOf(from.domain);
    if (accountId === null) return `${from.domain} is no verified domain of this server`;
    const now = clock.now();
    const id = newId('msg', now);
    const messageId = `<${id}@${from.domain}>`;
    const bytes = tlsReportMail({
      from: from.address,
      to: to.address,
      date: new Date(now),
      messageId,
      domain: row.domain,
      submitter: options.submitter,
      report,
      gzip: body,
    });
    try {
      await acceptSingle(
        deps.accept,
        { accountId, keyId: null, mode: 'live', domains: [], requestId: null },
        {
          from,
          to,
          cc: [],
          bcc: [],
          replyTo: [],
          headers: [],
          tags: ['tls-report'],
          metadata: {},
          stream: null,
          subject: `Report Domain: ${row.domain}`,
          content: { html: null, text: null, autoText: false, attachments: [] },
          source: { id, rfcMessageId: messageId, bytes, recipients: [{ type: 'to', mailbox: to }], noticeTo: null },
          requireTls: false,
          sendAt: null,
          expiresAt: null,
          trackOpens: false,
          trackClicks: false,
          unsubscribe: false,
          onSuppressed: 'reject',
          test: null,
        },
        () => ({}),
      );
      return null;
    } catch (error) {
      if (error instanceof Problem) return error.message;
      throw error;
    }
  }

  /** Again in an hour, for those who have no report yet; in the end it is `sent` if somebody has it. */
  async function later(row: TlsReportRow, why: string, isServed = false): Promise<void> {
    const tries = row.tries + 1;
    const isOver = tries >= MOST_TRIES;
    const state = !isOver ? 'planned' : isServed ? 'sent' : 'failed';
    if (isOver)
      log.warn(
        { event: 'tls_report_failed', domain: row.domain, day: row.day, reason: why },
        'a TLS report could not be sent',
      );
    const detail = isOver && isServed ? `not sent to ${why}` : why;
    await db.commit.transact((tx) =>
      tx.run(
        'UPDATE tls_reports SET state = ?, tries = ?, due_at = ?, detail = ?, served_json = ? WHERE day = ? AND domain = ?',
        [state, tries, clock.now() + RETRY_MS, detail.slice(0, 500), row.served_json, row.day, row.domain],
      ),
    );
  }

  async function close(row: TlsReportRow, state: TlsReportRow['state'], detail: string | null): Promise<void> {
    await db.commit.transact((tx) =>
      tx.run('UPDATE tls_reports SET state = ?, detail = ? WHERE day = ? AND domain = ?', [
        state,
        detail?.slice(0, 500) ?? null,
        row.day,
        row.domain,
      ]),
    );
  }

  return { name: 'TLS reports', everyMs: 5 * 60_000, stepRows: 1, step };
}

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

function mailboxOf(address: string): Mailbox | null {
  const parsed = parseMailbox(address, { smtputf8: false });
  return parsed.kind === 'ok' ? parsed.mailbox : null;
}

/** What is known of a day, as the report of RFC 8460 section 4.4. */
async function reportOf(
  db: TlsReportsDeps['db'],
  { day, domain }: Pick<TlsReportRow, 'day' | 'domain'>,
  { from: contact, submitter }: TlsReportsOptions,
): Promise<TlsReport> {
  const sessions = await db.prepared.all<TlsSessionRow>(
    'SELECT * FROM tls_sessions WHERE day = ? AND domain = ? ORDER BY sessions DESC LIMIT ?',
    [day, domain, MOST_KINDS],
  );
  const policies = await db.prepared.all<TlsPolicyRow>(
    'SELECT * FROM tls_policies WHERE day = ? AND domain = ? ORDER BY policy, base',
    [day, domain],
  );
  const from = Date.parse(`${day}T00:00:00Z`);
  return {
    organization: submitter,
    from,
    until: from + DAY_MS - 1000,
    contact,
    id: `${day}.${domain}@${submitter}`,
    policies: policies.map(({ policy, base, strings_json, mx_json }) => {
      const own = sessions.filter((row) => row.policy === policy && row.base === base);
      const failed = own.filter(({ result }) => result !== '');
      return {
        type: policy,
        strings: JSON.parse(strings_json) as string[],
        domain: base === '' ? domain : base,
        mxHosts: JSON.parse(mx_json) as string[],
        successes: total(own) - total(failed),
        failures: total(failed),
        details: failed.map(({ result, local_ip: sourceIp, mx, ip, reason, sessions: n }) => ({
          result,
          sourceIp,
          mx,
          ip,
          reason,
          sessions: n,
        })),
      };
    }),
  };
}

const total = (rows: readonly TlsSessionRow[]): number => rows.reduce((sum, { sessions }) => sum + sessions, 0);

async function removeOld({ commit, prepared: fast }: TlsReportsDeps['db'], before: string): Promise<number> {
  const [old] = await fast.all('SELECT 1 FROM tls_sessions WHERE day < ? LIMIT 1', [before]);
  if (old === undefined) return 0;
  await commit.transact(async (tx) => {
    await tx.run('DELETE FROM tls_sessions WHERE rowid IN (SELECT rowid FROM tls_sessions WHERE day < ? LIMIT 500)', [
      before,
    ]);
    for (const table of ['tls_policies', 'tls_reports'])
      await tx.run(`DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE day < ? LIMIT 500)`, [
        before,
      ]);
  });
  return 1;
}
