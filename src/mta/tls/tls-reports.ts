/**
 * Sends the TLS reports of RFC 8460: once a day to each recipient domain that asks for them, by mail from the operator's address or
 * by HTTPS. A step of housekeeping plans the reports of finished days at random times, or sends one that is due.
 *
 *   plan      days that are over and have sessions: a row each, due within four hours
 *   send      asks DNS for the recipients; the row is marked before a report leaves, so a crash loses a report and never sends two
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
import { DAY_MS, HOUR_MS, MINUTE_MS, dayOf } from '../../base/time.ts';

export interface TlsReportsDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  resolver: Pick<Resolver, 'txt'>;
  accept: AcceptDeps;
  fetch: Pick<SafeFetch, 'send'>;
  /** Returns the account in which this domain is verified, or null. */
  accountOf(domain: string): Promise<string | null>;
  random: () => number;
}

export interface TlsReportsOptions {
  /** `smtp.operatorAddress`: the reports' From and contact. */
  from: string;
  /** The organisation that reports: `smtp.hostname`. */
  submitter: string;
}

/** RFC 8460 section 4.1: reports are spread over this time, in ms, so that they do not all arrive in the same second. */
const SPREAD_MS = 4 * HOUR_MS;
/** Days after which a report is of no use. */
const OLDEST_DAYS = 3;
const RETRY_MS = HOUR_MS;
/** By this time after midnight every node has written its counts of the day, which it does once a minute (tls-tally.ts). */
const COUNTED_MS = 120_000;
const MOST_TRIES = 24;
const KEPT_DAYS = 35;
const PLANNED_AT_ONCE = 200;
const MOST_KINDS = 1000;

const zipped = promisify(gzip);

/** Returns the rule of housekeeping that sends the reports. */
export function createTlsReports(deps: TlsReportsDeps, options: TlsReportsOptions) {
  const reporter = new TlsReporter(deps, options);
  return { name: 'TLS reports', everyMs: 5 * MINUTE_MS, stepRows: 1, step: () => reporter.step() };
}

class TlsReporter {
  private readonly deps: TlsReportsDeps;
  private readonly options: TlsReportsOptions;

  constructor(deps: TlsReportsDeps, options: TlsReportsOptions) {
    this.deps = deps;
    this.options = options;
  }

  async step(): Promise<number> {
    const removed = await removeOld(this.deps.db, dayOf(this.deps.clock.now() - KEPT_DAYS * DAY_MS));
    const planned = await this.plan();
    const [due] = await this.deps.db.prepared.all<TlsReportRow>(
      "SELECT * FROM tls_reports WHERE state = 'planned' AND due_at <= ? ORDER BY due_at LIMIT 1",
      [this.deps.clock.now()],
    );
    if (due === undefined) return removed + planned;
    await this.send(due);
    return 1;
  }

  private async plan(): Promise<number> {
    const now = this.deps.clock.now();
    const found = await this.deps.db.prepared.all<Pick<TlsReportRow, 'day' | 'domain'>>(
      `SELECT DISTINCT s.day, s.domain FROM tls_sessions s WHERE s.day >= ? AND s.day < ?
       AND NOT EXISTS (SELECT 1 FROM tls_reports r WHERE r.day = s.day AND r.domain = s.domain) LIMIT ?`,
      [dayOf(now - OLDEST_DAYS * DAY_MS), dayOf(now - COUNTED_MS), PLANNED_AT_ONCE],
    );
    const due = (): number => now + Math.floor(this.deps.random() * SPREAD_MS);
    const rows = found.map((one): TlsReportRow => ({
      ...one,
      state: 'planned',
      due_at: due(),
      tries: 0,
      detail: null,
      served_json: null,
    }));
    if (rows.length > 0) await this.deps.db.commit.insert({ tls_reports: rows });
    return rows.length;
  }

  private async send(row: TlsReportRow): Promise<void> {
    const answer = await this.deps.resolver.txt(`_smtp._tls.${row.domain}`);
    if (answer.kind === 'trouble') {
      await this.later(row, answer.text);
      return;
    }
    const wanted = answer.kind === 'found' ? readTlsReportRecord(answer.records) : null;
    if (wanted === null) {
      await this.close(row, 'unwanted', null);
      return;
    }
    const served = new Set(row.served_json === null ? [] : (JSON.parse(row.served_json) as string[]));
    let report: TlsReport;
    try {
      report = await reportOf(this.deps.db, row, this.options);
    } catch (error) {
      // One that cannot be read must not keep the others back.
      await this.later(row, `the report could not be read: ${String(error)}`, served.size > 0);
      return;
    }
    const body = await zipped(writeTlsReport(report));
    await this.close(row, 'sending', wanted.join(', '));
    const faults: string[] = [];
    for (const uri of wanted.filter((one) => !served.has(one))) {
      const fault = /^https:/i.test(uri) ? await this.post(uri, body) : await this.mail(uri, row, report, body);
      if (fault === null) {
        served.add(uri);
        this.deps.log.info(
          { event: 'tls_report_sent', domain: row.domain, day: row.day, to: uri },
          'a TLS report was sent',
        );
      } else faults.push(`${uri}: ${fault}`);
    }
    if (faults.length === 0) await this.close(row, 'sent', wanted.join(', '));
    else await this.later({ ...row, served_json: JSON.stringify([...served]) }, faults.join('; '), served.size > 0);
  }

