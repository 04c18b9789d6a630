/** The aggregate report that a mail brings (DMARC or TLS), and the rows that are kept of it. Pure; the reading is for a thread. */
import { readDmarcReport, readTlsReport, type DmarcReport, type TlsReport, unpack } from '../mail/aggregate-reports.ts';
import { fieldOf, octetsOf, ownPartsOf, type MailPart } from '../mail/mime-read.ts';
import type { DmarcRow, TlsReportLineRow } from '../storage/tables.ts';
import { DAY_MS } from '../base/time.ts';

/** `isUnsound`: most of its records have values that do not exist. */
export type Aggregate = { kind: 'dmarc'; report: DmarcReport; isUnsound: boolean } | { kind: 'tls'; report: TlsReport };

/** Rows of one report: those with the most mails or sessions. What is beyond is left out. */
const MOST_ROWS = 1000;
/** Files looked at in one mail: each may cost the unpacking of megabytes. */
const MOST_FILES = 3;
const TYPES =
  /^(?:application\/(?:(?:x-)?zip(?:-compressed)?|(?:x-)?gzip|xml|json|octet-stream|tlsrpt\+(?:gzip|json))|text\/xml)$/;

/** True for the type of a TLS report, and for a file that is named as RFC 7489 section 7.2.1.1 and RFC 8460 section 5.1 name a report. */
export function isAggregatePart({ type, params, headers }: MailPart): boolean {
  if (type.startsWith('application/tlsrpt')) return true;
  const name =
    params.get('name') ??
    /filename\*?=(?:"([^"]{1,300})"|([^\s;]{1,300}))/i
      .exec(fieldOf(headers, 'content-disposition') ?? '')
      ?.slice(1)
      .join('') ??
    '';
  return /^[^!\s]{1,253}![^!\s]{1,253}!\d{1,12}!\d{1,12}(?:![^.]{0,100})?\.(?:xml|json|zip)(?:\.gz)?$/i.test(name);
}

/** Returns the first part that is such a report, or null. Never throws. */
export function aggregateIn(mail: MailPart): Aggregate | null {
  const files = [...ownPartsOf(mail)].filter(
    (part) => part.parts.length === 0 && (TYPES.test(part.type) || isAggregatePart(part)),
  );
  for (const part of files.slice(0, MOST_FILES)) {
    const unpacked = unpack(Buffer.from(octetsOf(part), 'latin1'));
    const found = unpacked.kind === 'file' ? readAggregate(textOf(unpacked.bytes)) : null;
    if (found !== null) return found;
  }
  return null;
}

/** Returns the text of a file. XML in UTF-16 begins with its byte order mark (XML 1.0, section 4.3.3); everything else is read as UTF-8. */
function textOf(bytes: Buffer): string {
  const mark = bytes.toString('latin1', 0, 2);
  if (mark === '\xff\xfe') return new TextDecoder('utf-16le').decode(bytes);
  if (mark === '\xfe\xff') return new TextDecoder('utf-16be').decode(bytes);
  return bytes.toString('utf8');
}

function readAggregate(text: string): Aggregate | null {
  if (/^\ufeff?\s*\{/.test(text)) {
    const report = readTlsReport(text);
    return report === null ? null : { kind: 'tls', report };
  }
  const report = readDmarcReport(text);
  if (report === null) return null;
  const unsound = report.unsound * 2 > report.records.length;
  // Sorted and cut here, in the thread: what is left out need not be handed over.
  const records = [...report.records].sort((a, b) => b.count - a.count).slice(0, unsound ? 0 : MOST_ROWS);
  return { kind: 'dmarc', report: { ...report, records }, isUnsound: unsound };
}

const [MOST_AHEAD_MS, MOST_BACK_MS] = [2 * DAY_MS, 400 * DAY_MS];

/** Returns why a report is not believed at all, or null. */
export function faultOfAggregate(aggregate: Aggregate, now: number): string | null {
  const { report } = aggregate;
  if (report.from > now + MOST_AHEAD_MS || report.until > now + MOST_AHEAD_MS) return 'its period is in the future';
  if (report.from < now - MOST_BACK_MS) return 'its period is more than 400 days ago';
  if (aggregate.kind === 'dmarc' && aggregate.isUnsound) return 'most of its records have values that do not exist';
  return null;
}

export const domainsOf = (aggregate: Aggregate): string[] =>
  aggregate.kind === 'dmarc'
    ? [aggregate.report.domain]
    : [...new Set(aggregate.report.policies.map(({ domain }) => domain))];

/** Returns the summary of a report in the `detail` of its row. */
export const aggregateSummary = (aggregate: Aggregate) => ({
  type: aggregate.kind,
  org: aggregate.report.organization,
  report_id: aggregate.report.id,
  domains: domainsOf(aggregate),
});

/** Returns the rows of what is about `domains`. `reportId`: the mail's. */
export function aggregateRows(
  reportId: string,
  aggregate: Aggregate,
  domains: ReadonlySet<string>,
): { table: 'dmarc_rows'; rows: DmarcRow[] } | { table: 'tls_report_rows'; rows: TlsReportLineRow[] } {
  const idOf = (at: number): string => `${reportId}.${String(at).padStart(5, '0')}`;
  if (aggregate.kind === 'tls') {
    const policies = aggregate.report.policies.filter(({ domain }) => domains.has(domain));
    const lines = tlsLines({ ...aggregate.report, policies });
    lines.sort((a, b) => b.sessions - a.sessions);
    return {
      table: 'tls_report_rows',
      rows: lines.slice(0, MOST_ROWS).map((line, at) => ({ ...line, id: idOf(at), report_id: reportId })),
    };
  }
  const { organization: org, id: report_key, domain, from: from_at, until: until_at, records } = aggregate.report;
  if (!domains.has(domain)) return { table: 'dmarc_rows', rows: [] };
  const head = { report_id: reportId, org, report_key, domain, from_at, until_at };
  return {
    table: 'dmarc_rows',
    rows: records.map((one, at) => ({ ...head, ...one, id: idOf(at) })),
  };
}

/** Returns a line for the successes of each policy, and one for each kind of failure; failures without details are one more. */
function tlsLines(report: TlsReport): Omit<TlsReportLineRow, 'id' | 'report_id'>[] {
  const { organization: org, id: report_key, from: from_at, until: until_at } = report;
  const nothing = { result: '', mx: '', source_ip: '', ip: '', reason: '' };
  return report.policies.flatMap(({ type: policy, domain, successes, failures, details }) => {
    const head = { org, report_key, domain, from_at, until_at, policy };
    const failed = details.map((detail) => ({ ...head, ...detail }));
    const untold = failures - failed.reduce((sum, { sessions }) => sum + sessions, 0);
    return [
      ...(successes > 0 ? [{ ...head, ...nothing, sessions: successes }] : []),
      ...failed.filter(({ sessions }) => sessions > 0),
      ...(untold > 0 ? [{ ...head, ...nothing, result: 'unknown', sessions: untold }] : []),
    ];
  });
}
