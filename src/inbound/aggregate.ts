/** The aggregate report that a mail brings (DMARC or TLS), and the rows that are kept of it. Pure; the reading is for a thread. */
import { readDmarcReport, type DmarcReport } from '../mail/dmarc-report.ts';
import { octetsOf, ownPartsOf, type MailPart } from '../mail/mime-read.ts';
import { readTlsReport, type TlsReport } from '../mail/tls-report.ts';
import { unpack } from '../mail/unpack.ts';
import type { Rows } from '../storage/rows.ts';
import type { TlsReportLineRow } from '../storage/tables.ts';

export type Aggregate = { kind: 'dmarc'; report: DmarcReport } | { kind: 'tls'; report: TlsReport };

/** Files looked at in one mail: each may cost the unpacking of megabytes. */
const MOST_FILES = 3;
const TYPES =
  /^(?:application\/(?:(?:x-)?zip(?:-compressed)?|(?:x-)?gzip|xml|json|octet-stream|tlsrpt\+(?:gzip|json))|text\/xml)$/;

/** The first part that is such a report, or null. Never throws. */
export function aggregateIn(mail: MailPart): Aggregate | null {
  const files = [...ownPartsOf(mail)].filter(({ type, parts }) => parts.length === 0 && TYPES.test(type));
  for (const part of files.slice(0, MOST_FILES)) {
    const unpacked = unpack(Buffer.from(octetsOf(part), 'latin1'));
    const found = unpacked.kind === 'file' ? readAggregate(unpacked.bytes.toString('utf8')) : null;
    if (found !== null) return found;
  }
  return null;
}

function readAggregate(text: string): Aggregate | null {
  if (/^\ufeff?\s*\{/.test(text)) {
    const report = readTlsReport(text);
    return report === null ? null : { kind: 'tls', report };
  }
  const report = readDmarcReport(text);
  return report === null ? null : { kind: 'dmarc', report };
}

/** The domains that a report is about. */
export const domainsOf = (aggregate: Aggregate): string[] =>
  aggregate.kind === 'dmarc' ? [aggregate.report.domain] : [...new Set(aggregate.report.policies.map(({ domain }) => domain))]; // prettier-ignore

/** What the `detail` of a report says of it. */
export const aggregateSummary = (aggregate: Aggregate): object => ({
  type: aggregate.kind,
  org: aggregate.report.organization,
  report_id: aggregate.report.id,
  domains: domainsOf(aggregate),
});

/** The rows of what is about `domains`. `reportId`: the mail's. */
export function aggregateRows(reportId: string, aggregate: Aggregate, domains: ReadonlySet<string>): Rows {
  const idOf = (at: number): string => `${reportId}.${String(at).padStart(5, '0')}`;
  if (aggregate.kind === 'tls') {
    const lines = tlsLines(aggregate.report).filter(({ domain }) => domains.has(domain));
    return { tls_report_rows: lines.map((line, at) => ({ ...line, id: idOf(at), report_id: reportId })) };
  }
  const { organization: org, id: report_key, domain, from: from_at, until: until_at, records } = aggregate.report;
  if (!domains.has(domain)) return {};
  const head = { report_id: reportId, org, report_key, domain, from_at, until_at };
  return {
    dmarc_rows: records.map((one, at) => ({
      ...head,
      id: idOf(at),
      source_ip: one.sourceIp,
      count: one.count,
      disposition: one.disposition,
      dkim: one.dkim,
      spf: one.spf,
      header_from: one.headerFrom,
      envelope_from: one.envelopeFrom,
      dkim_domain: one.dkimDomain,
      dkim_selector: one.dkimSelector,
      dkim_result: one.dkimResult,
      spf_domain: one.spfDomain,
      spf_result: one.spfResult,
    })),
  };
}

/** A line for the successes of each policy, and one for each kind of failure; failures that nobody details are one more. */
function tlsLines(report: TlsReport): Omit<TlsReportLineRow, 'id' | 'report_id'>[] {
  const { organization: org, id: report_key, from: from_at, until: until_at } = report;
  const nothing = { result: '', mx: '', source_ip: '', ip: '', reason: '' };
  return report.policies.flatMap(({ type: policy, domain, successes, failures, details }) => {
    const head = { org, report_key, domain, from_at, until_at, policy };
    const failed = details.map(({ result, mx, sourceIp, ip, reason, sessions }) => ({ ...head, result, mx, source_ip: sourceIp, ip, reason, sessions })); // prettier-ignore
    const untold = failures - failed.reduce((sum, { sessions }) => sum + sessions, 0);
    return [
      ...(successes > 0 ? [{ ...head, ...nothing, sessions: successes }] : []),
      ...failed.filter(({ sessions }) => sessions > 0),
      ...(untold > 0 ? [{ ...head, ...nothing, result: 'unknown', sessions: untold }] : []),
    ];
  });
}
