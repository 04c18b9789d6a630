/** A mail that came to one of our addresses, before anybody has read it. */
import type { ReportRow } from '../storage/tables.ts';

export type NewReport = Pick<
  ReportRow,
  'id' | 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'
>;
