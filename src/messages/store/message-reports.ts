/** The mails that came back for a message: bounces, notices of delay, complaints, answers. Kept as they came, for a time. */
import type { Knex } from 'knex';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryRow, ReportRow } from '../../storage/tables.ts';
import { timestamp } from './message.ts';

export interface ReportRecord {
  object: 'report';
  id: string;
  /** What it was taken for; null while it has not been read. */
  kind: string | null;
  received_at: string;
  /** The recipient of the message that it is about. */
  recipient: string;
  /** Its envelope sender; empty for the null sender, as bounces have it. */
  sender: string;
  /** Bytes that came, of which only the beginning is kept. */
  size: number;
  /** False: it names the message and proves nothing, so it has changed nothing. */
  verified: boolean;
}

const MOST_REPORTS = 100;

type ReportOfRecipient = Pick<ReportRow, 'id' | 'kind' | 'received_at' | 'sender' | 'size' | 'state'> & {
  recipient: DeliveryRow['address'];
};

/** The first hundred, oldest first. Anybody whose mail host answers can make more. */
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
    received_at: timestamp(row.received_at),
    verified: state !== 'unverified',
  }));
}

/** The mail as it came, or null where no such report belongs to the message. */
export async function rawReport(db: Connection, messageId: string, id: string): Promise<Buffer | null> {
  const [row] = await db.all<Pick<ReportRow, 'raw'>>('SELECT raw FROM reports WHERE id = ? AND message_id = ?', [
    id,
    messageId,
  ]);
  return row?.raw ?? null;
}
