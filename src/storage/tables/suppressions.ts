/** Addresses that get no mail. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

export type SuppressionReason = 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';

export const suppressions = table(
  {
    id: text(),
    account_id: text(),
    email: text(),
    /** The address with its local part lower-cased (mail/address.ts addressKey), for comparison. */
    address_key: text(),
    /** `account` or `stream:<slug>`. */
    scope: text(),
    reason: text<SuppressionReason>(),
    source_message_id: orNull(text()),
    note: orNull(text()),
    created_at: integer(),
    created_by: text(),
    expires_at: orNull(integer()),
  },
  {
    isReferredTo: true,
    onConflict: `ON CONFLICT (account_id, address_key, scope) DO UPDATE SET id = excluded.id, email = excluded.email,
    reason = excluded.reason, source_message_id = excluded.source_message_id, note = excluded.note,
    created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at
    WHERE suppressions.expires_at <= excluded.created_at`,
  },
);
export type SuppressionRow = RowOf<typeof suppressions>;
