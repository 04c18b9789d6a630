/** The suppression record of the API and the command line. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { SuppressionReason, SuppressionRow } from '../storage/tables.ts';

export const suppressionReasons = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'] as const;

export interface SuppressionRecord {
  object: 'suppression';
  id: string;
  email: string;
  reason: SuppressionReason;
  /** `account`, or `stream:` and a slug. */
  scope: string;
  source_message_id: string | null;
  note: string | null;
  created_at: string;
  created_by: string;
  expires_at: string | null;
}

export function suppressionRecord(row: SuppressionRow): SuppressionRecord {
  const { id, email, reason, scope, source_message_id, note, created_at, created_by, expires_at } = row;
  return {
    object: 'suppression',
    id,
    email,
    reason,
    scope,
    source_message_id,
    note,
    created_at: rfc3339(created_at),
    created_by,
    expires_at: expires_at === null ? null : rfc3339(expires_at),
  };
}
