/** Operations on the suppression list. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';
import { suppressionReasons, suppressionRecord, type SuppressionRecord } from '../suppressions/suppression.ts';
import {
  addSuppressions,
  LONGEST_NOTE,
  pageOfSuppressions,
  removeSuppressions,
  type NewSuppression,
} from '../suppressions/suppression-store.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore, type StoreDeps } from './operation.ts';

/** How many entries one call adds: a grouped commit holds up others for that long. */
export const ENTRIES_AT_ONCE = 500;

const text = z.string().max(1000);
const entry = z.strictObject({
  email: text,
  reason: z.enum(suppressionReasons).optional(),
  note: z.string().max(LONGEST_NOTE).nullable().optional(),
  stream: text.nullable().optional(),
  expires_at: z.iso.datetime({ offset: true }).nullable().optional(),
});
type Entry = z.output<typeof entry>;

/** What became of an entry: the record, or why it is none. */
export type AddedRecord =
  { result: 'created' | 'existing'; entry: SuppressionRecord } | { result: 'rejected'; email: string; why: string };

export const suppressionOperations = {
  'suppressions.list': onStore({
    acts: false,
    args: z.strictObject({
      account: accountArgument,
      reason: z.enum(suppressionReasons).optional(),
      stream: text.optional(),
      after: text.optional(),
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run({ db, clock }, { account, reason, stream, after, limit = 100 }) {
      const { id: accountId } = await accountNamed({ db }, account);
      const page = await pageOfSuppressions(
        { db, clock },
        { accountId, reason, stream },
        { limit, ...(after === undefined ? {} : { after }) },
      );
      return { data: page.rows.map(suppressionRecord), has_more: page.hasMore };
    },
  }),
  /** Adds what can be added; an entry that cannot says why and keeps none of the others from it. */
  'suppressions.add': onStore({
    acts: true,
    args: z.strictObject({ account: accountArgument, entries: z.array(entry).min(1).max(ENTRIES_AT_ONCE) }),
    async run(deps, { account, entries }, act): Promise<{ data: AddedRecord[] }> {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const streams = await streamsOf(deps, accountId);
      const faults = entries.map((one) => faultOf(one, streams, deps.clock.now()));
      const sound = entries.filter((_, i) => faults[i] === null).map((one) => newEntry(accountId, one));
      const added = await addSuppressions(deps, sound, () => act.rows());
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
  'suppressions.remove': onStore({
    acts: true,
    args: z.strictObject({
      account: accountArgument,
      email: text,
      stream: text.optional(),
      force: z.boolean().optional(),
    }),
    async run(deps, { account, email, stream, force = false }, act) {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const wanted = { accountId, email, force, ...(stream === undefined ? {} : { stream }) };
      const rows = await removeSuppressions(deps, wanted, (removed) => {
        if (removed.length === 0)
          throw new Problem('not_found', `${JSON.stringify(email)} is not on the list`, { field: 'email' });
        return act.rows();
      });
      return { data: rows.map(suppressionRecord) };
    },
  }),
};

async function streamsOf({ db }: Pick<StoreDeps, 'db'>, accountId: string): Promise<ReadonlySet<string>> {
  const rows = (await db.reader('streams').select('slug').where({ account_id: accountId })) as { slug: string }[];
  return new Set(rows.map(({ slug }) => slug));
}

function faultOf({ email, stream, expires_at }: Entry, streams: ReadonlySet<string>, now: number): string | null {
  const parsed = parseMailbox(email, { smtputf8: true });
  if (parsed.kind === 'bad') return parsed.why;
  if (typeof stream === 'string' && !streams.has(stream)) return `there is no stream ${JSON.stringify(stream)}`;
  if (typeof expires_at === 'string' && Date.parse(expires_at) <= now) return 'it has ended already';
  return null;
}

const newEntry = (accountId: string, { email, reason, note, stream, expires_at }: Entry): NewSuppression => ({
  accountId,
  email,
  stream: stream ?? null,
  reason: reason ?? 'manual',
  note: note ?? null,
  createdBy: 'operator',
  expiresAt: typeof expires_at === 'string' ? Date.parse(expires_at) : null,
});
