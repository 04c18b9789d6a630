/** The numbers of an account, as the API gives them. */
import type { Knex } from 'knex';
import { z } from 'zod';
import { rfc3339 } from '../base/rfc3339.ts';
import { readStats, statKeys, type StatsQuery } from '../events/stats-store.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore } from './operation.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

export const statsOperations = {
  /**
   * The last so many hours or days, today's included; told apart by `by` they are one line each. `simulated`: where there is
   * nothing, how many recipients simulated mail had, which was not asked for.
   */
  stats: onStore({
    acts: false,
    args: z.strictObject({
      account: accountArgument,
      days: z.int().min(1).max(400).optional(),
      hours: z
        .int()
        .min(1)
        .max(31 * 24)
        .optional(),
      by: z.enum(statKeys).optional(),
      test: z.boolean().optional(),
    }),
    async run({ db, clock }, { account, days = 7, hours, by, test = false }) {
      const { id: accountId } = await accountNamed({ db }, account);
      const step = hours === undefined ? DAY_MS : HOUR_MS;
      const until = Math.ceil((clock.now() + 1) / step) * step;
      const since = until - (hours ?? days) * step;
      const bucket = by !== undefined ? 'total' : hours === undefined ? 'day' : 'hour';
      const query: StatsQuery = { accountId, since, until, bucket, by: by ?? null, only: {}, test };
      const lines = await readStats(db.reader, query);
      const simulated = lines.length > 0 || test ? 0 : await recipientsSent(db.reader, { ...query, test: true });
      const data = lines.map(({ at, key, counts }) => ({ at: rfc3339(at), key, counts }));
      return {
        object: 'stats' as const,
        bucket,
        by: by ?? null,
        since: rfc3339(since),
        until: rfc3339(until),
        data,
        simulated,
      };
    },
  }),
};

async function recipientsSent(read: Knex, query: StatsQuery): Promise<number> {
  const lines = await readStats(read, { ...query, bucket: 'total', by: null });
  return lines.reduce((sum, { counts }) => sum + counts.sent, 0);
}
