/** The domain record of the API: the records to publish with the results of the last check. Pure. */
import { rfc3339 } from '../base/rfc3339.ts';
import { recordOf } from '../storage/record.ts';
import { dkimKeys, domains, type DkimKeyRow, type DomainRow } from '../storage/tables.ts';
import { RETIRING_MS } from './dkim-key.ts';
import { formsOf, wantedRecords, type DnsRecord } from './dns-records.ts';
import { cureOf, type Checked } from './record-mistakes.ts';

/** A domain with its DKIM keys, oldest first. */
export interface DomainWithKeys {
  row: DomainRow;
  keys: readonly DkimKeyRow[];
  /** True if another account has verified this name. */
  taken?: boolean;
}

/** The result of a check for one record; stored as JSON in domains.records_json. */
export interface RecordCheck extends Checked {
  purpose: DnsRecord['purpose'];
  host: string;
  /** Absent in checks that earlier versions stored. */
  required?: boolean;
  /** Milliseconds since the epoch. */
  checkedAt: number;
}

export function recordsOf(
  { row, keys }: DomainWithKeys,
  hostname: string,
  trackingTarget: string | null = null,
): DnsRecord[] {
  const dmarc = storedChecks(row).find(({ purpose }) => purpose === 'dmarc')?.found ?? null;
  const { name, return_path: returnPath } = row;
  const published = { name, returnPath, keys, dmarc, receiving: row.receiving === 1 };
  return wantedRecords(published, hostname, trackingTarget);
}

export function storedChecks(row: Pick<DomainRow, 'records_json'>): RecordCheck[] {
  return JSON.parse(row.records_json) as RecordCheck[];
}

/** Returns the required records that were missing or wrong when DNS last answered. */
export const lostChecks = (row: Pick<DomainRow, 'records_json'>): RecordCheck[] =>
  storedChecks(row).filter(({ required, status }) => required === true && status !== 'ok');

/** Returns the check of this record, if there is one: records change with keys and settings. */
export function checkOf(checks: readonly RecordCheck[], record: DnsRecord): RecordCheck | undefined {
  return checks.find(({ purpose, host }) => purpose === record.purpose && host === record.host);
}

export const dkimMembers = recordOf(null, dkimKeys);
export const domainMembers = recordOf('domain', domains);
export type DomainRecord = ReturnType<typeof toDomainRecord>;

/** Returns the API record; `trackingTarget` as in `wantedRecords`. */
export function toDomainRecord(domain: DomainWithKeys, hostname: string, trackingTarget: string | null = null) {
  const { row, keys } = domain;
  const checks = storedChecks(row);
  return domainMembers(row, {
    taken: domain.taken === true,
    records: recordsOf(domain, hostname, trackingTarget).map((record) => {
      const check = checkOf(checks, record);
      return {
        ...record,
        forms: formsOf(record),
        status: check?.status ?? ('missing' as const),
        found: check?.found ?? null,
        mistake: check?.mistake ?? null,
        cure: check === undefined ? null : cureOf(record, check),
        checked_at: rfc3339(check?.checkedAt ?? null),
      };
    }),
    // Until then mail that it signed can still be on its way.
    dkim: keys.map((key) =>
      dkimMembers(key, { removed_at: rfc3339(key.retired_at === null ? null : key.retired_at + RETIRING_MS) }),
    ),
  });
}
