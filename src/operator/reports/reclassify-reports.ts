/** Corrects past bounce mails by the operator's own rules. */
import { isByOwnRule } from '../../messages/delivery/classify.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryRow, ReportRow } from '../../storage/tables.ts';
import { isSuppressingReport, type ReportDetail } from './report-detail.ts';
import type { ReportRecord } from './report-parser.ts';
import { unsuppress } from './unsuppress.ts';

export type PastReport = Pick<ReportRow, 'id' | 'state' | 'detail_json' | 'raw'> &
  Pick<DeliveryRow, 'message_id' | 'address_key'> & { delivery_id: string };

export interface ReportCorrection {
  row: PastReport;
  detail: ReportDetail;
  /** True if its old verdict may have put the address on the list, and the new one would not. */
  frees: boolean;
}

/** Returns the correction of a report if an own rule decides otherwise than was decided then. `record`: as it reads now. */
export function correctedReport(row: PastReport, record: ReportRecord): ReportCorrection[] {
  const before = JSON.parse(row.detail_json) as ReportDetail;
  const { recipients: old = [] } = before;
  const recipients = old.map((one) => {
    const now = record.recipients.find(
      ({ address, rule }) => address === one.address && rule !== null && isByOwnRule({ rule }),
    );
    if (now === undefined || (now.class === one.class && now.reason === one.reason)) return one;
    return { ...one, class: now.class, reason: now.reason, rule: now.rule };
  });
  if (recipients.every((one, at) => one === old[at])) return [];
  const detail = { ...before, recipients };
  const { address_key: key } = row;
  const frees = row.state === 'done' && isSuppressingReport(before, key) && !isSuppressingReport(detail, key);
  return [{ row, detail, frees }];
}

/** Returns how many entries left the suppression list. */
export async function writeReport(tx: Connection, { row, detail, frees }: ReportCorrection): Promise<number> {
  await tx.run('UPDATE reports SET detail_json = ? WHERE id = ?', [JSON.stringify(detail), row.id]);
  return frees ? unsuppress(tx, row) : 0;
}
