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
    // An entry that has ended is replaced, and one that will end gives way to one that lasts. A complaint takes the place of every other
    // reason: only it says that the recipient must ask for mail again. Another entry stays.
    onConflict: {
      key: ['account_id', 'address_key', 'scope'],
      sets: ['id', 'email', 'reason', 'source_message_id', 'note', 'created_at', 'created_by', 'expires_at'],
      where:
        "suppressions.expires_at <= excluded.created_at OR (excluded.expires_at IS NULL AND (suppressions.expires_at IS NOT NULL OR (excluded.reason = 'complaint' AND suppressions.reason <> 'complaint')))",
    },
  },
);
export type SuppressionRow = RowOf<typeof suppressions>;
