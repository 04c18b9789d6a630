/**
 * Keeps the database's file small: free pages are returned to the disk a few at a time, down to a share that the next mail will use
 * anyway.
 */
import type { Clock } from '../base/clock.ts';
import { HOUR_MS, MINUTE_MS } from '../base/time.ts';
import type { Database } from '../storage/database.ts';
import { AIM_MS, type Rule, type SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';

/** The share of all pages that may stay free, and at least 8 MiB. */
const FREE_SHARE = 0.05;
const LEAST_FREE_PAGES = 2048;
/**
 * Pages moved between two looks at the clock. Most move within 0.1 ms, but one with some hundred children takes 2 to 10 ms, since the
 * file records the parent of each child elsewhere. Such pages come in groups.
 */
const PAGES_AT_ONCE = 2;

export function spaceRules({
  db,
  clock,
}: {
  db: Pick<Database, 'commit' | 'prepared' | 'foldSums'>;
  clock: Clock;
}): (Rule | SizedRule)[] {
  const { foldSums } = db;
  // PostgreSQL cleans up by itself, but its sums are written in parts.
  if (foldSums !== null) return [foldedSums(foldSums)];
  return [
    {
      name: 'free pages',
      everyMs: HOUR_MS,
      async sizedStep(most) {
        const spare = await sparePages(db.prepared);
        if (spare < most) return { rows: 0, ms: 0 };
        const step = await timed({ clock, commit: db.commit }, (commit) =>
          commit.transact(async (tx) => {
            const from = clock.monotonic();
            let pages = 0;
            while (pages < most && clock.monotonic() - from < AIM_MS) {
              // SQLite frees one page for each row that is read, so all rows have to be read.
              await tx.all(`PRAGMA incremental_vacuum(${String(PAGES_AT_ONCE)})`);
              pages += PAGES_AT_ONCE;
            }
            return pages;
          }),
        );
        return { ...step, more: true };
      },
      silent: true,
    },
  ];
}

const FOLD_EVERY_MS = 5 * MINUTE_MS;

const foldedSums = (fold: () => Promise<void>): Rule => ({
  name: 'folded sums',
  everyMs: FOLD_EVERY_MS,
  stepRows: Infinity,
  async step() {
    await fold();
    return 0;
  },
});

async function sparePages(prepared: Database['prepared']): Promise<number> {
  const [pages] = await prepared.all<{ page_count: number }>('PRAGMA page_count');
  const [free] = await prepared.all<{ freelist_count: number }>('PRAGMA freelist_count');
  return (free?.freelist_count ?? 0) - Math.max(LEAST_FREE_PAGES, (pages?.page_count ?? 0) * FREE_SHARE);
}
