/** The suppression record of the API and the command line. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { SuppressionRow } from '../storage/tables.ts';

export const suppressionReasons = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'] as const;

export type SuppressionRecord = ReturnType<typeof suppressionRecord>;

export function suppressionRecord(row: SuppressionRow) {
  const { id, email, reason, scope, source_message_id, note, created_at, created_by, expires_at } = row;
  return {
    object: 'suppression' as const,
    id,
    email,
    reason,
    /** `account`, or `stream:` and a slug. */
    scope,
    source_message_id,
    note,
    created_at: rfc3339(created_at),
    created_by,
    expires_at: rfc3339(expires_at),
  };
}
