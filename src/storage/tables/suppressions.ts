/** Addresses that get no mail. */
import { table, text, time, orNull, type RowOf } from '../table.ts';

export const suppressionReasons = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'] as const;
export type SuppressionReason = (typeof suppressionReasons)[number];

export const suppressions = table(
  {
    id: text().says('Id of the entry.', 'sup_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    email: text().says('The address.', 'ana@example.net').audited(),
    /** The address with its local part lower-cased (mail/address.ts addressKey), for comparison. */
    address_key: text(),
    reason: text(...suppressionReasons)
      .says('Why it is on the list.', 'manual')
      .audited(),
    scope: text().says('`account`, or `stream:` and the slug of a stream.', 'account').audited(),
    source_message_id: orNull(text()).says('The message whose bounce or complaint made the entry.'),
    note: orNull(text()).says('For people.', 'asked by phone').audited(),
    created_at: time().says('When it was put on the list.', '2026-01-31T09:30:02.481Z'),
    created_by: text().says('Who put it there: a key, a person, or a bounce or complaint.', 'key:crm'),
    expires_at: orNull(time()).says('Time from which the address is mailed again.').audited(),
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
