/**
 * Reports: mails that came back for a message, such as bounces, notices of delay, complaints and answers. The raw mail is
 * stored for a time.
 */
import type { Knex } from 'knex';
import type { Connection } from '../../storage/connection.ts';
import { recordOf } from '../../storage/record.ts';
import { reports, type DeliveryRow, type ReportRow } from '../../storage/tables.ts';

const MOST_REPORTS = 100;

type ReportOfRecipient = Pick<ReportRow, 'id' | 'kind' | 'received_at' | 'sender' | 'size' | 'state'> & {
  recipient: DeliveryRow['address'];
};

/** Returns the first hundred reports, oldest first: a mail host that answers could send any number. */
export async function reportsOf(read: Knex, messageId: string): Promise<ReportRecord[]> {
  const rows = await read('reports as r')
    .join('deliveries as d', 'd.id', 'r.delivery_id')
    .where('r.message_id', messageId)
    .orderBy('r.id')
    .limit(MOST_REPORTS)
    .select<ReportOfRecipient[]>({
      id: 'r.id',
      kind: 'r.kind',
      received_at: 'r.received_at',
      recipient: 'd.address',
      sender: 'r.sender',
      size: 'r.size',
      state: 'r.state',
    });
  return rows.map(reportRecord);
}

export const reportMembers = recordOf('report', reports);
export type ReportRecord = ReturnType<typeof reportRecord>;

const reportRecord = (row: ReportOfRecipient) =>
  reportMembers(row, { recipient: row.recipient, verified: row.state !== 'unverified' });

/** Returns the raw mail, or null if the message has no such report. */
export async function rawReport(db: Connection, messageId: string, id: string): Promise<Buffer | null> {
  const [row] = await db.all<Pick<ReportRow, 'raw'>>('SELECT raw FROM reports WHERE id = ? AND message_id = ?', [
    id,
    messageId,
  ]);
  return row?.raw ?? null;
}
