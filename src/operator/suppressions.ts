/** The one import and the one export of the suppression list; single entries have operations of the API. */
import { z } from 'zod';
import { suppressionReasons } from '../storage/tables.ts';
import { LONGEST_NOTE } from '../suppressions/suppression-store.ts';
import { addImported, ENTRIES_AT_ONCE, type AddedRecord } from '../suppressions/suppression-csv.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';
import { storeRoute } from './server-route.ts';

const text = z.string().max(1000);
const entry = z.strictObject({
  email: text,
  reason: z.enum(suppressionReasons).optional(),
  note: z.string().max(LONGEST_NOTE).nullable().optional(),
  stream: text.nullable().optional(),
  expires_at: z.iso.datetime({ offset: true }).nullable().optional(),
});

export const suppressionOperations = {
  /** Adds the valid entries, and returns the reason for each other one. */
  'suppressions.import': storeRoute({
    act: {
      says: 'put {object} on the suppression list',
      type: 'suppression',
      named: 'email',
      keeps: ['emails', 'created', 'existing', 'rejected'],
    },
    scope: 'suppression',
    body: z.strictObject({ account: accountArgument, entries: z.array(entry).min(1).max(ENTRIES_AT_ONCE) }),
    async run(deps, { account, entries }, act): Promise<{ data: AddedRecord[] }> {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const given = entries.map(({ email, reason = 'manual', note = null, stream = null, expires_at: end = null }) => ({
        ...{ email, reason, note, stream },
        expires_at: end,
      }));
      return addImported(deps, { accountId, createdBy: act.actor }, given, (deed) => {
        act.on(deed);
        return act.rows();
      });
    },
  }),
};
