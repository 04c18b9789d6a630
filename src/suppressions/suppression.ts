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

const MOST_NAMED = 5;
const LONGEST_NAMED = 320;

/** Returns what the audit says of an act that adds many: their number, the first addresses, and how many of them are new. */
export function manyAdded(emails: readonly string[], results: readonly { created: boolean }[]) {
  const created = results.filter((one) => one.created).length;
  const [existing, rejected] = [results.length - created, emails.length - results.length];
  const [only, ...more] = emails;
  return {
    object: more.length === 0 ? (only ?? null) : `${String(emails.length)} addresses`,
    after: {
      emails: emails.slice(0, MOST_NAMED).map((one) => one.slice(0, LONGEST_NAMED)),
      ...{ created, existing, rejected },
    },
  };
}
