/**
 * Reports: mails that came back for a message, such as bounces, notices of delay, complaints and answers. The raw mail is
 * stored for a time.
 */
import type { Knex } from 'knex';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryRow, ReportRow } from '../../storage/tables.ts';

export interface ReportRecord {
  object: 'report';
  id: string;
  /** The kind that was recognized; null while it is unread. */
  kind: string | null;
  received_at: string;
  /** The recipient that the report is about. */
  recipient: string;
  /** The envelope sender; empty for the null sender, as in bounces. */
  sender: string;
  /** Bytes of the mail; only the beginning is stored. */
  size: number;
  /** False if it names the message without a proof; then it has changed nothing. */
  verified: boolean;
}

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
  return rows.map(({ state, ...row }) => ({
    object: 'report',
    ...row,
    received_at: rfc3339(row.received_at),
    verified: state !== 'unverified',
  }));
}

/** Returns the raw mail, or null if the message has no such report. */
export async function rawReport(db: Connection, messageId: string, id: string): Promise<Buffer | null> {
  const [row] = await db.all<Pick<ReportRow, 'raw'>>('SELECT raw FROM reports WHERE id = ? AND message_id = ?', [
    id,
    messageId,
  ]);
  return row?.raw ?? null;
}
