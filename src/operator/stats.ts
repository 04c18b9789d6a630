/** The numbers of the mail of one account or all, for the command line. */
import { z } from 'zod';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';
import {
  readStats,
  senderKeys,
  statKeys,
  type AnyStatKey,
  type StatLine,
  type StatsQuery,
} from '../events/stats-store.ts';
import type { StoreDeps } from './deps.ts';
import { storeRoute } from './server-route.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';

export const statOperations = {
  /** Returns the hours or days in which something happened; with `by` a line for each, of the whole range. */
  stats: storeRoute({
    body: z.strictObject({
      days: z.int().min(1).max(400).optional(),
      /** In the place of days. */
      hours: z.int().min(1).max(744).optional(),
      by: z.enum([...senderKeys, ...statKeys]).optional(),
      test: z.boolean().optional(),
      account: accountArgument,
    }),
    async run(deps, { days, hours, by = null, test = false, account }) {
      const step = hours === undefined ? DAY_MS : HOUR_MS;
      const until = Math.ceil((deps.clock.now() + 1) / step) * step;
      const asked: StatsQuery<AnyStatKey> = {
        accountId: account === undefined ? null : (await accountNamed(deps, account)).id,
        since: until - (hours ?? days ?? 7) * step,
        until,
        bucket: by !== null ? 'total' : hours === undefined ? 'day' : 'hour',
        by,
        only: {},
        test,
      };
      const found = await readStats(deps.db.reader, asked);
      const lines = found.filter(({ counts }) => Object.values(counts).some((count) => count > 0));
      return {
        object: 'stats' as const,
        bucket: asked.bucket,
        by,
        since: rfc3339(asked.since),
        until: rfc3339(until),
        data: await named(deps, by, lines),
        /** If there is no data: the recipients of simulated mail, which was left out. */
        simulated: lines.length > 0 || test ? 0 : await simulated(deps, asked),
      };
    },
  }),
};

async function simulated({ db }: Pick<StoreDeps, 'db'>, asked: StatsQuery<AnyStatKey>): Promise<number> {
  const [total] = await readStats(db.reader, { ...asked, by: null, bucket: 'total', test: true });
  return total?.counts.sent ?? 0;
}

/** Adds the names of accounts and keys, and whose keys they are. */
async function named({ db }: Pick<StoreDeps, 'db'>, by: AnyStatKey | null, lines: readonly StatLine[]) {
  const ids = lines.flatMap(({ key }) => (key === null ? [] : [key]));
  const rows =
    by === 'account'
      ? await db.reader('accounts').whereIn('id', ids).select<Named[]>('id', 'name')
      : by === 'key'
        ? await db
            .reader('api_keys as k')
            .join('accounts as a', 'a.id', 'k.account_id')
            .whereIn('k.id', ids)
            .select<Named[]>('k.id as id', 'k.name as name', 'a.name as account')
        : [];
  const names = new Map(rows.map((row) => [row.id, row]));
  return lines.map(({ at, key, counts }) => {
    const row = names.get(key ?? '');
    const { account } = row ?? {};
    return {
      at: rfc3339(at),
      key,
      ...(row === undefined ? {} : { name: row.name }),
      ...(account === undefined ? {} : { account }),
      counts,
    };
  });
}

interface Named {
  id: string;
  name: string;
  account?: string;
}
