/** Takes an address from the suppression list that a corrected bounce had put there. */
import { isSuppressing, type Verdict } from '../../messages/delivery/delivery.ts';
import type { Connection } from '../../storage/connection.ts';
import type { AttemptRow, DeliveryRow, ReportRow } from '../../storage/tables.ts';
import { isSuppressingReport, type ReportDetail } from './report-detail.ts';

type Bounced = Pick<AttemptRow, 'message_id' | 'delivery_id'>;

/** Returns how many entries left the list: none while another attempt or report of the delivery still suppresses its address. */
export async function unsuppress(tx: Connection, bounced: Bounced): Promise<number> {
  const [delivery] = await tx.all<Pick<DeliveryRow, 'account_id' | 'address_key'>>(
    'SELECT account_id, address_key FROM deliveries WHERE id = ?',
    [bounced.delivery_id],
  );
  if (delivery === undefined || (await isStillSuppressing(tx, bounced, delivery.address_key))) return 0;
  const gone = await tx.all(
    `DELETE FROM suppressions WHERE reason = 'hard_bounce' AND source_message_id = ?
       AND account_id = ? AND address_key = ? RETURNING id`,
    [bounced.message_id, delivery.account_id, delivery.address_key],
  );
  return gone.length;
}

async function isStillSuppressing(
  tx: Connection,
  { message_id: message, delivery_id: delivery }: Bounced,
  key: string,
): Promise<boolean> {
  const attempts = await tx.all<Pick<AttemptRow, 'class' | 'reason'>>(
    "SELECT class, reason FROM attempts WHERE message_id = ? AND delivery_id = ? AND class = 'hard'",
    [message, delivery],
  );
  if (attempts.some((one) => isSuppressing(one as Verdict))) return true;
  const reports = await tx.all<Pick<ReportRow, 'detail_json'>>(
    "SELECT detail_json FROM reports WHERE message_id = ? AND delivery_id = ? AND kind = 'bounce' AND state = 'done'",
    [message, delivery],
  );
  return reports.some(({ detail_json: json }) => isSuppressingReport(JSON.parse(json) as ReportDetail, key));
}
