/** The suppression record of the API and the command line. */
import { recordOf } from '../storage/record.ts';
import { suppressions } from '../storage/tables.ts';

export const suppressionRecord = recordOf('suppression', suppressions);
export type SuppressionRecord = ReturnType<typeof suppressionRecord>;

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