  private async post(url: string, bytes: Buffer): Promise<string | null> {
    const answer = await this.deps.fetch.send({
      method: 'POST',
      url,
      headers: { 'Content-Type': 'application/tlsrpt+gzip' },
      bytes,
    });
    if (answer.kind === 'failed') return answer.text;
    return answer.status >= 200 && answer.status < 300 ? null : `the answer was ${String(answer.status)}`;
  }

  /** Sends the report as an ordinary mail: signed, retried, and in the account that the operator's domain belongs to. */
  private async mail(uri: string, row: TlsReportRow, report: TlsReport, body: Buffer): Promise<string | null> {
    const [from, to] = [mailboxOf(this.options.from), mailboxOf(uri.slice('mailto:'.length))];
    if (from === null || to === null) return 'this is not an address';
    const accountId = await this.deps.accountOf(from.domain);
    if (accountId === null) return `${from.domain} is not a verified domain of this server`;
    const now = this.deps.clock.now();
    const id = newId('msg', now);
    const messageId = `<${id}@${from.domain}>`;
    const bytes = tlsReportMail({
      from: from.address,
      to: to.address,
      date: new Date(now),
      messageId,
      domain: row.domain,
      submitter: this.options.submitter,
      report,
      gzip: body,
    });
    try {
      await acceptSingle(
        this.deps.accept,
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

  /** Plans the report again in an hour for the recipients that have none; after the last try it is `sent` if one of them has it. */
  private async later(row: TlsReportRow, why: string, isServed = false): Promise<void> {
    const tries = row.tries + 1;
    const isOver = tries >= MOST_TRIES;
    const state = !isOver ? 'planned' : isServed ? 'sent' : 'failed';
    if (isOver)
      this.deps.log.warn(
        { event: 'tls_report_failed', domain: row.domain, day: row.day, reason: why },
        'a TLS report could not be sent',
      );
    const detail = isOver && isServed ? `not sent to ${why}` : why;
    await this.deps.db.commit.transact((tx) =>
      tx.run(
        'UPDATE tls_reports SET state = ?, tries = ?, due_at = ?, detail = ?, served_json = ? WHERE day = ? AND domain = ?',
        [state, tries, this.deps.clock.now() + RETRY_MS, detail.slice(0, 500), row.served_json, row.day, row.domain],
      ),
    );
  }

  private async close(row: TlsReportRow, state: TlsReportRow['state'], detail: string | null): Promise<void> {
    await this.deps.db.commit.transact((tx) =>
      tx.run('UPDATE tls_reports SET state = ?, detail = ? WHERE day = ? AND domain = ?', [
        state,
        detail?.slice(0, 500) ?? null,
        row.day,
        row.domain,
      ]),
    );
  }
}

function mailboxOf(address: string): Mailbox | null {
  const parsed = parseMailbox(address, { smtputf8: false });
  return parsed.kind === 'ok' ? parsed.mailbox : null;
}

/** Returns the report of a day (RFC 8460 section 4.4). */
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

/** The tables with rows of past days, and their keys. */
const agedByDay = [
  ['tls_sessions', { key: ['day', 'domain', 'policy', 'base', 'result', 'mx', 'ip', 'local_ip', 'reason'] }],
  ['tls_policies', { key: ['day', 'domain', 'policy', 'base'] }],
  ['tls_reports', { key: ['day', 'domain'] }],
] as const;

async function removeOld({ commit, prepared: fast }: TlsReportsDeps['db'], before: string): Promise<number> {
  const [old] = await fast.all('SELECT 1 FROM tls_sessions WHERE day < ? LIMIT 1', [before]);
  if (old === undefined) return 0;
  await commit.transact(async (tx) => {
    for (const [table, { key }] of agedByDay)
      await tx.run(
        `DELETE FROM ${table} WHERE (${key.join(', ')}) IN (SELECT ${key.join(', ')} FROM ${table} WHERE day < ? LIMIT 500)`,
        [before],
      );
  });
  return 1;
}
