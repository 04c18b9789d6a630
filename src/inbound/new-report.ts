/** A mail that came to one of our addresses, before it is read. */
import type { ReportRow } from '../storage/tables.ts';

export type NewReport = Pick<
  ReportRow,
  'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'
>;
