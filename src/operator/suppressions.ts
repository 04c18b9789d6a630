/** The one import and the one export of the suppression list; single entries have operations of the API. */
import { z } from 'zod';
import { suppressionReasons } from '../storage/tables.ts';
import { manyAdded, suppressionRecord } from '../suppressions/suppression.ts';
import { addressFault, addSuppressions, LONGEST_NOTE, type NewSuppression } from '../suppressions/suppression-store.ts';
import { ENTRIES_AT_ONCE, type AddedRecord } from '../suppressions/suppression-csv.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';
import type { StoreDeps } from './deps.ts';
import { storeRoute } from './server-route.ts';

const text = z.string().max(1000);
const entry = z.strictObject({
  email: text,
  reason: z.enum(suppressionReasons).optional(),
  note: z.string().max(LONGEST_NOTE).nullable().optional(),
  stream: text.nullable().optional(),
  expires_at: z.iso.datetime({ offset: true }).nullable().optional(),
});
type Entry = z.output<typeof entry>;

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
      const streams = await streamsOf(deps, accountId);
      const faults = entries.map((one) => rejectionOf(one, streams, deps.clock.now()));
      const sound = entries.filter((_, i) => faults[i] === null).map((one) => newEntry(accountId, act.actor, one));
      const added = await addSuppressions(deps, sound, (all) => {
        const emails = entries.map(({ email }) => email);
        act.on(manyAdded(emails, all));
        return act.rows();
      });
      const rest = [...added];
      const data = entries.map(({ email }, i): AddedRecord => {
        const why = faults[i] ?? null;
        if (why !== null) return { result: 'rejected', email, why };
        const one = rest.shift();
        if (one === undefined) throw new Error('fewer entries came back than were added');
        return { result: one.created ? 'created' : 'existing', entry: suppressionRecord(one.row) };
      });
      return { data };
    },
  }),
};

async function streamsOf({ db }: Pick<StoreDeps, 'db'>, accountId: string): Promise<ReadonlySet<string>> {
  const rows = (await db.reader('streams').select('slug').where({ account_id: accountId })) as { slug: string }[];
  return new Set(rows.map(({ slug }) => slug));
}

function rejectionOf({ email, stream, expires_at }: Entry, streams: ReadonlySet<string>, now: number): string | null {
  const fault = addressFault(email);
  if (fault !== null) return fault;
  if (typeof stream === 'string' && !streams.has(stream)) return `there is no stream ${JSON.stringify(stream)}`;
  if (typeof expires_at === 'string' && Date.parse(expires_at) <= now) return 'it has ended already';
  return null;
}

const newEntry = (
  accountId: string,
  createdBy: string,
  { email, reason, note, stream, expires_at }: Entry,
): NewSuppression => ({
  accountId,
  email,
  stream: stream ?? null,
  reason: reason ?? 'manual',
  note: note ?? null,
  createdBy,
  expiresAt: typeof expires_at === 'string' ? Date.parse(expires_at) : null,
});
